//! The `fullbore` command. Each subcommand has a file, which parses its arguments and calls a crate.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.

mod bench;
mod load;
mod serve;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Serves video libraries over HTTPS at the speed of the machine.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Bench(bench::Bench),
    Load(load::Load),
    Serve(serve::Serve),
}

fn main() -> ExitCode {
    // clap answers wrong usage itself, with exit code 2.
    match Command::parse().verb {
        Verb::Bench(bench) => bench.run(),
        Verb::Load(load) => load.run(),
        Verb::Serve(serve) => serve.run(),
    }
}
