//! Proof that a request comes from a node that copies a title, and not from a viewer.
//!
//! Servers exclude copies from their figures about titles, so a client must not be able to pose as a node. Gateways derive a key for
//! each day from the fleet's authority and give it to nodes over mutual TLS. A node sends a proof with each request in [`COPY_HEADER`], and
//! the server counts a request without a valid one as a viewer's.
//!
//! A proof is a token ([`crate::Token`]) of one file: HMAC-SHA256 over the path and an expiry that is at most [`PROOF_SECONDS`] away. The keys sign
//! nothing else, so a proof opens no signed URL and a token of a viewer proves nothing here.
//!
//! It has a header of its own because proxies and browsers rewrite the `User-Agent`, operators match on it, and access logs
//! keep it: a proof in a log could be used again until it expires.
//!
//! The remaining risks, and why they are acceptable:
//! * An attacker who reads a request on the wire (only without TLS) can repeat it for the same file until the proof expires, and hide that from the
//!   statistics. A proof gives access to nothing.
//! * A revoked node knows the keys of its last day and of the day after. From then on its proofs are invalid.
//! * Another authority derives other keys. A fleet has one for ten years; its successor invites every node again.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::path::Path;

use data_encoding::HEXLOWER;
use zeroize::Zeroizing;

use crate::{Grant, KeyError, KeyFileFault, KeyRing, Token};

/// The header of a request with a proof.
pub const COPY_HEADER: &str = "Fullbore-Copy";

/// How long a proof is valid. A block that a node waits for takes 30 s at most, and its request is sent at once.
const PROOF_SECONDS: u64 = 120;

/// By how much the clocks of two nodes may differ. Nodes and gateways report a difference of more than a second.
const CLOCKS_SECONDS: u64 = 120;

const DAY_SECONDS: u64 = 86_400;

/// The start of these keys' ids; the day follows, counted from 1970.
const ID: &str = "copies-";

/// The days whose keys nodes have at `now_unix_seconds`: yesterday's for requests that began before midnight, tomorrow's for a day without
/// any gateway.
pub fn copy_key_days(now_unix_seconds: u64) -> RangeInclusive<u64> {
    let today = now_unix_seconds / DAY_SECONDS;
    today.saturating_sub(1)..=today + 1
}

/// The line of a key file with the key of a day.
pub fn copy_key_line(day: u64, secret: &[u8; 32]) -> Zeroizing<String> {
    let hex = Zeroizing::new(HEXLOWER.encode(secret));
    Zeroizing::new(format!("{ID}{day}:{}\n", *hex))
}

/// The keys of a few days.
#[derive(Debug)]
pub struct CopyRing(KeyRing);

impl CopyRing {
    /// Parses the keys in `text`, lines of [`copy_key_line`].
    ///
    /// # Errors
    /// If it has another form.
    pub fn parse(text: &str) -> Result<Self, KeyFileFault> {
        KeyRing::parse(text).map(Self)
    }

    /// Reads the keys in `file`, if there are any.
    ///
    /// # Errors
    /// As [`KeyRing::read`].
    pub fn read(file: &Path) -> Result<Self, KeyError> {
        KeyRing::read_perhaps_empty(&[file]).map(Self)
    }

    /// Whether the file has changed since ([`KeyRing::changed_on_disk`]).
    pub fn changed_on_disk(&self) -> bool {
        self.0.changed_on_disk()
    }

    /// The proof for a request for the file at `path`, decoded and without a leading slash; `None` without a key of today.
    pub fn prove(&self, path: &[u8], now_unix_seconds: u64) -> Option<String> {
        let expires_unix_seconds = now_unix_seconds + PROOF_SECONDS;
        let grant = Grant { prefix: path, expires_unix_seconds, client: None };
        self.0.sign_with(&format!("{ID}{}", now_unix_seconds / DAY_SECONDS), &grant)
    }

    /// Whether `proof` proves that a request for the file at `path` is a node's.
    pub fn proves(&self, proof: &[u8], path: &[u8], now_unix_seconds: u64) -> bool {
        let Some(token) = Token::parse(proof) else { return false };
        let expires_max = now_unix_seconds + PROOF_SECONDS + CLOCKS_SECONDS;
        // The proof must be for this file, not for a folder.
        let is_of_file = token.prefix(path) == Some(path);
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        is_of_file
            && !token.is_bound
            && token.expires_unix_seconds <= expires_max
            && is_of_now(token.key_id, now_unix_seconds)
            && self.0.check(proof, path, any, now_unix_seconds).is_ok()
    }
}

