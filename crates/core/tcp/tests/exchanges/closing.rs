//! FIN, half-closed connections, TIME-WAIT, resets, and ends by time.

use std::time::Duration;

use fullbore_tcp::{Config, KeepAlive};

use crate::script::{plain, play};

/// RFC 9293 section 3.6, case 1: we close first, and remember it.
#[test]
fn whoever_closes_first_waits() {
    play(
        plain(),
        "
        open 20ms
        write 100
        > P. 1:101(100) ack 1
        finish
        > F. 101:101(0) ack 1
        < . 1:1(0) ack 102 win 100
        event acknowledged 100
        < F. 1:1(0) ack 102 win 100
        > . 102:102(0) ack 2
        event finished
        event ended Closed
        # Our last ACK was lost: it comes again (RFC 9293 section 3.10.7.4).
        +1s < F. 1:1(0) ack 102 win 100
        > . 102:102(0) ack 2
        # A reset ends nothing (RFC 1337), an old SYN is only acknowledged, and after a minute it is over.
        < R 2:2(0)
        < S 1:1(0) win 65535
        > . 102:102(0) ack 2
        count time_wait_hits 3
        +61s < . 2:2(0) ack 102 win 100
        > R 102:102(0)
        ",
    );
}

#[test]
fn the_fin_goes_with_the_last_bytes() {
    play(
        plain(),
        "
        open 20ms
        hold
        write 100
        finish
        bring 0..100
        > FP. 1:101(100) ack 1
        < F. 1:1(0) ack 102 win 100
        > . 102:102(0) ack 2
        event ended Closed
        ",
    );
}

/// RFC 9293 section 3.6, case 2: the peer closes first; nothing is remembered.
#[test]
fn a_peer_that_has_finished_may_still_be_sent_to() {
    play(
        plain(),
        "
        open 20ms
        < FP. 1:11(10) ack 1 win 65535
        > . 1:1(0) ack 12
        event readable
        read 10
        event finished
        write 5000
        > P. 1:5001(5000) ack 12
        < . 12:12(0) ack 5001 win 65535
        finish
        > F. 5001:5001(0) ack 12
        < . 12:12(0) ack 5002 win 65535
        event ended Closed
        < . 12:12(0) ack 5002 win 65535
        > R 5002:5002(0)
        ",
    );
}

/// RFC 9293 section 3.6, case 3.
#[test]
fn both_may_close_at_once() {
    play(
        plain(),
        "
        open 20ms
        finish
        > F. 1:1(0) ack 1
        < F. 1:1(0) ack 1 win 100
        > . 2:2(0) ack 2
        < . 2:2(0) ack 2 win 100
        event ended Closed
        ",
    );
}

#[test]
fn a_lost_fin_leaves_again() {
    play(
        plain(),
        "
        open 20ms
        finish
        > F. 1:1(0) ack 1
        # A tail loss probe first (RFC 8985 section 7.2: two round trips, and 200 ms for a lone segment's delayed ACK), but not after the time-out.
        +200ms > F. 1:1(0) ack 1
        +200ms > F. 1:1(0) ack 1
        +400ms > F. 1:1(0) ack 1
        < . 1:1(0) ack 2 win 100
        ",
    );
}

#[test]
fn a_fin_out_of_order_counts_when_its_turn_comes() {
    play(
        plain(),
        "
        open 20ms
        < FP. 11:21(10) ack 1 win 100
        > . 1:1(0) ack 1 <sack 11:21>
        < P. 1:11(10) ack 1 win 100
        > . 1:1(0) ack 22
        read 20
        event finished
        ",
    );
}

/// Bytes that arrived before the end can still be read.
#[test]
fn a_closed_connection_waits_for_its_reader() {
    play(
        plain(),
        "
        open 20ms
        finish
        > F. 1:1(0) ack 1
        < FP. 1:11(10) ack 2 win 100
        > . 2:2(0) ack 12
        < R 12:12(0)
        read 10
        event ended Closed
        ",
    );
}

