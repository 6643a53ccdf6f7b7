//! Measures the cost of sealing, opening and keeping a connection on this machine. One thread; pin it with taskset.
//!
//! Prints for every version and suite: Gb/s of plaintext sealed in 128 KiB windows of 16 KiB records with warm buffers,
//! out of place and in place in turn, as median and median absolute deviation of the rounds; nanoseconds to open a
//! request of 400 bytes, and how many of them expand the key; the memory of an idle connection, as growth of the
//! resident set; and the server's share of a full handshake. The client that the keys were agreed with checks one
//! window first.
//!
//! `--rounds N` (default 9), `--connections N` (default 10000).

use std::hint::black_box;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::aead;
use fullbore_tls::{
    Established, Handshake, Opened, PLAINTEXT_MAX, Progress, Sealer, Suite, TlsContext, TlsOptions,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedCipherSuite};

const WINDOW_BYTES: usize = 8 * PLAINTEXT_MAX;
const ROUND: Duration = Duration::from_millis(60);
const REQUEST_BYTES: usize = 400;

fn main() {
    let state_dir = std::env::temp_dir().join(format!("tls-bench-{}", std::process::id()));
    let tls = TlsContext::load(TlsOptions::new(&state_dir)).expect("a certificate can be made");
    let configs: Vec<_> = suites().map(|suite| client_config(&tls, suite)).collect();
    let _ = std::fs::remove_dir_all(&state_dir);
    println!(
        "{:24} {:>20} {:>20} {:>10} {:>12}",
        "", "out of place, Gb/s", "in place, Gb/s", "open, ns", "expand, ns"
    );
    for config in &configs {
        measure_suite(&tls, config);
    }
    measure_memory(&tls, &configs[0]);
}

/// The number after `--name`, or `default`.
fn argument(name: &str, default: usize) -> usize {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    arguments.next().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// All suites that fit our ECDSA certificate.
fn suites() -> impl Iterator<Item = SupportedCipherSuite> {
    let all = provider::ALL_CIPHER_SUITES.iter().copied();
    all.filter(|suite| !format!("{:?}", suite.suite()).contains("ECDHE_RSA"))
}

fn client_config(tls: &TlsContext, suite: SupportedCipherSuite) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(&tls.files()[0]).expect("just made");
    roots.add(certificate).expect("a certificate");
    let kx_groups = vec![provider::kx_group::X25519];
    let provider =
        CryptoProvider { cipher_suites: vec![suite], kx_groups, ..provider::default_provider() };
    let version =
        if suite.tls13().is_some() { &rustls::version::TLS13 } else { &rustls::version::TLS12 };
    let builder =
        ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(&[version]);
    let mut config = builder.expect("they fit").with_root_certificates(roots).with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(config)
}

/// Does a handshake. Also returns the time that the server's side took.
fn connect(
    tls: &TlsContext,
    config: &Arc<ClientConfig>,
) -> (ClientConnection, Established, Duration) {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(Arc::clone(config), name).expect("a client");
    let (mut spent, start) = (Duration::ZERO, Instant::now());
    let mut handshake = Handshake::new(tls).expect("a server");
    spent += start.elapsed();
    loop {
        let (mut flight, mut answer) = (Vec::new(), Vec::new());
        client.write_tls(&mut flight).expect("to memory");
        let start = Instant::now();
        let (_, progress) = handshake.advance(&flight, &mut answer).expect("a good client");
        spent += start.elapsed();
        deliver(&mut client, &answer);
        if let Progress::Done(established) = progress {
            return (client, *established, spent);
        }
    }
}

fn deliver(client: &mut ClientConnection, mut wire: &[u8]) {
    while !wire.is_empty() {
        client.read_tls(&mut wire).expect("from memory");
        client.process_new_packets().expect("good records");
    }
}

fn measure_suite(tls: &TlsContext, config: &Arc<ClientConfig>) {
    let (mut client, mut established, _) = connect(tls, config);
    let mut bench = Bench::new(&established.sealer);
    bench.check(&mut established.sealer, &mut client);
    let (mut out_of_place, mut in_place) = (Vec::new(), Vec::new());
    for _ in 0..argument("--rounds", 9) {
        out_of_place.push(rate_gbps(|| bench.out_of_place(&mut established.sealer)));
        in_place.push(rate_gbps(|| bench.in_place(&mut established.sealer)));
    }
    let open_ns = open_ns(&mut client, &mut established);
    let name = format!("{} {}", established.info.version.as_str(), established.info.suite.as_str());
    let expand_ns = expand_ns(established.info.suite);
    println!(
        "{name:24} {:>20} {:>20} {open_ns:>10.0} {expand_ns:>12.0}",
        spread(out_of_place),
        spread(in_place)
    );
}

