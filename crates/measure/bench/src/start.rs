//! Time from the start of the process to the first byte served: the cost of a restart for viewers.

use crate::library::{Library, file_name};
use crate::machine_json::machine_json;
use crate::stats::Summary;
use crate::versus::side::{Given, Side};
use crate::versus::workload::client_options;
use crate::versus::{Network, OURS, Workload, fullbore};
use load::interrupt::Interrupt;
use load::tls::ClientTls;
use load::{Connection, ConnectionOptions, ServerEndpoint};
use reactor::{Reactor, RingOptions};
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

/// Milliseconds from starting the process to the first byte of a body, over TLS, handshake included.
#[derive(Clone, Debug)]
pub struct Started {
    milliseconds: Vec<f64>,
}

/// Starts the server `rounds` times. The first start, which makes the certificate, is not counted.
///
/// # Errors
/// If it does not start or does not answer correctly.
pub fn run(rounds: usize) -> io::Result<Started> {
    let scratch = tempfile::tempdir()?;
    let interrupt = Interrupt::default();
    let library = Library::make(&scratch.path().join("library"), 1, 1 << 20, &interrupt)?;
    let given = Given {
        library: &library.root,
        scratch: scratch.path(),
        cpu: None,
        network: &Network::Loopback,
        interrupt: &interrupt,
    };
    let recipe = fullbore(Workload::TlsWarm, &[], OURS)?;
    let reactor = Reactor::new(RingOptions::default())?;
    let tls = ClientTls::load(&client_options()).map_err(io::Error::other)?;
    let mut milliseconds = Vec::with_capacity(rounds);
    for round in 0..=rounds {
        let started = Instant::now();
        let side = Side::start(&recipe, &given)?;
        reactor.run(first_byte(side.address, tls.clone()))??;
        if round > 0 {
            milliseconds.push(started.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(Started { milliseconds })
}

/// Connects, does the handshake and fetches a little of the first file.
async fn first_byte(address: SocketAddr, tls: ClientTls) -> io::Result<()> {
    let endpoint = ServerEndpoint { address, host: "localhost".to_owned(), tls: Some(tls) };
    let failed = |failure: load::Failure| io::Error::other(failure.to_string());
    let options = ConnectionOptions::default();
    let mut connection = Connection::open(&endpoint, &options).await.map_err(failed)?;
    let path = file_name(0);
    let request = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-9\r\n\r\n");
    connection.send_request(request.as_bytes()).await.map_err(failed)?;
    let head = connection.head().await.map_err(failed)?;
    let bytes = connection.discard(u64::MAX).await.map_err(failed)?;
    if head.status != 206 || bytes == 0 {
        return Err(io::Error::other(format!("a range was answered with {}", head.status)));
    }
    Ok(())
}

impl Started {
    /// As text.
    pub fn describe(&self) -> String {
        let Summary { median, deviation } = Summary::of(&self.milliseconds);
        let worst = self.milliseconds.iter().copied().fold(0.0, f64::max);
        let rounds = self.milliseconds.len();
        format!(
            "first byte served after {median:.1} +- {deviation:.1} ms, at worst {worst:.1} ms ({rounds} starts)\n"
        )
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let Summary { median, deviation } = Summary::of(&self.milliseconds);
        json!({
            "version": 1,
            "kind": "start",
            "machine": machine_json(),
            "milliseconds": self.milliseconds,
            "median": median,
            "deviation": deviation,
        })
    }
}
