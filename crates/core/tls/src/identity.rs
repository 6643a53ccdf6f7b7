//! The server's certificate chains with their keys, chosen by the name that a client requests.
//!
//! A key that does not belong to its certificate is detected when it is loaded, not when a viewer connects. A name that
//! no certificate covers gets the first certificate: a viewer by IP address sends no name, and a viewer with an
//! outdated name is better off with a warning in the browser than with a closed connection.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use files::FileStamp;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use crate::config::TlsOptions;
use crate::error::TlsConfigError;
use crate::self_signed;

/// The origin of the default certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The operator gave it.
    Given,
    /// Another program has it issued, and it exists.
    Issued {
        /// The file with the chain and its key.
        path: PathBuf,
    },
    /// None was given, so one was made here and kept.
    SelfSigned {
        /// The certificate, for `curl --cacert` and the like.
        path: PathBuf,
    },
}

/// All certificates, findable by name.
#[derive(Debug)]
pub(crate) struct Identities {
    default: Arc<CertifiedKey>,
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// Keyed by the part after `*.`
    wildcard: HashMap<String, Arc<CertifiedKey>>,
}

impl Identities {
    /// `first` is the default. If two certificates cover one name, the earlier one is used.
    fn new(first: CertifiedKey, others: impl IntoIterator<Item = CertifiedKey>) -> Self {
        let default = Arc::new(first);
        let mut all =
            Self { default: Arc::clone(&default), exact: HashMap::new(), wildcard: HashMap::new() };
        all.add(&default);
        others.into_iter().for_each(|other| all.add(&Arc::new(other)));
        all
    }

    fn add(&mut self, certified: &Arc<CertifiedKey>) {
        let end_entity = certified.end_entity_cert().ok();
        let parsed = end_entity.and_then(|der| webpki::EndEntityCert::try_from(der).ok());
        let Some(parsed) = parsed else { return };
        for name in parsed.valid_dns_names().map(str::to_ascii_lowercase) {
            let (names, name) = match name.strip_prefix("*.") {
                Some(suffix) => (&mut self.wildcard, suffix.to_owned()),
                None => (&mut self.exact, name),
            };
            names.entry(name).or_insert_with(|| Arc::clone(certified));
        }
    }

    /// An exact name first, then a wildcard for exactly one label (RFC 6125 section 6.4.3).
    pub(crate) fn choose(&self, server_name: Option<&str>) -> &Arc<CertifiedKey> {
        let Some(name) = server_name.map(str::to_ascii_lowercase) else { return &self.default };
        let by_wildcard =
            || name.split_once('.').and_then(|(_label, suffix)| self.wildcard.get(suffix));
        self.exact.get(&name).or_else(by_wildcard).unwrap_or(&self.default)
    }

    /// The default end-entity certificate, DER.
    pub(crate) fn default_certificate(&self) -> &CertificateDer<'static> {
        self.default.cert.first().expect("a chain was refused when loaded if it was empty")
    }
}

impl ResolvesServerCert for Identities {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(self.choose(hello.server_name())))
    }
}

/// The loaded certificates, and their files.
pub(crate) struct Loaded {
    pub(crate) identities: Identities,
    pub(crate) origin: Origin,
    /// The state of the files at the time.
    pub(crate) stamps: Vec<FileStamp>,
}

/// The treatment of an issued certificate that exists and cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damaged {
    /// Start without it: the program that has it issued makes a new one.
    PassOver,
    /// Report it: a good one is in use.
    Refuse,
}

