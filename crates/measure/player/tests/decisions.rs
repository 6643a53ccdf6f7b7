//! The decisions of 1,000 drawn sessions, as digests in `decisions.txt`. The watch page has the same rules in TypeScript
//! (`web/src/watch/pathways.ts`), and `web/tests/decisions.test.mjs` draws the same sessions and compares with the same file. So a rule that
//! changes on one side only fails a test.
//!
//! After an intended change, copy the file that the failed test names. `FULLBORE_SESSION=17` prints all decisions of session 17; the
//! test of the page takes the same variable.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use fullbore_player::pathways::{Need, Outage, PathwayPolicy, Pathways, Progress, Recent};

const SESSIONS: u32 = 1000;
const STEPS: u32 = 120;
const SEGMENT_MS: u64 = 4000;
const BUFFER_MS: u64 = 120_000;
const LOOK_MS: u64 = 500;
const LOOKS_MAX: u64 = 120;
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Rates of networks and bit rates of rungs, in kilobits per second.
const RATES: [u64; 8] = [200, 1000, 3000, 5000, 5500, 8000, 20_000, 60_000];
const RUNGS: [u64; 4] = [300, 1500, 4000, 8000];

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Marsaglia's xorshift of 32 bits: a few lines in any language.
struct Xorshift32(u32);

impl Xorshift32 {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        u64::from(self.0) % bound
    }
}

/// What happens in a session, by its number modulo 4.
#[derive(Clone, Copy, PartialEq)]
enum SessionKind {
    /// Anything but steering.
    Wild,
    Steered,
    /// Only rates change, and probes are frequent.
    Calm,
    /// The viewer's own network is too slow for all pathways.
    Slow,
}

/// A player with one buffer, and pathways whose rates change.
struct DecidingSession {
    draw: Xorshift32,
    pathways: Pathways,
    rates: [u64; 5],
    kind: SessionKind,
    now_ms: u64,
    buffered_ms: u64,
    decisions: String,
}

impl DecidingSession {
    fn new(number: u32) -> Self {
        let mut draw = Xorshift32(number.wrapping_mul(0x9e37_79b1) ^ 0x5bd1_e995);
        let count = 2 + draw.below(2) as usize;
        let ids = NAMES[..count].iter().map(|name| (*name).to_owned()).collect();
        let kind = [SessionKind::Wild, SessionKind::Steered, SessionKind::Calm, SessionKind::Slow]
            [number as usize % 4];
        let drawn = std::array::from_fn(|_| RATES[draw.below(8) as usize]);
        let rates = if kind == SessionKind::Slow { [RATES[0]; 5] } else { drawn };
        let pathways = Pathways::new(PathwayPolicy::default(), ids, None);
        Self { draw, pathways, rates, kind, now_ms: 0, buffered_ms: 0, decisions: String::new() }
    }

    fn note(&mut self, decision: std::fmt::Arguments<'_>) {
        writeln!(self.decisions, "{decision}").expect("a string takes all");
    }

    /// All decisions, a line each.
    fn run(mut self) -> String {
        for _ in 0..STEPS {
            let step = self.draw.below(20);
            match self.kind {
                SessionKind::Wild | SessionKind::Steered => self.wild(step),
                SessionKind::Calm if step < 12 => self.segment(),
                SessionKind::Calm if step < 19 => self.probe(),
                SessionKind::Calm => self.change_rate(),
                SessionKind::Slow if step < 16 => self.segment(),
                SessionKind::Slow if step == 16 => self.probe(),
                SessionKind::Slow => self.now_ms += self.draw.below(30_000),
            }
            while let Some(moved) = self.pathways.poll_event() {
                self.note(format_args!("{}>{} {}", moved.from, moved.to, moved.reason.as_str()));
            }
        }
        self.decisions
    }

    fn wild(&mut self, step: u64) {
        match step {
            0..10 => self.segment(),
            10 => self.failure(),
            11..15 => self.probe(),
            15 => self.change_rate(),
            16 if self.kind == SessionKind::Steered => self.steer(),
            17 => self.now_ms += self.draw.below(30_000),
            16 => self.now_ms += self.draw.below(300_000),
            18 => self.pathways.add(NAMES[self.draw.below(5) as usize].to_owned()),
            _ => self.buffered_ms = self.draw.below(BUFFER_MS + 1),
        }
    }

    fn change_rate(&mut self) {
        let pathway = self.draw.below(5) as usize;
        self.rates[pathway] = RATES[self.draw.below(8) as usize];
    }

