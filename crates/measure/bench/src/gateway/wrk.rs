//! A turn of wrk: it sends requests to one side for a while, and the bench counts the server's CPU seconds meanwhile.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use load::interrupt::Interrupt;

use super::asked::Asked;
use super::outcome::Round;
use crate::accounting::Account;
use crate::populated::sleep_for;
use crate::versus::client::{judge_wrk, wrk_script};
use crate::versus::process::{self, Process};

/// Checks for wrk before anything is created.
///
/// # Errors
/// If it is not installed.
pub(super) fn find() -> io::Result<()> {
    process::find("wrk").map_err(|error| {
        let advice = "apt install wrk, or use ./run bench, which installs it";
        io::Error::new(error.kind(), format!("wrk: {error}; {advice}"))
    })
}

/// How to send requests.
pub(super) struct Turn<'t> {
    pub(super) cpus: &'t [u32],
    pub(super) connections: u32,
    pub(super) seconds: f64,
    pub(super) scratch: &'t Path,
    pub(super) interrupt: &'t Interrupt,
}

impl Turn<'_> {
    /// Measures one side.
    ///
    /// # Errors
    /// If any request failed, or the user interrupted.
    pub(super) fn take(&self, asked: &Asked, account: &mut Account) -> io::Result<Round> {
        let script = self.scratch.join("wrk.lua");
        std::fs::write(&script, wrk_script(asked.paths.iter()))?;
        let threads = self.cpus.len().min(self.connections as usize);
        let words = format!(
            "wrk --threads {threads} --connections {} --duration 1h --timeout 60s --script",
            self.connections
        );
        let mut words: Vec<_> = words.split(' ').map(str::to_owned).collect();
        words.extend([script.to_string_lossy().into_owned(), format!("http://{}", asked.address)]);
        let before = account.read()?;
        let began = Instant::now();
        let log = self.scratch.join("wrk.log");
        let process = Process::start(&[], &words, &[], self.cpus, &log, false)?;
        sleep_for(Duration::from_secs_f64(self.seconds), self.interrupt)?;
        let wall_seconds = began.elapsed().as_secs_f64();
        if let Some(status) = process.ended()? {
            let last_words = process.last_words();
            return Err(io::Error::other(format!("wrk ended with {status}{last_words}")));
        }
        let said = process.interrupt()?;
        let after = account.read()?;
        judge_wrk(&said).map_err(io::Error::other)?;
        let answers = said.lines().find_map(|line| line.strip_prefix("asked ")?.parse().ok());
        let cpu_seconds = after.cpu_seconds - before.cpu_seconds;
        match answers {
            Some(answers) if answers > 0 && cpu_seconds > 0.0 => {
                Ok(Round { answers, cpu_seconds, wall_seconds })
            }
            _ => Err(io::Error::other("there were no answers in the measured time")),
        }
    }
}
