//! Periodic removal of old data by the leading gateway: see `store/forgetting`.

use std::time::Duration;

use tokio::time::{Instant, interval_at};

use super::Gateway;
use store::forgetting::{AuditBounds, forget_invites, sweep_documents, trim_audit};
use store::{Check, LEADER, StoreError};

/// Delay after start, and period. Data to be removed is weeks old, so neither matters much.
const FIRST: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

impl Gateway {
    pub(super) async fn forget_on(&self) {
        let mut ticks = interval_at(Instant::now() + FIRST, HOUR);
        loop {
            ticks.tick().await;
            let Some(term) = self.election.term() else { continue };
            if let Err(error) = self.forget(&[Check::At(LEADER.to_owned(), term)]).await {
                self.tell(&format!("cannot remove old data, and will retry in an hour: {error}"));
            }
        }
    }

    async fn forget(&self, fence: &[Check]) -> Result<(), StoreError> {
        let now = self.now();
        let file = self.state.old_audit();
        let keep = |lines: &str| {
            let kept = self.state.append_audit(lines);
            kept.map_err(|error| {
                StoreError::Unavailable(format!("cannot write {}: {error}", file.display()))
            })
        };
        let bounds = AuditBounds::default();
        let lines = trim_audit(self.engine(), fence, bounds, now.unix_millis, keep).await?;
        if lines > 0 {
            self.tell(&format!("moved {lines} old lines of the audit log to {}", file.display()));
        }
        let documents =
            sweep_documents(self.engine(), &self.objects, fence, now.unix_seconds()).await?;
        if documents > 0 {
            self.tell(&format!("removed {documents} documents that no title needs"));
        }
        forget_invites(self.engine(), fence, now.unix_seconds()).await?;
        Ok(())
    }
}
