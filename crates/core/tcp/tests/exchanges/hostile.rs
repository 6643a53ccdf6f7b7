//! Peers that lie, and strangers that pretend to be peers: every line of theirs ends in a counter.

use std::time::Duration;

use fullbore_tcp::{Config, KeepAlive};

use crate::script::{plain, play};

/// RFC 7323 section 5.3: older than the last timestamp. Such a segment is answered, but nothing in it is used.
#[test]
fn old_duplicates_are_told_by_their_timestamps() {
    let config = Config { timestamps: true, ..plain() };
    play(
        config,
        "
        open 20ms mss 1460,TS val 1 ecr 0
        < . 1:11(10) ack 1 win 100 <TS val 2000 ecr 0>
        > . 1:1(0) ack 11 <TS val 20 ecr 2000>
        < . 11:21(10) ack 1 win 100 <TS val 1999 ecr 0>
        > . 1:1(0) ack 11 <TS val 20 ecr 2000>
        count paws_refused 1
        < . 11:21(10) ack 1 win 100
        count timestamp_missing 1
        # A RST is exempt.
        < R 11:11(0)
        event ended ResetByPeer
        ",
    );
}

/// RFC 7323 section 5.3 with RFC 5961 section 5.2: an attacker who guesses where the window is, but not the acknowledged number, cannot make the
/// peer's own segments look old.
#[test]
fn a_timestamp_counts_only_beside_an_acknowledgement_that_can_be_right() {
    let config = Config { timestamps: true, ..plain() };
    play(
        config,
        "
        open 20ms mss 1460,TS val 1 ecr 0
        < . 1:11(10) ack 1 win 100 <TS val 2000 ecr 0>
        > . 1:1(0) ack 11 <TS val 20 ecr 2000>
        < . 11:21(10) ack 100000 win 100 <TS val 2000000000 ecr 0>
        > . 1:1(0) ack 11 <TS val 20 ecr 2000>
        count ack_unsent 1
        < . 11:21(10) ack 1 win 100 <TS val 2001 ecr 0>
        > . 1:1(0) ack 21 <TS val 20 ecr 2001>
        count paws_refused 0
        read 20
        ",
    );
}

/// Nor does such a guess count as a sign of life of a peer that is gone.
#[test]
fn an_acknowledgement_that_cannot_be_right_is_no_sign_of_life() {
    let seconds = Duration::from_secs;
    let keep_alive = KeepAlive { idle: seconds(10), interval: seconds(1), probes: 1 };
    play(
        Config { keep_alive: Some(keep_alive), ..plain() },
        "
        open 20ms
        +9s < . 1:1(0) ack 100000 win 100
        > . 1:1(0) ack 1
        +1s > . 0:0(0) ack 1
        +1s event ended Silent
        ",
    );
}

/// RFC 7323 section 5.5: after 24 days a timestamp has no meaning any more.
#[test]
fn an_old_timestamp_is_forgotten() {
    let config = Config { timestamps: true, ..plain() };
    play(
        config,
        "
        open 20ms mss 1460,TS val 1 ecr 0
        < . 1:11(10) ack 1 win 100 <TS val 1000 ecr 0>
        > . 1:1(0) ack 11
        +34561min < . 11:21(10) ack 1 win 100 <TS val 5 ecr 0>
        > . 1:1(0) ack 21
        count paws_refused 0
        ",
    );
}

/// RFC 5961 section 3.2.
#[test]
fn only_an_exact_reset_is_believed() {
    play(
        plain(),
        "
        open 20ms
        < R 30000:30000(0)
        count reset_outside_window 1
        < R 100:100(0)
        > . 1:1(0) ack 1
        count reset_challenged 1
        < R 0:0(0)
        count reset_outside_window 2
        < R 1:1(0)
        event ended ResetByPeer
        ",
    );
}

/// RFC 5961 section 4.2.
#[test]
fn a_syn_in_a_connection_is_challenged() {
    play(
        plain(),
        "
        open 20ms
        < S 1:1(0) win 100
        > . 1:1(0) ack 1
        < S. 77:77(0) ack 5 win 100
        > . 1:1(0) ack 1
        count syn_challenged 2
        ",
    );
}

/// The peer restarted and has forgotten its timestamps: its RST for our challenge ends the old connection.
#[test]
fn a_host_that_began_anew_can_end_its_old_connection() {
    let config = Config { timestamps: true, ..plain() };
    play(
        config,
        "
        open 20ms mss 1460,TS val 1 ecr 0
        < S 5000:5000(0) win 65535 <mss 1460>
        > . 1:1(0) ack 1
        < R 1:1(0)
        event ended ResetByPeer
        ",
    );
}

/// RFC 5961 section 7: ten in five seconds.
#[test]
fn challenges_are_limited() {
    let flood = "< S 1:1(0) win 100\n> . 1:1(0) ack 1\n".repeat(10);
    let script = format!(
        "open 20ms\n{flood}\n< S 1:1(0) win 100\n< R 9:9(0)\ncount challenges_throttled 2
        +5s < S 1:1(0) win 100\n> . 1:1(0) ack 1"
    );
    play(plain(), &script);
}

