//! Trials: what an edge requests from a slow or failing origin, and what its viewers get meanwhile.
//!
//! * **Miss**: one viewer requests one uncached title after the other from an origin that answers after [`DELAY`]. The time to the first byte
//!   shows what the edge adds.
//! * **Stampede**: all viewers want the same uncached title at the same moment, from such an origin.
//! * **Flaky**: viewers draw the library through an empty cache from an origin with the same delay that fails one request in
//!   [`FAILS_ONE_IN`].
//!
//! Every answer is compared with the library byte for byte.

use super::origin::{Asked, Manner, Origin};
use super::peers::caches;
use super::turns::Cache;
use super::{Options, Part};
use crate::library::Library;
use crate::stats::Summary;
use crate::versus::side::{Given, Side};
use crate::versus::workload::{FILES, client_options};
use load::{Against, Options as LoadOptions, Running, Url, Verify};
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The parts that are trials.
pub(super) const PARTS: [Part; 3] = [Part::Miss, Part::Stampede, Part::Flaky];

/// The delay of an origin on another continent.
const DELAY: Duration = Duration::from_millis(100);

/// An origin on a bad day.
const FAILS_ONE_IN: u64 = 100;

/// Viewers of the flaky origin: four per file, so that several want most blocks.
const FLAKY_VIEWERS: usize = 4 * FILES;

/// Titles that one viewer misses, and their size: two blocks of the edge.
const MISSES: usize = 32;
const MISSED_BYTES: u64 = 2 << 20;

/// A stampede's title is this part of the library: 8 MiB, as much as an edge reads ahead.
const TITLE_SHARE: u64 = 128;
const TITLE_BYTES_MIN: u64 = 2 << 20;

/// Time limit of a trial.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often to check whether it is over.
const GLANCE: Duration = Duration::from_millis(5);

/// The counts of a trial of one server.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    part: Part,
    name: String,
    /// Complete and correct answers.
    right: u64,
    /// Answers with bytes that differ from the library's, or with another range.
    wrong: u64,
    /// Answers that were errors or ended early.
    failed: u64,
    asked: Asked,
    wall_seconds: f64,
    /// Milliseconds from a viewer's request to the first byte of its answer: the median, and the most.
    first_byte_ms: [f64; 2],
}

/// State that trials share.
pub(super) struct Ground<'a> {
    pub(super) options: &'a Options,
    pub(super) given: Given<'a>,
    pub(super) library: &'a Arc<Library>,
    pub(super) client_cpus: &'a [u32],
}

/// A trial that is about to begin.
struct Plan {
    part: Part,
    library: Arc<Library>,
    viewers: usize,
    /// Answers, right or wrong, after which it is over.
    answers: usize,
    manner: Manner,
}

