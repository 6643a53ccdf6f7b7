//! Publishing this gateway's address to nodes: at start, and again if the store has another one while it runs.

use std::time::Duration;

use super::Gateway;
use super::changes::By;
use crate::api::ApiError;
use store::records::{GatewayRecord, load};

/// Two gateways with the same name overwrite each other's address. Each rewrites its own no more often than this.
const PAUSE: Duration = Duration::from_secs(60);

/// When this gateway last rewrote its address, in time since its start.
#[derive(Default)]
pub(super) struct Again(Option<Duration>);

impl Again {
    /// Whether it may do so now. If so, the pause starts again.
    fn takes_turn(&mut self, uptime: Duration) -> bool {
        let is_due = self.0.is_none_or(|last| uptime.saturating_sub(last) >= PAUSE);
        if is_due {
            self.0 = Some(uptime);
        }
        is_due
    }
}

impl Gateway {
    /// Publishes this gateway's address to nodes, if the store does not have it yet. If the store is away, an outdated address is corrected once it
    /// is back, but a missing one only at the next start.
    pub(super) async fn introduce(&self) {
        let record = GatewayRecord {
            machines: self.machines_url.clone(),
            token_seconds: self.token_seconds,
        };
        let told = load::<GatewayRecord>(self.engine(), self.name.as_str()).await;
        let told = match told {
            Ok(Some(stored)) if stored.record == record => Ok(()),
            Ok(stored) => {
                let before = stored.map(|stored| stored.record.machines);
                let before = before.filter(|before| *before != self.machines_url);
                if let Some(before) = &before {
                    self.tell(&format!(
                        "nodes get a new address of {}: {before} before, {} from now on; if another gateway has the same --name, give it a name of its own",
                        self.name, self.machines_url
                    ));
                }
                let detail = before.map(|before| format!("before: {before}")).unwrap_or_default();
                let by = By { who: self.name.to_string(), what: "introduce", detail };
                self.change(&by, self.name.as_str(), |_| Ok(record.clone())).await.map(|_| ())
            }
            Err(error) => Err(ApiError::from(error)),
        };
        if let Err(error) = told {
            self.tell(&format!("cannot publish this gateway's address to nodes: {error}"));
        }
    }

    /// Rewrites the address if the store has another one under this name. A removed entry stays removed until the gateway restarts.
    pub(super) async fn introduce_again(&self, again: &mut Again) {
        let told = self.known().records.gateway(&self.name);
        let is_elsewhere = told.is_some_and(|told| told.machines != self.machines_url);
        if is_elsewhere && again.takes_turn(self.now().uptime) {
            self.introduce().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_introduces_itself_again_at_once_and_then_once_a_minute() {
        let mut again = Again::default();
        let turns = (5..200).filter(|second| again.takes_turn(Duration::from_secs(*second)));
        assert_eq!(turns.collect::<Vec<_>>(), [5, 65, 125, 185]);
    }
}
