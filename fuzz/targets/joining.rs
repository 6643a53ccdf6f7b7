//! Data from anyone who wants to join a fleet: a token, a certificate signing request, a certificate. Also data of a node that gets a certificate
//! for viewers: its request, and the chain that comes back.
//!
//! Checks that nothing panics; that only a token that was really issued is accepted; that a signing request that passes is for its sender's name,
//! and the certificate made from it too; and that a token has only one text.

#![no_main]

use std::sync::OnceLock;
use std::time::Duration;

use fleet_protocol::{Digest, JoinRequest, Name, RenewRequest};
use identity::{
    Authority, Invitation, InvitationToken, NodeCertificate, NodeKey, SigningRequest,
    check_viewer_chain, check_viewer_request,
};
use libfuzzer_sys::fuzz_target;

const NOW: u64 = 1_790_000_000;

/// New in each run, so an accepted token is a forged one.
struct Fleet {
    authority: Authority,
    invitation: Invitation,
    honest: SigningRequest,
}

fn fleet() -> &'static Fleet {
    static FLEET: OnceLock<Fleet> = OnceLock::new();
    FLEET.get_or_init(|| {
        let authority = Authority::make(&name("films"), NOW).expect("an authority");
        let digest = InvitationToken::draw(authority.fingerprint()).digest();
        let expires_unix_seconds = NOW + 60;
        let invitation = Invitation { digest, node: None, expires_unix_seconds, used: None };
        let request = NodeKey::draw().request(&name("node-1"));
        let honest = SigningRequest::check(&request, &name("node-1")).expect("a request");
        Fleet { authority, invitation, honest }
    })
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fuzz_target!(|bytes: &[u8]| {
    let _ = NodeCertificate::read(bytes);
    if let Ok(request) = serde_json::from_slice::<RenewRequest>(bytes) {
        let _ = request.check();
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        check_token(text);
        check_request(text, &name("node-1"));
        check_for_viewers(text);
    }
    check_request(&pem(bytes, "CERTIFICATE REQUEST"), &name("node-1"));
    check_for_viewers(&pem(bytes, "CERTIFICATE REQUEST"));
    check_for_viewers(&pem(bytes, "CERTIFICATE"));
    if let Ok(request) = serde_json::from_slice::<JoinRequest>(bytes) {
        if request.check().is_ok() {
            assert!(request.token.len() <= 256 && request.request.len() <= 4096);
            check_token(&request.token);
            check_request(&request.request, &request.node);
        }
    }
});

fn check_token(text: &str) {
    if let Ok(token) = text.parse::<InvitationToken>() {
        assert_eq!(token.to_string(), text, "one token, one text");
        let Fleet { invitation, honest, .. } = fleet();
        assert!(invitation.check(&token, honest, NOW).is_err(), "forged");
    }
}

fn check_request(pem: &str, node: &Name) {
    let Ok(request) = SigningRequest::check(pem, node) else { return };
    assert_eq!(request.node(), node);
    let lifetime = Duration::from_secs(60);
    let issued = fleet().authority.sign_node(&request, lifetime, NOW).expect("it signs");
    assert_eq!(issued.expires_unix_seconds, NOW + 60);
    assert_ne!(request.key(), Digest::of(b""));
}

/// A request is for one host only. No request and no chain has a key with the empty digest.
fn check_for_viewers(pem: &str) {
    for host in ["n1.example", "192.0.2.1"] {
        if let Ok(key) = check_viewer_request(pem, host) {
            assert!(check_viewer_request(pem, "n2.example").is_err(), "for one host");
            assert_ne!(key, Digest::of(b""));
        }
        assert!(check_viewer_chain(pem, host, &Digest::of(b""), NOW).is_err());
    }
}

/// `bytes` as the base64 of a signing request or a certificate, so that the fuzzer need not find this form by itself.
fn pem(bytes: &[u8], what: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {what}-----\n");
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - three.len()));
        for at in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * at) & 63) as usize] as char;
            text.push(if at <= three.len() { digit } else { '=' });
        }
    }
    text + &format!("\n-----END {what}-----\n")
}
