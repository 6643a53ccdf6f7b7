//! A node's certificate for viewers. A public authority issues it, so nothing here signs one: a node creates a key and a request for the host of
//! its addresses, an operator with an account at an authority gets the chain, and both gateway and node check it before it is used.
//!
//! Invariants: the key never leaves the node; a request is for one host and proves that the sender has the key.

use std::fmt::{self, Formatter};
use std::io;
use std::net::IpAddr;
use std::path::Path;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use fleet_protocol::Digest;
use rcgen::{
    CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, KeyPair, PKCS_ECDSA_P256_SHA256,
    SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, ServerName};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use crate::request::p256_point;

/// Longer than any chain for viewers.
const CERTIFICATES_MAX: usize = 8;

/// Ample for a key file, which has a few hundred bytes.
const KEY_BYTES_MAX: u32 = 64 << 10;

/// A node's private P-256 key for viewers.
pub struct ViewerKey(KeyPair);

impl fmt::Debug for ViewerKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("ViewerKey")
    }
}

impl ViewerKey {
    /// The key in the file at `path`. If there is none, it is created, readable by its owner only.
    ///
    /// # Errors
    /// If the file cannot be read or written, or is not a P-256 key.
    pub fn at(path: &Path) -> io::Result<Self> {
        match files::read_text(path, KEY_BYTES_MAX).map(Zeroizing::new) {
            Ok(pem) => KeyPair::from_pkcs8_pem_and_sign_algo(&pem, &PKCS_ECDSA_P256_SHA256)
                .map(Self)
                .map_err(|_| io::Error::other("it is not a key of P-256")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256);
                let key = key.map_err(io::Error::other)?;
                let pem = Zeroizing::new(key.serialize_pem());
                files::replace(path, pem.as_bytes(), 0o600)?;
                Ok(Self(key))
            }
            Err(error) => Err(error),
        }
    }

    /// A request for a certificate for `host`, as PEM.
    ///
    /// # Errors
    /// If `host` is neither a name nor an address.
    pub fn request(&self, host: &str) -> io::Result<String> {
        let request = parameters(host)?.serialize_request(&self.0);
        request.and_then(|request| request.pem()).map_err(io::Error::other)
    }

    /// A self-signed certificate as PEM, for use until there is another one.
    ///
    /// # Errors
    /// Like [`request`](Self::request).
    pub fn self_signed(&self, host: &str) -> io::Result<String> {
        let mut parameters = parameters(host)?;
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let made = parameters.self_signed(&self.0).map_err(io::Error::other)?;
        Ok(made.pem())
    }

    /// Digest of the public key.
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.public_key_raw())
    }
}

fn parameters(host: &str) -> io::Result<CertificateParams> {
    let name = match address(host) {
        Some(address) => SanType::IpAddress(address),
        None => SanType::DnsName(host.try_into().map_err(io::Error::other)?),
    };
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.subject_alt_names = vec![name];
    Ok(parameters)
}

/// The address in a host, if it is one.
fn address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Why a request for a viewers' certificate, or an issued chain, is refused. Its text is for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct BadViewerCertificate {
    text: String,
    is_of_time: bool,
}

impl BadViewerCertificate {
    /// Whether only the time is wrong: the certificate has expired, or is not valid yet.
    pub fn is_of_time(&self) -> bool {
        self.is_of_time
    }
}

fn bad(why: impl Into<String>) -> BadViewerCertificate {
    BadViewerCertificate { text: why.into(), is_of_time: false }
}

/// Checks a node's request for a certificate for `host`, and returns the digest of its public key.
///
/// # Errors
/// The fault.
pub fn check_viewer_request(pem: &str, host: &str) -> Result<Digest, BadViewerCertificate> {
    let form = || bad("it is not PEM of a PKCS #10 request");
    let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).map_err(|_| form())?;
    let (rest, request) = X509CertificationRequest::from_der(&der).map_err(|_| form())?;
    let info = &request.certification_request_info;
    if !rest.is_empty() {
        return Err(form());
    }
    let point = p256_point(info.subject_pki.raw).ok_or_else(|| bad("its key is not of P-256"))?;
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point)
        .verify(info.raw, &request.signature_value.data)
        .map_err(|_| bad("its signature does not belong to its key"))?;
    let extensions: Vec<_> = request.requested_extensions().into_iter().flatten().collect();
    let is_for_host = match extensions[..] {
        [ParsedExtension::SubjectAlternativeName(names)] => {
            matches!(&names.general_names[..], [name] if is_of(name, host))
        }
        _ => false,
    };
    if !is_for_host || info.subject.iter().next().is_some() || info.attributes().len() != 1 {
        return Err(bad(format!("it is not for {host} alone")));
    }
    Ok(Digest::of(point))
}

