//! The server's offer to its clients. Built once and shared by all workers.
//!
//! Offered: TLS 1.3 and 1.2; AES-128-GCM, AES-256-GCM and ChaCha20-Poly1305, with ephemeral key exchange
//! only; X25519MLKEM768, X25519, P-256, P-384; ALPN `http/1.1` and `http/1.0`. Not offered: CBC,
//! RSA key exchange, renegotiation, compression, client certificates, 0-RTT.

use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::digest;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self as provider, cipher_suite as suite, kx_group};
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion, version};

use files::FileStamp;

use crate::error::TlsConfigError;
use crate::identity::{self, Damaged, Identities, Loaded, Origin};
use crate::proofs::{ACME_TLS, AlpnProofs, WithProofs};
use crate::secrets::CaptureLog;
use crate::self_signed;
use crate::tickets::{self, Ticketer};

/// The protocols inside of TLS (RFC 7301), preferred first.
pub(crate) const HTTP: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];

/// The TLS versions to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersions {
    /// 1.3, and 1.2 for old clients.
    #[default]
    Both,
    /// 1.3 only.
    Tls13,
    /// 1.2 only.
    Tls12,
    /// As [`Self::Both`], but 1.2 first on connections for which the caller asks for it ([`crate::Handshake::preferring_tls12`]): for NICs that
    /// encrypt nothing newer.
    Card,
}

impl TlsVersions {
    pub(crate) fn supported(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            Self::Both | Self::Card => vec![&version::TLS13, &version::TLS12],
            Self::Tls13 => vec![&version::TLS13],
            Self::Tls12 => vec![&version::TLS12],
        }
    }
}

/// The operator's choices.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// PEM files: certificate chain and private key. The first pair is for clients that name no host, or one that no
    /// certificate covers. If there is none, a self-signed certificate is made and kept.
    pub certificates: Vec<(PathBuf, PathBuf)>,
    /// A PEM file with both a chain and its key, which another program makes and replaces. Once it exists, it replaces the self-signed certificate.
    pub issued: Option<PathBuf>,
    /// Where the self-signed certificate is kept. Not touched if certificates are given.
    pub state_dir: PathBuf,
    /// The proofs for a certificate authority that validates over TLS. The caller keeps a clone, and changes it.
    pub proofs: AlpnProofs,
    /// TLS versions to speak.
    pub versions: TlsVersions,
    /// Issue and accept session tickets.
    pub tickets: bool,
}

impl TlsOptions {
    /// All features on, and a self-signed certificate kept in `state_dir`.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            certificates: Vec::new(),
            issued: None,
            state_dir: state_dir.into(),
            proofs: AlpnProofs::default(),
            versions: TlsVersions::Both,
            tickets: true,
        }
    }
}

/// Everything a handshake needs. Cloning is cheap; each worker has its own clone.
#[derive(Clone)]
pub struct TlsContext {
    shared: Arc<Shared>,
}

struct Shared {
    config: Arc<ServerConfig>,
    /// The same, while there are proofs.
    proving: Arc<ServerConfig>,
    /// The same with TLS 1.2 only, if some connections should get that.
    tls12: Option<Arc<ServerConfig>>,
    identities: Arc<Identities>,
    origin: Origin,
    options: TlsOptions,
    ticketer: Option<Ticketer>,
    stamps: Vec<FileStamp>,
}

impl TlsContext {
    /// Loads the certificates, or makes one, and generates ticket keys.
    ///
    /// # Errors
    /// A file that cannot be read or used, or a key that does not belong to its certificate. The error names the file and what to do.
    pub fn load(options: TlsOptions) -> Result<Self, TlsConfigError> {
        let ticketer = if options.tickets { Some(tickets::ticketer()?) } else { None };
        Self::build(options, ticketer, Damaged::PassOver)
    }

    /// Reads the same files again into a new object, for new connections; existing ones are not affected. Tickets
    /// issued before stay valid.
    ///
    /// # Errors
    /// As [`Self::load`]. Keep using the object you have.
    pub fn reload(&self) -> Result<Self, TlsConfigError> {
        Self::build(self.shared.options.clone(), self.shared.ticketer.clone(), Damaged::Refuse)
    }

    fn build(
        options: TlsOptions,
        ticketer: Option<Ticketer>,
        damaged: Damaged,
    ) -> Result<Self, TlsConfigError> {
        let provider = Arc::new(crypto_provider(has_aes()));
        let loaded = identity::load(&options, damaged, &provider)?;
        let Loaded { identities, origin, stamps } = loaded;
        let identities = Arc::new(identities);
        let certificates = Arc::clone(&identities);
        let with = |versions: TlsVersions| {
            let certificates = Arc::clone(&certificates);
            server_config(Arc::clone(&provider), versions, certificates, ticketer.as_ref())
        };
        let config = Arc::new(with(options.versions)?);
        // A server that speaks 1.3 as well would signal a downgrade to 1.2, and clients would close the connection (RFC 8446 section 4.1.3).
        let wants_tls12 = options.versions == TlsVersions::Card;
        let tls12 = wants_tls12.then(|| with(TlsVersions::Tls12).map(Arc::new)).transpose()?;
        let mut proving = (*config).clone();
        // Last, so that a client that also offers another protocol gets that one.
        proving.alpn_protocols.push(ACME_TLS.to_vec());
        let (certificates, proofs) = (Arc::clone(&identities), options.proofs.clone());
        proving.cert_resolver = Arc::new(WithProofs { identities: certificates, proofs });
        let proving = Arc::new(proving);
        let shared =
            Shared { config, proving, tls12, identities, origin, options, ticketer, stamps };
        Ok(Self { shared: Arc::new(shared) })
    }

