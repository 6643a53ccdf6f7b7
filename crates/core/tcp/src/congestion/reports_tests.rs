//! BBR, of either version, after arbitrary reports.

use super::*;
use proptest::prelude::*;

pub(super) const MSS: u64 = 1000;
const CWND_MAX: u64 = 1 << 20;

pub(super) const START: Start =
    Start { now: Time(0), mss: MSS, initial_segments: 10, cwnd_max: CWND_MAX, seed: 7 };

pub(super) fn report(now: Time) -> Acked {
    Acked {
        now,
        acknowledged: 0,
        sent_below: 0,
        advanced_bytes: 0,
        delivered_bytes: 0,
        arrived_bytes: 0,
        newest_sent_at: None,
        lost_bytes: 0,
        in_flight_before: 0,
        in_flight: 0,
        slack_bytes: 2 * MSS,
        app_limited: false,
        rtt_us: Some(20_000),
        acks: 1,
        srtt_us: 20_000,
    }
}

#[derive(Clone, Debug)]
pub(super) enum Call {
    Sent(u64, u64),
    Acked {
        arrived: u64,
        lost: u64,
        in_flight: u64,
        age_us: u64,
        rtt_us: Option<u64>,
        limited: bool,
    },
    Lost(u64),
    TimedOut(u64),
    Undo,
    Confirm,
    Idle,
    Mss(u64),
    /// The clock goes back.
    Earlier(u64),
}

/// Up to a number, mostly small.
fn up_to(most: u64) -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..10_000_u64, 1 => 0..most, 1 => Just(most)]
}

fn call() -> impl Strategy<Value = Call> {
    let acked = (
        up_to(1 << 32),
        up_to(1 << 32),
        up_to(1 << 40),
        up_to(1 << 34),
        proptest::option::of(up_to(1 << 40)),
        any::<bool>(),
    );
    prop_oneof![
        4 => (up_to(1 << 20), up_to(1 << 40)).prop_map(|(bytes, other)| Call::Sent(bytes, bytes + other)),
        8 => acked.prop_map(|(arrived, lost, in_flight, age_us, rtt_us, limited)| {
            Call::Acked { arrived, lost, in_flight, age_us, rtt_us, limited }
        }),
        1 => up_to(1 << 32).prop_map(Call::Lost),
        1 => up_to(1 << 32).prop_map(Call::TimedOut),
        1 => Just(Call::Undo),
        1 => Just(Call::Confirm),
        1 => Just(Call::Idle),
        1 => (64..9000_u64).prop_map(Call::Mss),
        1 => up_to(1 << 30).prop_map(Call::Earlier),
    ]
}

/// A connection after all of these calls. Checks the invariants after each one.
pub(super) fn after(
    control: CongestionControl,
    calls: Vec<(u64, Call)>,
) -> Result<(Congestion, Time, u64), TestCaseError> {
    let mut congestion = Congestion::new(control, &START);
    let (mut now, mut end, mut mss) = (Time(1 << 33), 0, MSS);
    for (later_us, call) in calls {
        now = now.after_us(later_us);
        match call {
            Call::Sent(bytes, in_flight) => {
                end += bytes;
                congestion.sent(&Sent { now, bytes, in_flight, srtt_us: 20_000 });
            }
            Call::Acked { arrived, lost, in_flight, age_us, rtt_us, limited } => {
                let acked = Acked {
                    acknowledged: end / 2,
                    sent_below: end,
                    arrived_bytes: arrived,
                    lost_bytes: lost,
                    newest_sent_at: (arrived > 0).then_some(now.before_us(age_us)),
                    in_flight_before: in_flight,
                    in_flight: in_flight / 2,
                    app_limited: limited,
                    rtt_us,
                    ..report(now)
                };
                congestion.acked(&acked);
            }
            Call::Lost(bytes) => _ = congestion.lost(bytes, end, end / 2, end),
            Call::TimedOut(bytes) => congestion.timed_out(bytes, end / 2, end),
            Call::Undo => _ = congestion.undo(),
            Call::Confirm => congestion.confirm(),
            Call::Idle => congestion.idle(now, later_us, 200_000),
            Call::Mss(bytes) => {
                mss = bytes;
                congestion.set_mss(bytes);
            }
            Call::Earlier(us) => now = now.before_us(us),
        }
        prop_assert!((mss..=CWND_MAX).contains(&congestion.cwnd()), "{} bytes", congestion.cwnd());
        if let Pace::Rate(bytes_per_second) = congestion.pace() {
            prop_assert!(bytes_per_second >= 64, "the pace is {bytes_per_second}");
        }
        prop_assert!(congestion.memory_bytes() <= 1024, "{} bytes", congestion.memory_bytes());
    }
    Ok((congestion, now, end))
}

pub(super) fn calls() -> impl Strategy<Value = Vec<(u64, Call)>> {
    proptest::collection::vec((up_to(1 << 36), call()), 1..300)
}

proptest! {
    /// Whatever a peer reports, nothing overflows, and the window is at least a segment and at most its bound.
    #[test]
    fn any_reports_leave_a_window_within_its_bounds(calls in calls()) {
        after(CongestionControl::Bbr, calls.clone())?;
        after(CongestionControl::Bbr1, calls)?;
    }
}
