//! `fullbore bench eviction`.

use ::bench::eviction::{DrawnDemand, DrawnSize, Options, run};
use clap::Args;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare which bytes caches of video miss: the edge's eviction and other policies
///
/// Draws viewers' reads by seed, and replays them in virtual time against the edge's own code. Python's libcachesim, if it is installed,
/// replays the same reads with other policies. The result is the share of bytes that each misses, once the caches have filled. The machine's
/// speed doesn't matter.
#[derive(Args)]
pub(super) struct Eviction {
    /// Demands to draw: zipf, churn, binge, release, scan
    #[arg(long, value_name = "DEMAND", value_delimiter = ',', default_values = DrawnDemand::ALL.map(|(_, name)| name))]
    demand: Vec<DrawnDemand>,
    /// Number of titles on the first day
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=20_000))]
    titles: u32,
    /// Number of plays in a day
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=20_000))]
    plays: u32,
    /// Number of days; the first quarter only fills the caches
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(4..=30))]
    days: u32,
    /// Seed of all draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sizes of the cache, in percent of the bytes that are read at least once
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_values_t = [5, 10, 20, 40],
        value_parser = clap::value_parser!(u32).range(1..=100))]
    cache: Vec<u32>,
    /// Keep the drawn reads in this folder, as libcachesim reads them
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Draw the means into this file as SVG
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Eviction {
    pub(super) fn run(self) -> io::Result<ExitCode> {
        let options = Options {
            demands: self.demand,
            size: DrawnSize { titles: self.titles, plays: self.plays, days: self.days },
            seed: self.seed,
            percents: self.cache,
            traces: self.traces,
        };
        let outcome = run(&options, crate::note)?;
        crate::say(&outcome.describe());
        super::write_json(self.json.as_deref(), &outcome.to_json())?;
        if let (Some(path), Some(chart)) = (&self.chart, outcome.chart()) {
            write(path, &chart)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    std::fs::write(path, text).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
    })
}
