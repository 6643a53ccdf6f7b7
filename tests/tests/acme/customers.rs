//! Optional features of authorities: accounts bound to a customer's key, RSA keys, several chains.

use crate::pebble::Pebble;
use crate::{film, library, wait_for_certificate, watch};
use fullbore_tests::{Launch, tool};
use std::fs;
use std::path::Path;
use tempfile::tempdir;

const KEY_ID: &str = "kid-1";
const KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

/// The common name in a certificate's `part`: `subject` or `issuer`.
fn common_name(certificate: &Path, part: &str) -> String {
    let mut openssl = tool::command("openssl");
    openssl.args(["x509", "-noout", &format!("-{part}"), "-nameopt", "multiline", "-in"]);
    let ran = tool::run(openssl.arg(certificate));
    let line = ran.text().lines().find_map(|line| {
        let (name, value) = line.split_once(" = ")?;
        (name.trim() == "commonName").then(|| value.to_owned())
    });
    line.unwrap_or_else(|| panic!("{}", ran.text()))
}

#[test]
fn an_account_is_bound_to_the_customers_key_and_without_one_the_log_says_what_to_do() {
    let Some(pebble) = Pebble::if_here_and_binds((KEY_ID, KEY)) else { return };
    let (library, state) = (library(), tempdir().unwrap());
    let launch = |lines: &str| {
        let lines = format!("challenge = \"tls-alpn-01\"\n{lines}");
        let section = pebble.section(&["video.example.org"], &lines);
        let launch = Launch::of(library.path()).config(&section).state(state.path());
        launch.listen(&pebble.https().to_string())
    };
    let server = launch("").start();
    server.wait_for_counter("acme_failures_total{reason=\"account\"}", 1);
    server.stderr.wait_for("set tls.acme.eab_key_id");
    let said = server.finish();
    assert!(said.contains("set tls.acme.eab_key_id and tls.acme.eab_key_file"), "{said}");

    let key_file = state.path().join("eab.key");
    let bound = format!("eab_key_id = {KEY_ID:?}\neab_key_file = {key_file:?}");
    fs::write(&key_file, "no key at all").unwrap();
    let refused = std::panic::catch_unwind(|| launch(&bound).start());
    let said = refused.err().expect("it does not start").downcast::<String>().unwrap();
    assert!(said.contains("eab.key") && said.contains("base64"), "{said}");
    fs::write(&key_file, format!("{KEY}\n")).unwrap();
    let server = launch(&bound).start();
    wait_for_certificate(&server);
    assert!(watch(&server, "video.example.org", &pebble.root()).unwrap() == film());
    let said = server.finish();
    assert!(!said.contains(KEY), "{said}");
    let account = fs::read_to_string(state.path().join("acme-account/account.json")).unwrap();
    assert!(account.contains(KEY_ID) && !account.contains(KEY));
}

#[test]
fn a_certificate_has_the_key_and_the_chain_that_were_asked_for() {
    let Some(pebble) = Pebble::if_here() else { return };
    let (library, state) = (library(), tempdir().unwrap());
    let launch = |lines: &str| {
        let lines = format!("challenge = \"tls-alpn-01\"\n{lines}");
        let section = pebble.section(&["video.example.org"], &lines);
        let launch = Launch::of(library.path()).config(&section).state(state.path());
        launch.listen(&pebble.https().to_string())
    };
    let (first, second) = (pebble.root_of_chain(0), pebble.root_of_chain(1));
    let names = [&first, &second].map(|root| common_name(root, "subject"));
    assert_ne!(names[0], names[1]);
    let kept = state.path().join("acme/certificate.pem");
    let prefers = |name: &str| format!("key_type = \"rsa-2048\"\npreferred_chain = {name:?}");

    let server = launch(&prefers(&names[1])).start();
    wait_for_certificate(&server);
    assert!(watch(&server, "video.example.org", &second).unwrap() == film());
    assert!(watch(&server, "video.example.org", &first).is_err(), "that is the other chain");
    let mut openssl = tool::command("openssl");
    let ran = tool::run(openssl.args(["x509", "-noout", "-text", "-in"]).arg(&kept));
    assert!(ran.text().contains("Public-Key: (2048 bit)"), "{}", ran.text());
    assert!(ran.text().contains("rsaEncryption"), "{}", ran.text());
    let said = server.finish();
    assert!(!said.contains("offers no chain"), "{said}");

    // Another kind of key leads to another certificate at once; a root that is not offered is logged, and the first chain is used.
    let server = launch("preferred_chain = \"ISRG Root X1\"").start();
    wait_for_certificate(&server);
    let said = server.finish();
    assert!(said.contains("the one in use has another kind of key"), "{said}");
    let offered = format!(
        "offers no chain that ends at \"ISRG Root X1\" (tls.acme.preferred_chain), only at {:?} and {:?}",
        names[0], names[1]
    );
    assert!(said.contains(&offered), "{said}");
    let mut openssl = tool::command("openssl");
    let ran = tool::run(openssl.args(["x509", "-noout", "-text", "-in"]).arg(&kept));
    assert!(ran.text().contains("id-ecPublicKey"), "{}", ran.text());
}
