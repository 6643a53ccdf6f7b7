//! TLS for Fullbore's programs that leave it to rustls, such as a fleet's gateway: the same files, the same trust and the same errors as the
//! server's.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ClientConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use crate::client::Trust;
use crate::client::trust;
use crate::config::{crypto_provider, has_aes};
use crate::error::TlsConfigError;
use crate::identity::{self, Loaded};

/// A server's certificates by name, replaced while it runs. Open connections keep theirs.
pub struct Certificates {
    pairs: Vec<(PathBuf, PathBuf)>,
    loaded: RwLock<Loaded>,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Certificates").field(&self.pairs).finish()
    }
}

impl Certificates {
    /// Loads pairs of PEM files: certificate chain and private key. The first is for clients that name no host, or one that no certificate covers.
    ///
    /// # Errors
    /// If there is none, or a file cannot be used. The error names the file and what to do.
    pub fn load(pairs: Vec<(PathBuf, PathBuf)>) -> Result<Self, TlsConfigError> {
        let loaded = RwLock::new(load(&pairs)?);
        Ok(Self { pairs, loaded })
    }

    /// Loads the files again. The old certificates stay in use if that fails.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn reload(&self) -> Result<(), TlsConfigError> {
        let loaded = load(&self.pairs)?;
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
    }

    /// Returns true if a file was replaced or written since it was loaded. It costs one stat per file.
    pub fn changed_on_disk(&self) -> bool {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        loaded.stamps.iter().any(files::FileStamp::is_outdated)
    }
}

fn load(pairs: &[(PathBuf, PathBuf)]) -> Result<Loaded, TlsConfigError> {
    let advice = "give a PEM file with a certificate, and one with its key";
    let (first, others) = pairs
        .split_first()
        .ok_or_else(|| TlsConfigError::without_file("there is no certificate", advice))?;
    identity::load_given(first, others, &crypto_provider(has_aes()))
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(loaded.identities.choose(hello.server_name())))
    }
}

/// The rustls configuration of a client: its trust, and the certificate and key that it shows, if any. It names no protocol above TLS.
///
/// # Errors
/// A file that cannot be used. The error names it and what to do.
pub fn client_config(
    trust: &Trust,
    own: Option<&(PathBuf, PathBuf)>,
) -> Result<ClientConfig, TlsConfigError> {
    let provider = Arc::new(crypto_provider(has_aes()));
    let verifier = trust::verifier(trust, &provider)?;
    let own = own.map(|(chain, key)| identity::load_pair(chain, key, &provider)).transpose()?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| {
            TlsConfigError::without_file(error, "report this: versions and suites do not fit")
        })?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    Ok(match own {
        None => config.with_no_client_auth(),
        Some(own) => config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))),
    })
}
