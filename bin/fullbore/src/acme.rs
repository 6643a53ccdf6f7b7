//! The helper that gets certificates by ACME, which `fullbore serve` starts if its configuration has `[tls.acme]`.

use acme::{AcmeOptions, renewing};
use clap::Args;
use helper_process::keeper;
use std::io;
use std::os::fd::AsFd;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The longest pause before a failing helper is restarted: each start may order a certificate, and authorities limit orders.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Get certificates for a server; the server starts this, with its end of a socket as standard input
#[derive(Args)]
pub(crate) struct Acme {
    /// Names to get a certificate for, and how, as JSON
    #[arg(long, value_name = "JSON")]
    options: String,
    /// Run the helper in another process, and restart it when it dies
    #[arg(long)]
    keep: bool,
}

impl Acme {
    /// Runs until the server is gone.
    pub(crate) fn run(self) -> ExitCode {
        let done = if self.keep { self.keep() } else { self.help() };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                crate::tell(&format!("the helper for certificates cannot go on: {error}"));
                ExitCode::FAILURE
            }
        }
    }

    fn keep(&self) -> io::Result<()> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["acme", "--options", &self.options]);
        keeper::keep("the certificates'", command, PAUSE_MAX)
    }

    fn help(&self) -> io::Result<()> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        let options: AcmeOptions = serde_json::from_str(&self.options).map_err(io::Error::other)?;
        renewing::run(options, socket)
    }
}
