use super::*;
use crate::crowd::{Arrivals, Watch};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// Viewers behind good lines who all watch for half an hour, from the beginning.
fn world(viewers: usize, servers: usize, faults: &[&str]) -> VirtualOptions {
    let crowd = CrowdOptions {
        viewers,
        arrivals: Arrivals::Together,
        titles: 3,
        watch: Watch::Exactly(30 * MINUTE),
        seeks_per_hour: 0.0,
        networks: "office=1".parse().expect("shares"),
        ..CrowdOptions::default()
    };
    VirtualOptions {
        crowd,
        duration: HOUR,
        servers: vec![VirtualServer::default(); servers],
        pathways: servers,
        faults: faults.iter().map(|text| text.parse().expect("a fault")).collect(),
        ..VirtualOptions::default()
    }
}

fn outcome(options: &VirtualOptions) -> Outcome {
    run(options).expect("options that go together")
}

/// Number of stalls with this reason, and of stalls with any other.
fn stalls(outcome: &Outcome, reason: &str) -> (u64, u64) {
    let of = outcome.stalls.by_reason().find(|(name, _)| *name == reason);
    let count = of.expect("a reason that there is").1;
    (count, outcome.stalls.count() - count)
}

#[test]
fn nobody_stalls_in_a_healthy_world() {
    let seen = outcome(&world(50, 1, &[]));
    assert_eq!((seen.all.sessions, seen.all.started, seen.all.without_stall), (50, 50, 50));
    assert!(seen.failures.is_empty() && seen.moves.is_empty());
    // Three round trips of about 10 ms for the manifest, one each for the initialisation section and the first segment, and a server's
    // latency of 5 ms for each request.
    let delay = seen.all.play_delay.percentile(50).expect("all started");
    assert!((0.05..1.0).contains(&delay), "{delay}");
    // Lines of 80 Mb/s carry the top of 8 Mb/s.
    let mbps = seen.all.mbps.percentile(50).expect("all played");
    assert!(mbps > 7.5, "{mbps}");
    // Half an hour each, less the play delay.
    assert!((seen.played.seconds() / (50.0 * 1800.0) - 1.0).abs() < 0.01);
}

#[test]
fn the_bytes_of_a_run_are_those_that_were_played_and_held() {
    let seen = outcome(&world(20, 1, &[]));
    let top = 8e6 / 8.0;
    let played = seen.played.seconds() * top;
    let held = 20.0 * 120.0 * top;
    // Segments differ in size, and bit rates are lower at first.
    let bytes = seen.bytes as f64;
    assert!(bytes > played * 0.9 && bytes < (played + held) * 1.06, "{bytes} of {played}");
}

#[test]
fn everybody_stalls_if_the_only_server_dies() {
    let seen = outcome(&world(30, 1, &["1:dead@10m"]));
    assert_eq!((seen.all.started, seen.all.without_stall, seen.all.gave_up), (30, 0, 30));
    assert_eq!(seen.gave_up.get("stall"), Some(&30));
    assert_eq!(stalls(&seen, "failures"), (30, 0), "{}", seen.describe());
    // The buffer lasts for two minutes, and a minute later no viewer waits any longer.
    let played = seen.played.seconds() / 30.0;
    assert!((700.0..=725.0).contains(&played), "{played}");
}

#[test]
fn nobody_notices_that_one_of_three_servers_dies_or_falls_silent() {
    for fault in ["1:dead@10m", "2:silent@10m", "3:slow@10m", "1:status=503@10m"] {
        let seen = outcome(&world(30, 3, &[fault]));
        assert_eq!(seen.all.without_stall, 30, "{fault}: {}", seen.describe());
        assert!(seen.moves.values().sum::<u64>() >= 10, "{fault}: {:?}", seen.moves);
        assert!(seen.probe_share() < Some(0.01), "{fault}: {:?}", seen.probe_share());
    }
}

#[test]
fn each_fault_of_a_lone_server_is_told_by_its_reason() {
    for (fault, reason) in [
        ("1:silent@10m-15m", "silence"),
        ("1:slow=100k@5m", "slow_network"),
        ("1:status=503@10m-15m", "failures"),
    ] {
        let mut options = world(10, 1, &[fault]);
        options.player.give_up_after = None;
        let seen = outcome(&options);
        let (right, wrong) = stalls(&seen, reason);
        assert!(right >= 10 && wrong == 0, "{fault}: {}", seen.describe());
    }
}

#[test]
fn a_missing_segment_is_skipped_and_reported_as_missing() {
    let seen = outcome(&world(10, 1, &["all:missing=17"]));
    assert!(seen.failures.get("status") >= Some(&10), "{:?}", seen.failures);
    assert_eq!((seen.skips, seen.failures.len()), (10, 1), "{}", seen.describe());
    let elsewhere = outcome(&world(30, 3, &["1:missing=17"]));
    assert_eq!((elsewhere.skips, elsewhere.all.without_stall), (0, 30), "{}", elsewhere.describe());
    assert!(elsewhere.failures.contains_key("status"));
}

