//! The files in the state folder: the certificate with its key, and the account.
//!
//! The chain and its key are in one file, which is replaced by rename, so readers always get a matching pair. It has a folder of its own,
//! which the server may read; the account is in another one, which it may not. The server grants itself access to no more than that.

use crate::AcmeKeyType;
use crate::schedule::Lifetime;
use rustix::fs::{FlockOperation, flock};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};
use zeroize::Zeroizing;

/// A chain with a hundred names has some 20 KB.
const BYTES_MAX: u32 = 1 << 20;

/// The mode of files with a key.
pub(crate) const PRIVATE: u32 = 0o600;

/// The folder of the certificate, below the state folder.
pub fn certificate_folder(state: &Path) -> PathBuf {
    state.join("acme")
}

/// The chain and its key, PEM, in one file.
pub fn certificate_file(state: &Path) -> PathBuf {
    certificate_folder(state).join("certificate.pem")
}

/// The folder of the account, below the state folder.
pub(crate) fn account_folder(state: &Path) -> PathBuf {
    state.join("acme-account")
}

/// The account with its key.
pub fn account_file(state: &Path) -> PathBuf {
    account_folder(state).join("account.json")
}

/// Creates both folders if they do not exist, accessible only to this user.
///
/// # Errors
/// If they cannot be created.
pub fn make_folders(state: &Path) -> io::Result<()> {
    files::make_folders(&certificate_folder(state), 0o700)?;
    files::make_folders(&account_folder(state), 0o700)
}

/// The file that locks the state folder for one helper.
fn lock_file(state: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options.open(account_folder(state).join("lock"))
}

/// Waits until no other helper uses `state`, and locks it as long as the result lives.
///
/// # Errors
/// If the file cannot be created.
pub(crate) fn lock(state: &Path) -> io::Result<File> {
    let lock = lock_file(state)?;
    loop {
        match flock(&lock, FlockOperation::LockExclusive) {
            Err(rustix::io::Errno::INTR) => {}
            locked => return locked.map(|()| lock).map_err(io::Error::from),
        }
    }
}

/// Whether another helper is using `state`.
pub fn is_in_use(state: &Path) -> bool {
    let tried = |lock: File| flock(&lock, FlockOperation::NonBlockingLockExclusive);
    lock_file(state).is_ok_and(|lock| tried(lock) == Err(rustix::io::Errno::WOULDBLOCK))
}

/// The saved certificate.
pub(crate) struct HeldCertificate {
    pub(crate) lifetime: Lifetime,
    /// Its names, in lower case.
    pub(crate) names: BTreeSet<String>,
    /// The kind of its key, if it is a supported one.
    pub(crate) key_type: Option<AcmeKeyType>,
    pub(crate) der: CertificateDer<'static>,
}

/// Reads the certificate saved in `state`; `None` if there is none.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn read_certificate(state: &Path) -> io::Result<Option<HeldCertificate>> {
    match files::read(&certificate_file(state), BYTES_MAX) {
        Ok(pem) => check_pair(&pem, &pem).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Saves a chain and its key, if they belong together. Returns the saved certificate.
///
/// # Errors
/// If they do not, or cannot be written.
pub(crate) fn keep_certificate(
    state: &Path,
    chain: &str,
    key: &Zeroizing<String>,
) -> io::Result<HeldCertificate> {
    let held = check_pair(chain.as_bytes(), key.as_bytes())?;
    let mut both = Zeroizing::new(Vec::with_capacity(chain.len() + key.len() + 1));
    both.extend_from_slice(chain.as_bytes());
    both.push(b'\n');
    both.extend_from_slice(key.as_bytes());
    files::replace(&certificate_file(state), &both, PRIVATE)?;
    Ok(held)
}

fn check_pair(chain: &[u8], key: &[u8]) -> io::Result<HeldCertificate> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let certificates = certificates.map_err(|error| wrong(format!("no PEM: {error}")))?;
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong(format!("no key: {error}")))?;
    let der = certificates.first().cloned().ok_or_else(|| wrong("no certificate".into()))?;
    CertifiedKey::from_der(certificates, key, &default_provider())
        .map_err(|error| wrong(format!("the chain and the key do not match: {error}")))?;
    let (_, parsed) = X509Certificate::from_der(&der)
        .map_err(|error| wrong(format!("no certificate: {error}")))?;
    let seconds = |time: i64| u64::try_from(time).unwrap_or(0);
    let validity = parsed.validity();
    let lifetime = Lifetime {
        begins: seconds(validity.not_before.timestamp()),
        ends: seconds(validity.not_after.timestamp()),
    };
    let (names, key_type) = (names_of(&parsed), AcmeKeyType::of(&parsed));
    Ok(HeldCertificate { lifetime, names, key_type, der })
}

fn names_of(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let names = extension.iter().flat_map(|names| &names.value.general_names);
    let names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use std::os::unix::fs::PermissionsExt;
    use tempfile::tempdir;

    fn pair(names: &[&str]) -> (String, Zeroizing<String>) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), Zeroizing::new(key.serialize_pem()))
    }

    #[test]
    fn what_is_kept_is_read_again_and_is_nobody_elses() {
        let state = tempdir().unwrap();
        make_folders(state.path()).unwrap();
        assert!(read_certificate(state.path()).unwrap().is_none());
        for names in [&["A.example", "*.b.example"][..], &["c.example"]] {
            let (chain, key) = pair(names);
            let kept = keep_certificate(state.path(), &chain, &key).unwrap();
            let read = read_certificate(state.path()).unwrap().unwrap();
            assert!(read.lifetime == kept.lifetime && read.names == kept.names);
            let names: BTreeSet<_> = names.iter().map(|name| name.to_lowercase()).collect();
            assert_eq!(read.names, names);
        }
        let file = certificate_file(state.path());
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        for folder in [certificate_folder(state.path()), account_folder(state.path())] {
            assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
        let files = std::fs::read_dir(certificate_folder(state.path())).unwrap().count();
        assert_eq!(files, 1, "nothing is left next to it");
    }

    #[test]
    fn a_chain_with_another_key_is_not_kept() {
        let state = tempdir().unwrap();
        make_folders(state.path()).unwrap();
        let (chain, key) = pair(&["a.example"]);
        keep_certificate(state.path(), &chain, &key).unwrap();
        let (other, _) = pair(&["a.example"]);
        let error = keep_certificate(state.path(), &other, &key).err().unwrap();
        assert!(error.to_string().contains("do not match"), "{error}");
        for damaged in ["", "-----BEGIN CERTIFICATE-----\n", "text"] {
            assert!(keep_certificate(state.path(), damaged, &key).is_err(), "{damaged}");
        }
        let der = read_certificate(state.path()).unwrap().unwrap().der;
        assert_eq!(der, CertificateDer::from_pem_slice(chain.as_bytes()).unwrap());
    }

    #[test]
    fn one_helper_at_a_time_uses_a_state_folder() {
        let state = tempdir().unwrap();
        make_folders(state.path()).unwrap();
        assert!(!is_in_use(state.path()));
        let held = lock(state.path()).unwrap();
        assert!(is_in_use(state.path()));
        drop(held);
        assert!(!is_in_use(state.path()));
    }
}
