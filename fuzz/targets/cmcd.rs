//! Reports of players, one request on each line, and the figures computed from them.
//!
//! A line is a byte for the time that has passed, a byte that chooses session and file, and the text of CMCD.
//!
//! Checks that nothing panics; that parsed values are within their limits, and no more parts count as malformed than there are; that parsing
//! twice changes nothing; that no more time is counted than has passed; and that ratios are ratios.

#![no_main]

use fullbore_fuzz::choices::Choices;
use libfuzzer_sys::fuzz_target;
use qoe::{Cmcd, Collector, QoeReport, TEXT_BYTES_MAX, next_objects};

const PATHS: [&str; 6] =
    ["a/master.m3u8", "a/v/1.m4s", "a/a/1.m4a", "b/1.mp4", "b/manifest.mpd", "c.mp4"];

/// A day in milliseconds.
const MILLISECONDS_MAX: u32 = 86_400_000;

const KBPS_MAX: u32 = 10_000_000;

fuzz_target!(|bytes: &[u8]| {
    let mut collector = Collector::default();
    let (mut now_ms, mut count) = (0, 0);
    for line in bytes.split(|byte| *byte == b'\n') {
        let mut choices = Choices::new(line);
        // From no time to more than the silence after which a session ends.
        now_ms += u64::from(choices.byte()).pow(2) * 5;
        let (session, path) = (choices.byte() % 3, choices.one_of(&PATHS));
        let cmcd = read(choices.rest());
        let report = QoeReport::new(now_ms * 1000, u64::from(session), path.as_bytes(), &cmcd);
        collector.take(vec![report]);
        collector.advance(now_ms);
        count += 1;
    }
    check(&collector, now_ms, 0);
    collector.advance(now_ms + 1_000_000);
    check(&collector, now_ms, count);
});

fn read(text: &[u8]) -> Cmcd<'_> {
    let mut cmcd = Cmcd::default();
    cmcd.read(text);
    let members = text.iter().filter(|byte| **byte == b',').count() + 1;
    assert!(cmcd.malformed as usize <= members);
    for ms in [cmcd.duration_ms, cmcd.buffer_ms, cmcd.start_delay_ms, cmcd.starved_ms] {
        assert!(ms.is_none_or(|ms| ms <= MILLISECONDS_MAX));
    }
    for kbps in [cmcd.bitrate_kbps, cmcd.top_kbps] {
        assert!(kbps.is_none_or(|kbps| kbps <= KBPS_MAX));
    }
    assert!(cmcd.session.is_none_or(|name| (1..=128).contains(&name.len())));
    if text.len() > TEXT_BYTES_MAX {
        assert_eq!(cmcd, Cmcd { malformed: 1, ..Cmcd::default() });
    }
    let mut again = cmcd;
    again.read(text);
    assert_eq!(again, Cmcd { malformed: cmcd.malformed * 2, ..cmcd });
    let next = next_objects(text);
    assert!(next.len() <= 4 && next.iter().all(|one| one.reference.is_some() || next.len() == 1));
    cmcd
}

/// Checks the figures after `passed_ms`. At least `reports`, from three sessions, have been counted.
fn check(collector: &Collector, passed_ms: u64, reports: u64) {
    let told = qoe::json(collector, 20);
    let all = &told["all"];
    assert!(all["reports_total"].as_u64().is_some_and(|taken| taken >= reports));
    let sessions = all["sessions_total"].as_u64().expect("a number");
    let played = all["played_seconds_total"].as_f64().expect("a number");
    assert!(played <= (sessions * passed_ms) as f64 / 1000.0, "{all}");
    let ratio = &all["rebuffer_ratio"]["max"];
    assert!(ratio.is_null() || ratio.as_f64().is_some_and(|ratio| (0.0..=1.0).contains(&ratio)));
    let of_titles = told["titles"].as_array().expect("an array").iter();
    let sum: u64 = of_titles.filter_map(|title| title["sessions_total"].as_u64()).sum();
    assert_eq!(sum, sessions, "every session is one of a title");
    let mut exposition = telemetry::Exposition::default();
    qoe::expose(collector, &mut exposition);
    assert!(exposition.into_text().is_ascii());
}
