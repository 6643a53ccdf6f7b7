//! The cost of CMCD: reading it and making a report, as a worker does for a request; processing a report; and writing the figures when the
//! tables are full. One thread; pin it with taskset.
//!
//! Prints the median and the median absolute deviation of the rounds. `--rounds N` (default 9).

use std::hint::black_box;

use fullbore_qoe::{Cmcd, Collector, QoeReport, SESSIONS_MAX, Salt, TITLES_MAX, expose, json};
use fullbore_tests::stopwatch::{argument, print};
use telemetry::Exposition;

const NOW_UNIX_SECONDS: u64 = 1_790_000_000;

/// As hls.js and dash.js send it.
const TEXT: &[u8] = b"bl=21300,br=3200,cid=\"faec5fc2\",d=4004,dl=18500,mtp=48100,nor=\"..%2F300kbps%2Ftrack.m4v\",ot=v,\
    sf=h,sid=\"6e2fb550-c457-11e9-bb97-0800200c9a66\",st=v,tb=6000";
const TEXT_OF_VERSION_2: &[u8] = b"bl=(21300;v),br=(3200;v),d=4004,mtp=(48100;v),ot=v,sf=h,\
    sid=\"6e2fb550-c457-11e9-bb97-0800200c9a66\",sn=17,st=v,sta=p,tb=(6000;v),ts=1790000000000,v=2";

fn main() {
    let rounds = argument("--rounds", 9);
    print("read, version 1", rounds, || {
        black_box(read(black_box(TEXT)));
    });
    print("read, version 2", rounds, || {
        black_box(read(black_box(TEXT_OF_VERSION_2)));
    });
    let mut salt = Salt::random(NOW_UNIX_SECONDS).expect("there are random numbers");
    print("read, hash and report", rounds, || {
        let cmcd = read(black_box(TEXT));
        let name = cmcd.session.expect("it names a session");
        let session = salt.session(name, NOW_UNIX_SECONDS);
        black_box(QoeReport::new(1, session, b"films/big-buck-bunny/1080p.mp4", &cmcd));
    });
    let mut collector = full();
    let mut at_ms = 100_000;
    print("report and take 1000 into account", rounds, || {
        at_ms += 1000;
        collector.take((at_ms - 1000..at_ms).map(|at_ms| report(at_ms, at_ms * 7919)).collect());
        collector.advance(at_ms);
    });
    assert!(!exposed(&collector).is_empty() && json(&collector, 20)["titles"].is_array());
    print("write JSON, tables full", rounds, || {
        black_box(json(&collector, 20));
    });
    print("write for Prometheus, tables full", rounds, || {
        black_box(exposed(&collector));
    });
}

fn read(text: &[u8]) -> Cmcd<'_> {
    let mut cmcd = Cmcd::default();
    cmcd.read(text);
    assert!(cmcd.malformed == 0 && cmcd.duration_ms == Some(4004));
    cmcd
}

/// A report of one of the maximum number of sessions.
fn report(at_ms: u64, number: u64) -> QoeReport {
    let session = number % SESSIONS_MAX as u64;
    let path = format!("films/{}/1080p.mp4", session % TITLES_MAX as u64);
    QoeReport::new(at_ms * 1000, session, path.as_bytes(), &read(TEXT))
}

/// A collector with the maximum numbers of sessions and titles.
fn full() -> Collector {
    let mut collector = Collector::default();
    for number in 0..2 * SESSIONS_MAX as u64 {
        collector.take(vec![report(number / 2, number)]);
        if number % 1000 == 0 {
            collector.advance(number / 2);
        }
    }
    collector.advance(100_000);
    collector
}

fn exposed(collector: &Collector) -> String {
    let mut exposition = Exposition::default();
    expose(collector, &mut exposition);
    exposition.into_text()
}