    pub(crate) fn config(&self) -> &Arc<ServerConfig> {
        match self.shared.options.proofs.are_there() {
            true => &self.shared.proving,
            false => &self.shared.config,
        }
    }

    /// With TLS 1.2 only, if some connections should get that; not while there are proofs.
    pub(crate) fn tls12(&self) -> Option<&Arc<ServerConfig>> {
        self.shared.tls12.as_ref().filter(|_| !self.shared.options.proofs.are_there())
    }

    /// Returns true if TLS 1.3 is offered.
    pub(crate) fn offers_tls13(&self) -> bool {
        self.shared.options.versions != TlsVersions::Tls12
    }

    /// Returns true if TLS 1.2 should come first on connections that a NIC encrypts.
    pub fn asks_for_nics(&self) -> bool {
        self.shared.options.versions == TlsVersions::Card
    }

    /// Where the default certificate comes from.
    pub fn origin(&self) -> &Origin {
        &self.shared.origin
    }

    /// SHA-256 of the default certificate, as browsers show it: `AB:CD:...`.
    pub fn fingerprint_sha256(&self) -> String {
        let hash = digest::digest(&digest::SHA256, self.shared.identities.default_certificate());
        let pairs: Vec<String> = hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        pairs.join(":")
    }

    /// The certificate and key files in use.
    pub fn files(&self) -> Vec<PathBuf> {
        self.shared.stamps.iter().map(|stamp| stamp.path().to_owned()).collect()
    }

    /// Returns true if [`Self::reload`] would find something new: a file was replaced or written, or our self-signed certificate is about to expire.
    /// It costs one stat per file; call it every few seconds. A missing file does not count, because a replacement may be half done.
    pub fn changed_on_disk(&self) -> bool {
        let expiring = matches!(self.shared.origin, Origin::SelfSigned { .. })
            && !self_signed::is_fresh(self.shared.identities.default_certificate());
        expiring || self.shared.stamps.iter().any(FileStamp::is_outdated)
    }
}

fn server_config(
    provider: Arc<CryptoProvider>,
    versions: TlsVersions,
    identities: Arc<Identities>,
    ticketer: Option<&Ticketer>,
) -> Result<ServerConfig, TlsConfigError> {
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions.supported())
        .map_err(|error| {
            TlsConfigError::without_file(error, "report this: versions and suites do not fit")
        })?
        .with_no_client_auth()
        .with_cert_resolver(identities);
    // curl --http1.0 offers only the latter.
    config.alpn_protocols = HTTP.map(<[u8]>::to_vec).into();
    // The server decides the order: sealing is most of what it does, and the client opens one stream.
    config.ignore_client_order = true;
    config.enable_secret_extraction = true;
    config.key_log = Arc::new(CaptureLog);
    tickets::install(&mut config, ticketer);
    Ok(config)
}

/// Everything that is supported, on either side of a connection.
pub(crate) fn crypto_provider(has_aes: bool) -> CryptoProvider {
    CryptoProvider {
        cipher_suites: cipher_suites(has_aes),
        kx_groups: vec![
            kx_group::X25519MLKEM768,
            kx_group::X25519,
            kx_group::SECP256R1,
            kx_group::SECP384R1,
        ],
        ..provider::default_provider()
    }
}

/// The suites in order of preference. AES-128-GCM is the fastest where the CPU has instructions for it; without them it
/// is neither fast nor safe from timing attacks.
pub(crate) fn cipher_suites(has_aes: bool) -> Vec<SupportedCipherSuite> {
    let aes = [
        suite::TLS13_AES_128_GCM_SHA256,
        suite::TLS13_AES_256_GCM_SHA384,
        suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ];
    let chacha = [
        suite::TLS13_CHACHA20_POLY1305_SHA256,
        suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ];
    if has_aes { [&aes[..], &chacha].concat() } else { [&chacha[..], &aes].concat() }
}

/// Returns true if this CPU has instructions for AES and for GCM's multiplication.
pub(crate) fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_led_by_what_the_cpu_is_good_at() {
        assert_eq!(cipher_suites(true)[0], suite::TLS13_AES_128_GCM_SHA256);
        assert_eq!(cipher_suites(false)[0], suite::TLS13_CHACHA20_POLY1305_SHA256);
        assert_eq!(cipher_suites(true).len(), cipher_suites(false).len());
    }

    #[test]
    fn nothing_without_forward_secrecy_or_with_cbc_is_offered() {
        for suite in cipher_suites(true) {
            let name = format!("{:?}", suite.suite());
            assert!(name.starts_with("TLS13_") || name.starts_with("TLS_ECDHE_"), "{name}");
            assert!(!name.contains("CBC"), "{name}");
        }
    }
}
