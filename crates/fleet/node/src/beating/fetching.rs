//! Fetches changed data from a gateway, as announced by its last answer.
//!
//! Data counts as changed if the gateway's answer differs from the same gateway's earlier one. Two gateways may differ for a second after a
//! change; comparing each with itself keeps the node from going back and forth between them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fleet_protocol::{
    Desired, Digest, EvictionLeave, EvictionRequest, FillGrant, FillGrantRequest, HeartbeatAnswer,
    Keys,
};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::certifying::Certified;
use super::{Line, Shared};
use crate::gateway::Trouble;

/// Timeouts for small and large answers.
const SMALL_MAX: Duration = Duration::from_secs(20);
const LARGE_MAX: Duration = Duration::from_secs(120);

/// Documents are fetched a few at a time: the gateway has to answer viewers meanwhile.
const DOCUMENTS_PER_SECOND: usize = 3;

/// The rate at which all nodes together take one gateway's snapshots: 200 Mb/s. So a small fleet's nodes take each new one with their next
/// heartbeat, and their own answers to viewers are up to date; those of 1,000 nodes with 260 KB take one in ten seconds.
const SNAPSHOT_BYTES_PER_SECOND: f64 = 25e6;

/// The number of nodes assumed for that rate if a snapshot was refused.
const REFUSED_NODES: usize = 1000;

/// The last state of one gateway, and when data was last exchanged with it.
#[derive(Default)]
struct Heard {
    desired: Option<Digest>,
    keys: Option<Digest>,
    inventories: Allowance,
    snapshot_at: Option<Instant>,
    /// The bytes that all nodes of its fleet take if each takes the snapshot once.
    snapshots_bytes: f64,
    /// The number of the last report of views that it accepted or refused.
    watched: u64,
    /// The place of the last report of viewers' experience, in the same way.
    experience: u64,
    certified: Certified,
    /// It knows that this box has no edge.
    knows_no_edge: bool,
}

impl Heard {
    /// The shortest time until the next snapshot.
    fn snapshot_pause(&self, longest: Duration) -> Duration {
        let seconds = self.snapshots_bytes / SNAPSHOT_BYTES_PER_SECOND;
        Duration::from_secs_f64(seconds).min(longest)
    }
}

pub(super) async fn fetch_news(
    shared: Arc<Shared>,
    line: Arc<Line>,
    mut answers: watch::Receiver<Option<HeartbeatAnswer>>,
) {
    let address = &line.address;
    let mut heard = Heard::default();
    while answers.changed().await.is_ok() {
        let Some(answer) = answers.borrow_and_update().clone() else { continue };
        // A failure does not stop the other fetches; the next answer announces again what is missing.
        let fetched = [
            // First, because the titles to hold depend on it.
            shared.give_back(address, &answer).await,
            shared.fetch_keys(address, &answer, &mut heard).await,
            shared.fetch_desired(address, &answer, &mut heard).await,
            shared.send_inventory(address, &answer, &mut heard).await,
            shared.send_watched(address, &mut heard).await,
            shared.send_experience(address, &mut heard).await,
            shared.certify(address, &answer, &mut heard.certified).await,
            shared.report_no_edge(address, &answer, &mut heard.knows_no_edge).await,
            shared.fetch_snapshot(&line, &answer, &mut heard).await,
        ];
        for trouble in fetched.into_iter().filter_map(Result::err) {
            crate::tell(&format!("{address}: {trouble}"));
        }
    }
}

/// Allows an action once an interval, and the first few times at once: the generic cell rate algorithm.
#[derive(Default)]
struct Allowance {
    /// The time up to which the allowance is used.
    until: Option<Instant>,
}

impl Allowance {
    /// How many times in a row are allowed.
    const AT_ONCE: u32 = 3;

    fn allows(&self, interval: Duration, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now + interval * (Self::AT_ONCE - 1))
    }

    fn take(&mut self, interval: Duration, now: Instant) {
        self.until = Some(self.until.map_or(now, |until| until.max(now)) + interval);
    }
}

