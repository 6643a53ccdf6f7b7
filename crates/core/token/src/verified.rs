//! The last good token of a connection.
//!
//! A viewer shows one token with each of thousands of requests on a connection, and verifying Ed25519 would cost more than the rest of a
//! small request. So a connection keeps the bytes of the last good token: the same bytes under the same keys are good again. Nothing is
//! hashed, so nothing can collide, and a bad token leaves no trace.

use std::net::IpAddr;

use crate::cat::Claims;
use crate::token::leading;

/// Remembers one good token. Uses only a pointer of memory until there is one.
#[derive(Debug, Default)]
pub struct Verified(Option<Box<Remembered>>);

#[derive(Debug)]
enum Remembered {
    Own {
        good: Good,
        /// The token's text, then the prefix.
        bytes: Box<[u8]>,
        text_bytes: usize,
    },
    /// A Common Access Token: its claims are compared with each request.
    Cat { ring: u64, text: Box<[u8]>, claims: Claims },
}

/// The facts about a good token besides its text and the prefix.
#[derive(Debug)]
pub(crate) struct Good {
    /// The number of the ring, since another one may lack the key.
    pub(crate) ring: u64,
    /// The viewer's address; set even if the token is for any address, because a connection has one viewer.
    pub(crate) client: IpAddr,
    /// The time when it ends.
    pub(crate) expires_unix_seconds: u64,
    /// The number of segments of the prefix.
    pub(crate) depth: usize,
}

impl Verified {
    /// The time when the token `text` ends, if it is known to be good for `path` and `client` under the ring of this number.
    pub(crate) fn find(&self, ring: u64, text: &[u8], path: &[u8], client: IpAddr) -> Option<u64> {
        let Remembered::Own { good, bytes, text_bytes } = self.0.as_deref()? else { return None };
        let (known, prefix) = bytes.split_at(*text_bytes);
        let is_known = good.ring == ring && known == text && good.client == client;
        let is_covered = is_known && leading(path, good.depth) == Some(prefix);
        is_covered.then_some(good.expires_unix_seconds)
    }

    /// Remembers that the token `text` is good for `prefix`, replacing the earlier one.
    pub(crate) fn remember(&mut self, good: Good, text: &[u8], prefix: &[u8]) {
        let bytes = [text, prefix].concat().into_boxed_slice();
        self.0 = Some(Box::new(Remembered::Own { good, bytes, text_bytes: text.len() }));
    }

    /// The claims of the Common Access Token `text`, if it is known to be genuine under the ring of this number.
    pub(crate) fn find_cat(&self, ring: u64, text: &[u8]) -> Option<&Claims> {
        match self.0.as_deref()? {
            Remembered::Cat { ring: known_ring, text: known, claims } => {
                (*known_ring == ring && **known == *text).then_some(claims)
            }
            Remembered::Own { .. } => None,
        }
    }

    /// Remembers that the Common Access Token `text` is genuine, replacing the earlier token.
    pub(crate) fn remember_cat(&mut self, ring: u64, text: &[u8], claims: Claims) {
        self.0 = Some(Box::new(Remembered::Cat { ring, text: text.into(), claims }));
    }
}