struct Bench {
    plaintext: Vec<u8>,
    sealed: Vec<u8>,
    record_bytes: usize,
}

impl Bench {
    fn new(sealer: &Sealer) -> Self {
        let sealed_bytes = sealer.sealed_bytes(WINDOW_BYTES as u64) as usize;
        let record_bytes = PLAINTEXT_MAX + sealer.record_overhead();
        Self { plaintext: vec![7; WINDOW_BYTES], sealed: vec![0; sealed_bytes], record_bytes }
    }

    fn out_of_place(&mut self, sealer: &mut Sealer) {
        sealer.seal(black_box(&self.plaintext), &mut self.sealed).expect("room and keys");
        black_box(&self.sealed);
    }

    fn in_place(&mut self, sealer: &mut Sealer) {
        for record in self.sealed.chunks_mut(self.record_bytes) {
            sealer.seal_in_place(black_box(record), PLAINTEXT_MAX).expect("room and keys");
        }
    }

    fn check(&mut self, sealer: &mut Sealer, client: &mut ClientConnection) {
        self.out_of_place(sealer);
        let mut read = Vec::new();
        for record in self.sealed.chunks(self.record_bytes) {
            deliver(client, record);
            // The error means only that there is no more for now.
            let _ = client.reader().read_to_end(&mut read);
        }
        assert!(read == self.plaintext, "the client reads what was sealed");
    }
}

fn rate_gbps(mut window: impl FnMut()) -> f64 {
    let (start, mut windows) = (Instant::now(), 0usize);
    while start.elapsed() < ROUND {
        window();
        windows += 1;
    }
    (windows * WINDOW_BYTES * 8) as f64 / start.elapsed().as_secs_f64() / 1e9
}

/// Median and median absolute deviation.
fn spread(mut values: Vec<f64>) -> String {
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let middle = median(&mut values);
    let mut deviations = values.iter().map(|value| (value - middle).abs()).collect();
    format!("{middle:.1} +- {:.1}", median(&mut deviations))
}

/// The client seals many requests and the server's half opens them; only the opening is timed.
fn open_ns(client: &mut ClientConnection, established: &mut Established) -> f64 {
    const REQUESTS: usize = 20_000;
    let mut records = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        client.writer().write_all(&[b'x'; REQUEST_BYTES]).expect("to memory");
        let mut record = Vec::new();
        client.write_tls(&mut record).expect("to memory");
        records.push(record);
    }
    let start = Instant::now();
    for record in &mut records {
        let opened = established.opener.open(record).expect("good records");
        assert!(matches!(opened, Opened::Record { .. }), "the record is whole");
    }
    start.elapsed().as_nanos() as f64 / REQUESTS as f64
}

/// The time to expand a raw key, which the opener does for every record.
fn expand_ns(suite: Suite) -> f64 {
    const TIMES: usize = 20_000;
    let algorithm = match suite {
        Suite::Aes128Gcm => &aead::AES_128_GCM,
        Suite::Aes256Gcm => &aead::AES_256_GCM,
        Suite::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
    };
    let raw = [7; 32];
    let start = Instant::now();
    for _ in 0..TIMES {
        let key = aead::UnboundKey::new(algorithm, black_box(&raw[..algorithm.key_len()]));
        black_box(aead::LessSafeKey::new(key.expect("the length fits")));
    }
    start.elapsed().as_nanos() as f64 / TIMES as f64
}

fn measure_memory(tls: &TlsContext, config: &Arc<ClientConfig>) {
    let connections = argument("--connections", 10_000);
    let mut kept = Vec::with_capacity(connections);
    // The first connections fill the allocator's pools.
    kept.extend((0..connections / 10).map(|_| connect(tls, config).1));
    let (before, mut spent, first) = (resident_bytes(), Duration::ZERO, kept.len());
    for _ in first..connections {
        let (_, established, server_time) = connect(tls, config);
        kept.push(established);
        spent += server_time;
    }
    let each = |total: f64| total / (connections - first) as f64;
    let grown_bytes = each(resident_bytes().saturating_sub(before) as f64);
    println!(
        "\nidle connection: {grown_bytes:.0} bytes resident, of which {} inline",
        size_of::<Established>()
    );
    println!("full handshake, server side: {:.0} us", each(spent.as_micros() as f64));
}

/// Resident set of this process.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("procfs");
    pages * 4096
}
