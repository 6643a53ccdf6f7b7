//! Saves titles' popularity, so that a gateway that restarts still has it.
//!
//! Every node reports to every gateway, so each gateway has all of it. The leading one saves it once an hour, as one object, and the store names
//! the newest. A gateway that starts reads that one. An object is marked as unused before it is written and after it is replaced, so one left
//! behind by a crash is removed like a title's old documents (`store/forgetting`).

use std::time::Duration;

use placement::popularity::PopularityState;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, interval_at};

use super::Gateway;
use store::forgetting::claim;
use store::records::{PopularityRecord, StoreRecord, UnusedRecord, load};
use store::{Check, LEADER, StoreError, Write};

/// Delay of the first save after start, and period.
const FIRST: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);

/// A gateway that stops waits no longer than this for the save.
const STOPPING_MAX: Duration = Duration::from_secs(5);

impl Gateway {
    pub(super) async fn keep_popularity_on(&self) {
        let mut ticks = interval_at(Instant::now() + FIRST, HOUR);
        loop {
            ticks.tick().await;
            self.keep_popularity().await;
        }
    }

    /// Saves titles' popularity, if this gateway leads.
    pub async fn keep_popularity(&self) {
        let Some(term) = self.election.term() else { return };
        if let Err(error) = self.try_to_keep(term).await {
            self.tell(&format!(
                "cannot save titles' popularity, and will retry in an hour: {error}"
            ));
        }
    }

    /// Saves the counts since the last time when a gateway stops.
    pub(crate) async fn keep_popularity_at_the_end(&self) {
        // If this times out, only the counts of the last hour are lost.
        let _ = tokio::time::timeout(STOPPING_MAX, self.keep_popularity()).await;
    }

    async fn try_to_keep(&self, term: u64) -> Result<(), StoreError> {
        let now = self.now();
        let live = std::sync::Arc::clone(&self.live);
        let made = move || live.popularity_state(now).map(|state| state.to_bytes());
        let made = spawn_blocking(made).await;
        let made = made.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let Some(bytes) = made else { return Ok(()) };
        let sha256 = fleet_protocol::Digest::of(&bytes);
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
        let mark = |name: &fleet_protocol::Digest| UnusedRecord::key(&name.to_string());
        let record = PopularityRecord { sha256, made_unix_seconds: seconds };
        let mut writes = vec![record.put("")?, Write::Delete(mark(&sha256))];
        let old = before.map(|before| before.record.sha256);
        if let Some(old) = &old {
            let unused = UnusedRecord { since_unix_seconds: seconds, is_going: false };
            writes.push(unused.put(&old.to_string())?);
        }
        let fence = Check::At(LEADER.to_owned(), term);
        self.engine().commit(&[fence, at], &writes).await?;
        // Only a gateway that is starting at this moment could still read the old one, and it continues without. The mark stays, and is swept.
        if let Some(old) = &old {
            self.objects.remove(old).await?;
        }
        Ok(())
    }

    /// Loads the state saved last.
    pub(super) async fn restore_popularity(&self) {
        match self.read_popularity().await {
            Ok(None) => {}
            Ok(Some(state)) => self.live.restore_popularity(state, self.now()),
            Err(why) => self.tell(&format!(
                "cannot load titles' popularity from before this start, so plans do without it: {why}"
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
