//! The other side: a rustls client in memory, as the oracle, and a directory to keep certificates in.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fullbore_crypt::{Established, Handshake, HandshakeError, Progress, Tls, TlsOptions};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs as provider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, NamedGroup, SignatureScheme,
    SupportedCipherSuite,
};

/// A directory that goes away with its owner.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("crypt-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server with a self-signed certificate.
pub(crate) fn server() -> Tls {
    let dir = Dir::new();
    Tls::load(TlsOptions::new(dir.path())).unwrap()
}

/// Accepts any certificate, or none.
#[derive(Debug)]
struct Verifier {
    accept: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.accept {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// What a client offers.
pub(crate) struct Offer {
    pub(crate) suites: Vec<SupportedCipherSuite>,
    pub(crate) groups: Vec<NamedGroup>,
    pub(crate) alpn: Vec<&'static [u8]>,
    pub(crate) accept_certificate: bool,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            suites: provider::DEFAULT_CIPHER_SUITES.to_vec(),
            groups: vec![NamedGroup::X25519],
            alpn: vec![b"http/1.1"],
            accept_certificate: true,
        }
    }
}

impl Offer {
    /// The TLS 1.3 or TLS 1.2 suites of rustls.
    pub(crate) fn tls13() -> Self {
        Self { suites: suites(true), ..Self::default() }
    }

    pub(crate) fn tls12() -> Self {
        Self { suites: suites(false), ..Self::default() }
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        let all = provider::ALL_KX_GROUPS.iter().copied();
        let provider = CryptoProvider {
            cipher_suites: self.suites.clone(),
            kx_groups: all.filter(|group| self.groups.contains(&group.name())).collect(),
            ..provider::default_provider()
        };
        let algorithms = provider.signature_verification_algorithms;
        let has = |tls13: bool| self.suites.iter().any(|suite| suite.tls13().is_some() == tls13);
        let mut versions = Vec::new();
        if has(true) {
            versions.push(&rustls::version::TLS13);
        }
        if has(false) {
            versions.push(&rustls::version::TLS12);
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier {
                accept: self.accept_certificate,
                algorithms,
            }))
            .with_no_client_auth();
        config.alpn_protocols = self.alpn.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }
}

pub(crate) fn suites(tls13: bool) -> Vec<SupportedCipherSuite> {
    let all = provider::ALL_CIPHER_SUITES.iter().copied();
    all.filter(|suite| suite.tls13().is_some() == tls13).collect()
}

pub(crate) fn client(config: &Arc<ClientConfig>, name: &str) -> ClientConnection {
    ClientConnection::new(Arc::clone(config), ServerName::try_from(name.to_owned()).unwrap())
        .unwrap()
}

/// Everything that `client` has to send.
pub(crate) fn outgoing(client: &mut ClientConnection) -> Vec<u8> {
    let mut wire = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut wire).unwrap();
    }
    wire
}

/// Hands `wire` to `client`.
pub(crate) fn deliver(client: &mut ClientConnection, mut wire: &[u8]) -> Result<(), Error> {
    while !wire.is_empty() {
        client.read_tls(&mut wire).unwrap();
        client.process_new_packets()?;
    }
    Ok(())
}

/// The plaintext that `client` has received so far.
pub(crate) fn received(client: &mut ClientConnection) -> Vec<u8> {
    let mut plaintext = Vec::new();
    // The error says only that there is no more for now.
    let _ = client.reader().read_to_end(&mut plaintext);
    plaintext
}

pub(crate) struct Pair {
    pub(crate) client: ClientConnection,
    pub(crate) established: Established,
    /// What the client sent behind its handshake.
    pub(crate) rest: Vec<u8>,
}

/// Shakes hands in steps of `chunk` bytes towards the server. `early` is what the client says together with
/// the end of its handshake.
pub(crate) fn connect_with(
    tls: &Tls,
    mut client: ClientConnection,
    chunk: usize,
    early: &[u8],
) -> Result<Pair, (HandshakeError, Option<Error>)> {
    let mut handshake = Handshake::new(tls).unwrap();
    client.writer().write_all(early).unwrap();
    let (mut held, mut peer_error) = (Vec::new(), None);
    loop {
        let flight = outgoing(&mut client);
        assert!(!flight.is_empty(), "the handshake stands still");
        for piece in flight.chunks(chunk) {
            held.extend_from_slice(piece);
            let mut output = Vec::new();
            let step = handshake.advance(&held, &mut output);
            peer_error = deliver(&mut client, &output).err().or(peer_error);
            let (consumed, progress) = step.map_err(|error| (error, peer_error.clone()))?;
            held.drain(..consumed);
            if let Progress::Done(established) = progress {
                let sent = flight.len()
                    - (piece.as_ptr() as usize - flight.as_ptr() as usize)
                    - piece.len();
                held.extend_from_slice(&flight[flight.len() - sent..]);
                return Ok(Pair { client, established: *established, rest: held });
            }
        }
    }
}

pub(crate) fn connect(tls: &Tls, config: &Arc<ClientConfig>) -> Pair {
    let pair = connect_with(tls, client(config, "localhost"), usize::MAX, b"");
    pair.unwrap_or_else(|error| panic!("{error:?}"))
}

pub(crate) fn refused(tls: &Tls, offer: &Offer) -> (HandshakeError, Option<Error>) {
    match connect_with(tls, client(&offer.config(), "localhost"), usize::MAX, b"") {
        Ok(_) => panic!("should be refused"),
        Err(error) => error,
    }
}
