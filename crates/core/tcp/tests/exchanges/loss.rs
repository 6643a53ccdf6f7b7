//! Loss detected and repaired: SACK and RACK (RFC 6675, RFC 8985), duplicate ACKs, tail loss probes, timeouts, and
//! false alarms.

use fullbore_tcp::Config;

use crate::script::{plain, play};

/// RFC 6675 section 4 and RFC 8985 section 6.2: after three segments beyond it, the first one is lost. It is requested like any other bytes.
#[test]
fn three_segments_beyond_a_hole_mean_a_loss() {
    play(
        plain(),
        "
        open 20ms
        hold
        write 14600
        want 0..14600
        bring 0..14600
        > P. 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:2921>
        < . 1:1(0) ack 1 win 65535 <sack 1461:4381>
        want nothing
        < . 1:1(0) ack 1 win 65535 <sack 1461:5841>
        want again 0..1460
        want nothing
        bring 0..1460
        > . 1:1461(1460) ack 1
        withheld NotNeeded
        +20ms < . 1:1(0) ack 14601 win 65535
        event acknowledged 14600
        count recoveries 1
        count timeouts 0
        ",
    );
}

/// RFC 8985 section 6.2: fewer may be reordering. The endpoint waits for a quarter of the round trip, with a timer if
/// necessary.
#[test]
fn a_little_reordering_is_waited_for() {
    play(
        plain(),
        "
        open 20ms
        write 14600
        > P. 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:2921>
        +4ms < . 1:1(0) ack 2921 win 65535
        +10ms
        count losses 0
        ",
    );
    play(
        plain(),
        "
        open 20ms
        write 14600
        > P. 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:2921>
        +5ms > . 1:1461(1460) ack 1
        count losses 1
        ",
    );
}

/// RFC 8985 section 3.1: a lost retransmission is detected too, by later segments.
#[test]
fn a_lost_retransmission_is_found_without_a_timeout() {
    play(
        plain(),
        "
        open 20ms
        write 100000
        > . 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:8761>
        > . 1:1461(1460) ack 1
        > . 14601:17521(2920) ack 1
        +10ms < . 1:1(0) ack 1 win 65535 <sack 1461:14601>
        > . 17521:23361(5840) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:23361>
        > . 1:1461(1460) ack 1
        > . 23361:32121(8760) ack 1
        count timeouts 0
        count recoveries 1
        ",
    );
}

/// RFC 5681 section 3.2 and RFC 6582 for a peer without SACK.
#[test]
fn three_duplicate_acks_and_then_partial_ones() {
    play(
        plain(),
        "
        open 20ms mss 1460
        write 14600
        > P. 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 1 win 65535
        < . 1:1(0) ack 1 win 65535
        < . 1:1(0) ack 1 win 65535
        > . 1:1461(1460) ack 1
        +20ms < . 1:1(0) ack 5841 win 65535
        > . 5841:7301(1460) ack 1
        +20ms < . 1:1(0) ack 14601 win 65535
        count recoveries 1
        count timeouts 0
        ",
    );
}

/// RFC 6298 section 5: the first unacknowledged bytes are sent again, one segment at a time, at growing intervals; then
/// slow start.
#[test]
fn a_timeout_sends_the_first_segment_again() {
    play(
        plain(),
        "
        open 20ms mss 1460
        write 14600
        > P. 1:14601(14600) ack 1
        +200ms > . 1:1461(1460) ack 1
        cwnd 1460
        +400ms > . 1:1461(1460) ack 1
        +20ms < . 1:1(0) ack 1461 win 65535
        > . 1461:2921(1460) ack 1
        > . 2921:4381(1460) ack 1
        cwnd 2920
        count timeouts 2
        ",
    );
}

/// RFC 8985 section 7: after two round trips the last segment is sent again, and the answer shows what is missing.
#[test]
fn a_lost_tail_is_probed_for() {
    play(
        plain(),
        "
        open 20ms
        write 5840
        > P. 1:5841(5840) ack 1
        +20ms < . 1:1(0) ack 2921 win 65535
        +40ms > P. 4381:5841(1460) ack 1
        +20ms < . 1:1(0) ack 2921 win 65535 <sack 4381:5841>
        > . 2921:4381(1460) ack 1
        +20ms < . 1:1(0) ack 5841 win 65535
        count tail_probes 1
        count timeouts 0
        count recoveries 1
        ",
    );
}