/// RFC 5961 section 5.2.
#[test]
fn acknowledgements_out_of_reason_are_challenged() {
    play(
        plain(),
        "
        open 20ms
        write 1000
        > P. 1:1001(1000) ack 1
        < . 1:1(0) ack 1002 win 65535
        > . 1001:1001(0) ack 1
        count ack_unsent 1
        < P. 1:11(10) ack 4100000000 win 65535
        > . 1001:1001(0) ack 1
        count ack_ancient 1
        < . 1:1(0) ack 1001 win 65535
        event acknowledged 1000
        ",
    );
}

/// RFC 9293 section 3.10.7.4: without ACK nothing is accepted in a synchronized connection.
#[test]
fn a_segment_without_ack_is_dropped() {
    play(plain(), "open 20ms\n< P 1:11(10) win 100\ncount ack_missing 1\nread 0");
}

/// RFC 2018 section 8: blocks about bytes that were never sent, backwards, or empty.
#[test]
fn sack_lies_change_nothing() {
    play(
        plain(),
        "
        open 20ms
        write 14600
        > P. 1:14601(14600) ack 1
        +1ms < . 1:1(0) ack 1 win 65535 <sack 1461:99999 2921:1461 1461:1461>
        count sack_invalid 3
        count losses 0
        flight 14600
        ",
    );
}

/// Every other byte of a window. Reports that do not fit the bookkeeping are ignored.
#[test]
fn sacks_of_single_bytes_are_bounded() {
    let mut script =
        "open 20ms\nhold\nwrite 14600\nbring 0..14600\n> P. 1:14601(14600) ack 1\n".to_string();
    for at in (3..3000).step_by(8) {
        let blocks: Vec<_> = (0..4).map(|n| format!("{}:{}", at + 2 * n, at + 2 * n + 1)).collect();
        script += &format!("< . 1:1(0) ack 1 win 65535 <sack {}>\n", blocks.join(" "));
    }
    // Everything arrives in the end.
    script += "< . 1:1(0) ack 14601 win 65535\nevent acknowledged 14600\nflight 0\ncount ranges_forgotten 0\ncount sack_disregarded 1500";
    play(plain(), &script);
}

/// ACKs for bytes that cannot have arrived yet: the window grows as with any other peer, up to its limit.
#[test]
fn optimistic_acknowledgements_gain_no_more_than_the_bound() {
    let config = Config { window_bytes_max: 58_400, ..plain() };
    play(
        config,
        "
        open 20ms
        write 1000000
        > . 1:14601(14600) ack 1
        < . 1:1(0) ack 14601 win 65535
        > . 14601:43801(29200) ack 1
        < . 1:1(0) ack 43801 win 65535
        > . 43801:102201(58400) ack 1
        < . 1:1(0) ack 102201 win 65535
        > . 102201:160601(58400) ack 1
        ",
    );
}

#[test]
fn data_outside_the_window_is_cut_off_and_answered() {
    play(
        plain(),
        "
        open 20ms
        < . 20001:20101(100) ack 1 win 100
        > . 1:1(0) ack 1 <>
        count outside_window 1
        < . 16301:16501(200) ack 1 win 100
        > . 1:1(0) ack 1 <sack 16301:16385>
        count payload_bytes_outside 116
        ",
    );
}

#[test]
fn a_stream_ends_only_once() {
    play(
        plain(),
        "
        open 20ms
        < F. 11:21(10) ack 1 win 100
        > . 1:1(0) ack 1 <sack 11:21>
        < F. 1:6(5) ack 1 win 100
        > . 1:1(0) ack 6 <sack 11:21>
        count after_finish 1
        < . 6:31(25) ack 1 win 100
        > . 1:1(0) ack 22
        count payload_bytes_outside 10
        ",
    );
}

#[test]
fn segments_of_a_few_bytes_are_not_sent_however_small_the_peer_wants_them() {
    let config = Config { tso_bytes_max: 0, ..plain() };
    play(
        config,
        "
        < S 0:0(0) win 65535 <mss 1>
        > S. 0:0(0) ack 1
        < . 1:1(0) ack 1 win 65535
        write 100
        > . 1:65(64) ack 1
        > P. 65:101(36) ack 1
        ",
    );
}

/// Tiny windows forever: a small piece for each round of the persist timer, not for each ACK.
#[test]
fn a_tiny_window_costs_a_crumb_now_and_then() {
    let mut script = "open 20ms mss 1460\nwrite 10000\n> P. 1:10001(10000) ack 1\n< . 1:1(0) ack 10001 win 1\nwrite 1000\n".to_string();
    for at in 10_001..10_004 {
        let next = at + 1;
        script += &format!("+200ms > . {at}:{next}(1) ack 1\n+1ms < . 1:1(0) ack {next} win 1\n");
    }
    play(plain(), &script);
}
