//! The certificate of last resort: if the operator gives none, one is made, kept in the state directory and used again. So a viewer who accepted it
//! once is not asked again.
//!
//! Invariants: other users can never read the key file, not even while it is written. Both files are replaced whole, by rename. A crash between the
//! two renames leaves a pair that does not match; the next start notices that and makes a new pair.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::pki_types::{CertificateDer, UnixTime};

use crate::error::TlsConfigError;

const CERTIFICATE_FILE: &str = "self-signed-cert.pem";
const KEY_FILE: &str = "self-signed-key.pem";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Browsers accept 398 days at most.
const VALID: Duration = Duration::from_secs(365 * DAY.as_secs());
/// For viewers whose clock is behind ours.
const BACKDATED: Duration = DAY;
/// How long before its end a certificate is replaced.
const REMAKE_BEFORE_END: Duration = Duration::from_secs(30 * DAY.as_secs());

const ADVICE_STATE_DIR: &str =
    "give a state directory that this user may write, or a certificate and key of your own";

/// Path of the private key of the self-signed certificate in `state_dir`.
pub fn self_signed_key(state_dir: &Path) -> PathBuf {
    paths(state_dir).1
}

/// Paths of the self-signed certificate in `state_dir` and of its private key.
pub fn self_signed_pair(state_dir: &Path) -> [PathBuf; 2] {
    let (certificate, key) = paths(state_dir);
    [certificate, key]
}

/// Paths of the pair in a state directory: certificate, key.
pub(crate) fn paths(state_dir: &Path) -> (PathBuf, PathBuf) {
    (state_dir.join(CERTIFICATE_FILE), state_dir.join(KEY_FILE))
}

/// Returns true if `certificate` is valid now and for at least [`REMAKE_BEFORE_END`]. webpki checks this, with the certificate as its own trust
/// anchor, so that nothing here parses dates.
pub(crate) fn is_fresh(certificate: &CertificateDer<'_>) -> bool {
    let now = since_epoch(SystemTime::now());
    is_valid_at(certificate, now) && is_valid_at(certificate, now + REMAKE_BEFORE_END)
}

fn is_valid_at(certificate: &CertificateDer<'_>, since_epoch: Duration) -> bool {
    let (Ok(anchor), Ok(end_entity)) = (
        webpki::anchor_from_trusted_cert(certificate),
        webpki::EndEntityCert::try_from(certificate),
    ) else {
        return false;
    };
    let (time, usage) = (UnixTime::since_unix_epoch(since_epoch), webpki::KeyUsage::server_auth());
    end_entity
        .verify_for_usage(webpki::ALL_VERIFICATION_ALGS, &[anchor], &[], time, usage, None, None)
        .is_ok()
}

/// Makes a pair valid from yesterday for a year, and puts it into `state_dir`.
pub(crate) fn make(state_dir: &Path) -> Result<(), TlsConfigError> {
    make_from(state_dir, SystemTime::now())
}

fn make_from(state_dir: &Path, now: SystemTime) -> Result<(), TlsConfigError> {
    let failed = |error| {
        TlsConfigError::without_file(
            format!("cannot make a certificate: {error}"),
            ADVICE_STATE_DIR,
        )
    };
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let certificate = parameters(now).map_err(failed)?.self_signed(&key).map_err(failed)?;
    let (certificate_path, key_path) = paths(state_dir);
    files::make_folders(state_dir, 0o700).map_err(|error| {
        TlsConfigError::at(state_dir, format!("cannot create it: {error}"), ADVICE_STATE_DIR)
    })?;
    write(&key_path, key.serialize_pem().as_bytes(), 0o600)?;
    write(&certificate_path, certificate.pem().as_bytes(), 0o644)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), TlsConfigError> {
    files::replace(path, bytes, mode).map_err(|error| {
        TlsConfigError::at(path, format!("cannot write it: {error}"), ADVICE_STATE_DIR)
    })
}

fn parameters(now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let mut names = vec!["localhost".into(), "127.0.0.1".into(), "::1".into()];
    names.extend(host_name());
    let mut parameters = CertificateParams::new(names)?;
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = since_epoch(now);
    parameters.not_before = epoch + now.saturating_sub(BACKDATED);
    parameters.not_after = epoch + now + VALID - BACKDATED;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, "Fullbore self-signed");
    // Browser makers require this of a server's certificate: it is for servers, and signs no others.
    parameters.is_ca = IsCa::ExplicitNoCa;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(parameters)
}

/// This machine's name, if a certificate can contain it.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim().to_ascii_lowercase();
    let plain =
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.');
    (plain && !name.is_empty() && name != "localhost").then_some(name)
}

/// A clock before 1970 counts as 1970; every certificate then fails as not yet valid, visibly.
fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::pem::PemObject;

    fn made_at(age: Duration) -> CertificateDer<'static> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let certificate = parameters(SystemTime::now() - age).unwrap().self_signed(&key).unwrap();
        CertificateDer::from_pem_slice(certificate.pem().as_bytes()).unwrap()
    }

    #[test]
    fn freshness_ends_a_month_before_the_certificate_does() {
        assert!(is_fresh(&made_at(Duration::ZERO)));
        assert!(is_fresh(&made_at(DAY * 333)));
        assert!(!is_fresh(&made_at(DAY * 335)));
        assert!(!is_fresh(&made_at(DAY * 400)));
    }

    #[test]
    fn browsers_find_what_they_ask_of_a_certificate() {
        use x509_parser::prelude::{FromDer, X509Certificate};
        let der = made_at(Duration::ZERO);
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        assert!(!certificate.basic_constraints().unwrap().unwrap().value.ca);
        let usage = certificate.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.server_auth && !usage.client_auth && !usage.any);
        assert!(certificate.key_usage().unwrap().unwrap().value.digital_signature());
        let validity = certificate.validity();
        let life = validity.not_after.timestamp() - validity.not_before.timestamp();
        assert!(life <= 397 * DAY.as_secs() as i64);
    }

    #[test]
    fn damaged_certificate_is_not_fresh() {
        assert!(!is_fresh(&CertificateDer::from(vec![1, 2, 3])));
    }
}
