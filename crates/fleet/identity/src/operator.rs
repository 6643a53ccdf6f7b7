//! Operators who use a certificate instead of a token. It identifies them; their permissions are in the fleet's store, under the same name.
//!
//! The certificates come from a separate authority of the operators, never from the fleet's: that one signs nodes, so a node with an operator's
//! name would become that operator.

use std::fmt::{self, Debug, Display, Formatter};
use std::path::{Path, PathBuf};

use fleet_protocol::Name;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{Authority, now_unix_seconds};

/// Ample for some authorities of about 1 KB each.
const BYTES_MAX: u32 = 64 << 10;

/// The contents of an operator's certificate. The handshake verifies the [`OperatorAuthority`]'s signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorCertificate {
    /// The operator's name.
    pub operator: Name,
    /// When it expires, since 1970.
    pub expires_unix_seconds: u64,
}

impl OperatorCertificate {
    /// Parses a certificate in DER, if it is for clients and has a single common name that an operator can have.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let usage = certificate.extended_key_usage().ok().flatten()?;
        if certificate.is_ca() || !usage.value.client_auth {
            return None;
        }
        let mut names = certificate.subject().iter_common_name();
        let (name, None) = (names.next()?, names.next()) else { return None };
        let end = certificate.validity().not_after.timestamp();
        Some(Self {
            operator: name.as_str().ok()?.parse().ok()?,
            expires_unix_seconds: u64::try_from(end).ok()?,
        })
    }

    /// Whether it has expired. A connection may last longer than its certificate.
    pub fn has_expired(&self) -> bool {
        now_unix_seconds() >= self.expires_unix_seconds
    }
}

/// The authorities that sign operators' certificates.
pub struct OperatorAuthority {
    pub(crate) roots: RootCertStore,
    file: PathBuf,
}

impl Debug for OperatorAuthority {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "OperatorAuthority({})", self.file.display())
    }
}

/// Why a file has no usable authority for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: {1}: name the certificate of an authority that signs only operators")]
pub struct BadOperatorAuthority(PathBuf, String);

impl OperatorAuthority {
    /// Reads authorities' certificates from a PEM file, for a gateway of `fleet`.
    ///
    /// # Errors
    /// If the file cannot be read, or has something else in it, such as an operator's certificate or the fleet's own authority.
    pub fn read(file: &Path, fleet: &Authority) -> Result<Self, BadOperatorAuthority> {
        let bad = |what: &dyn Display| BadOperatorAuthority(file.to_owned(), what.to_string());
        let pem = files::read(file, BYTES_MAX).map_err(|error| bad(&error))?;
        let mut roots = RootCertStore::empty();
        for der in CertificateDer::pem_slice_iter(&pem) {
            let der = der.map_err(|error| bad(&format_args!("it is not PEM ({error})")))?;
            check(&der, fleet).map_err(|what| bad(&what))?;
            roots.add(der).map_err(|error| bad(&error))?;
        }
        if roots.is_empty() {
            return Err(bad(&"it contains no certificate"));
        }
        Ok(Self { roots, file: file.to_owned() })
    }
}

fn check(der: &CertificateDer<'_>, fleet: &Authority) -> Result<(), &'static str> {
    let unreadable = |_| "it contains an unreadable certificate";
    let (_, own) = X509Certificate::from_der(der).map_err(unreadable)?;
    let (_, fleets) = X509Certificate::from_der(fleet.certificate()).map_err(unreadable)?;
    if own.public_key() == fleets.public_key() {
        return Err("this is the fleet's own authority, which signs nodes");
    }
    if own.is_ca() { Ok(()) } else { Err("it contains a certificate that is not an authority's") }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};

    use super::*;
    use crate::request::common_name;

    fn fleet() -> Authority {
        Authority::make(&"films".parse().unwrap(), 1_800_000_000).unwrap()
    }

    fn made(change: impl FnOnce(&mut CertificateParams)) -> rcgen::Certificate {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = common_name("anna");
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut parameters);
        parameters.self_signed(&KeyPair::generate().unwrap()).unwrap()
    }

    fn who(change: impl FnOnce(&mut CertificateParams)) -> Option<String> {
        OperatorCertificate::read(made(change).der()).map(|read| read.operator.to_string())
    }

    #[test]
    fn a_certificate_says_one_name_and_is_for_clients() {
        assert_eq!(who(|_| {}).as_deref(), Some("anna"));
        let more = |parameters: &mut CertificateParams, kind| {
            parameters.distinguished_name.push(kind, "b")
        };
        assert_eq!(who(|own| more(own, DnType::OrganizationName)).as_deref(), Some("anna"));
        assert_eq!(who(|own| own.distinguished_name = common_name("Anna B")), None);
        assert_eq!(who(|own| own.distinguished_name = common_name("")), None);
        assert_eq!(who(|own| own.extended_key_usages.clear()), None);
        let server = vec![ExtendedKeyUsagePurpose::ServerAuth];
        assert_eq!(who(|own| own.extended_key_usages = server), None);
        assert_eq!(who(|own| own.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained)), None);
        assert!(OperatorCertificate::read(b"nothing").is_none());
    }

    #[test]
    fn only_an_authority_for_operators_is_one() {
        let (fleet, folder) = (fleet(), tempfile::tempdir().unwrap());
        let file = folder.path().join("ca.pem");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            OperatorAuthority::read(&file, &fleet).map_err(|bad| bad.to_string())
        };
        let ca = |own: &mut CertificateParams| {
            own.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        };
        let two = made(ca).pem() + &made(ca).pem();
        assert_eq!(read(&two).unwrap().roots.len(), 2);
        for (text, why) in [
            (fleet.certificate_pem(), "the fleet's own authority"),
            (&made(|_| {}).pem(), "not an authority's"),
            ("", "no certificate"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(why) && said.contains("ca.pem"), "{said}");
        }
        let missing = OperatorAuthority::read(&folder.path().join("no"), &fleet);
        assert!(missing.unwrap_err().to_string().contains("No such file"));
    }
}
