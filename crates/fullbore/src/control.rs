//! `fullbore control`: runs a gateway of a fleet, and asks a running one.

mod ask;
mod chain;
mod fill;
mod invite;
mod placing;
mod plan_report;
mod replay;
mod report;
mod serve;
mod settings;
mod stores;

use std::future::Future;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use control::client::ClientError;

use crate::tell;

/// Run a gateway of a fleet, or tell a running one what to do
///
/// A gateway sends viewers to nodes, and knows which node is well and holds what. "fullbore control serve" starts one; the first start makes the
/// fleet. "backup" and "restore" work on its store. All other commands ask a running gateway on its admin address, with an operator's token or
/// certificate. docs/fleet-operate.md is the guide.
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

/// What went wrong, and the exit code for it.
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
    /// Runs the verb.
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
