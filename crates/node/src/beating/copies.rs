//! Keeps the keys by which this node proves to others that it copies titles (`token::CopyRing`).
//!
//! They have a request of their own, and no place in the answers to heartbeats: a gateway of an older release doesn't know the question, and
//! that changes nothing else. Without keys, copies count as viewers where they are copied from.

use std::sync::Arc;
use std::time::Duration;

use fleet::CopyKeys;
use tokio::time::sleep;

use super::Shared;
use crate::gateway::Trouble;

/// Keys change each day, and a node has the next day's, too.
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
    /// Fetches the keys from whichever gateway has them. Returns the wait until they are fetched again.
    async fn fetch_copy_keys(&self) -> Duration {
        let gateways = self.gateways.borrow().clone();
        let (mut refused, mut failed) = (false, false);
        for address in gateways {
            let asked = self.gateway().get(&address, "copy-keys", ANSWER_MAX).await;
            let keys: CopyKeys = match asked {
                Ok(keys) => keys,
                // It is of an older release, or has a reason that another request reports.
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
