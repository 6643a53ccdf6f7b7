//! How much may be in flight: CUBIC, ECN, recovery's end.

use fullbore_tcp::Config;

use crate::script::{plain, play};

/// RFC 9438 section 4.6: seven tenths after a loss, which is also the window at the end of recovery.
#[test]
fn a_recovery_leaves_seven_tenths_of_the_window() {
    play(
        plain(),
        "
        open 20ms
        write 14600
        > P. 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:14601>
        > . 1:1461(1460) ack 1
        +20ms < . 1:1(0) ack 14601 win 65535
        cwnd 10220
        ",
    );
}

/// RFC 3168 section 6.1.2: once per window of data. CWR on the next new segment reports it.
#[test]
fn an_echoed_mark_reduces_the_window_once() {
    let config = Config { ecn: true, ..plain() };
    play(
        config,
        "
        < SEW 0:0(0) win 65535 <mss 1460,sackOK,wscale 7>
        > SE. 0:0(0) ack 1
        +20ms < . 1:1(0) ack 1 win 65535
        write 100000
        > . 1:14601(14600) ack 1 ect0
        # One segment tells so, then seven tenths of what arrives may leave (RFC 6937).
        +20ms < E. 1:1(0) ack 1461 win 65535
        > W. 14601:16061(1460) ack 1 ect0
        < E. 1:1(0) ack 2921 win 65535
        < E. 1:1(0) ack 4381 win 65535
        > . 16061:17521(1460) ack 1 ect0
        count ecn_reductions 1
        ",
    );
}

/// RFC 3168 section 6.1.5: retransmissions are not marked as capable.
#[test]
fn retransmissions_are_not_ecn_capable() {
    let config = Config { ecn: true, ..plain() };
    play(
        config,
        "
        < SEW 0:0(0) win 65535 <mss 1460,sackOK>
        > SE. 0:0(0) ack 1
        +20ms < . 1:1(0) ack 1 win 65535
        write 14600
        > P. 1:14601(14600) ack 1 ect0
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:14601>
        > . 1:1461(1460) ack 1 not-ect
        ",
    );
}

/// RFC 9438 section 5.8: a window that is not filled does not grow.
#[test]
fn an_unused_window_does_not_grow() {
    play(
        plain(),
        "
        open 20ms
        write 4380
        > P. 1:4381(4380) ack 1
        +20ms < . 1:1(0) ack 4381 win 65535
        cwnd 14600
        ",
    );
}

#[test]
fn the_window_has_a_bound() {
    let config = Config { window_bytes_max: 20_000, ..plain() };
    play(
        config,
        "
        open 20ms
        write 100000
        > . 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 14601 win 65535
        > . 14601:33581(18980) ack 1
        cwnd 20000
        ",
    );
}

/// RFC 6298 section 5.4 and RFC 5681 section 3.1: half-way up again in slow start, the rest slowly.
#[test]
fn after_a_timeout_slow_start_ends_at_the_threshold() {
    play(
        plain(),
        "
        open 20ms mss 1460
        write 14600
        > P. 1:14601(14600) ack 1
        +200ms > . 1:1461(1460) ack 1
        +20ms < . 1:1(0) ack 14601 win 65535
        cwnd 10220
        ",
    );
}
