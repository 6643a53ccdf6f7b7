//! A client's offer to a server, put together once and shared by all its connections.

use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;

use super::trust::{self, Trust};
use crate::config::{TlsVersions, crypto_provider, has_aes};
use crate::error::TlsConfigError;
use crate::handshake::Group;
use crate::secrets::{CaptureLog, Suite};

/// The operator's choices.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// The certificates to trust.
    pub trust: Trust,
    /// TLS versions to offer.
    pub versions: TlsVersions,
    /// Ciphers to offer, in any order; empty means all. Naming one makes servers comparable that prefer different ones.
    pub suites: Vec<Suite>,
    /// Key exchange groups to offer; empty means all. Most servers choose the first one that they support.
    pub groups: Vec<Group>,
    /// Keep tickets and resume with them. Each is used once (RFC 8446 appendix C.4).
    pub resume: bool,
}

/// Everything that handshakes need. Cloning is cheap; clones share the tickets.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    resumes: bool,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("resumes", &self.resumes).finish_non_exhaustive()
    }
}

impl ClientTls {
    /// Reads the trusted issuers.
    ///
    /// # Errors
    /// A list of issuers that is missing or unusable, or suites that no version has. The error names the cause and what to do.
    pub fn load(options: &ClientOptions) -> Result<Self, TlsConfigError> {
        let provider = Arc::new(provider(options));
        let verifier = trust::verifier(&options.trust, &provider)?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&options.versions.supported())
            .map_err(|error| {
                TlsConfigError::without_file(
                    error,
                    "offer a cipher and a group that this version has",
                )
            })?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.enable_secret_extraction = true;
        config.key_log = Arc::new(CaptureLog);
        if !options.resume {
            config.resumption = Resumption::disabled();
        }
        Ok(Self { config: Arc::new(config), resumes: options.resume })
    }

    /// The same without resumption. No file is read again.
    #[must_use]
    pub fn without_resumption(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::disabled();
        Self { config: Arc::new(config), resumes: false }
    }

    /// Returns true if tickets are kept and used.
    pub fn resumes(&self) -> bool {
        self.resumes
    }

    pub(crate) fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }
}

/// Everything that this crate supports, without the parts that the options leave out.
fn provider(options: &ClientOptions) -> CryptoProvider {
    let mut provider = crypto_provider(has_aes());
    if !options.suites.is_empty() {
        provider.cipher_suites.retain(|suite| {
            Suite::from_rustls(suite.suite()).is_some_and(|suite| options.suites.contains(&suite))
        });
    }
    if !options.groups.is_empty() {
        provider.kx_groups.retain(|group| {
            Group::from_rustls(group.name()).is_some_and(|group| options.groups.contains(&group))
        });
    }
    provider
}
