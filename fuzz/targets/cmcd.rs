//! Reports of players, one request or event on each line, and the figures computed from them.
//!
//! A line is a byte for the time that has passed, a byte that chooses session and file, and the text of CMCD. If the second byte is above 127, the
//! line is a post instead, whose session the byte chooses as well.
//!
//! Checks that nothing panics; that parsed values are within their limits, and no more parts count as malformed than there are; that parsing
//! twice changes nothing; that no more time is counted than has passed, and a minute for each session; that no event is counted twice, or neither
//! counted nor lost; and that ratios are ratios.

#![no_main]

use fullbore_fuzz::choices::Choices;
use libfuzzer_sys::fuzz_target;
use qoe::{
    Cmcd, CmcdEvents, Collector, EVENTS_MAX, QoeEvent, QoeReport, TEXT_BYTES_MAX, next_objects,
};

const PATHS: [&str; 6] =
    ["a/master.m3u8", "a/v/1.m4s", "a/a/1.m4a", "b/1.mp4", "b/manifest.mpd", "c.mp4"];

/// A day in milliseconds.
const MILLISECONDS_MAX: u32 = 86_400_000;

const KBPS_MAX: u32 = 10_000_000;

/// The largest time of an event.
const TIMESTAMP_MS_MAX: u64 = 999_999_999_999_999;

/// A player may have started this long before its first request.
const EARLIER_MS: u64 = 60_000;

fuzz_target!(|bytes: &[u8]| {
    let mut collector = Collector::default();
    let (mut now_ms, mut count, mut events) = (0, 0, 0);
    for line in bytes.split(|byte| *byte == b'\n') {
        let mut choices = Choices::new(line);
        // From no time to more than the silence after which a session ends.
        now_ms += u64::from(choices.byte()).pow(2) * 5;
        let choice = choices.byte();
        if choice > 127 {
            let posted = posted(now_ms, choice, choices.rest());
            events += posted.len() as u64;
            collector.take_events(posted);
            collector.advance(now_ms);
            continue;
        }
        let (session, path) = (choice % 3, choices.one_of(&PATHS));
        let cmcd = read(choices.rest());
        let report = QoeReport::new(now_ms * 1000, u64::from(session), path.as_bytes(), &cmcd);
        collector.take(vec![report]);
        collector.advance(now_ms);
        count += 1;
    }
    check(&collector, now_ms, 0);
    // Events that are due at last may wait once more.
    [1_000_000, 1_000_001].iter().for_each(|ms| collector.advance(now_ms + ms));
    check(&collector, now_ms, count);
    let told = &qoe::json(&collector, 20)["all"];
    let ended = ["events_total", "events_lost_total"].map(|name| told[name].as_u64());
    assert_eq!(ended[0].zip(ended[1]).map(|(counted, lost)| counted + lost), Some(events));
});

/// The events in a body. The byte chooses their session, and rarely another network than that of the requests.
fn posted(now_ms: u64, choice: u8, body: &[u8]) -> Vec<QoeEvent> {
    let read = CmcdEvents::read(body);
    assert!(read.events.len() <= EVENTS_MAX);
    assert!((read.malformed + read.sessionless) as usize <= 2 * body.len());
    let (session, viewer) = (u64::from(choice % 3), u64::from(choice == 255));
    let taken = read.events.iter().filter_map(|event| {
        assert!(event.timestamp_ms <= TIMESTAMP_MS_MAX);
        assert!(event.start_delay_ms.is_none_or(|ms| ms <= MILLISECONDS_MAX));
        assert!((1..=128).contains(&event.session.len()));
        QoeEvent::new(now_ms * 1000, session, viewer, event)
    });
    taken.collect()
}

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
    assert!(played <= (sessions * (passed_ms + EARLIER_MS)) as f64 / 1000.0, "{all}");
    let ratio = &all["rebuffer_ratio"]["max"];
    assert!(ratio.is_null() || ratio.as_f64().is_some_and(|ratio| (0.0..=1.0).contains(&ratio)));
    let of_titles = told["titles"].as_array().expect("an array").iter();
    let sum: u64 = of_titles.filter_map(|title| title["sessions_total"].as_u64()).sum();
    assert_eq!(sum, sessions, "every session is one of a title");
    let mut exposition = telemetry::Exposition::default();
    qoe::expose(collector, &mut exposition);
    assert!(exposition.into_text().is_ascii());
}
