//! Keeps the keys with which this node proves to others that it copies titles (`token::CopyRing`).
//!
//! They are fetched by a request of their own, not with the heartbeats: a gateway of an older release does not know the request, and
//! nothing else is affected. Without keys, copies are counted as viewers by the nodes that they come from.

use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::CopyKeys;
use tokio::time::sleep;

use super::Shared;
use crate::gateway::Trouble;

/// Keys change each day, and a node also has the next day's.
const KEPT: Duration = Duration::from_secs(900);
/// The wait when no gateway could be asked.
const RETRY: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(20);

pub(super) async fn keep(shared: Arc<Shared>) {
    loop {
        sleep(shared.fetch_copy_keys().await).await;
    }
}

impl Shared {
    /// Fetches the keys from any gateway that has them. Returns the wait until the next fetch.
    async fn fetch_copy_keys(&self) -> Duration {
        let gateways = self.gateways.borrow().clone();
        let (mut refused, mut failed) = (false, false);
        for address in gateways {
            let asked = self.gateway().get(&address, "copy-keys", ANSWER_MAX).await;
            let keys: CopyKeys = match asked {
                Ok(keys) => keys,
                // It is of an older release, or refuses for a reason that another request reports.
                Err(Trouble::Refused { .. }) => {
                    refused = true;
                    continue;
                }
                Err(Trouble::Failed(_)) => {
                    failed = true;
                    continue;
                }
            };
            let taken = match keys.check() {
                Ok(()) => self.hand_over(move |state| state.handle_copy_keys(&keys.text)).await,
                Err(why) => Some(Err(why.to_string())),
            };
            match taken {
                Some(Err(why)) => crate::tell(&format!("{address}: copy keys: {why}")),
                _ => return KEPT,
            }
        }
        if refused && !failed { KEPT } else { RETRY }
    }
}
