//! `fullbore plan`: predicts how much a machine will serve, before you buy it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capacity::{Capacity, CostTable, SealedBy, Specified, read_machine};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::{say, say_line, tell};

/// A machine's description has some kilobytes, a bench's figures some tens.
const FILE_BYTES_MAX: u32 = 1 << 20;

/// Predict how much a machine will serve, and its bottleneck
///
/// MACHINE.toml describes cores, memory, disks and network cards, and the intended load. Prints the rate, the use of each
/// component, the effect of possible changes, and the arithmetic. Measures nothing. docs/plan.md lists the keys;
/// docs/machines/ has example machines. The exit code is 1 if a file cannot be read or written, 2 if it describes no machine.
#[derive(Args)]
pub(crate) struct Plan {
    /// Description of the machine
    #[arg(value_name = "MACHINE.toml")]
    machine: PathBuf,
    /// Where TLS is encrypted, overriding the description
    #[arg(long, value_enum)]
    tls: Option<Tls>,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
    /// Only check the description, and print one line
    #[arg(long, conflicts_with_all = ["json", "html"])]
    check: bool,
    /// Write a page with charts to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Take the processor's costs from a file written by `bench limit --json FILE` or `doctor --measure --json` on a similar one
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Tls {
    Software,
    Card,
    None,
}

/// The error message, and its exit code.
type Wrong = (String, u8);

impl Plan {
    /// Computes the plan and prints it.
    pub(crate) fn run(self) -> ExitCode {
        match self.done() {
            Ok(()) => ExitCode::SUCCESS,
            Err((told, code)) => {
                tell(&told);
                ExitCode::from(code)
            }
        }
    }

    fn done(&self) -> Result<(), Wrong> {
        let text = text(&self.machine)?;
        let named = |error| (format!("{}: {error}", self.machine.display()), 2);
        let tls = self.tls.map(|tls| match tls {
            Tls::Software => SealedBy::Software,
            Tls::Card => SealedBy::Card,
            Tls::None => SealedBy::None,
        });
        let specified = read_machine(&text).and_then(|specified| specified.with_tls(tls));
        let Specified { hardware, demand, costs } = specified.map_err(named)?;
        let costs = self.costs.as_deref().map_or(Ok(costs), |path| with_costs(costs, path))?;
        let plan = capacity::plan(&hardware, &demand, &costs);
        if self.check {
            say_line(&format!("{} is fine. {}", self.machine.display(), plan.headline()));
            return Ok(());
        }
        if let Some(path) = &self.html {
            let page =
                ::bench::report::plan_page(&json(&plan)).expect("these are a plan's figures");
            let written = std::fs::write(path, page);
            written.map_err(|error| {
                (format!("cannot write {}: {error} (choose another file)", path.display()), 1)
            })?;
        }
        if self.json {
            let text = serde_json::to_string_pretty(&json(&plan)).expect("a plan is plain JSON");
            say(&(text + "\n"));
        } else {
            say(&plan.describe());
        }
        Ok(())
    }
}

/// The figures, with the bottleneck and an explanation in words for readers.
fn json(plan: &Capacity) -> Value {
    let mut value = serde_json::to_value(plan).expect("a plan is plain JSON");
    for (limit, said) in
        plan.limits.iter().zip(value["limits"].as_array_mut().into_iter().flatten())
    {
        said["title"] = limit.title().into();
        said["used"] = plan.used(limit).into();
    }
    value["scarce"] = serde_json::to_value(plan.scarce().scarce).expect("a name");
    value["headline"] = plan.headline().into();
    value["way"] = plan.way().into();
    value["text"] = plan.describe().into();
    value
}

fn text(path: &Path) -> Result<String, Wrong> {
    let cannot = |error| {
        (format!("cannot read {}: {error} (docs/plan.md says what to write)", path.display()), 1)
    };
    files::read_text(path, FILE_BYTES_MAX).map_err(cannot)
}

fn with_costs(costs: CostTable, path: &Path) -> Result<CostTable, Wrong> {
    let wrong = |why: String| {
        (
            format!(
                "cannot take costs from {}: {why} (run `fullbore bench limit --json FILE`, or `fullbore doctor --measure --json >FILE`)",
                path.display()
            ),
            2,
        )
    };
    let figures: Value =
        serde_json::from_str(&text(path)?).map_err(|error| wrong(error.to_string()))?;
    let (costs, missing) = costs.with_measured(&figures).map_err(wrong)?;
    if !missing.is_empty() {
        tell(&format!("{} lacks {}: using their usual costs", path.display(), missing.join(", ")));
    }
    Ok(costs)
}
