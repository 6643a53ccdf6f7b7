//! The control loop in virtual time, second by second.

use super::*;

struct Box {
    control: ControlLoop,
    now: u64,
    server: ServerCounters,
    rest: Observed,
}

impl Box {
    fn new() -> Self {
        let control = ControlLoop::new(1_000_000_000);
        let (server, rest) = Default::default();
        let mut one = Self { control, now: 0, server, rest };
        one.run(20, |_| {});
        assert_eq!(one.control.condition(), Condition::Ready);
        one
    }

    /// Lets seconds pass, calling `each` in every one.
    fn run(&mut self, seconds: u64, mut each: impl FnMut(&mut Self)) {
        for _ in 0..seconds {
            self.now += 1;
            self.server.uptime_seconds += 1.0;
            self.rest.cpu_ticks.1 += 200;
            each(self);
            let observed = Observed { server: Some(self.server.clone()), ..self.rest.clone() };
            self.control.handle(observed, Duration::from_secs(self.now));
        }
    }

    fn silent(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += 1;
            self.server.uptime_seconds += 1.0;
            self.control.handle(self.rest.clone(), Duration::from_secs(self.now));
        }
    }

    fn says(&self) -> Vec<SheddingReason> {
        match self.control.condition() {
            Condition::NotMe(reasons) => reasons,
            _ => Vec::new(),
        }
    }
}

/// The bytes of `permille` thousandths of the ceiling in a second.
fn share(permille: u64) -> u64 {
    permille * 1_000_000_000 / 8 / 1000
}

#[test]
fn a_box_whose_server_is_not_up_yet_starts() {
    let mut control = ControlLoop::new(0);
    assert_eq!(control.condition(), Condition::Starting);
    for second in 0..100 {
        control.handle(Observed::default(), Duration::from_secs(second));
        assert_eq!(control.condition(), Condition::Starting);
    }
    assert_eq!(control.load(), Load::default());
}

#[test]
fn load_is_averaged_and_a_full_box_says_so_until_it_has_room() {
    let mut one = Box::new();
    one.run(20, |one| {
        one.server.sent_bytes += share(900);
        one.rest.cpu_ticks.0 += 100;
    });
    assert_eq!(one.control.load().permille(), 900);
    assert_eq!(one.control.load().cpu_permille, 500);
    assert_eq!(one.says(), []);
    one.run(1, |one| one.server.sent_bytes += share(2000));
    assert_eq!(one.says(), [], "a single bad second is ignored");
    one.run(20, |one| one.server.sent_bytes += share(960));
    assert_eq!(one.says(), [SheddingReason::AtCeiling]);
    one.run(60, |one| one.server.sent_bytes += share(900));
    assert_eq!(one.says(), [SheddingReason::AtCeiling], "it has no room yet");
    one.run(30, |one| one.server.sent_bytes += share(840));
    assert_eq!(one.says(), []);
}

#[test]
fn a_load_that_swings_around_the_bound_does_not_flap() {
    let mut one = Box::new();
    let mut changes = 0;
    let mut before = one.says();
    for round in 0..600 {
        let permille = if round / 15 % 2 == 0 { 990 } else { 900 };
        one.run(1, |one| one.server.sent_bytes += share(permille));
        changes += usize::from(one.says() != before);
        before = one.says();
    }
    assert_eq!(changes, 1, "it is full, and stays so");
}

#[test]
fn errors_of_disks_are_told_at_once_and_a_single_one_is_not() {
    let mut one = Box::new();
    one.run(1, |one| one.server.disk_errors += 1);
    one.run(30, |_| {});
    assert_eq!(one.says(), []);
    one.run(1, |one| one.server.disk_errors += 3);
    assert_eq!(one.says(), [SheddingReason::DiskErrors]);
    one.run(60, |_| {});
    assert_eq!(one.says(), [SheddingReason::DiskErrors]);
    one.run(15, |_| {});
    assert_eq!(one.says(), []);
    one.run(1, |one| one.server.has_lost_library = true);
    assert_eq!(one.says(), [SheddingReason::DiskErrors]);
}

#[test]
fn a_server_that_cannot_accept_says_so() {
    let mut one = Box::new();
    one.run(1, |one| one.server.accept_pauses += 1);
    assert_eq!(one.says(), [SheddingReason::AcceptPaused]);
    one.run(30, |_| {});
    assert_eq!(one.says(), []);
}

#[test]
fn stalls_count_if_enough_viewers_report_them() {
    let mut one = Box::new();
    let stall = |one: &mut Box| {
        one.server.played_seconds += 8.0;
        one.server.stalled_seconds += 2.0;
    };
    (one.server.viewers, one.server.stalling) = (4, 4);
    one.run(30, stall);
    assert_eq!(one.says(), [], "four viewers may share a bad line");
    (one.server.viewers, one.server.stalling) = (10, 2);
    one.run(30, stall);
    assert_eq!(one.says(), [], "two of ten do not speak for all");
    one.server.stalling = 3;
    one.run(10, stall);
    assert_eq!(one.says(), [SheddingReason::ViewersStall]);
    one.run(90, |one| one.server.played_seconds += 10.0);
    assert_eq!(one.says(), []);
}