impl Ground<'_> {
    /// Runs all turns of a trial: forwards, backwards and so on.
    ///
    /// # Errors
    /// If a server does not start, exits, or gives no correct answer.
    pub(super) fn play(
        &self,
        part: Part,
        tried: &mut Vec<Tried>,
        progress: &mut impl FnMut(String),
    ) -> io::Result<()> {
        let plan = self.plan(part)?;
        let peers = self.options.peers.iter().filter(|peer| peer.serves(self.options.has_tls));
        let mut order: Vec<_> = (0..=peers.count()).collect();
        for number in 1..=self.options.rounds {
            for index in &order {
                let one = self.turn(&plan, *index)?;
                progress(format!("{} {number}  {}", part.name(), one.describe()));
                tried.push(one);
            }
            order.reverse();
        }
        Ok(())
    }

    fn plan(&self, part: Part) -> io::Result<Plan> {
        let make = |files: usize, bytes: u64| {
            let root = self.given.scratch.join(part.name());
            Library::make(&root, files, bytes, self.given.interrupt).map(Arc::new)
        };
        let manner = Manner { delay: DELAY, fails_one_in: None };
        Ok(match part {
            Part::Miss => {
                let library = make(MISSES, MISSES as u64 * MISSED_BYTES)?;
                Plan { part, library, viewers: 1, answers: MISSES, manner }
            }
            Part::Stampede => {
                let bytes = self.library.file_bytes * FILES as u64 / TITLE_SHARE;
                let (library, viewers) =
                    (make(1, bytes.max(TITLE_BYTES_MIN))?, self.options.viewers);
                Plan { part, library, viewers, answers: viewers, manner }
            }
            _ => {
                let manner = Manner { fails_one_in: Some(FAILS_ONE_IN), ..manner };
                let (library, viewers) = (Arc::clone(self.library), FLAKY_VIEWERS);
                Plan { part, library, viewers, answers: viewers, manner }
            }
        })
    }

    /// Runs one turn; `index` counts only servers that have a cache.
    fn turn(&self, plan: &Plan, index: usize) -> io::Result<Tried> {
        let cpu = *self.client_cpus.last().expect("clients have a core");
        let origin = Origin::start(Arc::clone(&plan.library), plan.manner, cpu)?;
        let library_bytes = plan.library.file_bytes * plan.library.files as u64;
        let caches = caches(self.options, origin.address, self.given.scratch, library_bytes)?;
        let cache = caches.into_iter().filter(Cache::has_folder).nth(index);
        let cache = cache.expect("ours and its peers have a cache");
        cache.empty()?;
        let side = Side::start(&cache.recipe, &self.given)?;
        let name = side.name.clone();
        let tried = self.watch(plan, &side, &origin).map_err(|error| {
            let last_words = side.last_words();
            io::Error::new(error.kind(), format!("{name} failed: {error}{last_words}"))
        })?;
        drop(side);
        cache.empty()?;
        Ok(tried)
    }

    /// Waits until each viewer could have had its answers. A viewer that has one requests the next.
    fn watch(&self, plan: &Plan, side: &Side, origin: &Origin) -> io::Result<Tried> {
        let scheme = if self.options.has_tls { "https" } else { "http" };
        let url = |file| {
            let url = format!("{scheme}://{}/{}", side.address, crate::library::file_name(file));
            url.parse::<Url>().map_err(io::Error::other)
        };
        let running = Running::start(LoadOptions {
            targets: (0..plan.library.files).map(url).collect::<io::Result<_>>()?,
            connections: plan.viewers,
            cpus: self.client_cpus.to_vec(),
            duration: PATIENCE,
            patience: Duration::from_secs(60),
            tls: client_options(),
            verify: Verify::OneIn { n: 1, against: Against::Directory(plan.library.root.clone()) },
            ..LoadOptions::default()
        })?;
        let began = Instant::now();
        let ended = |seen: load::Snapshot| seen.verified + seen.errors >= plan.answers as u64;
        while !running.is_over() && !ended(running.snapshot()) {
            self.given.interrupt.check()?;
            std::thread::sleep(GLANCE);
        }
        let wall_seconds = began.elapsed().as_secs_f64();
        // Read the origin's counts before stopping: requests cut off by the end do not count, because no viewer waits for them.
        let asked = origin.asked();
        running.stop();
        let outcome = running.join()?;
        side.check()?;
        if outcome.verified == 0 {
            let first = outcome.errors.values().next().map(|error| error.example.clone());
            return Err(io::Error::other(
                first.unwrap_or_else(|| "it answered nothing".to_owned()),
            ));
        }
        let count = |is_wrong: bool| -> u64 {
            let kinds = outcome.errors.iter();
            let of_kind = kinds.filter(|(kind, _)| WRONG.contains(*kind) == is_wrong);
            of_kind.map(|(_, error)| error.count).sum()
        };
        Ok(Tried {
            part: plan.part,
            name: side.name.clone(),
            right: outcome.verified,
            wrong: count(true),
            failed: count(false),
            asked,
            wall_seconds,
            first_byte_ms: [50.0, 100.0]
                .map(|percentile| outcome.first_byte_ms(percentile).unwrap_or(0.0)),
        })
    }
}

/// The load generator's names for wrong answers.
const WRONG: [&str; 2] = ["wrong_bytes", "other_range"];

impl Tried {
    fn describe(&self) -> String {
        let Self { name, right, wrong, failed, wall_seconds, first_byte_ms, .. } = self;
        let Asked { requests, failed: faults, ranges, repeated } = self.asked;
        format!(
            "{name:14} {right} right, {failed} failed, {wrong} wrong in {wall_seconds:.1} s, first byte after {:.1} ms; origin: {requests} requests, \
             {ranges} ranges, {repeated} again, {faults} failed",
            first_byte_ms[0]
        )
    }