fn is_due(last: Option<Instant>, interval: Duration) -> bool {
    last.is_none_or(|last| last.elapsed() >= interval)
}

impl Shared {
    async fn fetch_keys(
        &self,
        address: &str,
        answer: &HeartbeatAnswer,
        heard: &mut Heard,
    ) -> Result<(), Trouble> {
        if heard.keys == Some(answer.keys) {
            return Ok(());
        }
        if self.taken().keys == Some(answer.keys) {
            // After a start, the box does not have the keys yet that the node has saved.
            if heard.keys.is_none() {
                let keys = self.membership().keys.clone();
                self.hand_over(move |state| state.handle_keys(keys)).await;
            }
            heard.keys = Some(answer.keys);
            return Ok(());
        }
        let keys: Keys = self.gateway().get(address, "keys", SMALL_MAX).await?;
        keys.check().map_err(|why| Trouble::Failed(format!("its keys: {why}")))?;
        // Note the digest whether the keys are accepted or not: refused ones would be refused again five seconds later. Use the gateway's
        // digest: keys of a later release may have fields that are unknown here.
        heard.keys = Some(answer.keys);
        let known = self.membership().keys.clone();
        if keys.are_older_than(&known) {
            return Err(Trouble::Failed(format!(
                "its keys are refused: they are of epoch {}, revision {}, older than epoch {}, revision {}; the gateway cannot \
                 reach its store, or the store was put back without \"fullbore control restore\"",
                keys.epoch, keys.revision, known.epoch, known.revision
            )));
        }
        let taken = self.take_keys(keys, answer.keys).await;
        if taken.is_err() {
            heard.keys = None;
        }
        taken
    }

    async fn take_keys(&self, keys: Keys, digest: Digest) -> Result<(), Trouble> {
        let former: Vec<String> = {
            let mut own = self.membership();
            let is_news = own.keys.gateways != keys.gateways;
            own.keys = keys.clone();
            own.former_gateways().filter(|_| is_news).cloned().collect()
        };
        self.keep_membership()
            .await
            .map_err(|error| Trouble::Failed(format!("cannot save the fleet's keys: {error}")))?;
        if !former.is_empty() {
            crate::tell(&format!(
                "the fleet's gateways are now {}; until one of them answers, {} is asked, too",
                keys.gateways.join(", "),
                former.join(", ")
            ));
        }
        self.taken().keys = Some(digest);
        self.ask_known();
        self.hand_over(move |state| state.handle_keys(keys)).await;
        Ok(())
    }

    /// Sends the saved revocations and withdrawals to a gateway whose store was restored from a backup.
    async fn give_back(&self, address: &str, answer: &HeartbeatAnswer) -> Result<(), Trouble> {
        if !answer.wants_gone {
            return Ok(());
        }
        let made = self.hand_over(|state| serde_json::to_vec(&state.gone())).await;
        let Some(Ok(body)) = made else { return Ok(()) };
        self.gateway().put(address, "gone", body, LARGE_MAX).await
    }

    async fn fetch_desired(
        &self,
        address: &str,
        answer: &HeartbeatAnswer,
        heard: &mut Heard,
    ) -> Result<(), Trouble> {
        if heard.desired == Some(answer.desired) {
            return Ok(());
        }
        if self.taken().desired == Some(answer.desired) {
            heard.desired = Some(answer.desired);
            return Ok(());
        }
        let desired: Desired = self.gateway().get(address, "desired", LARGE_MAX).await?;
        desired
            .check()
            .map_err(|why| Trouble::Failed(format!("its list of titles to hold: {why}")))?;
        let is_taken = self.hand_over(move |state| state.handle_desired(desired)).await;
        // Note the digest whether the list was accepted or not: a refused one would be refused again five seconds later. The gateway's next
        // list shows whether this one was outdated.
        heard.desired = Some(answer.desired);
        if is_taken == Some(true) {
            self.taken().desired = Some(answer.desired);
        }
        Ok(())
    }

