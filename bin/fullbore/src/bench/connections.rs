//! `fullbore bench connections`.

use ::bench::connections::{Options, run, run_alone};
use ::load::interrupt::{self, Interrupt};
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measure the cost of each additional viewer on the bypass route, up to hundreds of thousands of viewers
///
/// Runs the server's own TCP, keys, records and buffers over an in-memory device instead of a network; its far end generates every viewer's frames.
/// The number of viewers grows while their total rate stays the same. Prints memory per viewer, CPU time per byte, wake-ups, timers and fairness.
/// Needs two cores, 4 GiB of memory, and an otherwise idle machine; no privileges.
#[derive(Args)]
pub(super) struct Connections {
    /// Numbers of viewers
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1000,10000,100000,400000",
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    viewers: Vec<u32>,
    /// Rate of all viewers together, in Gb/s
    #[arg(long, value_name = "GBPS", default_value_t = 4.0)]
    total_gbps: f64,
    /// Rate of each viewer's link, in Mb/s
    #[arg(long, value_name = "MBPS", default_value_t = 25.0)]
    link_mbps: f64,
    /// Size of each answer, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=16_384))]
    answer: u64,
    /// Seconds to measure; more if it takes longer until each viewer has asked once
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Directory for the film
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure this number in this process, and print its figures as JSON
    #[arg(long, hide = true)]
    alone: Option<u32>,
}

impl Connections {
    pub(super) fn run(self) -> io::Result<ExitCode> {
        let options = Options {
            connections: self.viewers.clone(),
            total_bytes_per_second: self.total_gbps.clamp(0.001, 1000.0) * 1e9 / 8.0,
            link_bytes_per_second: self.link_mbps.clamp(0.01, 100_000.0) * 1e6 / 8.0,
            body_bytes: self.answer << 10,
            duration: Duration::from_secs_f64(self.seconds.clamp(3.0, 3600.0)),
            scratch: self.scratch.clone(),
        };
        let interrupt = Interrupt::on_signal()?;
        let done = match self.alone {
            Some(viewers) => run_alone(&options, viewers, &interrupt).map(|row| {
                crate::say_line(&row.to_json().to_string());
            }),
            None => {
                let alone = self.alone_arguments();
                run(&options, &alone, &interrupt, crate::note).and_then(|outcome| {
                    crate::say(&outcome.describe());
                    super::write_json(self.json.as_deref(), &outcome.to_json())
                })
            }
        };
        match done {
            Err(_) if interrupt.is_asked() => Ok(interrupt::EXIT_CODE.into()),
            done => done.map(|()| ExitCode::SUCCESS),
        }
    }

    /// The arguments of a process for one number of viewers, without the number.
    fn alone_arguments(&self) -> Vec<String> {
        let mut arguments = vec!["bench".to_owned(), "connections".to_owned()];
        let numbers = [
            ("--total-gbps", self.total_gbps.to_string()),
            ("--link-mbps", self.link_mbps.to_string()),
            ("--answer", self.answer.to_string()),
            ("--seconds", self.seconds.to_string()),
        ];
        for (name, value) in numbers {
            arguments.extend([name.to_owned(), value]);
        }
        if let Some(scratch) = &self.scratch {
            arguments.extend(["--scratch".to_owned(), scratch.display().to_string()]);
        }
        arguments.push("--alone".to_owned());
        arguments
    }
}
