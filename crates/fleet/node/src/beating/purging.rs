//! Reports to a gateway how far the edge on this box is with the fleet's purges, and gets those that it lacks.
//!
//! It is not part of the heartbeat: a purge should be done within seconds, and a gateway of an older release does not know the request. A box
//! without an edge says so once, and again to a gateway that has lost what it knew.

use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::{EdgeProgress, EdgeReport, HeartbeatAnswer, PurgeOrders};
use tokio::time::{Instant, sleep};

use super::{Shared, pulse};
use crate::gateway::Trouble;

/// How often to ask a gateway, give or take a fifth. A purge reaches the edge within this, and a second that another gateway takes to know of it.
const INTERVAL: Duration = Duration::from_secs(2);

/// How soon a receipt is sent.
const LOOK: Duration = Duration::from_millis(100);

/// How often to ask a gateway of an older release, which may have been updated.
const OLDER: Duration = Duration::from_secs(60);

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The reason given by a gateway that doesn't know the request.
const NOT_KNOWN: &str = "not_found";

pub(super) async fn exchange(shared: Arc<Shared>, address: String) {
    let mut known = 0;
    let mut told = None;
    let mut was_early = false;
    loop {
        let Some(progress) = shared.state.edge_progress(known) else { return };
        let done = progress.done;
        let mut pause = pulse::wait(INTERVAL, 0, fastrand::f64());
        match shared.report_edge(&address, Some(progress)).await {
            Ok(answer) => {
                if told.take().is_some() {
                    crate::tell(&format!("{address}: the gateway sends purges again"));
                }
                known = answer.known;
                shared.state.handle_purge_orders(answer);
            }
            Err(trouble) => {
                let text = match trouble {
                    Trouble::Refused { reason, .. } if reason == NOT_KNOWN => {
                        pause = OLDER;
                        "the gateway is of a release that orders no purges: update it".to_owned()
                    }
                    trouble => trouble.to_string(),
                };
                if told.as_ref() != Some(&text) {
                    crate::tell(&format!("{address}: no purges: {text}"));
                    told = Some(text);
                }
            }
        }
        // A receipt is sent at once, but only one between two regular reports.
        let until = Instant::now() + pause;
        let is_news = || shared.state.edge_progress(known).is_some_and(|now| now.done != done);
        while Instant::now() < until && (was_early || told.is_some() || !is_news()) {
            sleep(LOOK.min(until - Instant::now())).await;
        }
        was_early = Instant::now() < until;
    }
}

impl Shared {
    async fn report_edge(
        &self,
        address: &str,
        edge: Option<EdgeProgress>,
    ) -> Result<PurgeOrders, Trouble> {
        let report = EdgeReport { version: 1, node: self.membership().node.clone(), edge };
        let answer: PurgeOrders =
            self.gateway().post(address, "purges", &report, ANSWER_MAX).await?;
        answer.check().map_err(|why| Trouble::Failed(format!("its purges: {why}")))?;
        Ok(answer)
    }

    /// Reports that this box has no edge, unless this gateway knows.
    pub(super) async fn report_no_edge(
        &self,
        address: &str,
        answer: &HeartbeatAnswer,
        is_known: &mut bool,
    ) -> Result<(), Trouble> {
        // A gateway that has just started lacks the inventory, too.
        *is_known &= !answer.wants_inventory;
        if *is_known || self.state.edge_progress(0).is_some() {
            return Ok(());
        }
        match self.report_edge(address, None).await {
            Ok(_) => *is_known = true,
            // A gateway of an older release orders no purges.
            Err(Trouble::Refused { reason, .. }) if reason == NOT_KNOWN => *is_known = true,
            Err(trouble) => return Err(trouble),
        }
        Ok(())
    }
}
