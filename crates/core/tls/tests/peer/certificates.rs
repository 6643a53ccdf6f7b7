//! Certificates: given, chosen by name, made and kept, replaced, and wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::client::connect_with;
use fullbore_tests::tls::{Offer, client};
use fullbore_tls::{AlpnProofs, HandshakeError, Origin, TlsConfigError, TlsContext, TlsOptions};

/// Writes a pair for `names` into `dir` and returns its paths.
fn write_pair(dir: &tempfile::TempDir, file: &str, names: &[&str]) -> (PathBuf, PathBuf) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let paths = (dir.path().join(format!("{file}.pem")), dir.path().join(format!("{file}.key")));
    fs::write(&paths.0, made.cert.pem()).unwrap();
    fs::write(&paths.1, made.signing_key.serialize_pem()).unwrap();
    paths
}

fn options(dir: &tempfile::TempDir, certificates: Vec<(PathBuf, PathBuf)>) -> TlsOptions {
    TlsOptions { certificates, ..TlsOptions::new(dir.path().join("state")) }
}

/// The certificate that a client asking for `name` sees, DER.
fn presented(tls: &TlsContext, name: &str) -> Vec<u8> {
    let client = client(&Offer::default().config(), name);
    let pair = connect_with(tls, client, usize::MAX, b"").map_err(|error| error.0).unwrap();
    pair.client.peer_certificates().unwrap()[0].to_vec()
}

/// The error message of a load that must fail.
fn failure(options: TlsOptions) -> String {
    match TlsContext::load(options) {
        Ok(_) => panic!("should fail"),
        Err(error) => TlsConfigError::to_string(&error),
    }
}

#[test]
fn name_chooses_the_certificate_and_unknown_names_get_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = vec![
        write_pair(&dir, "default", &["default.example"]),
        write_pair(&dir, "wild", &["*.video.example"]),
        write_pair(&dir, "exact", &["one.video.example", "Two.Example"]),
    ];
    let tls = TlsContext::load(options(&dir, certificates)).unwrap();
    let [default, wild, exact] = ["default.example", "any.video.example", "one.video.example"]
        .map(|name| presented(&tls, name));
    assert!(default != wild && wild != exact && exact != default);
    assert_eq!(presented(&tls, "two.example"), exact);
    assert_eq!(presented(&tls, "TWO.example"), exact);
    for unknown in ["elsewhere.example", "video.example", "a.b.video.example", "127.0.0.1"] {
        assert_eq!(presented(&tls, unknown), default, "{unknown}");
    }
    assert_eq!(tls.origin(), &Origin::Given);
    assert_eq!(tls.files().len(), 6);
    assert!(!dir.path().join("state").exists(), "nothing is made when certificates are given");
}

#[test]
fn self_signed_pair_is_made_private_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let tls = TlsContext::load(options(&dir, vec![])).unwrap();
    let state = dir.path().join("state");
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    let [certificate, key] = <[PathBuf; 2]>::try_from(tls.files()).unwrap();
    assert_eq!(mode(&key), 0o600);
    assert_eq!(tls.origin(), &Origin::SelfSigned { path: certificate });
    assert_eq!(fs::read_dir(&state).unwrap().count(), 2, "nothing is left lying about");
    let again = TlsContext::load(options(&dir, vec![])).unwrap();
    assert_eq!(again.fingerprint_sha256(), tls.fingerprint_sha256());
    assert_eq!(tls.fingerprint_sha256().len(), 32 * 3 - 1);
    assert!(!tls.changed_on_disk());
}

#[test]
fn self_signed_pair_that_is_damaged_or_does_not_match_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let tls = TlsContext::load(options(&dir, vec![])).unwrap();
    let [certificate, key] = <[PathBuf; 2]>::try_from(tls.files()).unwrap();
    fs::write(&certificate, "not a certificate").unwrap();
    let second = TlsContext::load(options(&dir, vec![])).unwrap();
    assert_ne!(second.fingerprint_sha256(), tls.fingerprint_sha256());
    let (_, foreign) = write_pair(&dir, "foreign", &["localhost"]);
    fs::copy(foreign, key).unwrap();
    let third = TlsContext::load(options(&dir, vec![])).unwrap();
    assert_ne!(third.fingerprint_sha256(), second.fingerprint_sha256());
}

#[test]
fn replaced_certificate_is_noticed_and_reloaded() {
    let dir = tempfile::tempdir().unwrap();
    let pair = write_pair(&dir, "site", &["localhost"]);
    let tls = TlsContext::load(options(&dir, vec![pair.clone()])).unwrap();
    let before = presented(&tls, "localhost");
    assert!(!tls.changed_on_disk());
    let new = write_pair(&dir, "new", &["localhost"]);
    fs::remove_file(&pair.0).unwrap();
    assert!(!tls.changed_on_disk(), "half way through a replacement there is nothing to load");
    fs::rename(new.0, &pair.0).unwrap();
    fs::rename(new.1, &pair.1).unwrap();
    assert!(tls.changed_on_disk());
    let reloaded = tls.reload().unwrap();
    assert!(!reloaded.changed_on_disk());
    assert_ne!(presented(&reloaded, "localhost"), before);
    assert_eq!(presented(&tls, "localhost"), before, "the old one serves on");
}

