//! A node's stored identity: `node.key`, `node.pem`, `ca.pem` in its state directory.
//!
//! Each file is replaced atomically, by rename. A renewed certificate is for the same key, so a crash between two files can't leave a mismatched
//! pair. Joining again creates a new key.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::path::{Path, PathBuf};

use fleet_protocol::Digest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{NodeCertificate, NodeKey};

const KEY: &str = "node.key";
const CERTIFICATE: &str = "node.pem";
const AUTHORITY: &str = "ca.pem";

/// Ample: such files have about 1 KB.
const BYTES_MAX: u32 = 64 * 1024;

/// A node's key and certificate, and the certificate of its fleet's authority.
pub struct Credentials {
    key: NodeKey,
    der: CertificateDer<'static>,
    pem: String,
    authority: CertificateDer<'static>,
    authority_pem: String,
    certificate: NodeCertificate,
}

/// Why credentials are not available.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read or written.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// The parts are invalid, or do not match.
    #[error("{0}")]
    Mismatch(&'static str),
}

impl Debug for Credentials {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.certificate, f)
    }
}

impl Credentials {
    /// The key for joining with `state_dir`. It is saved before any request, so a machine whose answer got lost asks again with the same key.
    ///
    /// # Errors
    /// The file that cannot be read or written.
    pub fn key_for_joining(state_dir: &Path) -> Result<NodeKey, CredentialsError> {
        let path = state_dir.join(KEY);
        let failed = |error| CredentialsError::File(path.clone(), error);
        match files::read_text(&path, BYTES_MAX).map(zeroize::Zeroizing::new) {
            Ok(pem) => NodeKey::from_pem(&pem)
                .map_err(|_| CredentialsError::Mismatch("node.key is not a key of P-256")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_private_folder(state_dir)?;
                let key = NodeKey::draw();
                files::replace(&path, key.to_pem().as_bytes(), 0o600).map_err(failed)?;
                Ok(key)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Combines a key, its certificate and the authority's.
    ///
    /// # Errors
    /// If they do not match.
    pub fn new(key: NodeKey, pem: String, authority_pem: String) -> Result<Self, CredentialsError> {
        let der = |pem: &str, what| {
            CertificateDer::from_pem_slice(pem.as_bytes())
                .map_err(|_| CredentialsError::Mismatch(what))
        };
        let own = der(&pem, "the node's certificate is not PEM")?;
        let authority = der(&authority_pem, "the authority's certificate is not PEM")?;
        let certificate = NodeCertificate::read(&own)
            .map_err(|_| CredentialsError::Mismatch("the certificate is not a node's"))?;
        let is_pair = X509Certificate::from_der(&own)
            .is_ok_and(|(_, own)| *own.public_key().subject_public_key.data == *key.public());
        if !is_pair {
            return Err(CredentialsError::Mismatch(
                "the node's certificate does not belong to its key",
            ));
        }
        Ok(Self { key, der: own, pem, authority, authority_pem, certificate })
    }

    /// The same credentials with a renewed certificate.
    ///
    /// # Errors
    /// If it is for another key or another name.
    pub fn renewed(&self, pem: String) -> Result<Self, CredentialsError> {
        let key = NodeKey::from_pem(&self.key.to_pem())
            .map_err(|_| CredentialsError::Mismatch("the key is not readable"))?;
        let new = Self::new(key, pem, self.authority_pem.clone())?;
        if new.certificate.node != self.certificate.node {
            return Err(CredentialsError::Mismatch("the new certificate is for another name"));
        }
        Ok(new)
    }

    /// Loads them from `state_dir`.
    ///
    /// # Errors
    /// The file that cannot be read, or the fault in it.
    pub fn read(state_dir: &Path) -> Result<Self, CredentialsError> {
        let text = |name: &str| {
            let path = state_dir.join(name);
            files::read_text(&path, BYTES_MAX).map_err(|error| CredentialsError::File(path, error))
        };
        let key = zeroize::Zeroizing::new(text(KEY)?);
        let key = NodeKey::from_pem(&key)
            .map_err(|_| CredentialsError::Mismatch("node.key is not a key of P-256"))?;
        Self::new(key, text(CERTIFICATE)?, text(AUTHORITY)?)
    }

    /// Saves them in `state_dir`, which is created if needed. Other users can never read the key.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub fn keep(&self, state_dir: &Path) -> Result<(), CredentialsError> {
        make_private_folder(state_dir)?;
        // The certificate comes last: with it, the directory is a node's.
        let files = [
            (KEY, self.key.to_pem().as_bytes().to_vec(), 0o600),
            (AUTHORITY, self.authority_pem.as_bytes().to_vec(), 0o644),
            (CERTIFICATE, self.pem.as_bytes().to_vec(), 0o644),
        ];
        for (name, bytes, mode) in files {
            let path = state_dir.join(name);
            let bytes = zeroize::Zeroizing::new(bytes);
            files::replace(&path, &bytes, mode)
                .map_err(|error| CredentialsError::File(path, error))?;
        }
        Ok(())
    }

    /// Saves only the certificate, after a renewal.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_certificate(&self, state_dir: &Path) -> Result<(), CredentialsError> {
        let path = state_dir.join(CERTIFICATE);
        files::replace(&path, self.pem.as_bytes(), 0o644)
            .map_err(|error| CredentialsError::File(path, error))
    }

    /// The contents of the certificate.
    pub fn certificate(&self) -> &NodeCertificate {
        &self.certificate
    }

    /// SHA-256 of the authority's certificate.
    pub fn fingerprint(&self) -> Digest {
        Digest::of(&self.authority)
    }

    /// A signing request for the same name and key, as PEM.
    pub fn request(&self) -> String {
        self.key.request(&self.certificate.node)
    }

    pub(crate) fn authority(&self) -> &CertificateDer<'static> {
        &self.authority
    }

