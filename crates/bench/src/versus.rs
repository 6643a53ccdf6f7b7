//! One workload, two sides, in turn.

use crate::client::{self, Count, Task};
use crate::namespace;
use crate::server::{Given, Side};
use crate::stats::Summary;
use crate::workload::{Workload, make_library, warm_up};
use reactor::{Reactor, RingOptions, sleep, spawn, tasks_live};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// The work.
    pub workload: Workload,
    /// Rounds per side.
    pub rounds: usize,
    /// Seconds per round.
    pub seconds: f64,
    /// Connections at once.
    pub connections: usize,
    /// Bytes of the library: split over eight files.
    pub library_bytes: u64,
    /// Where to make the library; else the system's temporary directory.
    pub scratch: Option<PathBuf>,
    /// Further arguments for our own server.
    pub serve_arguments: Vec<String>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Outcome {
    workload: Workload,
    sides: [(&'static str, Vec<Round>); 2],
}

/// One side's turn.
#[derive(Clone, Copy, Debug)]
struct Round {
    gigabits: f64,
    wall_seconds: f64,
    cpu_seconds: f64,
}

impl Round {
    fn gbps_per_cpu(&self) -> f64 {
        self.gigabits / self.cpu_seconds
    }
}

const FILES: usize = 8;
const SERVER_CPU: u32 = 0;
const CLIENT_CPU: usize = 1;

/// Compares this program with nginx, telling `progress` about each round.
///
/// # Errors
/// When a side does not start, answers wrongly or fails: then nothing is compared.
pub fn run(options: &Options, mut progress: impl FnMut(String)) -> io::Result<Outcome> {
    let scratch = match &options.scratch {
        Some(directory) => tempfile::tempdir_in(directory)?,
        None => tempfile::tempdir()?,
    };
    let library = scratch.path().join("library");
    std::fs::create_dir(&library)?;
    let file_bytes = options.library_bytes / FILES as u64;
    progress(format!("making a library of {} MiB", options.library_bytes >> 20));
    make_library(&library, FILES, file_bytes)?;
    // A file of this very second has no Last-Modified yet (RFC 9110 section 8.8.2.2): heads would change their length.
    std::thread::sleep(Duration::from_millis(1100));
    let given = Given {
        library: &library,
        scratch: scratch.path(),
        workload: options.workload,
        cpu: Some(SERVER_CPU),
    };
    let ours = Side::fullbore(&given, &options.serve_arguments)?;
    let theirs = Side::nginx(&given)?;
    let mut outcome = Outcome {
        workload: options.workload,
        sides: [(ours.name, Vec::new()), (theirs.name, Vec::new())],
    };
    for number in 1..=options.rounds {
        for (side, (name, rounds)) in [&ours, &theirs].into_iter().zip(&mut outcome.sides) {
            warm_up(&library, FILES, options.workload.is_cold())?;
            let round = turn(side, options, file_bytes).map_err(|error| {
                io::Error::new(error.kind(), format!("{name} failed, nothing is compared: {error}"))
            })?;
            progress(format!(
                "round {number}  {name:9} {:6.2} Gb/s  {:6.2} Gb/s per CPU second",
                round.gigabits / round.wall_seconds,
                round.gbps_per_cpu()
            ));
            rounds.push(round);
        }
    }
    Ok(outcome)
}

fn turn(side: &Side, options: &Options, file_bytes: u64) -> io::Result<Round> {
    let cpu_before = side.cpu_seconds()?;
    let started = Instant::now();
    let until = started + Duration::from_secs_f64(options.seconds);
    let (address, connections) = (side.address, options.connections);
    let tls = options.workload.has_tls().then(client_config);
    let clients = std::thread::spawn(move || drive(address, tls, connections, file_bytes, until));
    let body_bytes = clients.join().expect("a client does not panic")?;
    let wall_seconds = started.elapsed().as_secs_f64();
    let cpu_seconds = side.cpu_seconds()? - cpu_before;
    Ok(Round { gigabits: body_bytes as f64 * 8e-9, wall_seconds, cpu_seconds })
}

/// Runs the clients on a core of their own; returns the bytes that they got.
fn drive(
    address: SocketAddr,
    tls: Option<Arc<rustls::ClientConfig>>,
    connections: usize,
    file_bytes: u64,
    until: Instant,
) -> io::Result<u64> {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(CLIENT_CPU);
    rustix::thread::sched_setaffinity(None, &cpus)?;
    let reactor = Reactor::new(RingOptions::default())?;
    reactor.run(async move {
        let count = Rc::new(Count::default());
        let failure = Rc::new(std::cell::Cell::new(None));
        for number in 0..connections {
            let task = Task { address, tls: tls.clone(), file: number % FILES, file_bytes, until };
            let (count, failure) = (Rc::clone(&count), Rc::clone(&failure));
            spawn(async move {
                if let Err(error) = client::work(task, count).await {
                    failure.set(Some(error));
                }
            });
        }
        while tasks_live() > 1 {
            sleep(Duration::from_millis(2)).await;
        }
        failure.take().map_or(Ok(count.body_bytes.get()), Err)
    })?
}

/// TLS 1.3 with AES-128-GCM and nothing else, whoever the server is.
pub(crate) fn client_config() -> Arc<rustls::ClientConfig> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites =
        vec![rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
    let verifier = Arc::new(AnyCertificate(provider.clone()));
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the suite is of this version")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Arc::new(config)
}

/// Both servers run here and now with a certificate made for it: whom they claim to be does not matter.
#[derive(Debug)]
struct AnyCertificate(CryptoProvider);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl Outcome {
    /// Ours over theirs, round by round, in Gb/s per CPU second.
    fn ratio(&self) -> Summary {
        let pairs = self.sides[0].1.iter().zip(&self.sides[1].1);
        Summary::of(
            &pairs
                .map(|(ours, theirs)| ours.gbps_per_cpu() / theirs.gbps_per_cpu())
                .collect::<Vec<_>>(),
        )
    }

    fn summary(&self, side: usize, figure: impl Fn(&Round) -> f64) -> Summary {
        Summary::of(&self.sides[side].1.iter().map(figure).collect::<Vec<_>>())
    }

    /// For people.
    pub fn describe(&self) -> String {
        let congestion_control = namespace::congestion_control();
        let mut text = format!(
            "{}, {congestion_control}: Gb/s per CPU second of the server, median and deviation\n",
            self.workload.name()
        );
        for (index, (name, rounds)) in self.sides.iter().enumerate() {
            let per_cpu = self.summary(index, Round::gbps_per_cpu);
            let wall = self.summary(index, |round| round.gigabits / round.wall_seconds);
            text.push_str(&format!(
                "  {name:9} {:6.2} +- {:.2}   ({:.2} Gb/s over the wire, {} rounds)\n",
                per_cpu.median,
                per_cpu.deviation,
                wall.median,
                rounds.len()
            ));
        }
        let ratio = self.ratio();
        text.push_str(&format!("  ratio     {:6.2} +- {:.2}\n", ratio.median, ratio.deviation));
        text
    }

    /// For programs.
    pub fn to_json(&self) -> serde_json::Value {
        let sides: Vec<_> = (0..2)
            .map(|index| {
                let per_cpu = self.summary(index, Round::gbps_per_cpu);
                json!({
                    "name": self.sides[index].0,
                    "gbps_per_cpu_second": per_cpu.median,
                    "gbps_per_cpu_second_deviation": per_cpu.deviation,
                    "rounds": self.sides[index].1.iter().map(|round| json!({
                        "gbps": round.gigabits / round.wall_seconds,
                        "gbps_per_cpu_second": round.gbps_per_cpu(),
                        "cpu_seconds": round.cpu_seconds,
                        "wall_seconds": round.wall_seconds,
                    })).collect::<Vec<_>>(),
                })
            })
            .collect();
        let ratio = self.ratio();
        json!({
            "version": 1,
            "workload": self.workload.name(),
            "congestion_control": namespace::congestion_control(),
            "sides": sides,
            "ratio": ratio.median,
            "ratio_deviation": ratio.deviation,
        })
    }
}
