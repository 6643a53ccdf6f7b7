//! The keys in use: the first one that can sign signs, all verify.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use files::FileStamp;

use crate::cat::CatKeys;
use crate::key::Key;
use crate::token::{self, Grant, Token};
use crate::verified::Good;
use crate::{
    CatFault, CatGrant, CatRequest, CatSettings, KeyError, KeyFileFault, TokenFault, Verified,
    file, pem,
};

/// Keys with different ids. There is at least one, unless the caller allows for keys that come later.
pub struct KeyRing {
    keys: Vec<Key>,
    /// The keys of Common Access Tokens, if those are accepted.
    cats: Option<Box<CatKeys>>,
    /// The state of its files just before they were read.
    stamps: Vec<FileStamp>,
    /// Distinguishes this ring from every other one of the process.
    number: u64,
}

static RINGS: AtomicU64 = AtomicU64::new(0);

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

impl KeyRing {
    /// Reads the keys in all of `files`, in order. `file.rs` describes the form and the permissions of these files.
    ///
    /// # Errors
    /// If a file cannot be read, has the wrong form or permissions, or repeats an id; or if there is no file.
    pub fn read<P: AsRef<Path>>(files: &[P]) -> Result<Self, KeyError> {
        Self::read_files(files, false)
    }

    /// As [`read`](Self::read), but a file without keys is no error: its keys may come later.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_perhaps_empty<P: AsRef<Path>>(files: &[P]) -> Result<Self, KeyError> {
        Self::read_files(files, true)
    }

    fn read_files<P: AsRef<Path>>(files: &[P], may_be_empty: bool) -> Result<Self, KeyError> {
        if files.is_empty() {
            return Err(KeyError::NoFile);
        }
        // Before they are read, so that a change in between is noticed later instead of missed.
        let stamps = files.iter().map(|file| FileStamp::take(file.as_ref().to_owned())).collect();
        let mut keys = Vec::new();
        for file in files.iter().map(AsRef::as_ref) {
            let read = match file::read(file) {
                Err(KeyError::File { fault: KeyFileFault::Empty, .. }) if may_be_empty => continue,
                read => read?,
            };
            add(&mut keys, read)
                .map_err(|fault| KeyError::File { file: file.to_owned(), fault })?;
        }
        Ok(Self::of(keys, stamps))
    }

    /// Parses the keys in `text`, which has the form of a key file.
    ///
    /// # Errors
    /// If it has another form, no key, or an id twice.
    pub fn parse(text: &str) -> Result<Self, KeyFileFault> {
        let mut keys = Vec::new();
        add(&mut keys, file::parse(text)?)?;
        Ok(Self::of(keys, Vec::new()))
    }

    fn of(keys: Vec<Key>, stamps: Vec<FileStamp>) -> Self {
        Self { keys, cats: None, stamps, number: RINGS.fetch_add(1, Ordering::Relaxed) }
    }

    /// A ring without any key.
    pub fn none() -> Self {
        Self::of(Vec::new(), Vec::new())
    }

    /// This ring, which also accepts Common Access Tokens by the keys in files.
    ///
    /// # Errors
    /// If a file cannot be read, has the wrong form or permissions, no key, or repeats an id.
    pub fn with_cats(mut self, settings: &CatSettings<'_>) -> Result<Self, KeyError> {
        self.stamps.extend(settings.keys.iter().map(|file| FileStamp::take(file.clone())));
        self.cats = Some(Box::new(CatKeys::read(settings)?));
        Ok(self)
    }

    /// This ring, which also accepts Common Access Tokens by the keys in `text`, which has the form of a file.
    ///
    /// # Errors
    /// If it has another form, no key, or an id twice.
    pub fn with_cats_of(
        mut self,
        text: &str,
        settings: &CatSettings<'_>,
    ) -> Result<Self, KeyFileFault> {
        self.cats = Some(Box::new(CatKeys::parse(text, settings)?));
        Ok(self)
    }

    /// Whether it accepts Common Access Tokens.
    pub fn takes_cats(&self) -> bool {
        self.cats.is_some()
    }

    /// Whether a file was replaced or written since it was read. It costs one stat per file; call it every few seconds. A missing file is not
    /// new, because a replacement may be half done.
    pub fn changed_on_disk(&self) -> bool {
        self.stamps.iter().any(FileStamp::is_outdated)
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.cats.is_none()
    }

    /// Whether `before` had keys of our own tokens and this ring has none, as if its files were cut off. A file with keys of Common Access Tokens is
    /// never empty.
    pub fn has_lost_keys(&self, before: &Self) -> bool {
        self.keys.is_empty() && !before.keys.is_empty()
    }

    /// Whether this ring can sign.
    pub fn is_secret(&self) -> bool {
        self.keys.iter().any(Key::is_secret)
            || self.cats.as_ref().is_some_and(|cats| cats.is_secret())
    }

    /// The text of a key file with the public halves of this ring's keys of Ed25519, in order: all that a server needs to check this ring's
    /// signatures. Keys of HMAC have no such half.
    pub fn public_keys(&self) -> String {
        let halves = self.keys.iter().filter_map(|key| Some((&key.id, key.public_half()?)));
        halves.map(|(id, half)| format!("# {id}\n{}", pem::write_public(half))).collect()
    }

    /// The keys' ids, the one that signs first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.id.as_str())
    }

    /// The text of a token for `grant`, signed with the first key that can sign; `None` if all are public.
    pub fn sign(&self, grant: &Grant<'_>) -> Option<String> {
        let mut signed = self.keys.iter().filter_map(|key| Some((key, key.sign(grant)?)));
        signed.next().map(|(key, signature)| token::text(grant, &key.id, &signature))
    }

    /// As [`sign`](Self::sign), with the key `id`; `None` if that is not there or cannot sign.
    pub(crate) fn sign_with(&self, id: &str, grant: &Grant<'_>) -> Option<String> {
        let key = self.keys.iter().find(|key| key.id == id)?;
        key.sign(grant).map(|signature| token::text(grant, &key.id, &signature))
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
    ) -> Result<(), TokenFault> {
        self.check_again(&mut Verified::default(), text, path, client, now_unix_seconds)
    }

    /// As [`check`](Self::check), but without verifying a token and a prefix that `verified` remembers as good; newly verified ones are
    /// remembered.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_again(
        &self,
        verified: &mut Verified,
        text: &[u8],
        path: &[u8],
        client: IpAddr,
        now_unix_seconds: u64,
    ) -> Result<(), TokenFault> {
        let expires_unix_seconds = match verified.find(self.number, text, path, client) {
            Some(known) => known,
            None => {
                let (token, prefix) = self.verify(text, path, client)?;
                let (expires_unix_seconds, depth) = (token.expires_unix_seconds, token.depth);
                let ring = self.number;
                verified.remember(Good { ring, client, expires_unix_seconds, depth }, text, prefix);
                expires_unix_seconds
            }
        };
        if now_unix_seconds < expires_unix_seconds { Ok(()) } else { Err(TokenFault::Expired) }
    }

    /// As [`check_again`](Self::check_again), for a path with two spellings, of which either may have been signed. If `verified` remembers one of
    /// them as good, nothing is verified.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_spellings_again(
        &self,
        verified: &mut Verified,
        text: &[u8],
        [path, other]: [&[u8]; 2],
        client: IpAddr,
        now_unix_seconds: u64,
    ) -> Result<(), TokenFault> {
        let check = |verified: &mut Verified, path: &[u8]| {
            self.check_again(verified, text, path, client, now_unix_seconds)
        };
        if path == other {
            return check(verified, path);
        }
        if verified.find(self.number, text, other, client).is_some() {
            return check(verified, other);
        }
        match check(verified, path) {
            Err(TokenFault::Wrong) => check(verified, other),
            checked => checked,
        }
    }

    /// Checks that the Common Access Token `text` allows `request`.
    ///
    /// # Errors
    /// Why it does not.
    pub fn check_cat(&self, text: &[u8], request: &CatRequest<'_>) -> Result<(), CatFault> {
        let cats = self.cats.as_ref().ok_or(CatFault::UnknownKey)?;
        cats.open(text)?.check(request)
    }

    /// As [`check_cat`](Self::check_cat), but without verifying a token that `verified` remembers as genuine; a newly verified one is remembered.
    ///
    /// # Errors
    /// As [`check_cat`](Self::check_cat).
    pub fn check_cat_again(
        &self,
        verified: &mut Verified,
        text: &[u8],
        request: &CatRequest<'_>,
    ) -> Result<(), CatFault> {
        if let Some(claims) = verified.find_cat(self.number, text) {
            return claims.check(request);
        }
        let claims = self.cats.as_ref().ok_or(CatFault::UnknownKey)?.open(text)?;
        let checked = claims.check(request);
        // It may be for the next path.
        if matches!(checked, Ok(()) | Err(CatFault::NotAllowed("catu"))) {
            verified.remember_cat(self.number, text, claims);
        }
        checked
    }

    /// A Common Access Token for `grant`, signed with the first of these keys that can sign, and that key's id; `None` if there is none.
    pub fn sign_cat(&self, grant: &CatGrant<'_>) -> Option<(String, String)> {
        self.cats.as_ref()?.sign(grant)
    }

    /// The token in `text`, if it is genuine, and the prefix of `path` that it covers.
    fn verify<'t, 'p>(
        &self,
        text: &'t [u8],
        path: &'p [u8],
        client: IpAddr,
    ) -> Result<(Token<'t>, &'p [u8]), TokenFault> {
        let token = Token::parse(text).ok_or(TokenFault::Malformed)?;
        let key =
            self.keys.iter().find(|key| key.id == token.key_id).ok_or(TokenFault::UnknownKey)?;
        let prefix = token.prefix(path).ok_or(TokenFault::Wrong)?;
        let grant = Grant {
            prefix,
            expires_unix_seconds: token.expires_unix_seconds,
            client: token.is_bound.then_some(client),
        };
        if key.verifies(&grant, &token.signature) {
            Ok((token, prefix))
        } else {
            Err(TokenFault::Wrong)
        }
    }
}

