//! Which bytes caches of video miss: the edge's eviction on drawn demand, compared with the policies of libcachesim on the same reads.
//!
//! Each demand (`demand.rs`) is drawn by seed and replayed in virtual time against the edge's own code (`replay.rs`), once with a file for each
//! title and once with one for each segment. libcachesim, a package of Python's index, replays the same reads under the others' policies, including
//! Belady's, which knows the future and so is the limit. There each part of a title is an object.

mod demand;
mod outcome;
mod peers;
mod replay;

pub use demand::{DrawnDemand, DrawnSize};
pub use outcome::Outcome;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::scratch;
use demand::{Trace, draw};
use outcome::{DemandFigures, Missed};
use replay::{Form, replay};

/// What to draw, and the caches to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// The demands, by [`DrawnDemand::ALL`].
    pub demands: Vec<DrawnDemand>,
    /// How much of each is drawn.
    pub size: DrawnSize,
    /// The seed of all draws.
    pub seed: u64,
    /// Sizes of the cache, in percent of the bytes that are read at least once.
    pub percents: Vec<u32>,
    /// A folder for the drawn traces, as libcachesim reads them.
    pub traces: Option<PathBuf>,
}

/// Draws, replays and compares. `tell` gets a line on each step.
///
/// # Errors
/// If a trace can't be written. If libcachesim can't be used, the outcome says why instead.
pub fn run(options: &Options, tell: impl Fn(&str)) -> io::Result<Outcome> {
    let scratch = scratch::folder(None)?;
    let folder = options.traces.as_deref().unwrap_or(scratch.path());
    std::fs::create_dir_all(folder).map_err(|error| named(folder, &error))?;
    let mut outcome = Outcome::new(options);
    for (demand, name) in DrawnDemand::ALL {
        if !options.demands.contains(&demand) {
            continue;
        }
        tell(&format!("{name}: drawing"));
        let trace = draw(demand, options.size, options.seed);
        let mut figures = own(&trace, name, &options.percents);
        let path = folder.join(format!("{name}.csv"));
        File::create(&path)
            .and_then(|file| trace.write(file))
            .map_err(|error| named(&path, &error))?;
        if outcome.lacks.is_none() {
            tell(&format!("{name}: libcachesim replays it"));
            match peers::replayed(&path, trace.warm_up, scratch.path(), &figures.cache_mib) {
                Ok(missed) => figures.missed.extend(missed),
                Err(lacks) => outcome.lacks = Some(lacks),
            }
        }
        outcome.demands.push(figures);
    }
    Ok(outcome)
}

/// What the edge misses.
fn own(trace: &Trace, name: &str, percents: &[u32]) -> DemandFigures {
    let footprint = trace.footprint();
    let bytes = |percent: &u32| footprint / 100 * u64::from(*percent);
    let missed = |form, policy: &str| {
        let replayed = percents.iter().map(|percent| replay(trace, form, bytes(percent)));
        let (ratios, refused) = replayed
            .map(|one| (one.miss_ratio(), one.refused_bytes))
            .unzip::<f64, u64, Vec<_>, Vec<_>>();
        Missed { policy: policy.to_owned(), ratios, refused_bytes: refused.iter().sum() }
    };
    DemandFigures {
        demand: name.to_owned(),
        reads: trace.reads.len(),
        footprint_gib: footprint >> 30,
        cache_mib: percents.iter().map(|percent| bytes(percent) >> 20).collect(),
        missed: vec![
            missed(Form::Films, outcome::FILMS),
            missed(Form::Segments, outcome::SEGMENTS),
        ],
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_demand_has_figures_and_a_larger_cache_misses_less() {
        let options = Options {
            demands: DrawnDemand::ALL.map(|(demand, _)| demand).to_vec(),
            size: DrawnSize { titles: 40, plays: 60, days: 4 },
            seed: 3,
            percents: vec![10, 40],
            traces: None,
        };
        let outcome = run(&options, |_| {}).unwrap();
        assert_eq!(outcome.demands.len(), DrawnDemand::ALL.len());
        for figures in &outcome.demands {
            for missed in &figures.missed {
                let [small, large] = missed.ratios[..] else { panic!("{missed:?}") };
                assert!(0.0 < large && large < small && small < 1.0, "{missed:?}");
            }
        }
        let chart = outcome.chart().expect("there are figures");
        roxmltree::Document::parse(&chart).expect("well-formed");
    }
}
