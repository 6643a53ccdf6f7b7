//! `fullbore control`: runs a fleet's gateway, and sends requests to a running one.

mod ask;
mod chain;
mod fill;
mod invite;
mod issues;
mod placing;
mod plan_report;
mod purging;
mod qoe;
mod replay;
mod report;
mod serve;
mod settings;
mod stores;

use std::future::Future;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use gateway::client::ClientError;

use crate::tell;

/// Run a fleet's gateway, or manage a running one
///
/// A gateway sends viewers to nodes; it knows which nodes are healthy and which titles they hold. "fullbore control serve" starts one; the first
/// start creates the fleet. "backup" and "restore" work on its store. All other commands connect to a running gateway's admin address, with an
/// operator's token or certificate. See docs/fleet-operate.md for the guide.
#[derive(Args)]
pub(crate) struct Control {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Serve(Box<serve::Serve>),
    #[command(flatten)]
    Ask(Box<ask::Ask>),
    #[command(flatten)]
    Stores(stores::Stores),
}

/// The error message, and its exit code.
struct Failed(u8, String);

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Usage(text) => Self(2, text),
            ClientError::Failed(text) => Self(1, text),
        }
    }
}

impl Control {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> ExitCode {
        let done = match self.verb {
            Verb::Serve(serve) => serve.run(),
            Verb::Ask(ask) => on_tokio(ask.run()),
            Verb::Stores(stores) => on_tokio(stores.run()),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(Failed(code, what)) => {
                tell(&what);
                ExitCode::from(code)
            }
        }
    }
}

fn on_tokio(work: impl Future<Output = Result<(), Failed>>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failed(1, error.to_string()))?.block_on(work)
}