    pub(crate) fn certificate_der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    pub(crate) fn key_der(&self) -> PrivateKeyDer<'static> {
        self.key.to_der()
    }
}

fn make_private_folder(path: &Path) -> Result<(), CredentialsError> {
    files::make_folders(path, 0o700).map_err(|error| CredentialsError::File(path.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;
    use crate::{Authority, SigningRequest};

    fn sign(authority: &Authority, key: &NodeKey, name: &str) -> String {
        let name = name.parse().unwrap();
        let request = SigningRequest::check(&key.request(&name), &name).unwrap();
        authority.sign_node(&request, Duration::from_secs(300), 1_800_000_000).unwrap().pem
    }

    #[test]
    fn credentials_are_read_as_they_were_kept_and_the_key_is_private() {
        let authority = Authority::make(&"films".parse().unwrap(), 1_800_000_000).unwrap();
        let key = NodeKey::draw();
        let pem = sign(&authority, &key, "node-1");
        let own = Credentials::new(key, pem, authority.certificate_pem().to_owned()).unwrap();
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join("node");
        own.keep(&folder).unwrap();
        let read = Credentials::read(&folder).unwrap();
        assert_eq!(read.certificate(), own.certificate());
        assert_eq!(read.fingerprint(), authority.fingerprint());
        let mode = std::fs::metadata(folder.join(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
    }

    #[test]
    fn an_error_names_its_file_once_and_has_no_source() {
        let missing = io::ErrorKind::NotFound.into();
        let error = CredentialsError::File("/state/node.key".into(), missing);
        assert_eq!(error.to_string(), "/state/node.key: entity not found");
        // Code that prints a chain of sources would repeat the reason.
        assert!(std::error::Error::source(&error).is_none());
    }

    #[test]
    fn the_key_for_joining_stays_the_same() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join("node");
        let key = Credentials::key_for_joining(&folder).unwrap();
        let again = Credentials::key_for_joining(&folder).unwrap();
        assert_eq!(key.public(), again.public());
        std::fs::write(folder.join(KEY), "no key").unwrap();
        assert!(Credentials::key_for_joining(&folder).is_err());
    }

    #[test]
    fn a_certificate_for_another_key_or_name_is_no_renewal() {
        let authority = Authority::make(&"films".parse().unwrap(), 1_800_000_000).unwrap();
        let (key, other) = (NodeKey::draw(), NodeKey::draw());
        let again = NodeKey::from_pem(&key.to_pem()).unwrap();
        let pem = sign(&authority, &key, "node-1");
        let own = Credentials::new(key, pem, authority.certificate_pem().to_owned()).unwrap();
        let renewed = own.renewed(sign(&authority, &again, "node-1")).unwrap();
        assert_ne!(renewed.certificate().serial, own.certificate().serial);
        assert!(own.renewed(sign(&authority, &again, "node-2")).is_err());
        assert!(own.renewed(sign(&authority, &other, "node-1")).is_err());
        assert!(own.renewed("no PEM".to_owned()).is_err());
    }
}
