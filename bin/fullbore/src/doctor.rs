//! `fullbore doctor`: finds settings of this machine that cost performance.

use crate::{say, tell};
use ::bench::measure::{self, Measurements};
use ::doctor::{Area, Cost, Evidence, Finding, NodeRate, TriedFilesystem, examine};
use ::load::interrupt::{self, Interrupt};
use clap::Args;
use machine::ethtool::KernelEthtool;
use machine::{KernelDiskLogs, KernelSocketLinks};
use serde_json::Value;
use server::file_abilities::{self, Lack, TriedFilm};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Find settings of this machine that cost performance, the most costly first
///
/// Reads how processors, memory, PCIe devices, disks, network cards and the kernel are configured, and tries the operations that the server needs
/// on some files of DIR. Changes nothing. Each item has the current state, the recommended one, the possible cost and its source,
/// and how to fix and verify it. Anything that cannot be read is listed at the end; root can read more.
///
/// The exit code is 1 if something may cost more than 10%, else 0.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  sudo fullbore doctor /srv/video\n  sudo -u USER fullbore doctor /srv/video   # what that user may do\n  \
    fullbore doctor --json | jq '.findings[].name'\n\n\
    docs/doctor.md explains each item."
)]
pub(crate) struct Doctor {
    /// The library: a directory of videos, or one for each disk
    dir: Vec<PathBuf>,
    /// Also measure memory, the disks of DIR, encryption and sending: takes up to a minute of an otherwise idle machine, and only reads
    #[arg(long)]
    measure: bool,
    /// Time limit for --measure, in seconds; more time gives steadier figures
    #[arg(long, value_name = "S", requires = "measure", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    /// Examines this machine.
    pub(crate) fn run(self) -> ExitCode {
        let folders: Result<Vec<_>, _> = self.dir.iter().map(|folder| real(folder)).collect();
        let library = match folders {
            Ok(library) => library,
            Err(why) => {
                tell(&why);
                return ExitCode::from(2);
            }
        };
        let measured = self.measure.then(|| measured(&library, self.seconds)).transpose();
        let failed = measured.as_ref().err().map(|error| format!("cannot measure: {error}"));
        let measured = measured.unwrap_or_default();
        let lacks = library.iter().flat_map(|folder| file_abilities::all_lacks(folder));
        let tried = library.iter().flat_map(|folder| file_abilities::filesystems(folder));
        let diagnosis = examine(Evidence {
            root: Path::new("/"),
            ethtool: &KernelEthtool,
            disk_logs: &KernelDiskLogs,
            socket_links: &KernelSocketLinks,
            node_rates: &measured.as_ref().map(node_rates).unwrap_or_default(),
            library: &library,
            filesystems: &tried.map(filesystem).collect::<Vec<_>>(),
            ring_refused: file_abilities::ring_refused().map(|error| error.to_string()),
            refused: lacks.map(refused).collect(),
        });
        if self.json {
            let mut json = diagnosis.to_json();
            json["measured"] = measured.as_ref().map_or(Value::Null, Measurements::to_json);
            say(&format!("{json:#}\n"));
        } else {
            say(&diagnosis.describe());
            measured.iter().for_each(|measured| say(&format!("\n{}", measured.describe())));
        }
        if let Some(why) = failed {
            tell(&why);
            return ExitCode::FAILURE;
        }
        match measured {
            Some(Measurements { interrupted: true, .. }) => interrupt::EXIT_CODE.into(),
            _ => ExitCode::from(u8::from(diagnosis.is_large())),
        }
    }
}

fn filesystem(TriedFilm { film, block_bytes, read_once_refused }: TriedFilm) -> TriedFilesystem {
    TriedFilesystem { film, block_bytes, read_once_refused }
}

fn node_rates(measured: &Measurements) -> Vec<NodeRate> {
    let rates = measured.node_rates();
    rates
        .map(|(cpus, memory, gbytes_per_second)| NodeRate { cpus, memory, gbytes_per_second })
        .collect()
}

fn measured(library: &[PathBuf], seconds: u16) -> io::Result<Measurements> {
    let interrupt = Interrupt::on_signal()?;
    let progress = |what: &str| crate::note(&format!("measuring {what}"));
    Ok(measure::run(library, seconds, &interrupt, progress))
}

/// The folder's path without symbolic links, as the kernel shows it in its list of mounts.
fn real(folder: &Path) -> Result<PathBuf, String> {
    let cannot = |why: String| {
        format!("cannot look at {}: {why}; name the folder of your library", folder.display())
    };
    let real = folder.canonicalize().map_err(|error| cannot(error.to_string()))?;
    if real.is_dir() { Ok(real) } else { Err(cannot("not a folder".into())) }
}

/// A feature that the server would report as lacking at its start. Only the cost of missing leases has been measured.
fn refused(lack: Lack) -> Finding {
    let Lack { what, why, cost, remedy } = lack;
    let (name, cost) = match what {
        "read leases" => {
            let what = format!(
                "of what a core carries over plain HTTP, nothing over TLS on the default route: {cost}"
            );
            ("read-leases", Cost::percent(65.0, what, "docs/notes/leases.md"))
        }
        "page cache" => ("page-cache", Cost::unmeasured(cost)),
        _ => ("cachestat", Cost::unmeasured(cost)),
    };
    Finding {
        area: Area::Rights,
        name,
        on: Vec::new(),
        found: why,
        wanted: format!("the server may use {what}"),
        cost,
        mend: remedy.to_owned(),
        check: "start the server: no line begins with \"lacking\"".into(),
    }
}
