//! The fleet's certificate authority: it issues certificates for nodes and gateways. Only members of the fleet trust it.
//!
//! Its key is in the store, under `secret/ca`, and in gateways' memory; nowhere else. With it, anyone can impersonate any machine of the fleet.

use std::fmt::{self, Debug, Formatter};
use std::net::IpAddr;
use std::time::Duration;

use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use fleet_protocol::{Digest, Name};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, SerialNumber,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use crate::certificate::BACKDATED_SECONDS;
use crate::request::common_name;
use crate::trust::GATEWAY;
use crate::{Serial, SigningRequest};

/// Lifetime of a node's certificate. It is renewed after two thirds, so a node may be out of touch for ten days.
pub const NODE_LIFETIME: Duration = Duration::from_secs(30 * DAY_SECONDS);

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The salt of all secrets derived from an authority's key.
const DERIVED: &[u8] = b"fullbore fleet secrets, 1";

/// Ten years: with a new authority, every machine has to be invited again.
const AUTHORITY_SECONDS: u64 = 3653 * DAY_SECONDS;

/// The certificate authority of one fleet.
pub struct Authority {
    fleet: Name,
    key: KeyPair,
    certificate: CertificateDer<'static>,
    certificate_pem: String,
}

/// Why an authority cannot be created or decoded, or cannot sign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// The stored bytes are not an authority.
    #[error("the fleet's authority in the store is damaged ({0}): restore a backup")]
    Kept(&'static str),
    /// Creating a certificate failed.
    #[error("cannot make a certificate: {0}")]
    Making(String),
    /// A gateway's host is neither a name nor an address.
    #[error("{0:?} is neither a host name nor an address: a gateway's certificate needs one")]
    Host(String),
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Making(error.to_string())
    }
}

impl Debug for Authority {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({}, {})", self.fleet, self.fingerprint())
    }
}

/// A certificate for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The certificate, as PEM.
    pub pem: String,
    /// Its serial number.
    pub serial: Serial,
    /// When it expires, since 1970.
    pub expires_unix_seconds: u64,
}

/// A gateway's certificate with its chain and key. It stays in memory: a gateway issues a new one to itself at each start.
pub struct GatewayPair {
    /// The gateway's certificate, then the authority's, which a joining machine knows only by its fingerprint.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
}

impl Debug for GatewayPair {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("GatewayPair")
    }
}

