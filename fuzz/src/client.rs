//! The peer of `tls`: rustls's client in memory. The fuzzer may change every byte of its handshakes.
//!
//! Values that a client draws at random are fixed here, so that the same input always leads to the same bytes. Only the key shares
//! differ, and they always have the same length. The client does not verify certificates, because that is not under test.

use std::sync::{Arc, LazyLock, Mutex};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::{self as provider, cipher_suite as suite, kx_group as group};
use rustls::crypto::{CryptoProvider, GetRandomFailed, SecureRandom, SupportedKxGroup};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, KeyLog, SignatureScheme,
    SupportedCipherSuite,
};
use tls::{Established, Handshake, Progress, TlsContext, TlsOptions};

/// A server with a self-signed certificate. The files of the certificate are already deleted.
pub static SERVER: LazyLock<TlsContext> = LazyLock::new(|| {
    let state_dir = tempfile::tempdir().expect("a temporary directory can be made");
    TlsContext::load(TlsOptions::new(state_dir.path()))
        .expect("a self-signed certificate can be made")
});

/// Configurations of clients: each version with each of its ciphers, and some key exchanges.
pub static CLIENTS: LazyLock<Vec<Arc<ClientConfig>>> = LazyLock::new(|| {
    let fast: &[_] = &[group::X25519];
    let offers: [(&[SupportedCipherSuite], &[&'static dyn SupportedKxGroup]); 9] = [
        (&[suite::TLS13_AES_128_GCM_SHA256], fast),
        (&[suite::TLS13_AES_256_GCM_SHA384], fast),
        (&[suite::TLS13_CHACHA20_POLY1305_SHA256], fast),
        (&[suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256], fast),
        (&[suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384], fast),
        (&[suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256], fast),
        (&[suite::TLS13_AES_128_GCM_SHA256], &[group::X25519MLKEM768, group::X25519]),
        (&[suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256], &[group::SECP256R1]),
        (provider::DEFAULT_CIPHER_SUITES, &[group::SECP384R1, group::X25519]),
    ];
    offers.iter().map(|(suites, groups)| Arc::new(config(suites, groups))).collect()
});

/// How many of [`CLIENTS`], from the first on, differ in version and cipher only.
pub const CIPHERS: usize = 6;

fn config(
    suites: &[SupportedCipherSuite],
    groups: &[&'static dyn SupportedKxGroup],
) -> ClientConfig {
    let provider = CryptoProvider {
        cipher_suites: suites.to_vec(),
        kx_groups: groups.to_vec(),
        secure_random: &NotRandom,
        ..provider::default_provider()
    };
    let versions = [&rustls::version::TLS13, &rustls::version::TLS12];
    let offered = |version: &&&'static rustls::SupportedProtocolVersion| {
        suites.iter().any(|suite| suite.version().version == version.version)
    };
    let versions: Vec<_> = versions.iter().filter(offered).copied().collect();
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&versions)
        .expect("each suite has its version")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_secret_extraction = true;
    config.key_log = Arc::new(SecretLog);
    config
}

/// A new connection of the client with this index in [`CLIENTS`].
pub fn connection(index: usize) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("localhost is a host name");
    ClientConnection::new(Arc::clone(&CLIENTS[index]), name).expect("the configuration is sound")
}

/// Everything that `client` has to send.
pub fn outgoing(client: &mut ClientConnection) -> Vec<u8> {
    let mut wire = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut wire).expect("writing to memory cannot fail");
    }
    wire
}

/// Gives `wire` to `client`.
///
/// # Errors
/// The client's reason to refuse it.
pub fn deliver(client: &mut ClientConnection, mut wire: &[u8]) -> Result<(), Error> {
    while !wire.is_empty() {
        client.read_tls(&mut wire).map_err(|error| Error::General(error.to_string()))?;
        client.process_new_packets()?;
    }
    Ok(())
}

/// Completes a handshake with client `index`. Returns the client and the server's side of the connection.
pub fn connect(index: usize) -> (ClientConnection, Established) {
    let mut client = connection(index);
    let mut server = Handshake::new(&SERVER).expect("the configuration is sound");
    let mut held = Vec::new();
    loop {
        let flight = outgoing(&mut client);
        assert!(!flight.is_empty(), "the handshake stands still");
        held.extend(flight);
        let mut output = Vec::new();
        let (consumed, progress) =
            server.advance(&held, &mut output).expect("the client is honest");
        held.drain(..consumed);
        deliver(&mut client, &output).expect("the server is honest");
        if let Progress::Done(established) = progress {
            assert!(held.is_empty() && !client.is_handshaking());
            return (client, *established);
        }
    }
}

/// The traffic secret of the TLS 1.3 client that completed a handshake last.
pub fn last_traffic_secret() -> Vec<u8> {
    LAST_SECRET.lock().expect("no thread panics and goes on").clone()
}

static LAST_SECRET: Mutex<Vec<u8>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct SecretLog;

impl KeyLog for SecretLog {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if label == "CLIENT_TRAFFIC_SECRET_0" {
            *LAST_SECRET.lock().expect("no thread panics and goes on") = secret.to_vec();
        }
    }
}

#[derive(Debug)]
struct NotRandom;

impl SecureRandom for NotRandom {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), GetRandomFailed> {
        buffer.fill(0x5a);
        Ok(())
    }
}

/// Accepts every certificate and every signature, unlike `tls::danger::AcceptAnyCertificate`: a client whose hello was edited on the way goes on with
/// its handshake, although the server has signed other values than the client's.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
