//! `fullbore bench ablate`.

use crate::load::Quantity;
use ::bench::ablate;
use ::load::interrupt;
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure what each optimisation is worth: the highest stable bandwidth with it and without it
///
/// The number of paced viewers rises until errors occur or some viewers get too little. The highest bandwidth before that is
/// divided by the server's CPU percent. The search repeats with each optimisation switched off in turn. The server runs on
/// the first core (on two if it has two workers), the clients on the last. Ctrl-C prints the results so far.
#[derive(Args)]
#[command(after_help = "Examples:\n  fullbore bench ablate --json ablate.json\n  \
    fullbore bench ablate --switch onepass,handout --seconds 8\n  fullbore bench ablate --quick")]
pub(super) struct Ablate {
    #[arg(
        long = "switch",
        value_name = "NAME,...",
        value_delimiter = ',',
        value_parser = clap::builder::PossibleValuesParser::new(ablate::names()),
        hide_possible_values = true,
        help = format!("Optimisations to switch off in turn [default: all]: {}", ablate::names().join(", "))
    )]
    switches: Vec<String>,
    /// Bit rate of each viewer: 5M, 20M, 1G
    #[arg(long, default_value = "20M")]
    rate: Quantity,
    /// Seconds per step, after its viewers have started [default: 4]
    #[arg(long)]
    seconds: Option<f64>,
    /// Short steps, a coarse search, a small library: to try the bench, not to cite figures
    #[arg(long)]
    quick: bool,
    /// Highest number of viewers [default: as many as the limit on open files allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    viewers: Option<u32>,
    /// Size of the library in MiB [default: 2048]
    #[arg(long, value_name = "MIB")]
    library: Option<u64>,
    /// Directory to create the library in
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The shortest steps in which a search still notices starving viewers.
const QUICK_SECONDS: f64 = 1.0;

impl Ablate {
    pub(super) fn run(self) -> io::Result<ExitCode> {
        if ablate::wants_namespace(&self.switches) && !::bench::namespace::is_inside() {
            // Returns only if it fails.
            ::bench::namespace::enter()?;
        }
        let outcome = ablate::run(&self.options(), |line| crate::note(&line))?;
        crate::say(&outcome.describe());
        super::write_json(self.json.as_deref(), &outcome.to_json())?;
        if outcome.is_interrupted() {
            return Ok(ExitCode::from(interrupt::EXIT_CODE));
        }
        if outcome.is_stable() {
            return Ok(ExitCode::SUCCESS);
        }
        Err(io::Error::other("some variants had no stable load at all: see above"))
    }

    fn options(&self) -> ablate::Options {
        let (seconds, resolution, library_mib) =
            if self.quick { (QUICK_SECONDS, 0.25, 256) } else { (4.0, 0.05, 2048) };
        ablate::Options {
            switches: self.switches.clone(),
            rate_bits_per_second: self.rate.0,
            seconds: self.seconds.unwrap_or(seconds).clamp(0.2, 600.0),
            resolution,
            viewers_max: self.viewers.map(|viewers| viewers as usize),
            library_bytes: self.library.unwrap_or(library_mib).max(64) << 20,
            scratch: self.scratch.clone(),
        }
    }
}