fn is_of(name: &GeneralName<'_>, host: &str) -> bool {
    match (name, address(host)) {
        (GeneralName::DNSName(name), None) => name.eq_ignore_ascii_case(host),
        (GeneralName::IPAddress(bytes), Some(IpAddr::V4(address))) => **bytes == address.octets(),
        (GeneralName::IPAddress(bytes), Some(IpAddr::V6(address))) => **bytes == address.octets(),
        _ => false,
    }
}

/// Whether a PEM file contains a private key of any kind. Authorities' tools write some with the chain.
pub fn has_private_key(pem: &str) -> bool {
    pem.lines().any(|line| line.contains("-----BEGIN ") && line.contains("PRIVATE KEY-----"))
}

/// Checks a chain that an authority issued for the key with this digest and for `host`, and returns its expiry, since 1970. Whether viewers trust
/// the authority is not checked: it may be a private one.
///
/// # Errors
/// The fault.
pub fn check_viewer_chain(
    pem: &str,
    host: &str,
    key: &Digest,
    now_unix_seconds: u64,
) -> Result<u64, BadViewerCertificate> {
    if has_private_key(pem) {
        return Err(bad(
            "there is a private key in it, which must not be uploaded: give only the certificates",
        ));
    }
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let read = read.map_err(|_| bad("it is not PEM"))?;
    if !(1..=CERTIFICATES_MAX).contains(&read.len()) {
        return Err(bad(format!(
            "it has {} certificates, not 1 to {CERTIFICATES_MAX}",
            read.len()
        )));
    }
    let mut chain = Vec::with_capacity(read.len());
    for (at, der) in read.iter().enumerate() {
        let parsed = X509Certificate::from_der(der).ok().filter(|(rest, _)| rest.is_empty());
        let (_, certificate) =
            parsed.ok_or_else(|| bad(format!("certificate {} cannot be read", at + 1)))?;
        chain.push(certificate);
    }
    let own = &chain[0];
    if p256_point(own.public_key().raw).map(Digest::of) != Some(*key) {
        return Err(bad(
            "its first certificate is not of the node's key: issue it for the request that the node sent last",
        ));
    }
    if own.is_ca() {
        return Err(bad("its first certificate is an authority's"));
    }
    if chain.windows(2).any(|two| two[0].issuer().as_raw() != two[1].subject().as_raw()) {
        return Err(bad(
            "its certificates are not in order: each must be followed by its issuer's",
        ));
    }
    let name = ServerName::try_from(host.trim_start_matches('[').trim_end_matches(']'));
    let name = name.map_err(|_| bad(format!("{host} is neither a name nor an address")))?;
    let entity = webpki::EndEntityCert::try_from(&read[0]);
    let entity = entity.map_err(|error| bad(format!("its first certificate: {error}")))?;
    if entity.verify_is_valid_for_subject_name(&name).is_err() {
        return Err(bad(format!("its first certificate is not for {host}")));
    }
    let (from, until) = (own.validity().not_before, own.validity().not_after);
    let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
    if seconds(until) <= now_unix_seconds {
        return Err(BadViewerCertificate {
            is_of_time: true,
            ..bad(format!("it ended on {until}"))
        });
    }
    if seconds(from) > now_unix_seconds {
        let why = format!("it begins on {from}, by this machine's clock in the future");
        return Err(BadViewerCertificate { is_of_time: true, ..bad(why) });
    }
    Ok(seconds(until))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, IsCa, Issuer};

    const NOW: u64 = 1_790_000_000;

    fn key() -> (tempfile::TempDir, ViewerKey) {
        let folder = tempfile::tempdir().unwrap();
        let key = ViewerKey::at(&folder.path().join("viewer.key")).unwrap();
        (folder, key)
    }

    /// A certificate that an authority issues for a key and a host, with this validity.
    fn issue(key: &ViewerKey, host: &str, [from, until]: [u64; 2]) -> String {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let own = authority.self_signed(&authority_key).unwrap();
        let mut issued = parameters(host).unwrap();
        let at = |seconds: u64| {
            rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds)
        };
        (issued.not_before, issued.not_after) = (at(from), at(until));
        let issued = issued.signed_by(&key.0, &Issuer::new(authority, authority_key)).unwrap();
        format!("{}{}", issued.pem(), own.pem())
    }

    const VALID: [u64; 2] = [NOW - 1, NOW + 1000];

    #[test]
    fn a_key_stays_the_same_and_only_its_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, key) = key();
        let path = folder.path().join("viewer.key");
        assert_eq!(ViewerKey::at(&path).unwrap().digest(), key.digest());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "no key").unwrap();
        assert!(ViewerKey::at(&path).is_err(), "it is not replaced: somebody has put it there");
    }

    #[test]
    fn a_request_is_for_one_host_and_its_chain_for_that_request() {
        for host in ["n1.example", "192.0.2.1", "[2001:db8::1]"] {
            let (_folder, key) = key();
            let request = key.request(host).unwrap();
            assert_eq!(check_viewer_request(&request, host), Ok(key.digest()));
            assert!(check_viewer_request(&request, "n2.example").is_err());
            let chain = issue(&key, host, VALID);
            assert_eq!(check_viewer_chain(&chain, host, &key.digest(), NOW), Ok(NOW + 1000));
            let own = key.self_signed(host).unwrap();
            assert!(check_viewer_chain(&own, host, &key.digest(), NOW).is_ok());
        }
    }

    #[test]
    fn a_chain_that_viewers_could_not_use_is_refused_with_the_reason() {
        let ((_a, key), (_b, other)) = (key(), key());
        let chain = issue(&key, "n1.example", VALID);
        let (leaf, rest) = chain.split_once("-----END CERTIFICATE-----\n").unwrap();
        let leaf = format!("{leaf}-----END CERTIFICATE-----\n");
        let ended = issue(&key, "n1.example", [NOW - 9, NOW]);
        let future = issue(&key, "n1.example", [NOW + 9, NOW + 99]);
        let with_key = format!("{chain}{}", other.0.serialize_pem());
        let encrypted = format!("-----BEGIN ENCRYPTED PRIVATE KEY-----\n{chain}");
        for (chain, host, of, why) in [
            ("", "n1.example", &key, "0 certificates"),
            ("-----BEGIN CERTIFICATE-----\n!", "n1.example", &key, "not PEM"),
            (&*chain, "n1.example", &other, "not of the node's key"),
            (&*chain, "n2.example", &key, "not for n2.example"),
            (&*format!("{rest}{leaf}"), "n1.example", &key, "not of the node's key"),
            (&*format!("{leaf}{leaf}"), "n1.example", &key, "not in order"),
            (&*ended, "n1.example", &key, "it ended"),
            (&*future, "n1.example", &key, "in the future"),
            (&*leaf.repeat(9), "n1.example", &key, "9 certificates"),
            (&*with_key, "n1.example", &key, "a private key"),
            (&*encrypted, "n1.example", &key, "a private key"),
        ] {
            let error = check_viewer_chain(chain, host, &of.digest(), NOW).expect_err(why);
            assert!(error.to_string().contains(why), "{why}: {error}");
        }
    }

    #[test]
    fn a_request_that_proves_nothing_or_asks_for_more_is_refused() {
        let (_folder, key) = key();
        let more = {
            let mut parameters = parameters("n1.example").unwrap();
            parameters.subject_alt_names.push(SanType::DnsName("b.example".try_into().unwrap()));
            parameters.serialize_request(&key.0).unwrap().pem().unwrap()
        };
        let usage = {
            let mut parameters = parameters("n1.example").unwrap();
            parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            parameters.serialize_request(&key.0).unwrap().pem().unwrap()
        };
        for (request, why) in [("", "PKCS"), (&*more, "alone"), (&*usage, "alone")] {
            let error = check_viewer_request(request, "n1.example").expect_err(why);
            assert!(error.to_string().contains(why), "{why}: {error}");
        }
    }
}
