//! `fullbore bench gateway`, and the plain server that it is compared with.

use ::bench::gateway::{Options, run, serve_hello};
use ::load::interrupt::{self, Interrupt};
use clap::Args;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Measure the cost of a gateway's answers to viewers, compared with a plain axum server
///
/// Starts a gateway whose fleet's nodes send heartbeats, and a plain server that answers "hello", both on the first core. From the other cores, wrk
/// requests HLS and DASH manifests, steering and routes from each in turn. The result is answers per CPU second of the server's process. Needs two
/// cores, wrk, and an otherwise idle machine.
#[derive(Args)]
pub(super) struct Gateway {
    /// Number of nodes
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(3..=20_000))]
    nodes: u32,
    /// Number of titles on each node
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    titles: u32,
    /// Sign viewers' addresses
    #[arg(long)]
    signed: bool,
    /// Number of wrk's connections
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Turns per side
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds per turn
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Directory to create the gateway's folder in
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Gateway {
    pub(super) fn run(self) -> io::Result<ExitCode> {
        let options = Options {
            nodes: self.nodes,
            titles: self.titles,
            signed: self.signed,
            connections: self.connections,
            rounds: self.rounds.into(),
            seconds: self.seconds.clamp(0.1, 600.0),
            scratch: self.scratch,
        };
        let interrupt = Interrupt::on_signal()?;
        match run(&options, &interrupt, crate::note) {
            Err(_) if interrupt.is_asked() => Ok(interrupt::EXIT_CODE.into()),
            outcome => {
                let outcome = outcome?;
                crate::say(&outcome.describe());
                super::write_json(self.json.as_deref(), &outcome.to_json())?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Answer "hello" with axum, for `bench gateway`
#[derive(Args)]
pub(super) struct Hello {
    /// Address to listen on
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

impl Hello {
    /// Serves on a runtime like that of `control serve`, until a signal stops it.
    pub(super) fn run(self) -> io::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind(self.listen).await?;
            let mut terminate = signal(SignalKind::terminate())?;
            crate::say_started(&format!("ready http://{}/\n", listener.local_addr()?));
            serve_hello(listener, async move {
                terminate.recv().await;
            })
            .await
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
