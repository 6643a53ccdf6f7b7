//! `fullbore bench report`.

use ::bench::report::{self, Extent, run_all};
use ::load::interrupt::{self, Interrupt};
use clap::Args;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make a page with charts of the benches' results
///
/// With --from, the page shows earlier runs from their JSON files. Without it, every bench runs first: each workload against
/// nginx and h2o (if installed), limit, ablate and start. Needs an otherwise idle machine. The page lists
/// benches that failed. Ctrl-C writes the page with the results so far.
#[derive(Args)]
#[command(after_help = "Examples:\n  fullbore bench report --out report\n  \
    fullbore bench report --quick --out /tmp/report\n  fullbore bench report --from report/json --out report")]
pub(super) struct Report {
    /// Folder with the JSON files of earlier runs [default: run everything now]
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Folder to write index.html and the charts to; figures of new runs go to json/ in it
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Tiny runs: to try the bench, not to cite figures
    #[arg(long, conflicts_with = "from")]
    quick: bool,
}

impl Report {
    pub(super) fn run(self) -> io::Result<ExitCode> {
        match &self.from {
            Some(directory) => {
                let report = report::Report::read(directory)?;
                self.write(&report, directory)?;
                Ok(ExitCode::SUCCESS)
            }
            None => self.measure(),
        }
    }

    fn measure(&self) -> io::Result<ExitCode> {
        let extent = if self.quick { Extent::Quick } else { Extent::Full };
        let interrupt = Interrupt::on_signal()?;
        let files = self.out.join("json");
        let report = run_all(extent, &files, &interrupt, crate::note)?;
        let written = self.write(&report, &files);
        if interrupt.is_asked() {
            return Ok(interrupt::EXIT_CODE.into());
        }
        written.map(|()| ExitCode::SUCCESS)
    }

    fn write(&self, report: &report::Report, directory: &Path) -> io::Result<()> {
        for skipped in report.skipped() {
            crate::note(&format!("skipped {}: {}", skipped.file, skipped.why));
        }
        if report.is_empty() {
            return Err(io::Error::other(format!(
                "no figures in {}: run `fullbore bench versus nginx --json {}/versus.json` first, or leave out --from",
                directory.display(),
                directory.display()
            )));
        }
        crate::say_line(&report.write(&self.out)?.display().to_string());
        Ok(())
    }
}
