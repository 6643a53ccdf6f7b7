//! The contents of a node's certificate.

use fleet_protocol::Name;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::Serial;

/// A certificate is valid from this long before its issue, for machines with slow clocks.
pub(crate) const BACKDATED_SECONDS: u64 = 3600;

/// The contents of a node's certificate. The handshake verifies the authority's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCertificate {
    /// The node's name.
    pub node: Name,
    /// Its serial number.
    pub serial: Serial,
    /// When it was issued, since 1970.
    pub issued_unix_seconds: u64,
    /// When it expires, since 1970.
    pub expires_unix_seconds: u64,
}

/// The bytes are not a node's certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a node's certificate")]
pub struct BadCertificate;

impl NodeCertificate {
    /// Parses a certificate in DER.
    ///
    /// # Errors
    /// If it is not a node's.
    pub fn read(der: &[u8]) -> Result<Self, BadCertificate> {
        let (rest, certificate) = X509Certificate::from_der(der).map_err(|_| BadCertificate)?;
        if !rest.is_empty() || certificate.is_ca() {
            return Err(BadCertificate);
        }
        let usage = certificate.extended_key_usage().ok().flatten().ok_or(BadCertificate)?;
        if !usage.value.client_auth {
            return Err(BadCertificate);
        }
        let seconds = |time: i64| u64::try_from(time).map_err(|_| BadCertificate);
        let validity = certificate.validity();
        Ok(Self {
            node: only_name(certificate.subject()).ok_or(BadCertificate)?,
            serial: Serial::from_bytes(certificate.raw_serial()).ok_or(BadCertificate)?,
            issued_unix_seconds: seconds(validity.not_before.timestamp())? + BACKDATED_SECONDS,
            expires_unix_seconds: seconds(validity.not_after.timestamp())?,
        })
    }

    /// When it should be renewed: after two thirds of its lifetime, so that gateways may be away for the last third.
    pub fn renew_unix_seconds(&self) -> u64 {
        let life = self.expires_unix_seconds.saturating_sub(self.issued_unix_seconds);
        self.issued_unix_seconds + life * 2 / 3
    }
}

/// The name in a subject that has only a common name.
pub(crate) fn only_name(subject: &x509_parser::x509::X509Name<'_>) -> Option<Name> {
    let mut attributes = subject.iter_attributes();
    let only = attributes.next()?;
    let is_common_name = *only.attr_type() == x509_parser::oid_registry::OID_X509_COMMON_NAME;
    if !is_common_name || attributes.next().is_some() {
        return None;
    }
    only.as_str().ok()?.parse().ok()
}
