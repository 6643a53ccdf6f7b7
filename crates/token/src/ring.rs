//! The keys in use: the first one signs, all verify.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use aws_lc_rs::hmac;

use crate::key::{self, Key};
use crate::token::{self, Grant, Token};
use crate::{Fault, KeyError, KeyFileFault};

/// Keys with different ids, at least one.
pub struct KeyRing {
    keys: Vec<Key>,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

impl KeyRing {
    /// Reads the keys in all of `files`, in order. `key.rs` describes the form and the permissions of these files.
    ///
    /// # Errors
    /// If a file cannot be read, has the wrong form or permissions, or repeats an id; or if there is no file.
    pub fn read<P: AsRef<Path>>(files: &[P]) -> Result<Self, KeyError> {
        let mut keys: Vec<Key> = Vec::new();
        for file in files.iter().map(AsRef::as_ref) {
            for key in key::read(file)? {
                if keys.iter().any(|known| known.id == key.id) {
                    let fault = KeyFileFault::IdTwice(key.id);
                    return Err(KeyError::File { file: file.to_owned(), fault });
                }
                keys.push(key);
            }
        }
        if keys.is_empty() {
            return Err(KeyError::NoFile);
        }
        Ok(Self { keys })
    }

    /// The keys' ids, the one that signs first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.id.as_str())
    }

    /// The text of a token for `grant`, signed with the first key.
    pub fn sign(&self, grant: &Grant<'_>) -> String {
        let key = self.keys.first().expect("a ring is never empty");
        let signature = hmac::sign(&key.hmac, &grant.message());
        token::text(grant, &key.id, signature.as_ref())
    }

