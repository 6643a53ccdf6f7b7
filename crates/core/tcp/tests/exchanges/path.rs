//! The path's limits: segment sizes, routers' messages, black holes.

use fullbore_tcp::Config;

use crate::script::{plain, play};

/// RFC 9293 section 3.7.1: the smaller of the sizes that the peer takes and the interface carries, less our options.
#[test]
fn segments_fit_the_way_out() {
    let config = Config { mtu_bytes: 1280, tso_bytes_max: 0, ..plain() };
    play(
        config,
        "
        < S 0:0(0) win 65535 <mss 8960,sackOK>
        > S. 0:0(0) ack 1 <mss 1240,sackOK>
        < . 1:1(0) ack 1 win 65535
        write 1300
        > . 1:1241(1240) ack 1
        > P. 1241:1301(60) ack 1
        ",
    );
}

/// RFC 1191 section 6.1 and RFC 5927 section 7.2: accepted for bytes in flight, which are sent again at once, without a smaller window.
#[test]
fn a_router_may_ask_for_smaller_packets() {
    let config = Config { tso_bytes_max: 0, ..plain() };
    play(
        config,
        "
        open 20ms
        write 2920
        > . 1:1461(1460) ack 1
        > P. 1461:2921(1460) ack 1
        too big 1400 at 1
        > . 1:1361(1360) ack 1
        > . 1361:2721(1360) ack 1
        > P. 2721:2921(200) ack 1
        count path_mtu_lowered 1
        cwnd 14600
        ",
    );
}

#[test]
fn a_router_is_not_believed_for_what_is_not_in_flight_or_out_of_reason() {
    play(
        plain(),
        "
        open 20ms
        write 1460
        > P. 1:1461(1460) ack 1
        too big 1400 at 2000
        too big 68 at 1
        too big 1500 at 1
        count path_mtu_refused 3
        count path_mtu_lowered 0
        ",
    );
}

/// RFC 5927 section 7.2: a segment that the peer has received was not too big.
#[test]
fn a_router_is_not_believed_for_what_has_arrived() {
    play(
        plain(),
        "
        open 20ms
        write 4380
        > P. 1:4381(4380) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:4381>
        too big 1400 at 1461
        count path_mtu_refused 1
        count path_mtu_lowered 0
        ",
    );
}

/// RFC 1191 section 7.1: only down to the sizes that real paths have, and once per round trip. An attacker who sends every size in turn makes us send
/// the bytes in flight again once, not 900 times.
#[test]
fn a_router_cannot_lower_the_size_byte_by_byte() {
    let every_size: String = (576..1499).rev().map(|mtu| format!("too big {mtu} at 1\n")).collect();
    let script = format!(
        "
        open 20ms
        write 14600
        > P. 1:14601(14600) ack 1
        too big 1499 at 1
        > P. 1:14601(14600) ack 1           # cut by the device, into 1452 bytes each
        {every_size}
        count path_mtu_lowered 1
        +19ms too big 1400 at 1
        count path_mtu_lowered 1
        +1ms too big 1419 at 1
        > P. 1:14601(14600) ack 1           # into 1360
        count path_mtu_lowered 2
        cwnd 14600
        +20ms < . 1:1(0) ack 14601 win 65535
        write 2720
        > P. 14601:17321(2720) ack 1
        "
    );
    play(plain(), &script);
}

/// RFC 4821 section 7.7: no router reports it, but large segments do not get through.
#[test]
fn a_black_hole_is_left_by_smaller_segments() {
    let config = Config { tso_bytes_max: 0, ..plain() };
    play(
        config,
        "
        open 20ms mss 1460
        write 1460
        > P. 1:1461(1460) ack 1
        +200ms > P. 1:1461(1460) ack 1
        +400ms > P. 1:1461(1460) ack 1
        +800ms > . 1:1361(1360) ack 1
        count black_holes 1
        < . 1:1(0) ack 1361 win 65535
        > P. 1361:1461(100) ack 1
        ",
    );
}

/// Smaller segments get through and are reported, so there is no timeout: the first segment is lost again and again.
#[test]
fn a_black_hole_is_left_although_smaller_segments_arrive() {
    play(
        plain(),
        "
        open 20ms
        hold
        write 100000
        bring 0..14600
        > . 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:14601>
        bring 0..1460
        > . 1:1461(1460) ack 1
        bring 14600..16060
        > . 14601:16061(1460) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:16061>
        bring 0..1460
        > . 1:1461(1460) ack 1
        bring 16060..17520
        > . 16061:17521(1460) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:17521>
        bring 0..1460
        > . 1:1461(1460) ack 1
        bring 17520..18980
        > . 17521:18981(1460) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:18981>
        bring 0..1460
        > . 1:1461(1460) ack 1
        bring 18980..20440
        > . 18981:20441(1460) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:20441>
        bring 0..1460
        > . 1:1461(1460) ack 1
        bring 20440..21900
        > . 20441:21901(1460) ack 1
        count black_holes 0
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:21901>
        count black_holes 1
        count timeouts 0
        bring 0..1460
        > . 1:1461(1460) ack 1             # cut by the device
        ",
    );
}

/// RFC 4821 section 7: after a while one larger segment is sent ahead of others. If it arrives, all get that size.
#[test]
fn after_a_while_a_larger_segment_is_tried() {
    play(
        plain(),
        "
        open 20ms
        write 1460
        > P. 1:1461(1460) ack 1
        too big 1400 at 1
        > P. 1:1461(1460) ack 1             # cut by the device
        +20ms < . 1:1(0) ack 1461 win 65535
        write 2720
        > P. 1461:4181(2720) ack 1
        +20ms < . 1:1(0) ack 4181 win 65535
        +10min write 13600
        > . 4181:5641(1460) ack 1
        > P. 5641:17781(12140) ack 1
        +20ms < . 1:1(0) ack 17781 win 65535
        count larger_segments_tried 1
        count path_mtu_raised 1
        write 2920
        > P. 17781:20701(2920) ack 1
        ",
    );
}

/// RFC 4821 section 7.4: if it does not arrive, that is no congestion, and the next try comes only after the same time.
#[test]
fn a_larger_segment_that_is_lost_is_no_congestion() {
    play(
        plain(),
        "
        open 20ms
        write 1460
        > P. 1:1461(1460) ack 1
        too big 1400 at 1
        > P. 1:1461(1460) ack 1             # cut by the device
        +20ms < . 1:1(0) ack 1461 win 65535
        +10min write 13600
        > . 1461:2921(1460) ack 1
        > P. 2921:15061(12140) ack 1
        +20ms < . 1:1(0) ack 1461 win 65535 <sack 2921:15061>
        > . 1461:2921(1460) ack 1           # cut by the device
        count recoveries 0
        count path_mtu_raised 0
        +20ms < . 1:1(0) ack 15061 win 65535
        write 13600
        > P. 15061:28661(13600) ack 1
        count larger_segments_tried 1
        ",
    );
}
