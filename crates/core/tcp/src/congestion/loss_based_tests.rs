//! The window from outside: its growth, reduction and recovery.

use super::*;
use crate::clock::Time;

const MSS: u64 = 1000;

fn acked(acknowledged: u64, bytes: u64, in_flight_before: u64) -> Acked {
    Acked {
        now: Time(acknowledged),
        acknowledged,
        sent_below: acknowledged + in_flight_before - bytes,
        advanced_bytes: bytes,
        delivered_bytes: bytes,
        arrived_bytes: bytes,
        newest_sent_at: None,
        lost_bytes: 0,
        in_flight_before,
        in_flight: in_flight_before - bytes,
        slack_bytes: 0,
        app_limited: false,
        rtt_us: Some(50_000),
        acks: 1,
        srtt_us: 50_000,
    }
}

fn congestion() -> LossBased {
    LossBased::new(MSS, 10, 1 << 20)
}

#[test]
fn slow_start_grows_by_what_is_acknowledged() {
    let mut congestion = congestion();
    congestion.acked(&acked(10 * MSS, 10 * MSS, 10 * MSS));
    assert_eq!(congestion.cwnd(), 20 * MSS);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut congestion = congestion();
    congestion.acked(&acked(MSS, MSS, 4 * MSS));
    assert_eq!(congestion.cwnd(), 10 * MSS);
}

#[test]
fn it_never_exceeds_its_bound() {
    let mut congestion = LossBased::new(MSS, 10, 15 * MSS);
    congestion.acked(&acked(10 * MSS, 10 * MSS, 10 * MSS));
    assert_eq!(congestion.cwnd(), 15 * MSS);
}

fn lose_one(congestion: &mut LossBased) {
    let mut loss = acked(0, 0, 10 * MSS);
    loss.delivered_bytes = 3 * MSS;
    loss.lost_bytes = MSS;
    loss.in_flight = 6 * MSS;
    loss.sent_below = 10 * MSS;
    assert!(congestion.acked(&loss));
}

#[test]
fn a_loss_begins_a_recovery_that_ends_at_its_point() {
    let mut congestion = congestion();
    lose_one(&mut congestion);
    assert_eq!((congestion.ssthresh(), congestion.is_recovering()), (7 * MSS, true));
    assert!(congestion.cwnd() >= 7 * MSS, "the retransmission may leave");
    congestion.acked(&acked(9 * MSS, MSS, 2 * MSS));
    assert!(congestion.is_recovering());
    congestion.acked(&acked(10 * MSS, MSS, MSS));
    assert_eq!((congestion.cwnd(), congestion.is_recovering()), (7 * MSS, false));
}

#[test]
fn a_recovery_for_nothing_is_undone() {
    let mut congestion = congestion();
    lose_one(&mut congestion);
    assert!(congestion.undo());
    assert_eq!((congestion.cwnd(), congestion.is_recovering()), (10 * MSS, false));
    assert!(!congestion.undo(), "once");
}

#[test]
fn a_timeout_goes_back_to_one_segment_and_reduces_once() {
    let mut congestion = congestion();
    congestion.timed_out(0, 10 * MSS);
    congestion.timed_out(0, 10 * MSS);
    assert_eq!((congestion.cwnd(), congestion.ssthresh()), (MSS, 7 * MSS));
}

#[test]
fn a_mark_reduces_once_per_window() {
    let mut congestion = congestion();
    assert!(congestion.marked(10 * MSS, 10 * MSS));
    assert!(!congestion.marked(10 * MSS, 10 * MSS));
    congestion.acked(&acked(10 * MSS, 10 * MSS, 10 * MSS));
    assert!(!congestion.is_recovering());
    assert!(congestion.cwnd() >= 7 * MSS && congestion.cwnd() < 10 * MSS, "{}", congestion.cwnd());
}

#[test]
fn silence_halves_the_window_down_to_the_initial_one() {
    let mut congestion = congestion();
    for round in 1..4 {
        let bytes = congestion.cwnd();
        congestion.acked(&acked(round * 100 * MSS, bytes, bytes));
    }
    assert_eq!(congestion.cwnd(), 80 * MSS);
    congestion.idle(450_000, 200_000);
    assert_eq!(congestion.cwnd(), 20 * MSS);
    congestion.idle(60_000_000, 200_000);
    assert_eq!(congestion.cwnd(), 10 * MSS);
}