#[test]
fn a_segment_of_the_wrong_length_is_reported_as_that() {
    let seen = outcome(&world(10, 1, &["all:wrong-length=17"]));
    assert!(seen.failures.get("wrong_length") >= Some(&10), "{:?}", seen.failures);
    assert_eq!(seen.failures.len(), 1, "{}", seen.describe());
}

#[test]
fn the_same_options_give_the_same_json_to_the_byte_on_any_number_of_threads() {
    let evening = |threads| VirtualOptions {
        crowd: CrowdOptions { viewers: 100, over: HOUR, ..CrowdOptions::default() },
        servers: vec![VirtualServer::default(); 3],
        pathways: 3,
        faults: ServerFault::evening(1, 3, 2 * HOUR),
        threads,
        ..VirtualOptions::default()
    };
    let json = |threads| format!("{:#}", outcome(&evening(threads)).to_json());
    let first = json(1);
    assert_eq!(first, json(1));
    assert_eq!(first, json(3));
    let other =
        VirtualOptions { crowd: CrowdOptions { seed: 2, ..evening(1).crowd }, ..evening(1) };
    assert_ne!(first, format!("{:#}", outcome(&other).to_json()));
}

#[test]
fn three_pathways_get_through_an_evening_that_one_does_not() {
    // With this seed, a server dies while viewers still come.
    const SEED: u64 = 3;
    let evening = |pathways| {
        let crowd = CrowdOptions {
            viewers: 200,
            seed: SEED,
            over: HOUR,
            watch: Watch::Exactly(HOUR),
            seeks_per_hour: 0.0,
            networks: "office=1".parse().expect("shares"),
            ..CrowdOptions::default()
        };
        outcome(&VirtualOptions {
            crowd,
            servers: vec![VirtualServer::default(); 3],
            pathways,
            faults: ServerFault::evening(SEED, 3, 2 * HOUR),
            ..VirtualOptions::default()
        })
    };
    let (three, one) = (evening(3), evening(1));
    assert_eq!(ServerFault::evening(SEED, 3, 2 * HOUR)[1].from.as_secs() / 60, 41);
    assert_eq!(three.all.without_stall, 200, "{}", three.describe());
    assert!(three.probe_share() <= Some(0.01), "{:?}", three.probe_share());
    assert!(one.all.without_stall < 150, "{}", one.describe());
}

#[test]
fn viewers_of_a_server_with_a_ceiling_share_it() {
    let with = |ceiling| {
        let mut options = world(20, 1, &[]);
        options.servers = vec![VirtualServer { ceiling, ..VirtualServer::default() }];
        outcome(&options)
    };
    let bits = |seen: &Outcome| seen.bytes as f64 * 8.0;
    let free = with(Ceiling::None);
    let shared = with(Ceiling::Shared(40e6));
    // 20 viewers at 8 Mb/s request 160 Mb/s.
    assert!(bits(&free) > 2.0 * bits(&shared), "{} and {}", free.bytes, shared.bytes);
    // A response keeps its part for a moment when others join, so slightly more than the ceiling arrives.
    assert!(bits(&shared) <= 40e6 * 1800.0 * 1.05, "{}", shared.bytes);
    assert_eq!(shared.all.without_stall, 20, "{}", shared.describe());
}

#[test]
fn viewers_leave_at_the_end_of_the_run() {
    let mut options = world(5, 1, &[]);
    options.duration = 10 * MINUTE;
    let seen = outcome(&options);
    assert!((seen.played.seconds() / 5.0 - 600.0).abs() < 5.0);
    options.crowd.arrivals = Arrivals::Poisson;
    options.crowd.over = HOUR;
    options.crowd.viewers = 60;
    let came = outcome(&options).all.sessions;
    assert!((2..=25).contains(&came), "{came} of 60 come in the first ten minutes of an hour");
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let of = |change: fn(&mut VirtualOptions)| {
        let mut options = world(1, 2, &[]);
        change(&mut options);
        run(&options).err()
    };
    assert_eq!(of(|options| options.pathways = 3), Some(VirtualError::Servers));
    assert_eq!(of(|options| options.pathways = 0), Some(VirtualError::Servers));
    assert_eq!(of(|options| options.films.segment = Duration::ZERO), Some(VirtualError::Films));
    assert_eq!(of(|options| options.films.rungs = vec![2, 1]), Some(VirtualError::Films));
    assert_eq!(of(|options| options.crowd.titles = 0), Some(VirtualError::Films));
    let nowhere = |options: &mut VirtualOptions| {
        options.faults = vec!["3:dead".parse().expect("a fault")];
    };
    assert_eq!(of(nowhere), Some(VirtualError::Fault));
    assert_eq!(of(|_| {}), None);
}