#[test]
fn pressure_counts_if_it_lasts_and_heat_while_the_processor_is_throttled() {
    let mut one = Box::new();
    one.run(9, |one| one.rest.memory_percent = 50.0);
    one.run(5, |one| one.rest.memory_percent = 0.0);
    assert_eq!(one.says(), []);
    let read = |reads, seconds_each: f64| {
        move |one: &mut Box| {
            one.server.disk_reads += reads;
            one.server.disk_read_seconds += reads as f64 * seconds_each;
        }
    };
    one.run(60, read(1, 3.0));
    assert_eq!(one.says(), [], "a few reads are no mean");
    one.run(60, read(100, 0.2));
    assert_eq!(one.says(), [], "viewers have the window before");
    one.run(25, read(100, 0.4));
    assert_eq!(one.says(), [SheddingReason::Pressure]);
    one.run(60, read(100, 0.15));
    assert_eq!(one.says(), [SheddingReason::Pressure], "it is not over yet");
    one.run(45, read(100, 0.05));
    assert_eq!(one.says(), []);
    one.run(5, |one| one.rest.throttled_total += 1);
    assert_eq!(one.says(), [SheddingReason::Hot]);
    one.run(80, |_| {});
    assert_eq!(one.says(), []);
}

#[test]
fn a_silent_server_is_told_before_a_gateway_would_notice_and_a_missed_answer_is_not() {
    let mut one = Box::new();
    one.silent(2);
    one.run(5, |_| {});
    assert_eq!(one.says(), []);
    one.silent(4);
    assert_eq!(one.says(), [SheddingReason::ServerSilent]);
    one.run(5, |_| {});
    assert_eq!(one.says(), []);
    one.run(5, |one| one.server.is_draining = true);
    assert_eq!(one.says(), [SheddingReason::ServerSilent]);
}

#[test]
fn a_server_that_was_started_again_counts_from_its_own_start() {
    let mut one = Box::new();
    one.run(20, |one| one.server.sent_bytes += share(500));
    let before = one.server.clone();
    one.server = ServerCounters::default();
    one.run(5, |one| one.server.sent_bytes += share(100));
    let permille = one.control.load().permille();
    assert!((80..=130).contains(&permille), "{permille}: {before:?}");
    assert_eq!(one.says(), []);
}

#[test]
fn every_turn_that_is_logged_comes_out_the_same_again_and_another_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let log = change_log::ChangeLog::new(folder.path());
    let mut control = ControlLoop::new(1_000_000_000);
    let mut server = ServerCounters::default();
    let mut said = vec![control.condition()];
    for second in 0..120_u64 {
        server.uptime_seconds = second as f64;
        // A moderate load, then half a minute at the limit, and viewers who stall.
        let is_busy = (30..60).contains(&second);
        server.sent_bytes += share(if is_busy { 990 } else { 300 });
        (server.viewers, server.stalling) = (10, 10);
        server.played_seconds += 9.1 - if is_busy { 1.7 } else { 0.0 };
        server.stalled_seconds += if is_busy { 1.7 } else { 0.0 };
        let observed = Observed { server: Some(server.clone()), ..Observed::default() };
        let change = control.handle_and_note(observed, Duration::from_millis(1000 * second + 7));
        assert_eq!(change.is_some(), said.last() != Some(&control.condition()));
        if let Some(change) = change {
            log.add(&change);
            said.push(control.condition());
        }
    }
    assert!(said.len() >= 5, "{said:?}");
    let mut again = Vec::new();
    change_log::read_all(folder.path(), |change| again.push(change.expect("a line").again()))
        .unwrap();
    assert_eq!(again, said[1..]);

    // A log of an older release has sessions, and no count of stalled ones.
    let place = folder.path().join("conditions.log");
    let text = std::fs::read_to_string(&place).unwrap();
    let old = text.replace("\"viewers\":", "\"sessions\":").replace("\"stalling\":10,", "");
    assert_ne!(old, text.replace("\"viewers\":", "\"sessions\":"));
    std::fs::write(&place, old).unwrap();
    let mut again = Vec::new();
    change_log::read_all(folder.path(), |change| again.push(change.expect("a line").again()))
        .unwrap();
    assert_eq!(again, said[1..]);

    // With less sent, there would have been no turn.
    let text = std::fs::read_to_string(&place).unwrap();
    let at_ceiling = text.lines().find(|line| line.contains("at_ceiling")).expect("a turn");
    let mut line: serde_json::Value = serde_json::from_str(at_ceiling).unwrap();
    line["before"]["ceiling_bits_per_second"] = 2_000_000_000_u64.into();
    std::fs::write(&place, format!("{line}\nhalf a li")).unwrap();
    let replayed = crate::replay(folder.path(), 0, None).unwrap();
    assert_eq!((replayed.conditions.same, replayed.different()), (0, 1), "{replayed:?}");
    assert_eq!(replayed.conditions.broken_lines, 1, "{replayed:?}");
}
