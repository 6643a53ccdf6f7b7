//! `fullbore fleet`: commands about fleets that need no running fleet.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, Subcommand, ValueEnum};
use simulation::{DayOptions, NewTitles, simulate};

use crate::{say, tell};

/// Try out a fleet without having one
#[derive(Args)]
pub(crate) struct Fleet {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Simulate(Simulate),
}

/// Simulate a day of a generated fleet in virtual time
///
/// Steering and placement are the real code. Nodes, sites, gateways and stores fail, and one region's popularity feed reports false figures; the
/// invariants are checked at each step. For comparison, two other placement rules serve the same viewers with the same space and ceilings. The same
/// flags give the same report to the byte. docs/simulation.md describes the model. The exit code is 1 if an invariant was violated.
#[derive(Args)]
struct Simulate {
    /// Number of nodes
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(3..=100_000))]
    nodes: u32,
    /// Number of titles
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    titles: u32,
    /// Seed of everything that is generated
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Hours to simulate, starting at 02:00
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=24))]
    hours: u32,
    /// Scale of the nodes' disk space, in percent: at 100 a site of ten nodes has room for about the whole catalog
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    room: u32,
    /// What placement knows of new titles when it plans the day
    #[arg(long, value_enum, default_value_t = New::Known)]
    new: New,
    /// Run without failures
    #[arg(long)]
    healthy: bool,
    /// Write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with charts to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum New {
    /// How much each will be watched, as for all other titles
    Known,
    /// The demand for earlier titles of their series, as in a gateway
    Series,
    /// Nothing: no viewers are expected
    Unknown,
}

impl From<New> for NewTitles {
    fn from(new: New) -> Self {
        match new {
            New::Known => Self::Known,
            New::Series => Self::Series,
            New::Unknown => Self::Unknown,
        }
    }
}

impl Fleet {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> ExitCode {
        let Verb::Simulate(simulate) = self.verb;
        simulate.run()
    }
}

impl Simulate {
    fn run(self) -> ExitCode {
        let Self { nodes, titles, seed, hours, room, new, healthy, json, html } = self;
        let room_percent = room;
        if let Err((code, told)) = check_outputs(json.as_deref(), html.as_deref()) {
            tell(&told);
            return ExitCode::from(code);
        }
        let begin = Instant::now();
        let report = simulate(&DayOptions {
            nodes,
            titles,
            seed,
            hours,
            room_percent,
            healthy,
            new: new.into(),
            planted: None,
        });
        // Not part of the report, which is the same on any machine.
        tell(&format!("simulated in {:.1} s", begin.elapsed().as_secs_f64()));
        say(&report.describe());
        let written = json.map_or(Ok(()), |path| {
            let text = serde_json::to_string_pretty(&report).expect("a report is plain JSON");
            write(&path, &(text + "\n"))
        });
        let written = written.and_then(|()| {
            let Some(path) = html else { return Ok(()) };
            let figures = serde_json::to_value(&report).expect("a report is plain JSON");
            let page = ::bench::report::day_page(&figures).expect("these are a day's figures");
            write(&path, &page)
        });
        if let Err(told) = written {
            tell(&told);
            return ExitCode::FAILURE;
        }
        if report.breaches == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Checks that the reports can be written, before a simulation that may take minutes. Returns the message and exit code if not.
fn check_outputs(json: Option<&Path>, html: Option<&Path>) -> Result<(), (u8, String)> {
    for (flag, path) in [("--json", json), ("--html", html)] {
        let Some(path) = path else { continue };
        if path == Path::new("-") {
            let told = format!("{flag} writes to a file, not to standard output: name one");
            return Err((2, told));
        }
        check_output(path).map_err(|error| (1, unwritable(path, &error)))?;
    }
    match (json, html) {
        (Some(json), Some(html)) if real(json) == real(html) => {
            Err((2, format!("--json and --html both name {}: give each its own", json.display())))
        }
        _ => Ok(()),
    }
}

/// Opens a file for writing, and leaves its content, or its absence, as it was.
fn check_output(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        // If it is a pipe, its reader would take closing it for the end.
        Ok(there) if !there.is_file() && !there.is_dir() => Ok(()),
        Ok(_) => File::options().write(true).open(path).map(drop),
        // Writing to a link to a missing file creates the file.
        Err(_) if path.is_symlink() => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            File::options().write(true).create_new(true).open(path)?;
            fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}

/// The path without symbolic links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error} (choose another file)", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_report_that_cannot_be_written_is_refused_before_anything_is_simulated() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (one, other) = (path("one"), path("other"));
        assert_eq!(check_outputs(Some(&one), Some(&other)), Ok(()));
        assert!(!one.exists() && !other.exists());
        fs::write(&one, "an older report").unwrap();
        assert_eq!(check_outputs(Some(&one), Some(&other)), Ok(()));
        assert_eq!(fs::read_to_string(&one).unwrap(), "an older report");
        symlink(&one, path("link")).unwrap();
        for (json, html, code, words) in [
            (&one, &one, 2, "--json and --html both name"),
            (&other, &folder.path().join("./other"), 2, "--json and --html both name"),
            (&path("link"), &one, 2, "--json and --html both name"),
            (&PathBuf::from("-"), &one, 2, "--json writes to a file"),
            (&one, &PathBuf::from("-"), 2, "--html writes to a file"),
            (&path("none/one"), &other, 1, "cannot write"),
            (&other, &folder.path().to_owned(), 1, "cannot write"),
        ] {
            let (said, told) = check_outputs(Some(json), Some(html)).unwrap_err();
            assert!(said == code && told.contains(words), "{said} {told}");
        }
        assert_eq!(check_outputs(Some(Path::new("/dev/null")), None), Ok(()));
    }
}