impl Authority {
    /// Creates the authority of a new fleet.
    ///
    /// # Errors
    /// If the system provides no random bytes.
    pub fn make(fleet: &Name, now_unix_seconds: u64) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut parameters = parameters(fleet);
        set_validity(&mut parameters, now_unix_seconds, AUTHORITY_SECONDS);
        let certificate = parameters.self_signed(&key)?;
        Ok(Self {
            fleet: fleet.clone(),
            key,
            certificate: certificate.der().clone(),
            certificate_pem: certificate.pem(),
        })
    }

    /// Its private key, PKCS #8 in DER: to be stored as a secret, together with [its certificate](Self::certificate_pem).
    pub fn pkcs8(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.key.serialize_der())
    }

    /// Decodes the stored authority of `fleet`.
    ///
    /// # Errors
    /// The fault.
    pub fn read(fleet: &Name, pkcs8: &[u8], certificate_pem: &str) -> Result<Self, AuthorityError> {
        let der = PrivatePkcs8KeyDer::from(pkcs8);
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256)
            .map_err(|_| AuthorityError::Kept("its key is not readable"))?;
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|_| AuthorityError::Kept("its certificate is not PEM"))?;
        check_kept(&certificate, &key, fleet)?;
        let (fleet, certificate_pem) = (fleet.clone(), certificate_pem.to_owned());
        Ok(Self { fleet, key, certificate, certificate_pem })
    }

    /// The fleet's name.
    pub fn fleet(&self) -> &Name {
        &self.fleet
    }

    /// Its certificate in DER.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Its certificate as PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// SHA-256 of its certificate, which identifies it in invitations.
    pub fn fingerprint(&self) -> Digest {
        Digest::of(&self.certificate)
    }

    /// Derives a secret from the authority's key and `purpose`. Neither the key nor other secrets can be computed from it (HKDF, RFC 5869). All
    /// gateways derive the same one.
    ///
    /// # Errors
    /// None in practice: a secret of this length can always be derived.
    pub fn derive(&self, purpose: &str) -> Result<Zeroizing<[u8; 32]>, AuthorityError> {
        let failed = |_| AuthorityError::Making("no secret can be derived".to_owned());
        let extracted = Salt::new(HKDF_SHA256, DERIVED).extract(&self.pkcs8());
        let info = [purpose.as_bytes()];
        let expanded = extracted.expand(&info, HKDF_SHA256).map_err(failed)?;
        let mut secret = Zeroizing::new([0; 32]);
        expanded.fill(&mut *secret).map_err(failed)?;
        Ok(secret)
    }

    /// Issues a node's certificate, valid only for calling gateways.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn sign_node(
        &self,
        request: &SigningRequest,
        lifetime: Duration,
        now_unix_seconds: u64,
    ) -> Result<Issued, AuthorityError> {
        let serial = Serial::draw();
        let mut parameters = leaf(request.node(), &serial, ExtendedKeyUsagePurpose::ClientAuth);
        set_validity(&mut parameters, now_unix_seconds, lifetime.as_secs());
        let certificate = parameters.signed_by(request, &self.issuer())?;
        let expires_unix_seconds = now_unix_seconds + lifetime.as_secs();
        Ok(Issued { pem: certificate.pem(), serial, expires_unix_seconds })
    }

    /// Issues a gateway's certificate, valid for serving machines. Nodes of the fleet check for one name that all gateways share; `hosts` are for
    /// `curl` and other tools that compare the address.
    ///
    /// # Errors
    /// If it cannot be signed, or one of the hosts is invalid.
    pub fn sign_gateway(
        &self,
        gateway: &Name,
        hosts: &[String],
        lifetime: Duration,
        now_unix_seconds: u64,
    ) -> Result<GatewayPair, AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut parameters = leaf(gateway, &Serial::draw(), ExtendedKeyUsagePurpose::ServerAuth);
        set_validity(&mut parameters, now_unix_seconds, lifetime.as_secs());
        let hosts = std::iter::once(GATEWAY).chain(hosts.iter().map(String::as_str));
        parameters.subject_alt_names = hosts.map(alternative_name).collect::<Result<_, _>>()?;
        let certificate = parameters.signed_by(&key, &self.issuer())?;
        Ok(GatewayPair {
            chain: vec![certificate.der().clone(), self.certificate.clone()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        })
    }

    /// The issuer's name and key identifier are derived from the fleet's name and the key, so they need not be parsed.
    fn issuer(&self) -> Issuer<'_, &KeyPair> {
        Issuer::new(parameters(&self.fleet), &self.key)
    }
}

fn check_kept(
    certificate: &CertificateDer<'_>,
    key: &KeyPair,
    fleet: &Name,
) -> Result<(), AuthorityError> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|_| AuthorityError::Kept("its certificate is not readable"))?;
    if *parsed.public_key().subject_public_key.data != *key.public_key_raw() {
        return Err(AuthorityError::Kept("its key does not belong to its certificate"));
    }
    let name = parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    if name != Some(&own_name(fleet)) {
        return Err(AuthorityError::Kept("it is another fleet's"));
    }
    Ok(())
}

fn own_name(fleet: &Name) -> String {
    format!("Fullbore fleet {fleet}")
}

/// The authority's own parameters. It may sign leaf certificates, but no further authorities.
fn parameters(fleet: &Name) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = common_name(&own_name(fleet));
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    parameters
}

fn leaf(name: &Name, serial: &Serial, usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = common_name(name.as_str());
    parameters.serial_number = Some(SerialNumber::from_slice(&serial.to_bytes()));
    parameters.is_ca = IsCa::ExplicitNoCa;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![usage];
    parameters.use_authority_key_identifier_extension = true;
    parameters
}

fn set_validity(parameters: &mut CertificateParams, now_unix_seconds: u64, seconds: u64) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let begin = now_unix_seconds.saturating_sub(BACKDATED_SECONDS);
    parameters.not_before = epoch + Duration::from_secs(begin);
    parameters.not_after = epoch + Duration::from_secs(now_unix_seconds + seconds);
}

