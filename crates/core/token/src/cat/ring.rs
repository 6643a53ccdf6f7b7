//! The keys of Common Access Tokens in use: the first one that can sign signs, all verify.

use super::claims::Claims;
use super::cose::{self, Sealed};
use super::keys::{self, CatKey};
use super::{CatFault, CatGrant, CatSettings};
use crate::{KeyError, KeyFileFault, file};

/// Keys whose ids differ, and whose tokens count.
#[derive(Debug)]
pub(crate) struct CatKeys {
    keys: Vec<CatKey>,
    issuers: Vec<String>,
    audiences: Vec<String>,
}

impl CatKeys {
    pub(crate) fn read(settings: &CatSettings<'_>) -> Result<Self, KeyError> {
        let mut ring = Self::of(settings);
        for path in settings.keys {
            let read = file::read_as(path, keys::parse, CatKey::is_secret)?;
            ring.add(read).map_err(|fault| KeyError::File { file: path.clone(), fault })?;
        }
        Ok(ring)
    }

    pub(crate) fn parse(text: &str, settings: &CatSettings<'_>) -> Result<Self, KeyFileFault> {
        let mut ring = Self::of(settings);
        ring.add(keys::parse(text)?)?;
        Ok(ring)
    }

    fn of(settings: &CatSettings<'_>) -> Self {
        let (issuers, audiences) = (settings.issuers.to_vec(), settings.audiences.to_vec());
        Self { keys: Vec::new(), issuers, audiences }
    }

    fn add(&mut self, keys: Vec<CatKey>) -> Result<(), KeyFileFault> {
        for key in keys {
            if self.keys.iter().any(|known| known.id() == key.id()) {
                return Err(KeyFileFault::IdTwice(key.name()));
            }
            self.keys.push(key);
        }
        Ok(())
    }

    pub(crate) fn is_secret(&self) -> bool {
        self.keys.iter().any(CatKey::is_secret)
    }

    /// The claims of a token, if it is genuine, and of an issuer and for an audience that count.
    pub(crate) fn open(&self, text: &[u8]) -> Result<Claims, CatFault> {
        let token = cose::open(text)?;
        if !self.key_of(&token)?.verifies(&token) {
            return Err(CatFault::Forged);
        }
        let claims = Claims::parse(&token.payload)?;
        let is_issuer = |issuer: &String| self.issuers.contains(issuer);
        if !self.issuers.is_empty() && !claims.issuer.as_ref().is_some_and(is_issuer) {
            return Err(CatFault::NotAllowed("iss"));
        }
        let is_ours = |audience: &String| self.audiences.contains(audience);
        if claims.audiences.as_ref().is_some_and(|audiences| !audiences.iter().any(is_ours)) {
            return Err(CatFault::NotAllowed("aud"));
        }
        Ok(claims)
    }

    /// The key that a token names. One that names none is for the only key of its algorithm.
    fn key_of(&self, token: &Sealed) -> Result<&CatKey, CatFault> {
        let is_of_kind = |key: &&CatKey| key.algorithm() == token.algorithm;
        match &token.key_id {
            Some(id) => {
                let key = self.keys.iter().find(|key| key.id() == id);
                // A key is for one algorithm: a public key is never taken for a secret.
                Some(key.ok_or(CatFault::UnknownKey)?).filter(is_of_kind).ok_or(CatFault::Forged)
            }
            None => {
                let mut keys = self.keys.iter().filter(is_of_kind);
                let only = keys.next().filter(|_| keys.next().is_none());
                only.ok_or(CatFault::UnknownKey)
            }
        }
    }

    /// A token for `grant`, signed with the first key that can sign, and the name of that key; `None` if all are public.
    pub(crate) fn sign(&self, grant: &CatGrant<'_>) -> Option<(String, String)> {
        let key = self.keys.iter().find(|key| key.is_secret())?;
        let payload = grant.payload();
        let sealed = cose::seal(key.algorithm(), key.id(), payload, |covered| key.sign(covered));
        Some((sealed?, key.name()))
    }

    /// A token with any claims, for tests.
    #[cfg(test)]
    pub(crate) fn sign_claims(&self, claims: coset::cbor::Value) -> String {
        let mut payload = Vec::new();
        coset::cbor::into_writer(&claims, &mut payload).unwrap();
        let key = &self.keys[0];
        cose::seal(key.algorithm(), key.id(), payload, |covered| key.sign(covered)).unwrap()
    }
}