    fn to_json(&self) -> Value {
        json!({
            "right": self.right,
            "failed": self.failed,
            "wrong": self.wrong,
            "wall_seconds": self.wall_seconds,
            "first_byte_ms": { "p50": self.first_byte_ms[0], "max": self.first_byte_ms[1] },
            "origin_requests": self.asked.requests,
            "origin_failed": self.asked.failed,
            "ranges": self.asked.ranges,
            "ranges_asked_again": self.asked.repeated,
        })
    }
}

/// The servers of a trial, in the order of their first turns.
fn sides(part: Part, tried: &[Tried]) -> Vec<(&str, Vec<&Tried>)> {
    let mut sides: Vec<(&str, Vec<&Tried>)> = Vec::new();
    for one in tried.iter().filter(|one| one.part == part) {
        match sides.iter_mut().find(|(name, _)| *name == one.name) {
            Some((_, turns)) => turns.push(one),
            None => sides.push((&one.name, vec![one])),
        }
    }
    sides
}

/// As text. Viewers' answers are summed over all turns; the origin's requests are medians.
pub(super) fn describe(part: Part, tried: &[Tried], text: &mut String) {
    let sides = sides(part, tried);
    if sides.is_empty() {
        return;
    }
    let heads = ["right", "failed", "wrong", "seconds", "first, ms", "requests", "ranges", "again"];
    *text += &format!("\n{:<16}", part.name());
    heads.iter().for_each(|head| *text += &format!("{head:>10}"));
    *text += "\n";
    for (name, turns) in sides {
        let sum = |of: fn(&Tried) -> u64| -> u64 { turns.iter().map(|turn| of(turn)).sum() };
        let median = |of: fn(&Tried) -> f64| {
            Summary::of(&turns.iter().map(|turn| of(turn)).collect::<Vec<_>>()).median
        };
        *text += &format!(
            "{name:<16}{:>10}{:>10}{:>10}{:>10.1}{:>10.1}{:>10}{:>10}{:>10}\n",
            sum(|turn| turn.right),
            sum(|turn| turn.failed),
            sum(|turn| turn.wrong),
            median(|turn| turn.wall_seconds),
            median(|turn| turn.first_byte_ms[0]),
            median(|turn| turn.asked.requests as f64),
            median(|turn| turn.asked.ranges as f64),
            median(|turn| turn.asked.repeated as f64),
        );
    }
}

/// As JSON.
pub(super) fn to_json(part: Part, tried: &[Tried]) -> Value {
    let side = |(name, turns): (&str, Vec<&Tried>)| {
        let rounds: Vec<_> = turns.iter().map(|turn| turn.to_json()).collect();
        json!({ "name": name, "rounds": rounds })
    };
    let sides: Vec<_> = sides(part, tried).into_iter().map(side).collect();
    json!({ "name": part.name(), "sides": sides })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_are_summed_and_the_origin_s_requests_are_a_median() {
        let tried = |name: &str, right, requests| Tried {
            part: Part::Flaky,
            name: name.to_owned(),
            right,
            wrong: 0,
            failed: 1,
            asked: Asked { requests, failed: 1, ranges: 5, repeated: 2 },
            wall_seconds: 2.0,
            first_byte_ms: [101.5, 108.0],
        };
        let all = [tried("edge", 64, 9), tried("nginx", 60, 99), tried("edge", 63, 7)];
        let mut text = String::new();
        describe(Part::Stampede, &all, &mut text);
        assert!(text.is_empty());
        describe(Part::Flaky, &all, &mut text);
        let edge = text.lines().find(|line| line.starts_with("edge")).unwrap();
        let words: Vec<_> = edge.split_whitespace().collect();
        assert_eq!(words, ["edge", "127", "2", "0", "2.0", "101.5", "8", "5", "2"]);
        let json = to_json(Part::Flaky, &all);
        assert_eq!(json["sides"][0]["rounds"].as_array().map(Vec::len), Some(2));
        assert_eq!(json["sides"][1]["rounds"][0]["origin_requests"], 99);
    }
}