/// Whether a key's day is today, allowing for the difference of clocks.
fn is_of_now(key_id: &str, now_unix_seconds: u64) -> bool {
    let Some(Ok(day)) = key_id.strip_prefix(ID).map(str::parse::<u64>) else { return false };
    let reach = CLOCKS_SECONDS + PROOF_SECONDS;
    let days = now_unix_seconds.saturating_sub(reach) / DAY_SECONDS
        ..=(now_unix_seconds + CLOCKS_SECONDS) / DAY_SECONDS;
    days.contains(&day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noon of a day.
    const NOW: u64 = 20_785 * DAY_SECONDS + DAY_SECONDS / 2;
    const PATH: &[u8] = b"films/a film/1.m4s";

    /// The keys that a gateway gives to nodes at `now`, with a secret of this `byte`.
    fn ring(now: u64, byte: u8) -> CopyRing {
        let lines = copy_key_days(now).map(|day| {
            let mut secret = [byte; 32];
            secret[..8].copy_from_slice(&day.to_be_bytes());
            copy_key_line(day, &secret).to_string()
        });
        CopyRing::parse(&lines.collect::<String>()).unwrap()
    }

    #[test]
    fn a_node_proves_a_copy_of_one_file_for_two_minutes() {
        let (own, other) = (ring(NOW, 1), ring(NOW, 2));
        let proof = own.prove(PATH, NOW).unwrap();
        let proves = |ring: &CopyRing, path: &[u8], now| ring.proves(proof.as_bytes(), path, now);
        assert!(proves(&own, PATH, NOW) && proves(&own, PATH, NOW + PROOF_SECONDS - 1));
        assert!(proves(&own, PATH, NOW - CLOCKS_SECONDS), "a clock that is two minutes ahead");
        assert!(!proves(&own, PATH, NOW + PROOF_SECONDS));
        assert!(!proves(&own, PATH, NOW - CLOCKS_SECONDS - 1));
        assert!(!proves(&other, PATH, NOW), "another fleet");
        for path in [&b"films/a film/2.m4s"[..], b"films/a film", b"films/a film/1.m4s/x", b""] {
            assert!(!proves(&own, path, NOW));
        }
    }

    #[test]
    fn what_is_no_proof_proves_nothing() {
        let own = ring(NOW, 1);
        let proof = own.prove(PATH, NOW).unwrap();
        let mut text = proof.clone().into_bytes();
        for index in 0..text.len() {
            let byte = std::mem::replace(&mut text[index], b'7');
            assert_eq!(own.proves(&text, PATH, NOW), byte == b'7', "byte {index}");
            text[index] = byte;
        }
        for other in [&b""[..], b"fullbore-node/0.1.0", format!("{proof}, {proof}").as_bytes()] {
            assert!(!own.proves(other, PATH, NOW));
        }
        // Signed with a key of the fleet, but against the rules: a folder, a long time.
        let id = format!("{ID}{}", NOW / DAY_SECONDS);
        for (prefix, seconds) in
            [(&b"films"[..], 60), (&b""[..], 60), (PATH, 241), (PATH, DAY_SECONDS)]
        {
            let expires_unix_seconds = NOW + seconds;
            let grant = Grant { prefix, expires_unix_seconds, client: None };
            let signed = own.0.sign_with(&id, &grant).unwrap();
            assert!(!own.proves(signed.as_bytes(), PATH, NOW), "{seconds}");
        }
    }

    #[test]
    fn keys_change_at_midnight_and_no_request_falls_between() {
        let midnight = (NOW / DAY_SECONDS + 1) * DAY_SECONDS;
        for now in midnight - 300..midnight + 300 {
            // Either node may have fetched its keys a quarter of an hour ago, and its clock may be off by a minute.
            for (asked, serves) in [(now, now - 900), (now - 900, now), (now - 900, now + 60)] {
                let proof = ring(asked, 1).prove(PATH, now).unwrap();
                assert!(ring(serves, 1).proves(proof.as_bytes(), PATH, now + 60), "{now}");
            }
        }
    }

    #[test]
    fn what_a_revoked_node_knows_ends_with_the_day_after() {
        let knows = ring(NOW, 1);
        let midnight = (NOW / DAY_SECONDS + 2) * DAY_SECONDS;
        assert!(knows.prove(PATH, midnight - 1).is_some() && knows.prove(PATH, midnight).is_none());
        // A node may sign with another expiry than it should, and the server may have no newer keys.
        let grant = Grant { prefix: PATH, expires_unix_seconds: midnight + 300, client: None };
        let signed = knows.0.sign_with(&format!("{ID}{}", NOW / DAY_SECONDS + 1), &grant).unwrap();
        let latest = midnight + CLOCKS_SECONDS + PROOF_SECONDS;
        assert!(knows.proves(signed.as_bytes(), PATH, latest - 1));
        assert!(!knows.proves(signed.as_bytes(), PATH, latest));
    }

    #[test]
    fn keys_are_never_printed() {
        assert_eq!(format!("{:?}", CopyRing::parse(&copy_key_line(7, &[9; 32])).unwrap()), {
            "CopyRing([\"copies-7\"])"
        });
    }
}