    async fn send_inventory(
        &self,
        address: &str,
        answer: &HeartbeatAnswer,
        heard: &mut Heard,
    ) -> Result<(), Trouble> {
        let interval = self.options.inventory_interval;
        if !answer.wants_inventory || !heard.inventories.allows(interval, Instant::now()) {
            return Ok(());
        }
        let made = self.hand_over(|state| serde_json::to_vec(&*state.inventory())).await;
        let Some(Ok(body)) = made else { return Ok(()) };
        self.gateway().put(address, "inventory", body, LARGE_MAX).await?;
        heard.inventories.take(interval, Instant::now());
        Ok(())
    }

    /// Sends the next report of views. After a gateway was away there are several, and one is sent with each heartbeat.
    async fn send_watched(&self, address: &str, heard: &mut Heard) -> Result<(), Trouble> {
        let Some(report) = self.state.watched_after(heard.watched) else { return Ok(()) };
        let (is_done, sent) = self.offer(address, "watched", &*report).await;
        if is_done {
            heard.watched = report.number;
        }
        sent
    }

    /// Sends the next report of viewers' experience, in the same way.
    async fn send_experience(&self, address: &str, heard: &mut Heard) -> Result<(), Trouble> {
        let next = self.state.experience_after(heard.experience);
        let Some((place, report)) = next else { return Ok(()) };
        let (is_done, sent) = self.offer(address, "experience", &*report).await;
        if is_done {
            heard.experience = place;
        }
        match sent {
            // A gateway of an older release takes none.
            Err(Trouble::Refused { reason, .. }) if reason == "not_found" => Ok(()),
            sent => sent,
        }
    }

    /// Sends a report. Returns whether this gateway is done with it: it has accepted it, or would refuse it again.
    async fn offer(
        &self,
        address: &str,
        what: &str,
        report: &impl Serialize,
    ) -> (bool, Result<(), Trouble>) {
        let body = match serde_json::to_vec(report) {
            Ok(body) => body,
            Err(error) => return (true, Err(Trouble::Failed(error.to_string()))),
        };
        match self.gateway().put(address, what, body, SMALL_MAX).await {
            Ok(()) => (true, Ok(())),
            // The answer to an earlier attempt was lost.
            Err(Trouble::Refused { reason, .. }) if reason == super::STALE => (true, Ok(())),
            // A retry would be refused again, unless the gateway only lacks space or time.
            Err(Trouble::Refused { reason, text }) => {
                let is_final = !matches!(reason.as_str(), "unavailable" | "flood");
                (is_final, Err(Trouble::Refused { reason, text }))
            }
            Err(trouble) => (false, Err(trouble)),
        }
    }

    async fn fetch_snapshot(
        &self,
        line: &Line,
        answer: &HeartbeatAnswer,
        heard: &mut Heard,
    ) -> Result<(), Trouble> {
        let is_news = answer.snapshot != line.snapshot.load(Relaxed);
        let pause = heard.snapshot_pause(self.options.snapshot_interval);
        if !is_news || !is_due(heard.snapshot_at, pause) {
            return Ok(());
        }
        let signed = self.gateway().snapshot(&line.address, LARGE_MAX).await?;
        // Whether the snapshot was accepted or not: a refused one would be refused again five seconds later.
        heard.snapshot_at = Some(Instant::now());
        let (from, bytes) = (line.address.clone(), signed.bytes.len());
        let taken = self.hand_over(move |state| state.handle_snapshot(&from, signed)).await;
        let nodes = taken.flatten();
        heard.snapshots_bytes = bytes as f64 * nodes.unwrap_or(REFUSED_NODES) as f64;
        if nodes.is_some() {
            line.snapshot.store(answer.snapshot, Relaxed);
        }
        Ok(())
    }
}