#[test]
fn issued_certificate_takes_the_place_of_the_self_signed_one_as_soon_as_it_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let issued = dir.path().join("issued.pem");
    let options = || TlsOptions { issued: Some(issued.clone()), ..options(&dir, vec![]) };
    let issue = |name: &str| {
        let (chain, key) = write_pair(&dir, name, &[name]);
        fs::write(&chain, [fs::read(&chain).unwrap(), fs::read(key).unwrap()].concat()).unwrap();
        fs::rename(chain, &issued).unwrap();
    };
    let tls = TlsContext::load(options()).unwrap();
    assert!(matches!(tls.origin(), Origin::SelfSigned { .. }) && !tls.changed_on_disk());
    assert!(matches!(tls.reload().unwrap().origin(), Origin::SelfSigned { .. }));
    issue("a.example");
    assert!(tls.changed_on_disk());
    let first = tls.reload().unwrap();
    assert_eq!(first.origin(), &Origin::Issued { path: issued.clone() });
    assert!(!first.changed_on_disk());
    issue("b.example");
    assert!(first.changed_on_disk());
    let second = first.reload().unwrap();
    assert_ne!(second.fingerprint_sha256(), first.fingerprint_sha256());
    // A damaged one does not displace the one in use. A start goes on without it.
    fs::write(&issued, "not a certificate").unwrap();
    let error = second.reload().err().unwrap().to_string();
    assert!(error.contains(&issued.display().to_string()), "{error}");
    assert!(matches!(TlsContext::load(options()).unwrap().origin(), Origin::SelfSigned { .. }));
}

#[test]
fn key_of_another_certificate_is_refused_when_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let one = write_pair(&dir, "one", &["localhost"]);
    let other = write_pair(&dir, "other", &["localhost"]);
    let message = failure(options(&dir, vec![(one.0.clone(), other.1.clone())]));
    assert!(message.contains("does not belong"), "{message}");
    assert!(message.contains(&one.0.display().to_string()), "{message}");
    assert!(message.contains(&other.1.display().to_string()), "{message}");
}

#[test]
fn unusable_files_are_named_in_one_line_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let good = write_pair(&dir, "good", &["localhost"]);
    let absent = dir.path().join("absent.pem");
    let empty = dir.path().join("empty.pem");
    fs::write(&empty, "").unwrap();
    let junk = dir.path().join("junk.pem");
    fs::write(&junk, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let cases = [
        (absent.clone(), good.1.clone(), &absent, "cannot read it"),
        (good.0.clone(), absent.clone(), &absent, "cannot read it"),
        (empty.clone(), good.1.clone(), &empty, "holds no certificate"),
        (good.0.clone(), empty.clone(), &empty, "holds no private key"),
        (junk.clone(), good.1.clone(), &junk, "not a usable certificate"),
    ];
    for (chain, key, named, what) in cases {
        let message = failure(options(&dir, vec![(chain, key)]));
        assert!(message.starts_with(&named.display().to_string()), "{message}");
        assert!(
            message.contains(what) && message.contains("; ") && !message.contains('\n'),
            "{message}"
        );
    }
}

#[test]
fn state_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let message = failure(TlsOptions::new(file.join("state")));
    assert!(message.contains("cannot create it"), "{message}");
}

#[test]
fn proofs_are_for_clients_that_offer_their_protocol_alone_and_for_nobody_else() {
    const PROOF: &[u8] = b"acme-tls/1";
    const HTTP: &[u8] = b"http/1.1";
    let dir = tempfile::tempdir().unwrap();
    let proofs = AlpnProofs::default();
    let tls =
        TlsContext::load(TlsOptions { proofs: proofs.clone(), ..options(&dir, vec![]) }).unwrap();
    let usual = presented(&tls, "a.example");
    // The certificate that a client with this offer for `name` sees, or the error on either side.
    let seen = |tls: &TlsContext, alpn: &[&'static [u8]], name: &str| {
        let client = client(&Offer { alpn: alpn.to_vec(), ..Offer::default() }.config(), name);
        let pair = connect_with(tls, client, usize::MAX, b"")?;
        assert!(!pair.established.info.is_proof);
        Ok(pair.client.peer_certificates().unwrap()[0].to_vec())
    };
    let refused = |tls: &TlsContext, alpn: &[&'static [u8]]| {
        let (error, _) = seen(tls, alpn, "a.example").unwrap_err();
        assert_eq!(error, HandshakeError::NoAlpn, "{alpn:?}");
    };
    refused(&tls, &[PROOF]);
    proofs.replace([("a.example", [1; 32]), ("b.example", [2; 32])]).unwrap();
    // A renewed certificate changes nothing for proofs.
    for tls in [&tls, &tls.reload().unwrap()] {
        for name in ["a.example", "B.example"] {
            // This client cannot read the extension in a proof, and has to refuse it.
            let (error, of_client) = seen(tls, &[PROOF], name).unwrap_err();
            assert!(matches!(error, HandshakeError::PeerAlert(_)), "{name}: {error:?}");
            let said = format!("{of_client:?}");
            assert!(said.contains("UnsupportedCriticalExtension"), "{name}: {said}");
        }
        for alpn in [&[HTTP][..], &[], &[PROOF, HTTP], &[HTTP, PROOF]] {
            assert_eq!(seen(tls, alpn, "a.example"), Ok(usual.clone()), "{alpn:?}");
        }
        refused(tls, &[b"h2"]);
        for name in ["c.example", "127.0.0.1"] {
            let (error, _) = seen(tls, &[PROOF], name).unwrap_err();
            assert_eq!(error, HandshakeError::NoSharedCipher, "{name}");
        }
    }
    proofs.replace([]).unwrap();
    refused(&tls, &[PROOF]);
    assert_eq!(presented(&tls, "a.example"), usual);
}
