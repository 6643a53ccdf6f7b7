//! The server's evaluation of a session's CMCD matches what its viewer saw.

use crate::abr::Rule;
use crate::options::{Act, Deed, PlayerOptions};
use crate::player::world::{Film, Reply, World, s};
use crate::report::SessionReport;
use crate::request::RequestKind;
use serde_json::Value;

/// Plays for five minutes, and shows all requests to the server's collector.
fn play(mut world: World) -> (SessionReport, Value) {
    let report = world.run(s(300));
    let mut collector = qoe::Collector::default();
    for (at, request) in &world.requests {
        let url = request.url();
        let Some(text) = cmcd_of(&url.path_and_query()) else {
            assert_eq!(request.kind, RequestKind::Steering);
            continue;
        };
        let mut cmcd = qoe::Cmcd::default();
        cmcd.read(text.as_bytes());
        assert_eq!((cmcd.malformed, cmcd.session), (0, Some(&b"viewer 1"[..])), "{text}");
        let at_us = at.as_micros() as u64;
        collector.take(vec![qoe::QoeReport::new(at_us, 1, b"film/x.m4s", &cmcd)]);
    }
    collector.advance(310_000);
    (report, qoe::json(&collector, 1)["all"].clone())
}

fn cmcd_of(path_and_query: &str) -> Option<String> {
    let (_, encoded) = path_and_query.split_once("CMCD=")?;
    let text = escape::percent::decode(encoded.split('&').next()?.as_bytes())?;
    String::from_utf8(text).ok()
}

fn options(rule: Rule, plan: &[(u64, Deed)]) -> PlayerOptions {
    PlayerOptions {
        rule,
        cmcd: Some("viewer 1".into()),
        plan: plan.iter().map(|(at, deed)| Act { at: s(*at), deed: *deed }).collect(),
        ..PlayerOptions::default()
    }
}

/// Within a hundredth, which is the resolution of the server's histograms.
fn near(value: &Value, expected: f64, what: &str) {
    let value = value.as_f64().unwrap_or_else(|| panic!("{what}: {value}"));
    assert!((value - expected).abs() <= expected * 0.02 + 0.002, "{what}: {value}, not {expected}");
}

#[test]
fn a_session_without_trouble_is_told_as_it_was() {
    for sound in [None, Some(128_000)] {
        let film = Film { sound, ..Film::default() };
        let (report, told) = play(World::new(film, options(Rule::Throughput, &[])));
        let delay = report.play_delay.expect("it played").as_secs_f64();
        near(&told["play_delay_seconds"]["max"], delay, "play delay");
        let rate = report.bits_per_second.expect("it played") as f64 / 8.0;
        near(&told["media_bytes_per_second"]["mean"], rate, "bit rate");
        let quality = report.time_to_quality.expect("it was good").as_secs_f64();
        near(&told["time_to_quality_seconds"]["max"], quality, "time to quality");
        assert_eq!((report.stall_count, told["stalls_total"].as_u64()), (0, Some(0)));
    }
}

#[test]
fn stalls_are_told_with_their_lengths() {
    for sound in [None, Some(128_000)] {
        // Long enough that a request follows the last stall and reports it.
        let film = Film { sound, count: 200, ..Film::default() };
        let mut world = World::new(film, options(Rule::Fixed(1), &[(30, Deed::SeekTo(s(150)))]));
        // Slower than the film, and for 20 s nothing at all.
        world.rates = Box::new(|_, at| if at > s(40) && at < s(200) { 0.9e6 } else { 4e6 });
        world.servers = Box::new(|request, at| {
            let is_late = request.kind == RequestKind::Media && at > s(60) && at < s(80);
            is_late.then_some(Reply::Status(503, None))
        });
        let (report, told) = play(world);
        assert!(report.stall_count >= 2, "{:?}", report.stalls);
        assert_eq!(told["stalls_total"].as_u64(), Some(report.stall_count), "{:?}", report.stalls);
        near(&told["stalled_seconds_total"], report.stalled.as_secs_f64(), "stalled");
        assert_eq!(report.seeks, 1);
    }
}
