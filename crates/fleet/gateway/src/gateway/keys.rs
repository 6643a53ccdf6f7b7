//! Rolling and distrusting the keys that sign viewers' addresses. Their phases over time are in `token_keys.rs`.

use fleet_protocol::SigningKey;

use super::changes::By;
use super::first_start::random;
use super::{Gateway, Known};
use crate::api::ApiError;
use crate::token_keys::{Roll, TokenKeys, distrust, roll};
use store::records::{GatewayRecord, PrivateBytes, StoreRecord, Stored, TokenKeyRecord, load_all};
use store::{Check, Write};

/// The first key's name. It makes two gateways that both turn signing on do so only once.
pub(super) const FIRST: &str = "first";

impl Gateway {
    /// The keys that sign viewers' addresses, from the store.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn token_keys(&self) -> Result<TokenKeys, ApiError> {
        let (stored, _) = load_all::<TokenKeyRecord>(self.engine()).await?;
        let keys = stored.into_iter().map(|stored| (stored.name, stored.record)).collect();
        // The log already reports unusable keys.
        Ok(TokenKeys::new(keys, &mut Vec::new()))
    }

    /// Creates a new key, which signs `after` seconds from now; the first key of a fleet signs at once, and nodes require its signature after that
    /// time.
    ///
    /// # Errors
    /// If a roll is under way, or the store refuses the change.
    pub(crate) async fn roll_token_keys(
        &self,
        after: Option<u64>,
        by: &By,
    ) -> Result<(), ApiError> {
        let token_seconds = self.token_seconds_max().await?;
        self.change_token_keys(by, |stored, new| roll(stored, new, after, token_seconds)).await
    }

    /// Replaces all other keys by a new one. Their tokens become invalid at once.
    ///
    /// # Errors
    /// If there are no other keys, or the store refuses the change.
    pub(crate) async fn distrust_token_keys(&self, by: &By) -> Result<(), ApiError> {
        self.change_token_keys(by, distrust).await
    }

    async fn change_token_keys(
        &self,
        by: &By,
        plan: impl FnOnce(&[Stored<TokenKeyRecord>], TokenKeyRecord) -> Result<Roll, String>,
    ) -> Result<(), ApiError> {
        let now = self.now().unix_seconds();
        let (stored, _) = load_all::<TokenKeyRecord>(self.engine()).await?;
        let new = draw_key(now).map_err(ApiError::Broken)?;
        let Roll { new, ending, gone } = plan(&stored, new).map_err(ApiError::Conflict)?;
        let name = match stored.is_empty() {
            true => FIRST.to_owned(),
            false => format!("{:016x}", u64::from_be_bytes(random())),
        };
        let key = TokenKeyRecord::key(&name);
        let at =
            |one: &Stored<TokenKeyRecord>| Check::At(TokenKeyRecord::key(&one.name), one.revision);
        let mut checks: Vec<_> = stored.iter().map(at).collect();
        checks.push(Check::Absent(key.clone()));
        let mut writes = vec![new.put(&name)?];
        for (name, record) in ending {
            writes.push(record.put(&name)?);
        }
        writes.extend(gone.iter().map(|name| Write::Delete(TokenKeyRecord::key(name))));
        self.commit(by, &key, &checks, writes).await?;
        Ok(self.read_store().await?)
    }

    /// Longest lifetime of tokens from any of the fleet's gateways.
    async fn token_seconds_max(&self) -> Result<u64, ApiError> {
        let (gateways, _) = load_all::<GatewayRecord>(self.engine()).await?;
        let theirs = gateways.iter().map(|gateway| gateway.record.token_seconds).max();
        Ok(theirs.unwrap_or(0).max(self.token_seconds))
    }

    /// Applies changes of the keys' phases when their time has come, even while the store is away.
    pub(super) async fn follow_token_keys(&self) {
        let known = self.known();
        let now = self.now().unix_seconds();
        if known.keys_change_at.is_none_or(|at| now < at) {
            return;
        }
        let Known { records, revision, store_problem, .. } = &*known;
        match records.wishes(now) {
            Ok(wishes) => {
                self.take(records.clone(), wishes, *revision, store_problem.clone()).await;
            }
            Err(problem) => self.tell(&format!("keys cannot roll: {problem}")),
        }
    }
}

/// A new key, which signs and goes to nodes immediately.
pub(super) fn draw_key(now_unix_seconds: u64) -> Result<TokenKeyRecord, String> {
    let (_, pkcs8) = SigningKey::draw().map_err(|error| error.to_string())?;
    Ok(TokenKeyRecord {
        pkcs8: PrivateBytes::new(pkcs8),
        made_unix_seconds: now_unix_seconds,
        signs_from_unix_seconds: now_unix_seconds,
        told_from_unix_seconds: None,
        trusted_until_unix_seconds: None,
    })
}
