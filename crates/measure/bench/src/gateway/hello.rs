//! The least that a server like a gateway can do: axum on Tokio, answering "hello".

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::accounting::Account;
use crate::versus::SERVER_CPU;
use crate::versus::process::Process;

/// Time limit for its start.
const PATIENCE: Duration = Duration::from_secs(30);

/// The body of its answers.
pub(super) const BODY: &str = "hello\n";

/// Answers every request for `/` on `listener`, until `stop` completes. Run it on the same kind of runtime as a gateway.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = Router::new().route("/", get(|| async { BODY }));
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}

/// The plain server in its own process, on the servers' core.
pub(super) struct Hello {
    pub(super) address: SocketAddr,
    pub(super) account: Account,
    _process: Process,
}

impl Hello {
    pub(super) fn start(scratch: &Path) -> io::Result<Self> {
        let program = std::env::current_exe()?.to_string_lossy().into_owned();
        let words = [program, "bench".to_owned(), "hello".to_owned()];
        let log = scratch.join("hello.log");
        let mut process = Process::start(&[], &words, &[], &[SERVER_CPU], &log, true)?;
        let line = process.line("ready http://", PATIENCE).ok().flatten().unwrap_or_default();
        let address = line.trim_start_matches("ready http://").trim_end_matches('/').parse();
        let address = address.map_err(|_| {
            io::Error::other(format!("the plain server does not start{}", process.last_words()))
        })?;
        Ok(Self { address, account: Account::of(process.id()), _process: process })
    }
}