    fn segment(&mut self) {
        let kbps = match self.kind {
            SessionKind::Slow => RUNGS[0],
            SessionKind::Calm => RUNGS[3],
            SessionKind::Wild | SessionKind::Steered => RUNGS[self.draw.below(4) as usize],
        };
        let bits = kbps * SEGMENT_MS;
        let need = Need {
            buffered: ms(self.buffered_ms),
            bits,
            segment: ms(SEGMENT_MS),
            bits_per_second_max: 8_000_000,
        };
        let pathway = self.pathways.choose(ms(self.now_ms), &need);
        self.note(format_args!("choose {pathway}"));
        let rate = self.rates[pathway] * (80 + self.draw.below(41)) / 100;
        let even_ms = (bits / rate).max(1);
        // A third of the requests falls to a tenth of its rate on the way.
        let falls = self.draw.below(3) == 0 && self.kind != SessionKind::Calm;
        let falls_ms = if falls { self.draw.below(8000) } else { even_ms };
        let took_ms = even_ms + even_ms.saturating_sub(falls_ms) * 9;
        let first_ms = self.draw.below(200).min(took_ms);
        let given_up_ms = self.look(pathway, bits / 8, (even_ms, falls_ms, took_ms));
        let spent_ms = given_up_ms.unwrap_or(took_ms);
        self.now_ms += spent_ms;
        self.buffered_ms = self.buffered_ms.saturating_sub(spent_ms);
        if let Some(given_up_ms) = given_up_ms {
            self.note(format_args!("give up {pathway} after {given_up_ms}"));
        } else {
            let (first, took) = (ms(first_ms), ms(took_ms));
            self.pathways.handle_sample(ms(self.now_ms), pathway, bits / 8, first, took, false);
            self.buffered_ms = (self.buffered_ms + SEGMENT_MS).min(BUFFER_MS);
            if self.kind == SessionKind::Calm {
                self.now_ms += 2 * SEGMENT_MS;
            }
        }
    }

    /// When the request was given up, if it was.
    fn look(
        &mut self,
        pathway: usize,
        bytes: u64,
        (even_ms, falls_ms, took_ms): (u64, u64, u64),
    ) -> Option<u64> {
        let mut recent = Recent::default();
        let looks = (1..=LOOKS_MAX).map(|number| number * LOOK_MS);
        for elapsed_ms in looks.take_while(|elapsed_ms| *elapsed_ms < took_ms) {
            let worth_ms = elapsed_ms.min(falls_ms) + elapsed_ms.saturating_sub(falls_ms) / 10;
            let received_bytes = bytes * worth_ms / even_ms;
            let progress = Progress {
                received_bytes,
                expected_bytes: bytes,
                elapsed: ms(elapsed_ms),
                bits_per_second: recent.handle_progress(ms(elapsed_ms), received_bytes),
                buffered: ms(self.buffered_ms.saturating_sub(elapsed_ms)),
                segment: ms(SEGMENT_MS),
            };
            if self.pathways.handle_progress(ms(self.now_ms + elapsed_ms), pathway, &progress) {
                return Some(elapsed_ms);
            }
        }
        None
    }

    fn failure(&mut self) {
        let pathway = self.draw.below(5) as usize;
        let outage = match self.draw.below(4) {
            0 => Outage::Silence,
            1 => Outage::Failure { retry_after: Some(ms(self.draw.below(500_000))) },
            _ => Outage::Failure { retry_after: None },
        };
        self.pathways.handle_failure(ms(self.now_ms), pathway, outage);
    }

    fn probe(&mut self) {
        let blocked = self.draw.below(8) as usize;
        let Some(probe) = self.pathways.probe(ms(self.now_ms), |pathway| pathway != blocked) else {
            return;
        };
        self.note(format_args!("probe {} {}", probe.pathway, probe.bytes));
        match self.draw.below(6) {
            0 => {
                let outage = Outage::Failure { retry_after: None };
                self.pathways.handle_failure(ms(self.now_ms), probe.pathway, outage);
            }
            1 => {} // Its answer never arrives.
            _ => {
                let first_ms = 20 + self.draw.below(60);
                let took_ms = first_ms + probe.bytes * 8 / self.rates[probe.pathway];
                let (now, first, took) = (ms(self.now_ms), ms(first_ms), ms(took_ms));
                self.pathways.handle_sample(now, probe.pathway, probe.bytes, first, took, true);
            }
        }
    }

    fn steer(&mut self) {
        let count = self.draw.below(4);
        let names: Vec<_> =
            (0..count).map(|_| NAMES[self.draw.below(5) as usize].to_owned()).collect();
        self.pathways.handle_steering(ms(self.now_ms), &names);
    }
}

/// FNV-1a of 32 bits.
fn digest(text: &str) -> String {
    let add = |sum: u32, byte: u8| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    format!("{:08x}", text.bytes().fold(0x811c_9dc5, add))
}

#[test]
fn a_thousand_drawn_sessions_have_the_decisions_that_the_watch_page_makes_too() {
    if let Ok(number) = std::env::var("FULLBORE_SESSION") {
        println!("{}", DecidingSession::new(number.parse().expect("a number")).run());
    }
    let mut reasons = BTreeSet::new();
    let mut digests = String::new();
    for number in 0..SESSIONS {
        let decisions = DecidingSession::new(number).run();
        let words = decisions.lines().filter_map(|line| line.split(' ').nth(1).or(Some(line)));
        reasons.extend(words.filter(|word| word.len() > 1).map(str::to_owned));
        digests += &(digest(&decisions) + "\n");
    }
    for reason in ["up", "first_failure", "silence", "too_slow", "better", "steered", "removed"] {
        assert!(reasons.contains(reason), "no session shows {reason}");
    }
    let known = include_str!("decisions.txt");
    if digests == known {
        return;
    }
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("decisions.txt");
    std::fs::write(&file, &digests).expect("the folder of tests is writable");
    let pairs = digests.lines().zip(known.lines());
    let number = pairs.take_while(|(one, other)| one == other).count();
    panic!("session {number} decides otherwise; after an intended change, copy {}", file.display());
}