    /// Checks that the token `text` allows `path` to `client` now.
    ///
    /// # Errors
    /// Why it does not. Only a genuine token is reported as expired.
    pub fn check(
        &self,
        text: &[u8],
        path: &[u8],
        client: IpAddr,
        now_unix_seconds: u64,
    ) -> Result<(), Fault> {
        let token = Token::parse(text).ok_or(Fault::Malformed)?;
        let key = self.keys.iter().find(|key| key.id == token.key_id).ok_or(Fault::UnknownKey)?;
        let prefix = token.prefix(path).ok_or(Fault::Wrong)?;
        let grant = Grant {
            prefix,
            expires_unix_seconds: token.expires_unix_seconds,
            client: token.is_bound.then_some(client),
        };
        hmac::verify(&key.hmac, &grant.message(), &token.signature).map_err(|_| Fault::Wrong)?;
        if now_unix_seconds < token.expires_unix_seconds { Ok(()) } else { Err(Fault::Expired) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    use tempfile::TempDir;

    const NOW: u64 = 1_790_000_000;

    /// A ring of the keys `(id, secret byte)`, each in a file of its own.
    fn ring(keys: &[(&str, u8)]) -> Result<KeyRing, KeyError> {
        let folder = TempDir::new().unwrap();
        let files: Vec<_> =
            (0..keys.len()).map(|index| folder.path().join(index.to_string())).collect();
        for (file, (id, byte)) in files.iter().zip(keys) {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).unwrap();
            writeln!(file, "{id}:{}", token::to_hex(&[*byte; 32])).unwrap();
        }
        KeyRing::read(&files)
    }

    fn any() -> IpAddr {
        "192.0.2.1".parse().unwrap()
    }

    fn token(ring: &KeyRing, prefix: &str, client: Option<IpAddr>) -> String {
        let prefix = prefix.as_bytes();
        ring.sign(&Grant { prefix, expires_unix_seconds: NOW + 10, client })
    }

    #[test]
    fn the_format_is_the_one_that_is_documented() {
        // printf 'fullbore-url-1\n1790000010\n\nfilms/a' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0101...01
        let signature = "9007fda5c1a0d6ba22c6ddc575c91a9a7f5c2979970ba0d7de0fa6143f81e85a";
        let ring = ring(&[("k", 1)]).unwrap();
        assert_eq!(token(&ring, "films/a", None), format!("1790000010.{signature}.k.2"));
    }

    #[test]
    fn a_token_allows_its_prefix_and_what_is_below() {
        let ring = ring(&[("k", 1)]).unwrap();
        let token = token(&ring, "films/a", None);
        let check = |path: &str| ring.check(token.as_bytes(), path.as_bytes(), any(), NOW);
        assert_eq!(check("films/a/master.m3u8"), Ok(()));
        assert_eq!(check("films/a/1080p/1.m4s"), Ok(()));
        assert_eq!(check("films/a"), Ok(()));
        for path in
            ["films/ab", "films/ab/c", "films/b/c", "films", "", "film/a/c", "x/films/a", "Films/a"]
        {
            assert_eq!(check(path), Err(Fault::Wrong), "{path}");
        }
    }

    #[test]
    fn a_token_for_all_allows_all() {
        let ring = ring(&[("k", 1)]).unwrap();
        let token = token(&ring, "", None);
        assert_eq!(ring.check(token.as_bytes(), b"any/thing", any(), NOW), Ok(()));
    }

    #[test]
    fn it_ends_at_its_moment() {
        let ring = ring(&[("k", 1)]).unwrap();
        let token = token(&ring, "a", None);
        let at = |now| ring.check(token.as_bytes(), b"a/b", any(), now);
        assert_eq!(at(NOW + 9), Ok(()));
        assert_eq!(at(NOW + 10), Err(Fault::Expired));
        assert_eq!(at(u64::MAX), Err(Fault::Expired));
    }

    #[test]
    fn no_part_of_it_can_be_changed() {
        let ring = ring(&[("k", 1), ("l", 2)]).unwrap();
        let token = token(&ring, "a/b", None);
        let check = |text: &str| ring.check(text.as_bytes(), b"a/b/c", any(), NOW);
        assert_eq!(check(&token), Ok(()));
        assert_eq!(check(&token.replacen("1790000010", "1790000011", 1)), Err(Fault::Wrong));
        assert_eq!(check(&token.replace(".k.", ".l.")), Err(Fault::Wrong));
        assert_eq!(check(&token.replace(".k.", ".m.")), Err(Fault::UnknownKey));
        assert_eq!(check(&token.replace(".k.2", ".k.1")), Err(Fault::Wrong));
        assert_eq!(check(&token.replace(".k.2", ".k.0")), Err(Fault::Wrong));
        assert_eq!(check(&token.replace(".k.2", ".k.2c")), Err(Fault::Wrong));
        let (expiry, rest) = token.split_once('.').unwrap();
        for index in 0..64 {
            let mut changed = rest.to_owned().into_bytes();
            changed[index] = if changed[index] == b'0' { b'1' } else { b'0' };
            let changed = format!("{expiry}.{}", String::from_utf8(changed).unwrap());
            assert_eq!(check(&changed), Err(Fault::Wrong));
        }
    }

    #[test]
    fn an_expired_token_that_is_forged_is_not_told_from_a_wrong_one() {
        let ring = ring(&[("k", 1)]).unwrap();
        let forged = token(&ring, "a", None).replacen("1790000010", "1", 1);
        assert_eq!(ring.check(forged.as_bytes(), b"a", any(), NOW), Err(Fault::Wrong));
    }

    #[test]
    fn a_bound_token_is_for_that_address_however_it_is_written() {
        let ring = ring(&[("k", 1)]).unwrap();
        let token = token(&ring, "a", Some(any()));
        let from = |client: &str| ring.check(token.as_bytes(), b"a", client.parse().unwrap(), NOW);
        assert_eq!(from("192.0.2.1"), Ok(()));
        assert_eq!(from("::ffff:192.0.2.1"), Ok(()));
        assert_eq!(from("192.0.2.2"), Err(Fault::Wrong));
        assert_eq!(from("::1"), Err(Fault::Wrong));
        let unbound = token.trim_end_matches('c');
        assert_eq!(ring.check(unbound.as_bytes(), b"a", any(), NOW), Err(Fault::Wrong));
    }

    #[test]
    fn every_key_verifies_and_the_first_signs() {
        let (old, both) = (ring(&[("old", 1)]).unwrap(), ring(&[("new", 2), ("old", 1)]).unwrap());
        let check = |ring: &KeyRing, token: &str| ring.check(token.as_bytes(), b"a", any(), NOW);
        assert_eq!(check(&both, &token(&old, "a", None)), Ok(()));
        let by_new = token(&both, "a", None);
        assert!(by_new.contains(".new."));
        assert_eq!(check(&old, &by_new), Err(Fault::UnknownKey));
        assert_eq!(both.ids().collect::<Vec<_>>(), ["new", "old"]);
    }

    #[test]
    fn two_keys_of_one_id_are_refused() {
        let error = ring(&[("k", 1), ("k", 2)]).unwrap_err().to_string();
        assert!(error.contains("twice"), "{error}");
        assert!(KeyRing::read::<&Path>(&[]).is_err());
    }

    #[test]
    fn a_ring_does_not_print_its_secrets() {
        assert_eq!(format!("{:?}", ring(&[("k", 0xab)]).unwrap()), "[\"k\"]");
    }
}