/// Fetches the documents that the box needs for its own answers, from any gateway that has them.
pub(super) async fn fetch_documents(shared: Arc<Shared>) {
    loop {
        sleep(Duration::from_secs(1)).await;
        let missing = shared.state.missing_documents();
        for digest in missing.into_iter().take(DOCUMENTS_PER_SECOND) {
            let gateways = shared.gateways.borrow().clone();
            for address in gateways {
                let fetched = shared.gateway().document(&address, &digest, SMALL_MAX).await;
                let Ok(bytes) = fetched else { continue };
                // It comes over an authenticated connection to a gateway, and is still verified: a wrong one would be saved.
                if Digest::of(&bytes) == digest {
                    shared.hand_over(move |state| state.handle_document(bytes)).await;
                    break;
                }
            }
        }
    }
}

/// How often to check whether a grant is needed.
const GRANT_POLL: Duration = Duration::from_millis(200);
/// How long to wait when no gateway gave a grant.
const GRANT_RETRY: Duration = Duration::from_secs(5);

/// Requests a grant for the title that the box wants to copy from other nodes, from any gateway that gives it.
pub(super) async fn fetch_grants(shared: Arc<Shared>) {
    loop {
        sleep(GRANT_POLL).await;
        let Some(held) = shared.state.wanted_grant() else { continue };
        let request = FillGrantRequest { version: 1, held };
        let gateways = shared.gateways.borrow().clone();
        let mut is_given = false;
        for address in gateways {
            let asked = shared.gateway().post(&address, "grant", &request, SMALL_MAX).await;
            let grant: FillGrant = match asked {
                Ok(grant) => grant,
                Err(trouble) => {
                    crate::tell(&format!("{address}: no permission to copy a title: {trouble}"));
                    continue;
                }
            };
            // The grant will be shown to a node that others have named, so check that it is the requested one.
            if grant.check().is_ok() && grant.held == request.held {
                shared.state.handle_grant(grant);
                is_given = true;
                break;
            }
        }
        if !is_given {
            sleep(GRANT_RETRY).await;
        }
    }
}

/// How often to ask for permission to remove titles, if there are any to remove.
const EVICTIONS_POLL: Duration = Duration::from_secs(2);

/// Asks for permission to remove the titles that the box need not hold, from any gateway that answers. Without permission nothing is
/// removed, so refusals are not logged: a gateway of an older release does not know the request.
pub(super) async fn fetch_eviction_leave(shared: Arc<Shared>) {
    loop {
        sleep(EVICTIONS_POLL).await;
        let held = shared.hand_over(|state| state.evictable()).await.unwrap_or_default();
        if held.is_empty() {
            continue;
        }
        let request = EvictionRequest { version: 1, held };
        let gateways = shared.gateways.borrow().clone();
        for address in gateways {
            let asked = shared.gateway().post(&address, "evictions", &request, SMALL_MAX).await;
            let Ok(EvictionLeave { mut held }) = asked else { continue };
            held.retain(|held| request.held.contains(held));
            shared.state.handle_eviction_leave(held);
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_are_allowed_at_once_and_then_one_an_interval() {
        let interval = Duration::from_secs(10);
        let mut allowance = Allowance::default();
        let start = Instant::now();
        let mut allowed = Vec::new();
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            if allowance.allows(interval, now) {
                allowance.take(interval, now);
                allowed.push(second);
            }
        }
        assert_eq!(allowed, [0, 1, 2, 10, 20, 30, 40, 50]);
    }

    #[test]
    fn all_nodes_together_take_a_bounded_part_of_a_gateway() {
        let pause = |nodes: f64, snapshot_bytes: f64| {
            let heard = Heard { snapshots_bytes: nodes * snapshot_bytes, ..Heard::default() };
            heard.snapshot_pause(Duration::from_secs(1800)).as_secs()
        };
        assert_eq!(pause(6.0, 20e3), 0, "each that is new");
        assert_eq!(pause(1000.0, 250e3), 10);
        assert_eq!(pause(10_000.0, 2.5e6), 1000);
        assert_eq!(pause(10_000.0, 400e6), 1800, "and half an hour at the longest");
    }
}
