//! Keeps what viewers watched, so that a gateway that starts anew has not forgotten it.
//!
//! Every gateway hears every node, so each knows all of it. The one that leads writes it down once an hour, as one object, and the store names the
//! newest. A gateway that starts reads that. An object is marked as unused before it is written and after it is replaced, so one that is left behind
//! by a crash is removed like a title's old documents (`store/forgetting`).

use std::time::Duration;

use popularity::PopularityState;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, interval_at};

use super::Gateway;
use crate::store::forgetting::claim;
use crate::store::records::{PopularityRecord, StoreRecord, UnusedRecord, load};
use crate::store::{Check, LEADER, StoreError, Write};

/// How long after its start a gateway keeps it first, and how often then.
const FIRST: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);

/// A gateway that stops waits no longer for it.
const STOPPING_MAX: Duration = Duration::from_secs(5);

impl Gateway {
    pub(super) async fn keep_popularity_on(&self) {
        let mut ticks = interval_at(Instant::now() + FIRST, HOUR);
        loop {
            ticks.tick().await;
            self.keep_popularity().await;
        }
    }

    /// Keeps what viewers watched, if this gateway leads.
    pub async fn keep_popularity(&self) {
        let Some(term) = self.election.term() else { return };
        if let Err(error) = self.try_to_keep(term).await {
            self.tell(&format!(
                "cannot keep what viewers watched, and tries again in an hour: {error}"
            ));
        }
    }

    /// A gateway that stops keeps what it has heard since the last time.
    pub(crate) async fn keep_popularity_at_the_end(&self) {
        // What is not kept by then was counted in the last hour.
        let _ = tokio::time::timeout(STOPPING_MAX, self.keep_popularity()).await;
    }

    async fn try_to_keep(&self, term: u64) -> Result<(), StoreError> {
        let now = self.now();
        let live = std::sync::Arc::clone(&self.live);
        let made = move || live.popularity_state(now).map(|state| state.to_bytes());
        let made = spawn_blocking(made).await;
        let made = made.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let Some(bytes) = made else { return Ok(()) };
        let sha256 = fleet::Digest::of(&bytes);
        let before = load::<PopularityRecord>(self.engine(), "").await?;
        if before.as_ref().is_some_and(|before| before.record.sha256 == sha256) {
            return Ok(());
        }
        let seconds = now.unix_seconds();
        claim(self.engine(), &[sha256], seconds).await?;
        self.objects.put(bytes.into()).await?;
        let key = PopularityRecord::key("");
        let at = before.as_ref().map_or_else(
            || Check::Absent(key.clone()),
            |before| Check::At(key.clone(), before.revision),
        );
        let mark = |name: &fleet::Digest| UnusedRecord::key(&name.to_string());
        let record = PopularityRecord { sha256, made_unix_seconds: seconds };
        let mut writes = vec![record.put("")?, Write::Delete(mark(&sha256))];
        let old = before.map(|before| before.record.sha256);
        if let Some(old) = &old {
            let unused = UnusedRecord { since_unix_seconds: seconds, is_going: false };
            writes.push(unused.put(&old.to_string())?);
        }
        let fence = Check::At(LEADER.to_owned(), term);
        self.engine().commit(&[fence, at], &writes).await?;
        // Nobody reads the old one any more but a gateway that starts this moment, and that one goes on without it. Its mark stays, and is swept.
        if let Some(old) = &old {
            self.objects.remove(old).await?;
        }
        Ok(())
    }

    /// Takes up what was kept last.
    pub(super) async fn restore_popularity(&self) {
        match self.read_popularity().await {
            Ok(None) => {}
            Ok(Some(state)) => self.live.restore_popularity(state, self.now()),
            Err(why) => self.tell(&format!(
                "what viewers watched before this start is not known, and plans are made without it: {why}"
            )),
        }
    }

    async fn read_popularity(&self) -> Result<Option<PopularityState>, String> {
        let kept = load::<PopularityRecord>(self.engine(), "").await;
        let Some(kept) = kept.map_err(|error| error.to_string())? else { return Ok(None) };
        let bytes = self.objects.get(&kept.record.sha256).await;
        let bytes = bytes.map_err(|error| error.to_string())?;
        PopularityState::from_bytes(&bytes).map(Some).map_err(|error| error.to_string())
    }
}