/// FIN-WAIT-2 does not last forever.
#[test]
fn a_peer_that_never_finishes_is_left() {
    play(
        plain(),
        "
        open 20ms
        finish
        > F. 1:1(0) ack 1
        < . 1:1(0) ack 2 win 100
        +60s
        event ended NeverFinished
        count never_finished 1
        ",
    );
}

#[test]
fn a_reset_of_ours_says_so_to_the_peer() {
    play(
        plain(),
        "
        open 20ms
        write 100
        > P. 1:101(100) ack 1
        reset
        > R. 101:101(0) ack 1
        event ended ResetByUs
        ",
    );
}

/// RFC 9293 section 3.6.1 and RFC 6191: a newer SYN opens a connection again, and our numbers are higher.
#[test]
fn a_pair_of_addresses_may_be_used_again() {
    play(
        plain(),
        "
        open 20ms
        finish
        > F. 1:1(0) ack 1
        < F. 1:1(0) ack 2 win 100
        > . 2:2(0) ack 2
        event ended Closed
        +1s < S 1000:1000(0) win 65535
        # Our clock of initial sequence numbers has gone on by a second in steps of 4 us.
        > S. 255000:255000(0) ack 1001
        count time_wait_reused 1
        ",
    );
}

#[test]
fn time_wait_is_bounded() {
    let config = Config { time_wait_max: 0, ..plain() };
    play(
        config,
        "
        open 20ms
        finish
        > F. 1:1(0) ack 1
        < F. 1:1(0) ack 2 win 100
        > . 2:2(0) ack 2
        event ended Closed
        count time_wait_evicted 1
        < F. 1:1(0) ack 2 win 100
        > R 2:2(0)
        ",
    );
}

/// RFC 9293 section 3.8.4.
#[test]
fn silence_is_probed_and_then_ended() {
    let keep_alive =
        KeepAlive { idle: Duration::from_secs(60), interval: Duration::from_secs(10), probes: 2 };
    let config = Config { keep_alive: Some(keep_alive), ..plain() };
    play(
        config,
        "
        open 20ms
        +60s > . 0:0(0) ack 1
        < . 1:1(0) ack 1 win 100
        +60s > . 0:0(0) ack 1
        +10s > . 0:0(0) ack 1
        +10s
        event ended Silent
        count keep_alive_probes 3
        ",
    );
}

/// RFC 9293 section 3.8.3: the user timeout.
#[test]
fn who_acknowledges_nothing_is_left() {
    let config = Config { stall: Duration::from_secs(2), ..plain() };
    play(
        config.clone(),
        "
        open 20ms mss 1460
        write 100
        > P. 1:101(100) ack 1
        +200ms > P. 1:101(100) ack 1
        +400ms > P. 1:101(100) ack 1
        +800ms > P. 1:101(100) ack 1
        +600ms
        event ended Stalled
        ",
    );
    // A window held shut is no better.
    play(
        config,
        "
        open 20ms
        < . 1:1(0) ack 1 win 0
        write 100
        +200ms > . 0:0(0) ack 1
        < . 1:1(0) ack 1 win 0
        +400ms > . 0:0(0) ack 1
        < . 1:1(0) ack 1 win 0
        +800ms > . 0:0(0) ack 1
        +600ms
        event ended Stalled
        ",
    );
}

/// The caller no longer reads, and the peer still sends: its data is acknowledged as far as the window goes, and stored nowhere.
#[test]
fn what_comes_after_its_caller_has_let_go_is_thrown_away() {
    let config = Config { receive_bytes_max: 2000, ..plain() };
    play(
        config,
        "
        open 20ms
        < P. 1:501(500) ack 1 win 100
        > . 1:1(0) ack 501
        let go
        > F. 1:1(0) ack 501
        < . 501:501(0) ack 2 win 100
        < P. 501:1501(1000) ack 2 win 100
        > . 2:2(0) ack 1501 win 500
        < P. 1501:2001(500) ack 2 win 100
        > . 2:2(0) ack 2001 win 0
        < F. 2001:2001(0) ack 2 win 100
        > . 2:2(0) ack 2002
        event ended Closed
        ",
    );
}
