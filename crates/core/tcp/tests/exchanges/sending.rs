//! The send side: windows, small pieces, wants, super-segments.

use fullbore_tcp::Config;

use crate::script::{plain, play};

/// RFC 6928: ten segments. One line is one super-segment for the device to cut.
#[test]
fn the_first_window_is_ten_segments_and_grows_by_what_is_acknowledged() {
    play(
        plain(),
        "
        open 20ms
        write 100000
        > . 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 14601 win 65535
        event acknowledged 14600
        > . 14601:43801(29200) ack 1
        cwnd 29200
        +20ms < . 1:1(0) ack 43801 win 65535
        cwnd 58400
        > P. 43801:100001(56200) ack 1
        ",
    );
}

/// If the device cannot cut segments, each one is sent separately. PSH ends what was written.
#[test]
fn segments_leave_one_by_one_if_the_device_cannot_cut() {
    let config = Config { tso_bytes_max: 0, ..plain() };
    play(
        config,
        "
        open 20ms
        write 3500
        > . 1:1461(1460) ack 1
        > . 1461:2921(1460) ack 1
        > P. 2921:3501(580) ack 1
        ",
    );
}

#[test]
fn nothing_is_wanted_before_it_may_leave() {
    play(
        plain(),
        "
        open 20ms
        hold
        write 100000
        want 0..14600
        want nothing
        bring 0..14600
        > . 1:14601(14600) ack 1
        withheld NotNeeded
        want nothing
        +20ms < . 1:1(0) ack 14601 win 65535
        want 14600..43800
        ",
    );
}

#[test]
fn small_wants_wait_for_larger_ones_while_something_is_under_way() {
    let config = Config { want_bytes_min: 32 << 10, tso_bytes_max: 0, ..plain() };
    play(
        config,
        "
        open 20ms
        hold
        write 1000000
        want 0..14600
        bring 0..14600
        > . 1:1461(1460) ack 1
        > . 1461:2921(1460) ack 1
        > . 2921:4381(1460) ack 1
        > . 4381:5841(1460) ack 1
        > . 5841:7301(1460) ack 1
        > . 7301:8761(1460) ack 1
        > . 8761:10221(1460) ack 1
        > . 10221:11681(1460) ack 1
        > . 11681:13141(1460) ack 1
        > . 13141:14601(1460) ack 1
        < . 1:1(0) ack 11681 win 65535
        want 14600..37960      # 26,280 bytes of window less what is in flight
        want nothing
        bring 14600..16060
        > . 14601:16061(1460) ack 1
        ",
    );
}

#[test]
fn what_is_declined_is_wanted_again_when_it_may_leave() {
    play(
        plain(),
        "
        open 20ms
        hold
        write 100000
        want 0..14600
        decline 4000..14600
        want 4000..14600
        bring 0..4000
        > . 1:2921(2920) ack 1
        withheld TooFew
        bring 2920..14600
        > . 2921:14601(11680) ack 1
        ",
    );
}

/// Between small reads that fail, others succeed: those are not requested again.
#[test]
fn of_many_wants_only_those_that_were_declined_come_again() {
    play(
        Config { want_bytes_max: 1460, ..plain() },
        "
        open 20ms
        hold
        write 8760
        want 0..1460
        want 1460..2920
        want 2920..4380
        want 4380..5840
        want 5840..7300
        want 7300..8760
        decline 1460..2920
        decline 4380..5840
        want 1460..2920
        want 4380..5840
        want nothing
        bring 0..8760
        > P. 1:8761(8760) ack 1
        ",
    );
}

/// RFC 9293 section 3.7.4 (Nagle), for the bytes that the caller happens to hold: the end of the written bytes is always sent.
#[test]
fn a_crumb_in_hand_waits_for_what_follows_while_something_is_in_flight() {
    let script = "
        open 20ms
        hold
        write 5000
        want 0..5000
        bring 0..2000
        > . 1:1461(1460) ack 1
        withheld TooFew
        +20ms < . 1:1(0) ack 1461 win 65535
        event sendable
        bring 1460..2000
        > . 1461:2001(540) ack 1
        bring 2000..5000
        > P. 2001:5001(3000) ack 1
        ";
    play(plain(), script);
    let config = Config { short_segments: true, ..plain() };
    play(
        config,
        "open 20ms\nhold\nwrite 5000\nwant 0..5000\nbring 0..2000\n> . 1:2001(2000) ack 1",
    );
}