/// Adds keys with ids that are not there yet.
fn add(keys: &mut Vec<Key>, more: Vec<Key>) -> Result<(), KeyFileFault> {
    for key in more {
        if keys.iter().any(|known| known.id == key.id) {
            return Err(KeyFileFault::IdTwice(key.id));
        }
        keys.push(key);
    }
    Ok(())
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
            writeln!(file, "{id}:{}", data_encoding::HEXLOWER.encode(&[*byte; 32])).unwrap();
        }
        KeyRing::read(&files)
    }

    fn any() -> IpAddr {
        "192.0.2.1".parse().unwrap()
    }

    fn token(ring: &KeyRing, prefix: &str, client: Option<IpAddr>) -> String {
        let prefix = prefix.as_bytes();
        ring.sign(&Grant { prefix, expires_unix_seconds: NOW + 10, client }).expect("it signs")
    }

    /// The private key whose bytes are 32 times 1, as OpenSSL writes it.
    const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB\n\
        -----END PRIVATE KEY-----\n";

    /// A ring that signs with Ed25519, and one that can only check.
    fn halves() -> (KeyRing, KeyRing) {
        let private = KeyRing::parse(PRIVATE).unwrap();
        let public = KeyRing::parse(&private.public_keys()).unwrap();
        (private, public)
    }

    #[test]
    fn the_format_is_the_one_that_is_documented() {
        // printf 'fullbore-url-1\n1790000010\n\nfilms/a' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0101...01
        let signature = "9007fda5c1a0d6ba22c6ddc575c91a9a7f5c2979970ba0d7de0fa6143f81e85a";
        let ring = ring(&[("k", 1)]).unwrap();
        assert_eq!(token(&ring, "films/a", None), format!("1790000010.{signature}.k.2"));
    }

    #[test]
    fn the_format_of_ed25519_is_the_one_that_is_documented() {
        // printf 'fullbore-url-2\n1790000010\n\nfilms/a' >m; openssl pkeyutl -sign -rawin -inkey key.pem -in m; sha256sum m
        let signature = "2e9c1f9684e09f6fa59746584a3475c76d50c5e957a79f9341469d11a2afd56d\
            85447a5a0b29a3c1c3250eabd1c36352daf9fecc8c0020478c5e1369f8aaa10b7da94463";
        let (private, public) = halves();
        let token = token(&private, "films/a", None);
        assert_eq!(token, format!("1790000010.{signature}.34750f98bd59fcfc.2"));
        assert_eq!(public.check(token.as_bytes(), b"films/a/b", any(), NOW), Ok(()));
    }

    #[test]
    fn a_ring_of_public_keys_checks_and_signs_nothing() {
        let (private, public) = halves();
        assert!(private.is_secret() && !public.is_secret());
        let grant = Grant { prefix: b"a", expires_unix_seconds: NOW + 1, client: None };
        assert_eq!(public.sign(&grant), None);
        let token = private.sign(&grant).unwrap();
        assert_eq!(public.check(token.as_bytes(), b"a/b", any(), NOW), Ok(()));
        assert_eq!(public.check(token.as_bytes(), b"b", any(), NOW), Err(TokenFault::Wrong));
        assert_eq!(public.check(token.as_bytes(), b"a", any(), NOW + 1), Err(TokenFault::Expired));
        let stranger = KeyRing::parse(&crate::NewPair::draw().unwrap().private).unwrap();
        let (_, theirs) = (&stranger, stranger.sign(&grant).unwrap());
        assert_eq!(public.check(theirs.as_bytes(), b"a", any(), NOW), Err(TokenFault::UnknownKey));
        let named = theirs.replace(stranger.ids().next().unwrap(), public.ids().next().unwrap());
        assert_eq!(public.check(named.as_bytes(), b"a", any(), NOW), Err(TokenFault::Wrong));
    }

    #[test]
    fn no_part_of_a_token_of_ed25519_can_be_changed() {
        let (private, public) = halves();
        let token = token(&private, "a/b", None);
        let check = |text: &str| public.check(text.as_bytes(), b"a/b/c", any(), NOW);
        assert_eq!(check(&token), Ok(()));
        let (expiry, rest) = token.split_once('.').unwrap();
        for index in 0..136 {
            let mut changed = rest.to_owned().into_bytes();
            changed[index] = if changed[index] == b'0' { b'1' } else { b'0' };
            let changed = format!("{expiry}.{}", String::from_utf8(changed).unwrap());
            assert_eq!(check(&changed), Err(TokenFault::Wrong), "digit {index}");
        }
        assert_eq!(check(&token.replacen("1790000010", "1790000011", 1)), Err(TokenFault::Wrong));
        assert_eq!(check(&token.replace("fcfc.2", "fcfc.1")), Err(TokenFault::Wrong));
        assert_eq!(check(&token.replace("fcfc.2", "fcfc.2c")), Err(TokenFault::Wrong));
    }

    #[test]
    fn either_spelling_of_a_path_may_be_signed_and_the_signed_one_is_remembered() {
        let (private, public) = halves();
        let spellings = ["priv\u{e9}/x", "prive\u{301}/x"].map(str::as_bytes);
        for signed in ["priv\u{e9}", "prive\u{301}"] {
            let text = token(&private, signed, None);
            let mut verified = Verified::default();
            let check = |verified: &mut Verified, spellings, now| {
                public.check_spellings_again(verified, text.as_bytes(), spellings, any(), now)
            };
            for _ in 0..2 {
                assert_eq!(check(&mut verified, spellings, NOW), Ok(()), "{signed}");
                let known = spellings.map(|path| {
                    verified.find(public.number, text.as_bytes(), path, any()).is_some()
                });
                assert_eq!(known, spellings.map(|path| path.starts_with(signed.as_bytes())));
            }
            assert_eq!(check(&mut verified, spellings, NOW + 10), Err(TokenFault::Expired));
            assert_eq!(check(&mut verified, [&b"priv"[..], b"prive"], NOW), Err(TokenFault::Wrong));
        }
    }

    #[test]
    fn keys_may_come_later_only_where_that_is_said() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("keys.pem");
        std::fs::write(&file, "# none yet\n").unwrap();
        assert!(KeyRing::read(&[&file]).unwrap_err().to_string().contains("holds no key"));
        let ring = KeyRing::read_perhaps_empty(&[&file]).unwrap();
        assert!(ring.is_empty() && !ring.changed_on_disk());
        std::fs::write(&file, halves().1.public_keys()).unwrap();
        assert!(ring.changed_on_disk());
        assert!(!KeyRing::read_perhaps_empty(&[&file]).unwrap().is_empty());
        std::fs::write(&file, "no key").unwrap();
        assert!(KeyRing::read_perhaps_empty(&[&file]).is_err());
    }

    #[test]
    fn a_public_key_taken_for_a_secret_signs_nothing() {
        let (_, public) = halves();
        let id = public.ids().next().unwrap().to_owned();
        // A forger's best attempt with all that a node knows: HMAC with the bytes of the public key, under its id.
        let half = *public.keys[0].public_half().unwrap();
        for secret in [&half[..], public.public_keys().as_bytes()] {
            let forger = KeyRing::of(vec![Key::hmac(&id, secret)], Vec::new());
            let token = token(&forger, "a", None);
            assert_eq!(public.check(token.as_bytes(), b"a", any(), NOW), Err(TokenFault::Wrong));
        }
    }

    #[test]
    fn a_signature_of_one_kind_says_nothing_to_a_key_of_the_other() {
        let (private, _) = halves();
        let id = private.ids().next().unwrap().to_owned();
        let shared = KeyRing::of(vec![Key::hmac(&id, &[1; 32])], Vec::new());
        let token = token(&private, "a", None);
        assert_eq!(shared.check(token.as_bytes(), b"a", any(), NOW), Err(TokenFault::Wrong));
    }

    #[test]
    fn a_removed_key_is_refused_also_where_its_token_was_good_before() {
        let (old, both) = (ring(&[("old", 1)]).unwrap(), ring(&[("new", 2), ("old", 1)]).unwrap());
        let token = token(&old, "a", None);
        let mut verified = Verified::default();
        let mut check =
            |ring: &KeyRing| ring.check_again(&mut verified, token.as_bytes(), b"a/b", any(), NOW);
        assert_eq!(check(&both), Ok(()));
        assert_eq!(check(&both), Ok(()));
        assert_eq!(check(&ring(&[("new", 2)]).unwrap()), Err(TokenFault::UnknownKey));
        assert_eq!(check(&old), Ok(()));
    }

    #[test]
    fn what_is_remembered_ends_and_covers_its_prefix_only() {
        let (private, public) = halves();
        let (first, other) = (token(&private, "a", None), token(&private, "b", Some(any())));
        let mut verified = Verified::default();
        let mut check = |token: &str, path: &[u8], client: &str, now| {
            let client = client.parse().unwrap();
            public.check_again(&mut verified, token.as_bytes(), path, client, now)
        };
        let (here, there) = ("192.0.2.1", "192.0.2.2");
        for _ in 0..2 {
            assert_eq!(check(&first, b"a/b", here, NOW), Ok(()));
            assert_eq!(check(&first, b"a/c/d", here, NOW), Ok(()));
            assert_eq!(check(&first, b"ab", here, NOW), Err(TokenFault::Wrong));
            assert_eq!(check(&first, b"b", here, NOW), Err(TokenFault::Wrong));
            assert_eq!(check(&first, b"a", here, NOW + 10), Err(TokenFault::Expired));
            assert_eq!(check(&other, b"b", here, NOW), Ok(()));
            assert_eq!(check(&other, b"b", there, NOW), Err(TokenFault::Wrong));
            assert_eq!(check(&other, b"a", here, NOW), Err(TokenFault::Wrong));
        }
    }

    #[test]
    fn a_ring_knows_when_its_files_have_changed() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("keys");
        std::fs::write(&file, PRIVATE).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let ring = KeyRing::read(&[&file]).unwrap();
        assert!(!ring.changed_on_disk());
        let new = folder.path().join("new");
        std::fs::write(&new, ring.public_keys()).unwrap();
        std::fs::rename(&new, &file).unwrap();
        assert!(ring.changed_on_disk());
        assert!(!KeyRing::read(&[&file]).unwrap().changed_on_disk());
        std::fs::remove_file(&file).unwrap();
        assert!(!ring.changed_on_disk(), "a replacement may be half done");
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
            assert_eq!(check(path), Err(TokenFault::Wrong), "{path}");
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
        assert_eq!(at(NOW + 10), Err(TokenFault::Expired));
        assert_eq!(at(u64::MAX), Err(TokenFault::Expired));
    }

    #[test]
    fn no_part_of_it_can_be_changed() {
        let ring = ring(&[("k", 1), ("l", 2)]).unwrap();
        let token = token(&ring, "a/b", None);
        let check = |text: &str| ring.check(text.as_bytes(), b"a/b/c", any(), NOW);
        assert_eq!(check(&token), Ok(()));
        assert_eq!(check(&token.replacen("1790000010", "1790000011", 1)), Err(TokenFault::Wrong));
        assert_eq!(check(&token.replace(".k.", ".l.")), Err(TokenFault::Wrong));
        assert_eq!(check(&token.replace(".k.", ".m.")), Err(TokenFault::UnknownKey));
        assert_eq!(check(&token.replace(".k.2", ".k.1")), Err(TokenFault::Wrong));
        assert_eq!(check(&token.replace(".k.2", ".k.0")), Err(TokenFault::Wrong));
        assert_eq!(check(&token.replace(".k.2", ".k.2c")), Err(TokenFault::Wrong));
        let (expiry, rest) = token.split_once('.').unwrap();
        for index in 0..64 {
            let mut changed = rest.to_owned().into_bytes();
            changed[index] = if changed[index] == b'0' { b'1' } else { b'0' };
            let changed = format!("{expiry}.{}", String::from_utf8(changed).unwrap());
            assert_eq!(check(&changed), Err(TokenFault::Wrong));
        }
    }

    #[test]
    fn an_expired_token_that_is_forged_is_not_told_from_a_wrong_one() {
        let ring = ring(&[("k", 1)]).unwrap();
        let forged = token(&ring, "a", None).replacen("1790000010", "1", 1);
        assert_eq!(ring.check(forged.as_bytes(), b"a", any(), NOW), Err(TokenFault::Wrong));
    }

    #[test]
    fn a_bound_token_is_for_that_address_however_it_is_written() {
        let ring = ring(&[("k", 1)]).unwrap();
        let token = token(&ring, "a", Some(any()));
        let from = |client: &str| ring.check(token.as_bytes(), b"a", client.parse().unwrap(), NOW);
        assert_eq!(from("192.0.2.1"), Ok(()));
        assert_eq!(from("::ffff:192.0.2.1"), Ok(()));
        assert_eq!(from("192.0.2.2"), Err(TokenFault::Wrong));
        assert_eq!(from("::1"), Err(TokenFault::Wrong));
        let unbound = token.trim_end_matches('c');
        assert_eq!(ring.check(unbound.as_bytes(), b"a", any(), NOW), Err(TokenFault::Wrong));
    }

    #[test]
    fn every_key_verifies_and_the_first_signs() {
        let (old, both) = (ring(&[("old", 1)]).unwrap(), ring(&[("new", 2), ("old", 1)]).unwrap());
        let check = |ring: &KeyRing, token: &str| ring.check(token.as_bytes(), b"a", any(), NOW);
        assert_eq!(check(&both, &token(&old, "a", None)), Ok(()));
        let by_new = token(&both, "a", None);
        assert!(by_new.contains(".new."));
        assert_eq!(check(&old, &by_new), Err(TokenFault::UnknownKey));
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
