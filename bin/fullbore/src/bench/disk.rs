//! `fullbore bench disk`.

use ::bench::disk_reads::{self, Options};
use ::load::interrupt::{self, Interrupt};
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare interrupts, polling and NVMe commands for disk reads
///
/// Reads past the page cache in up to four ways, in turn: completed by interrupts, as the server does; polled; as commands sent straight to an NVMe
/// disk's driver; and as polled commands. Checks that each way returns the same bytes as pread. Prints Gb/s per CPU second, latency, and
/// interrupts per read. Never writes to the file or device. Commands need root and an NVMe disk; polling needs a disk with poll queues.
#[derive(Args)]
pub(super) struct DiskReads {
    /// File or block device to read, such as /dev/nvme0n1 [default: a temporary file]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// Number of turns per way
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds per turn
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Size of each read in KiB, a multiple of 4
    #[arg(long, value_name = "KIB", default_value_t = 128, value_parser = whole_pages)]
    read: u32,
    /// Reads in flight
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    in_flight: u16,
    /// Size of the temporary file, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(1..))]
    library: u64,
    /// Directory to create the file in
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn whole_pages(text: &str) -> Result<u32, String> {
    let kib: u32 = text.parse().map_err(|_| "it is a number of KiB".to_owned())?;
    match kib {
        4..=4096 if kib % 4 == 0 => Ok(kib),
        _ => Err("it is a multiple of 4, from 4 to 4096".to_owned()),
    }
}

impl DiskReads {
    pub(super) fn run(self) -> io::Result<ExitCode> {
        let options = Options {
            path: self.path,
            file_bytes: self.library << 20,
            scratch: self.scratch,
            rounds: self.rounds.into(),
            seconds: self.seconds.clamp(0.05, 60.0),
            read_bytes: self.read << 10,
            in_flight: self.in_flight,
        };
        let interrupt = Interrupt::on_signal()?;
        let outcome = disk_reads::run(&options, &interrupt, |line| crate::note(&line))?;
        crate::say(&outcome.describe());
        super::write_json(self.json.as_deref(), &outcome.to_json())?;
        Ok(if outcome.interrupted { interrupt::EXIT_CODE.into() } else { ExitCode::SUCCESS })
    }
}