#[test]
fn new_bytes_leave_in_order() {
    play(
        plain(),
        "
        open 20ms
        hold
        write 10000
        bring 5000..10000
        withheld OutOfOrder
        bring 0..5000
        > . 1:4381(4380) ack 1
        ",
    );
}

/// RFC 9293 section 3.8.6: never beyond the right edge, which is scaled (RFC 7323 section 2.3).
#[test]
fn the_peers_window_is_never_exceeded() {
    play(
        plain(),
        "
        open 20ms mss 1460,sackOK,wscale 2
        < . 1:1(0) ack 1 win 1000
        write 20000
        > . 1:2921(2920) ack 1
        # After two round trips a tail loss probe uses what is left, and no more.
        +40ms > . 2921:4001(1080) ack 1
        +100ms
        ",
    );
}

/// RFC 9293 section 3.8.6.1. The probe has no payload: a number below the window asks as well, and needs no disk.
#[test]
fn a_shut_window_is_probed_ever_less_often_until_it_opens() {
    play(
        plain(),
        "
        open 20ms
        < . 1:1(0) ack 1 win 0
        write 5000
        +200ms > . 0:0(0) ack 1
        < . 1:1(0) ack 1 win 0
        +400ms > . 0:0(0) ack 1
        < . 1:1(0) ack 1 win 0
        +800ms > . 0:0(0) ack 1
        count window_probes 3
        < . 1:1(0) ack 1 win 100
        > P. 1:5001(5000) ack 1
        ",
    );
}

/// RFC 9293 section 3.8.6.2.1: small pieces of window are used only once in a while.
#[test]
fn a_crumb_of_window_is_used_after_a_while_only() {
    play(
        plain(),
        "
        open 20ms mss 1460
        write 5000
        > P. 1:5001(5000) ack 1
        < . 1:1(0) ack 5001 win 300
        write 5000
        +200ms > . 5001:5301(300) ack 1
        +1ms < . 1:1(0) ack 5301 win 300
        +200ms > . 5301:5601(300) ack 1
        ",
    );
}

/// A window smaller than a segment, but as large as it ever was.
#[test]
fn half_of_the_largest_window_is_worth_sending() {
    play(
        plain(),
        "
        < S 0:0(0) win 1000 <mss 1460>
        > S. 0:0(0) ack 1
        +20ms < . 1:1(0) ack 1 win 1000
        write 3000
        > . 1:1001(1000) ack 1
        +20ms < . 1:1(0) ack 1001 win 600
        > . 1001:1601(600) ack 1
        ",
    );
}

/// RFC 9293 section 3.8.6.2.1 with pacing: the window is sent over the round trip, not at once.
#[test]
fn a_paced_window_is_spread() {
    let config = Config { pacing: true, ..plain() };
    play(
        config,
        "
        open 100ms
        write 14600
        # 14,600 bytes in half of a round trip (slow start): 292,000 bytes a second, four segments in 20 ms. One millisecond is given as credit.
        > . 1:5841(5840) ack 1
        +19ms > . 5841:11681(5840) ack 1
        +20ms > P. 11681:14601(2920) ack 1
        ",
    );
}

/// RFC 5681 section 4.1: a window that was unused for a while is not trusted.
#[test]
fn after_silence_the_window_is_the_first_one_again() {
    play(
        plain(),
        "
        open 20ms
        write 43800
        > . 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 14601 win 65535
        > P. 14601:43801(29200) ack 1
        +20ms < . 1:1(0) ack 43801 win 65535
        cwnd 58400
        +10s write 100000
        > . 43801:58401(14600) ack 1
        ",
    );
}
