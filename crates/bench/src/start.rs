//! From the start of the process to the first byte served: what a restart costs viewers.

use crate::client::first_byte;
use crate::server::{Given, Side};
use crate::stats::Summary;
use crate::versus::client_config;
use crate::workload::{Workload, make_library};
use reactor::{Reactor, RingOptions};
use std::io;
use std::time::Instant;

/// Milliseconds from starting the process to the first byte of a body, over TLS, handshake included.
#[derive(Clone, Debug)]
pub struct Started {
    milliseconds: Vec<f64>,
}

/// Starts the server `rounds` times. The first start, which makes the certificate, is not counted.
///
/// # Errors
/// When it does not start or does not answer rightly.
pub fn run(rounds: usize) -> io::Result<Started> {
    let scratch = tempfile::tempdir()?;
    let library = scratch.path().join("library");
    std::fs::create_dir(&library)?;
    make_library(&library, 1, 1 << 20)?;
    let given = Given {
        library: &library,
        scratch: scratch.path(),
        workload: Workload::TlsWarm,
        cpu: None,
    };
    let reactor = Reactor::new(RingOptions::default())?;
    let config = client_config();
    let mut milliseconds = Vec::with_capacity(rounds);
    for round in 0..=rounds {
        let started = Instant::now();
        let side = Side::fullbore(&given, &[])?;
        reactor.run(first_byte(side.address, std::sync::Arc::clone(&config)))??;
        if round > 0 {
            milliseconds.push(started.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(Started { milliseconds })
}

impl Started {
    /// For people.
    pub fn describe(&self) -> String {
        let Summary { median, deviation } = Summary::of(&self.milliseconds);
        let worst = self.milliseconds.iter().copied().fold(0.0, f64::max);
        let rounds = self.milliseconds.len();
        format!(
            "first byte served after {median:.1} +- {deviation:.1} ms, at worst {worst:.1} ms ({rounds} starts)\n"
        )
    }
}
