//! The receive side: acknowledgements, gaps, windows.

use fullbore_tcp::Config;

use crate::script::{plain, play};

/// RFC 9293 section 3.8.6.3 and RFC 5681 section 4.2. The first few segments are acknowledged at once.
#[test]
fn acknowledgements_are_delayed_but_for_every_second_segment() {
    play(
        plain(),
        "
        open 20ms
        < . 1:1001(1000) ack 1 win 100
        > . 1:1(0) ack 1001
        < . 1001:2001(1000) ack 1 win 100
        > . 1:1(0) ack 2001
        < . 2001:3001(1000) ack 1 win 100
        > . 1:1(0) ack 3001
        < . 3001:4001(1000) ack 1 win 100
        > . 1:1(0) ack 4001
        < . 4001:5001(1000) ack 1 win 100
        +40ms > . 1:1(0) ack 5001
        < . 5001:6001(1000) ack 1 win 100
        < . 6001:7001(1000) ack 1 win 100
        > . 1:1(0) ack 7001
        read 7000
        ",
    );
}

/// Segments with payload acknowledge as well.
#[test]
fn an_answer_takes_the_acknowledgement_along() {
    play(
        plain(),
        "
        open 20ms
        < . 1:1(0) ack 1 win 65535
        hold
        < P. 1:101(100) ack 1 win 65535
        > . 1:1(0) ack 101
        < P. 101:201(100) ack 1 win 65535
        > . 1:1(0) ack 201
        < P. 201:301(100) ack 1 win 65535
        > . 1:1(0) ack 301
        < P. 301:401(100) ack 1 win 65535
        > . 1:1(0) ack 401
        < P. 401:451(50) ack 1 win 65535
        write 1000
        bring 0..1000
        > P. 1:1001(1000) ack 451
        +100ms
        ",
    );
}

/// RFC 2018 section 4: the newest block first; earlier out-of-order ranges are still reported.
#[test]
fn gaps_are_reported_at_once_the_newest_first() {
    play(
        plain(),
        "
        open 20ms
        < . 1001:2001(1000) ack 1 win 100
        > . 1:1(0) ack 1 <sack 1001:2001>
        < . 3001:4001(1000) ack 1 win 100
        > . 1:1(0) ack 1 <sack 3001:4001 1001:2001>
        < . 2001:2501(500) ack 1 win 100
        > . 1:1(0) ack 1 <sack 1001:2501 3001:4001>
        < . 1:1001(1000) ack 1 win 100
        > . 1:1(0) ack 2501 <sack 3001:4001>
        read 2500
        < . 2501:3001(500) ack 1 win 100
        > . 1:1(0) ack 4001
        read 1500
        ",
    );
}

/// RFC 2883 section 4.
#[test]
fn duplicates_are_reported() {
    play(
        plain(),
        "
        open 20ms
        < . 1:1001(1000) ack 1 win 100
        > . 1:1(0) ack 1001
        < . 501:1001(500) ack 1 win 100
        > . 1:1(0) ack 1001 <sack 501:1001>
        < . 1501:2001(500) ack 1 win 100
        > . 1:1(0) ack 1001 <sack 1501:2001>
        < . 1501:2001(500) ack 1 win 100
        > . 1:1(0) ack 1001 <sack 1501:2001 1501:2001>
        ",
    );
}

#[test]
fn without_sack_nothing_is_reported() {
    play(
        plain(),
        "
        open 20ms mss 1460
        < . 1001:2001(1000) ack 1 win 100
        > . 1:1(0) ack 1 <>
        ",
    );
}

/// RFC 9293 section 3.8.6.2.2: the window shrinks by unread bytes, opens in steps, and its right edge never goes back.
#[test]
fn the_window_shuts_when_nobody_reads_and_opens_in_steps() {
    let config = Config { receive_bytes_max: 4000, ..plain() };
    play(
        config,
        "
        open 20ms
        < . 1:1001(1000) ack 1 win 100
        > . 1:1(0) ack 1001 win 3000
        < . 1001:4001(3000) ack 1 win 100
        > . 1:1(0) ack 4001 win 0
        < . 4001:4002(1) ack 1 win 100
        > . 1:1(0) ack 4001 win 0
        count payload_bytes_outside 1
        read 4000
        > . 1:1(0) ack 4001 win 4000
        ",
    );
}

/// RFC 9293 section 3.8.4 and 3.10.7.4: a probe below the window is answered, but not without limit.
#[test]
fn keep_alives_of_the_peer_are_answered() {
    play(
        plain(),
        "
        open 20ms
        < . 0:0(0) ack 1 win 100
        > . 1:1(0) ack 1
        < . 0:1(1) ack 1 win 100
        > . 1:1(0) ack 1
        ",
    );
}

/// RFC 3168 section 6.1.3: from the mark on until the peer reports that it has reduced its window.
#[test]
fn congestion_marks_are_echoed_until_the_peer_reacts() {
    let config = Config { ecn: true, ..plain() };
    play(
        config,
        "
        < SEW 0:0(0) win 65535 <mss 1460>
        > SE. 0:0(0) ack 1
        < . 1:1(0) ack 1 win 65535
        < . 1:1001(1000) ack 1 win 65535 ce
        > E. 1:1(0) ack 1001
        < . 1001:2001(1000) ack 1 win 65535
        > E. 1:1(0) ack 2001
        < W. 2001:3001(1000) ack 1 win 65535
        > . 1:1(0) ack 3001
        count ecn_marks_received 1
        ",
    );
}

/// A device may join segments (receive coalescing).
#[test]
fn a_coalesced_segment_is_one_of_many() {
    play(
        plain(),
        "
        open 20ms
        < P. 1:12001(12000) ack 1 win 100
        > . 1:1(0) ack 12001 win 4384
        read 12000
        > . 1:1(0) ack 12001 win 16384
        ",
    );
}

/// RFC 6093 section 6: the urgent bytes are not reported to the caller.
#[test]
fn urgent_bytes_are_bytes_like_others() {
    play(
        plain(),
        "
        open 20ms
        < PU. 1:11(10) ack 1 win 65535
        > . 1:1(0) ack 11
        read 10
        count urgent_ignored 1
        ",
    );
}