/// RFC 8985 section 7.4: the probe repaired a loss that nothing else detected. It counts as one.
#[test]
fn a_loss_that_only_the_probe_repaired_reduces_the_window() {
    let script = "
        open 20ms
        write 2920
        > P. 1:2921(2920) ack 1
        +20ms < . 1:1(0) ack 1461 win 65535
        cwnd 14600
        +200ms > P. 1461:2921(1460) ack 1
        write 1460
        > P. 2921:4381(1460) ack 1
        ";
    play(plain(), &format!("{script}\n+20ms < . 1:1(0) ack 4381 win 65535\ncount recoveries 1"));
    // The duplicate report shows that both arrived: nothing was lost.
    let both = "+20ms < . 1:1(0) ack 4381 win 65535 <sack 1461:2921>\ncount recoveries 0";
    play(plain(), &format!("{script}\n{both}"));
}

/// RFC 8985 section 7.3: new bytes are a better probe, whatever the congestion window says.
#[test]
fn new_bytes_serve_as_a_probe() {
    play(
        plain(),
        "
        open 20ms
        hold
        write 100000
        want 0..14600
        bring 0..14600
        > . 1:14601(14600) ack 1
        +40ms want 14600..16060
        bring 14600..16060
        > . 14601:16061(1460) ack 1
        count tail_probes 1
        ",
    );
}

/// RFC 3522 section 3.2: the ACK answers bytes sent before the timeout. Nothing had been lost, so the window is restored.
#[test]
fn a_timeout_for_nothing_is_undone() {
    let config = Config { timestamps: true, ..plain() };
    play(
        config,
        "
        open 20ms mss 1460,TS val 1 ecr 0
        write 14480
        > P. 1:14481(14480) ack 1 <TS val 20 ecr 1>
        +200ms > . 1:1449(1448) ack 1 <TS val 220 ecr 1>
        cwnd 1448
        +10ms < . 1:1(0) ack 14481 win 65535 <TS val 9 ecr 20>
        count recoveries_undone 1
        cwnd 14480
        ",
    );
}

/// RFC 2883: the peer has received twice everything that was sent twice.
#[test]
fn a_recovery_for_nothing_is_undone() {
    play(
        plain(),
        "
        open 20ms
        write 14600
        > P. 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:8761>
        > . 1:1461(1460) ack 1
        +1ms < . 1:1(0) ack 8761 win 65535
        +19ms < . 1:1(0) ack 8761 win 65535 <sack 1:1461>
        count dsack_received 1
        count recoveries_undone 1
        cwnd 14600
        ",
    );
}

/// RFC 8985 section 6.2 step 4: a peer that reports duplicates is given more time.
#[test]
fn reordering_that_was_taken_for_loss_makes_it_patient() {
    play(
        plain(),
        "
        open 20ms
        write 14600
        > P. 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:8761>
        > . 1:1461(1460) ack 1
        +1ms < . 1:1(0) ack 8761 win 65535
        +19ms < . 1:1(0) ack 14601 win 65535 <sack 1:1461>
        write 14600
        > P. 14601:29201(14600) ack 1
        # Two quarters of the round trip now, however many segments are beyond it.
        +20ms < . 1:1(0) ack 14601 win 65535 <sack 16061:29201>
        +9ms
        count losses 1
        +1ms > . 14601:16061(1460) ack 1
        ",
    );
}

/// RFC 2018 section 8: after a timeout, bytes that had been reported by SACK count as lost.
#[test]
fn a_peer_that_goes_back_on_its_sacks_gets_it_all_again() {
    play(
        plain(),
        "
        open 20ms
        write 4380
        > P. 1:4381(4380) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:4381>
        +5ms > . 1:1461(1460) ack 1
        +20ms < . 1:1(0) ack 1461 win 65535
        +200ms > . 1461:2921(1460) ack 1
        count sack_reneged 1
        +20ms < . 1:1(0) ack 2921 win 65535
        > P. 2921:4381(1460) ack 1
        ",
    );
}

/// RFC 6937 section 3: during a recovery, as many bytes are sent as are in proportion to what has arrived.
#[test]
fn the_window_comes_down_in_step_with_deliveries() {
    play(
        plain(),
        "
        open 20ms
        write 100000
        > . 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 14601 win 65535
        > . 14601:43801(29200) ack 1
        # 4,380 bytes have arrived: seven tenths of it, rounded down to segments, leave.
        +20ms < . 1:1(0) ack 14601 win 65535 <sack 16061:20441>
        > . 14601:16061(1460) ack 1
        > . 43801:45261(1460) ack 1
        < . 1:1(0) ack 14601 win 65535 <sack 16061:23361>
        > . 45261:46721(1460) ack 1
        < . 1:1(0) ack 14601 win 65535 <sack 16061:26281>
        > . 46721:48181(1460) ack 1
        ",
    );
}