fn alternative_name(host: &str) -> Result<SanType, AuthorityError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let wrong = || AuthorityError::Host(host.to_owned());
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_name) {
        return Err(wrong());
    }
    host.try_into().map(SanType::DnsName).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeCertificate, NodeKey};

    const NOW: u64 = 1_800_000_000;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn issued(authority: &Authority) -> Issued {
        let request = NodeKey::draw().request(&name("node-1"));
        let request = SigningRequest::check(&request, &name("node-1")).unwrap();
        authority.sign_node(&request, NODE_LIFETIME, NOW).unwrap()
    }

    #[test]
    fn an_authority_is_read_as_it_was_made() {
        let films = name("films");
        let authority = Authority::make(&films, NOW).unwrap();
        let read =
            Authority::read(&films, &authority.pkcs8(), authority.certificate_pem()).unwrap();
        assert_eq!(read.fingerprint(), authority.fingerprint());
        assert_eq!(read.fleet(), &films);
        assert_eq!(read.certificate_pem(), authority.certificate_pem());
        assert!(!format!("{authority:?}").contains("PRIVATE"));
    }

    #[test]
    fn secrets_follow_from_the_key_and_their_purpose() {
        let films = name("films");
        let (own, other) =
            (Authority::make(&films, NOW).unwrap(), Authority::make(&films, NOW).unwrap());
        let kept = Authority::read(&films, &own.pkcs8(), own.certificate_pem()).unwrap();
        let of = |authority: &Authority, purpose| *authority.derive(purpose).unwrap();
        assert_eq!(of(&own, "copies 1"), of(&kept, "copies 1"), "another gateway");
        assert_ne!(of(&own, "copies 1"), of(&own, "copies 2"));
        assert_ne!(of(&own, "copies 1"), of(&other, "copies 1"));
    }

    #[test]
    fn a_damaged_authority_is_refused() {
        let films = name("films");
        let own = Authority::make(&films, NOW).unwrap();
        let other = Authority::make(&films, NOW).unwrap();
        let read = |fleet: &Name, key: &[u8], pem: &str| {
            matches!(Authority::read(fleet, key, pem), Err(AuthorityError::Kept(_)))
        };
        let (key, pem) = (own.pkcs8(), own.certificate_pem());
        assert!(!read(&films, &key, pem));
        assert!(read(&films, &other.pkcs8(), pem));
        assert!(read(&name("books"), &key, pem));
        assert!(read(&films, &key[..key.len() / 2], pem));
        assert!(read(&films, &key, &pem[..pem.len() / 2]));
        assert!(read(&films, b"", "nothing"));
    }

    #[test]
    fn a_nodes_certificate_says_its_name_and_life() {
        let authority = Authority::make(&name("films"), NOW).unwrap();
        let issued = issued(&authority);
        let der = CertificateDer::from_pem_slice(issued.pem.as_bytes()).unwrap();
        let certificate = NodeCertificate::read(&der).unwrap();
        assert_eq!(certificate.node, name("node-1"));
        assert_eq!(certificate.serial, issued.serial);
        assert_eq!(certificate.issued_unix_seconds, NOW);
        assert_eq!(certificate.expires_unix_seconds, NOW + 30 * DAY_SECONDS);
        assert_eq!(certificate.renew_unix_seconds(), NOW + 20 * DAY_SECONDS);
    }

    #[test]
    fn neither_an_authority_nor_a_gateway_is_a_node() {
        let authority = Authority::make(&name("films"), NOW).unwrap();
        assert!(NodeCertificate::read(authority.certificate()).is_err());
        let gateway = authority
            .sign_gateway(&name("gateway-1"), &["::1".to_owned()], NODE_LIFETIME, NOW)
            .unwrap();
        assert!(NodeCertificate::read(&gateway.chain[0]).is_err());
        assert!(NodeCertificate::read(b"nothing").is_err());
    }

    #[test]
    fn a_gateways_hosts_are_names_or_addresses() {
        let authority = Authority::make(&name("films"), NOW).unwrap();
        let sign = |host: &str| {
            let hosts = [host.to_owned()];
            authority.sign_gateway(&name("gateway-1"), &hosts, NODE_LIFETIME, NOW).is_ok()
        };
        for good in ["gateway.example", "192.0.2.1", "[2001:db8::1]", "2001:db8::1"] {
            assert!(sign(good), "{good}");
        }
        for bad in ["", "a b", "a/b", "ü.example"] {
            assert!(!sign(bad), "{bad}");
        }
    }
}
