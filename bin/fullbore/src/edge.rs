//! `fullbore edge`: commands for a running caching edge, and its helper process, which `fullbore serve --origin` starts.

mod ls;
mod purge;
mod purges;
mod server_choice;
mod shown;
mod why;

use clap::{Args, Subcommand};
use edge::fetcher::{self, HelperOptions, OriginSpread};
use edge::origin_files::{self, HandedFiles};
use edge::{PAUSE_MAX, credentials, rules};
use helper_process::keeper;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

pub(crate) use shown::span;

/// Look into the cache of a caching edge, and purge what is stored
#[derive(Args)]
pub(crate) struct Edge {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    #[command(hide = true)]
    Helper(Helper),
    Ls(ls::LsCommand),
    Purge(purge::PurgeCommand),
    Purges(purges::PurgesCommand),
    Why(why::WhyCommand),
}

impl Edge {
    /// Runs the command.
    pub(crate) fn run(self) -> ExitCode {
        match self.verb {
            Verb::Helper(helper) => helper.run(),
            Verb::Ls(ls) => ls.run(),
            Verb::Purge(purge) => purge.run(),
            Verb::Purges(purges) => purges.run(),
            Verb::Why(why) => why.run(),
        }
    }
}

/// Fetch for a caching edge; the server starts this, with its end of a socket as standard input
#[derive(Args)]
struct Helper {
    /// Folder of the cache
    #[arg(long, value_name = "DIR")]
    cache: PathBuf,
    /// Size limit of the cache, in bytes
    #[arg(long, value_name = "N")]
    bytes: u64,
    /// Seconds of silence after which the origin counts as unreachable
    #[arg(long, value_name = "SECONDS")]
    silent: f64,
    /// Spread requests over the origins by a hash of their paths
    #[arg(long)]
    by_hash: bool,
    /// Don't confine the helper
    #[arg(long)]
    no_sandbox: bool,
    /// Run the helper in another process, and restart it when it dies
    #[arg(long)]
    keep: bool,
}

impl Helper {
    /// Runs until the server is gone.
    fn run(self) -> ExitCode {
        let done = if self.keep { self.keep() } else { self.help() };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                crate::tell(&format!("the edge's helper cannot go on: {error}"));
                ExitCode::FAILURE
            }
        }
    }

    fn keep(&self) -> std::io::Result<()> {
        let mut helper = self.helper();
        credentials::take(&mut helper)?;
        let server = std::io::stdout().as_fd().try_clone_to_owned()?;
        origin_files::keep_current(origin_files::handed_on()?, &mut helper, server)?;
        keeper::keep("the edge's", helper, PAUSE_MAX)
    }

    fn helper(&self) -> Command {
        let Self { cache, bytes, silent, by_hash, no_sandbox, .. } = self;
        let mut command = Command::new("/proc/self/exe");
        command.args(["edge", "helper", "--bytes", &bytes.to_string()]);
        command.args(["--silent", &silent.to_string(), "--cache"]).arg(cache);
        command.args(by_hash.then_some("--by-hash"));
        command.args(no_sandbox.then_some("--no-sandbox"));
        command
    }

    fn help(self) -> std::io::Result<()> {
        let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
        let silent_max = Duration::from_secs_f64(self.silent);
        let Self { cache, bytes: bytes_max, no_sandbox, .. } = self;
        let (origins, files) = (origin_files::handed_on()?, HandedFiles::here()?);
        let spread = if self.by_hash { OriginSpread::Hash } else { OriginSpread::Order };
        let options = HelperOptions {
            origins,
            spread,
            rules: rules::handed_on()?,
            files,
            cache,
            bytes_max,
            silent_max,
            is_confined: !no_sandbox,
        };
        fetcher::run(options, socket)
    }
}