/// The requested bytes were not lost after all, or have arrived in the meantime.
#[test]
fn what_arrives_while_it_is_being_brought_is_not_sent_again() {
    play(
        plain(),
        "
        open 20ms
        hold
        write 14600
        want 0..14600
        bring 0..14600
        > P. 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:5841>
        want again 0..1460
        +3ms < . 1:1(0) ack 14601 win 65535
        bring 0..1460
        withheld NotNeeded
        count retransmitted_bytes 0
        ",
    );
}

/// RFC 2018 section 4: any segment that acknowledges may have a report, including a request.
#[test]
fn reports_that_come_with_data_count() {
    play(
        plain(),
        "
        open 20ms
        write 14600
        > P. 1:14601(14600) ack 1
        +20ms < P. 1:101(100) ack 1 win 65535 <sack 1461:5841>
        > . 1:1461(1460) ack 101
        count recoveries 1
        ",
    );
}

/// Requesting each hole separately would cost a read from disk for each.
#[test]
fn holes_that_are_close_are_wanted_together() {
    play(
        Config { want_bytes_min: 1500, ..plain() },
        "
        open 20ms
        hold
        write 14600
        want 0..14600
        bring 0..14600
        > P. 1:14601(14600) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 11681:14601 1461:2921 4381:8761>
        count losses 1
        want again 0..4380
        bring 0..4380
        > . 1:1461(1460) ack 1
        > . 2921:4381(1460) ack 1
        withheld NotNeeded
        want again 8760..11680
        ",
    );
}

/// RFC 8985 section 7.2: a probe whose answer brings no progress is the last before the timeout.
#[test]
fn a_probe_is_not_repeated_for_ever() {
    play(
        plain(),
        "
        open 20ms
        write 2920
        > P. 1:2921(2920) ack 1
        +40ms > P. 1461:2921(1460) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1500:2921 1500:2921>
        +180ms > . 1:1461(1460) ack 1
        count tail_probes 1
        count timeouts 1
        ",
    );
}

/// A receiver may report the bytes before a FIN, but not the FIN.
#[test]
fn a_report_may_leave_out_the_fin() {
    play(
        plain(),
        "
        open 20ms
        hold
        write 2920
        finish
        want 0..2920
        bring 0..2920
        > FP. 1:2921(2920) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <sack 1461:2921>
        flight 1460
        +5ms want again 0..1460
        ",
    );
}

/// Karn's rule (RFC 6298 section 3): it is unknown which of the two was acknowledged.
#[test]
fn a_retransmission_is_no_measure_of_the_round_trip() {
    play(
        plain(),
        "
        open 20ms
        write 1460
        > P. 1:1461(1460) ack 1
        srtt 20ms
        +200ms > P. 1:1461(1460) ack 1
        +100ms < . 1:1(0) ack 1461 win 65535
        srtt 20ms
        ",
    );
}

/// RFC 7323 section 4: the echoed timestamp shows which one.
#[test]
fn with_timestamps_a_retransmission_is_a_measure() {
    play(
        Config { timestamps: true, ..plain() },
        "
        open 20ms mss 1460,sackOK,TS val 0 ecr 0,wscale 7
        write 1448
        > P. 1:1449(1448) ack 1
        +200ms > P. 1:1449(1448) ack 1
        +100ms < . 1:1(0) ack 1449 win 65535 <TS val 2 ecr 220>
        srtt 30ms
        ",
    );
}

/// RFC 3522 section 3.2 compares with the retransmission that the ACK answers, not with one of a later recovery.
#[test]
fn an_answer_to_an_earlier_retransmission_undoes_nothing() {
    play(
        Config { timestamps: true, ..plain() },
        "
        open 20ms mss 1460,sackOK,TS val 0 ecr 0,wscale 7
        write 14480
        > P. 1:14481(14480) ack 1
        +20ms < . 1:1(0) ack 1 win 65535 <TS val 2 ecr 20,sack 10137:11585 7241:8689 2897:4345>
        > . 1:2897(2896) ack 1
        > . 4345:5793(1448) ack 1
        +10ms < . 1:1(0) ack 1449 win 65535 <TS val 3 ecr 20,sack 10137:11585 7241:8689 2897:4345>
        count recoveries_undone 1
        > . 5793:7241(1448) ack 1
        count recoveries 2
        +10ms < . 1:1(0) ack 4345 win 65535 <TS val 4 ecr 40,sack 10137:11585 7241:8689>
        > . 8689:10137(1448) ack 1
        +20ms < . 1:1(0) ack 14481 win 65535 <TS val 5 ecr 50>
        count recoveries_undone 1
        ",
    );
}
