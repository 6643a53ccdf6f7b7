//! The session in a steering address.
//!
//! Checks that nothing panics; that no session counts as signed that we did not sign; and that a session is within its limits and is the same after
//! signing and reading it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use viewer_api::session::{NODES_MAX, ReadSession, SessionKey, ViewerSession};

static KEY: LazyLock<SessionKey> = LazyLock::new(|| SessionKey::derive(b"a secret"));

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let session = match ViewerSession::open(text, &KEY) {
        ReadSession::Unreadable => return,
        ReadSession::Signed(session) => {
            assert_eq!(session.seal(&KEY), text);
            session
        }
        ReadSession::Unsigned(session) => {
            assert_ne!(session.seal(&KEY), text);
            session
        }
    };
    assert!((1..=NODES_MAX).contains(&session.nodes.len()) && text.len() <= 6 << 10);
    assert!(session.nodes.iter().all(|node| node.as_str().len() <= 63));
    let sealed = session.seal(&KEY);
    assert_eq!(ViewerSession::open(&sealed, &KEY), ReadSession::Signed(session));
});