/// Loads the operator's certificates; else the issued one; else the self-signed pair in the state directory, which is made if needed.
pub(crate) fn load(
    options: &TlsOptions,
    damaged: Damaged,
    provider: &CryptoProvider,
) -> Result<Loaded, TlsConfigError> {
    if let Some((first, others)) = options.certificates.split_first() {
        return load_given(first, others, provider);
    }
    let mut stamps: Vec<_> = options.issued.iter().cloned().map(FileStamp::take).collect();
    if let Some(path) = &options.issued {
        match load_pair(path, path, provider) {
            Ok(issued) => {
                let (identities, origin) =
                    (Identities::new(issued, []), Origin::Issued { path: path.clone() });
                return Ok(Loaded { identities, origin, stamps });
            }
            Err(error) if damaged == Damaged::Refuse && path.exists() => return Err(error),
            Err(_) => {}
        }
    }
    let certified = load_self_signed(&options.state_dir, provider)?;
    let (chain, key) = self_signed::paths(&options.state_dir);
    let origin = Origin::SelfSigned { path: chain.clone() };
    // It may have been made just now, so it is stamped afterwards.
    stamps.extend([chain, key].map(FileStamp::take));
    Ok(Loaded { identities: Identities::new(certified, []), origin, stamps })
}

/// Loads the operator's certificates.
pub(crate) fn load_given(
    first: &(PathBuf, PathBuf),
    others: &[(PathBuf, PathBuf)],
    provider: &CryptoProvider,
) -> Result<Loaded, TlsConfigError> {
    // The files are stamped before they are read, so a change in between is noticed later, not missed.
    let files = std::iter::once(first).chain(others).flat_map(|(chain, key)| [chain, key]);
    let stamps = files.cloned().map(FileStamp::take).collect();
    let first = load_pair(&first.0, &first.1, provider)?;
    let others = others.iter().map(|(chain, key)| load_pair(chain, key, provider));
    let identities = Identities::new(first, others.collect::<Result<Vec<_>, _>>()?);
    Ok(Loaded { identities, origin: Origin::Given, stamps })
}

fn load_self_signed(
    state_dir: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsConfigError> {
    let (chain, key) = self_signed::paths(state_dir);
    // A new pair replaces a kept one with any fault (missing, damaged, halves of two pairs).
    if let Ok(kept) = load_pair(&chain, &key, provider) {
        if kept.end_entity_cert().is_ok_and(self_signed::is_fresh) {
            return Ok(kept);
        }
    }
    self_signed::make(state_dir)?;
    load_pair(&chain, &key, provider)
}

pub(crate) fn load_pair(
    chain: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsConfigError> {
    // If both are in one file, the file is read once, so that they belong together.
    let chain_text = read(chain)?;
    let key_text = if chain == key { None } else { Some(read(key)?) };
    let certificates = parse_chain(chain, &chain_text)?;
    let key_text = key_text.as_ref().unwrap_or(&chain_text);
    let private_key = PrivateKeyDer::from_pem_slice(key_text).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsConfigError::at(key, "holds no private key", ADVICE_KEY),
        error => no_pem(key, &error),
    })?;
    CertifiedKey::from_der(certificates, private_key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let what =
                format!("this key does not belong to the certificate in {}", chain.display());
            TlsConfigError::at(key, what, "give the key that the certificate was issued for")
        }
        rustls::Error::InvalidCertificate(error) => {
            TlsConfigError::at(chain, format!("not a usable certificate: {error:?}"), ADVICE_CHAIN)
        }
        error => TlsConfigError::at(key, format!("not a usable private key: {error}"), ADVICE_KEY),
    })
}

const ADVICE_CHAIN: &str = "give a PEM file with the server's certificate first, then its issuers";
const ADVICE_KEY: &str = "give a PEM file with an unencrypted ECDSA, RSA or Ed25519 key";
const ADVICE_READ: &str = "check the path, and that this user may read it";

fn parse_chain(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let chain = chain.map_err(|error| no_pem(path, &error))?;
    if chain.is_empty() {
        Err(TlsConfigError::at(path, "holds no certificate", ADVICE_CHAIN))
    } else {
        Ok(chain)
    }
}

/// A long chain has 10 KB.
const FILE_BYTES_MAX: u32 = 1 << 20;

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsConfigError> {
    files::read(path, FILE_BYTES_MAX)
        .map_err(|error| TlsConfigError::at(path, format!("cannot read it: {error}"), ADVICE_READ))
}

fn no_pem(path: &Path, error: &pem::Error) -> TlsConfigError {
    TlsConfigError::at(path, format!("not a PEM file: {error}"), ADVICE_READ)
}
