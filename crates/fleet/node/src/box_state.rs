//! What a box reports to gateways, and what it does with their answers.

use std::sync::Arc;

use fleet_protocol::{
    Condition, Desired, Digest, EdgeProgress, ExperienceReport, FillGrant, FillProgress,
    HeartbeatAnswer, HeldTitle, Inventory, Keys, Load, Name, PurgeOrders, Receipt,
    ReturnedTombstones, ServedAt, Signed, WatchReport,
};

use crate::agent::Agent;

/// The interface of the heartbeat tasks to the box. The first four methods answer from memory; the others may write a file, so they are
/// called where blocking is allowed.
pub trait BoxState: Send + Sync + 'static {
    /// Whether it wants viewers.
    fn condition(&self) -> Condition;
    /// Its current load.
    fn load(&self) -> Load;
    /// The complete, verified versions that it holds.
    fn inventory(&self) -> Arc<Inventory>;
    /// The receipts for one heartbeat. If there are more than fit, each call returns the next ones.
    fn receipts(&self) -> Vec<Receipt>;
    /// Its remaining titles to fetch, if there are any.
    fn fill(&self) -> Option<FillProgress> {
        None
    }
    /// How much it can fetch within a day; `None` if there is no limit.
    fn fill_bytes_per_day(&self) -> Option<u64> {
        None
    }
    /// How its server serves viewers, if the fleet sends them elsewhere.
    fn served_at(&self) -> Option<ServedAt> {
        None
    }
    /// The host and port at which viewers reach another node; `None` if the box knows no such node.
    fn address_of(&self, _node: &Name) -> Option<(String, u16)> {
        None
    }
    /// The title that it needs a grant for, to copy it from other nodes.
    fn wanted_grant(&self) -> Option<HeldTitle> {
        None
    }
    /// Takes a grant.
    fn handle_grant(&self, _grant: FillGrant) {}
    /// Titles that it holds but need not.
    fn evictable(&self) -> Vec<HeldTitle> {
        Vec::new()
    }
    /// Takes a gateway's permission to remove these.
    fn handle_eviction_leave(&self, _held: Vec<HeldTitle>) {}
    /// Takes a gateway's answer. `clock_ahead_millis` is this box's clock minus the gateway's.
    fn handle_answer(&self, gateway: &str, answer: &HeartbeatAnswer, clock_ahead_millis: i64);
    /// Notes that a gateway has revoked this box.
    fn handle_revocation(&self, _gateway: &str) {}
    /// Notes that a gateway has newer data of this box than it sends: from now on it reports under another boot name.
    fn handle_overtaken(&self) {}
    /// Takes the titles to hold. Returns whether they were accepted.
    fn handle_desired(&self, desired: Desired) -> bool;
    /// The revocations and withdrawals that the fleet must not forget, as last received; `None` if there are none.
    fn gone(&self) -> Option<ReturnedTombstones> {
        None
    }
    /// The oldest report of views that is newer than `number`; `None` if there is none.
    fn watched_after(&self, number: u64) -> Option<Arc<WatchReport>> {
        let _ = number;
        None
    }
    /// The oldest report of viewers' experience after this place, and its place; `None` if there is none.
    fn experience_after(&self, place: u64) -> Option<(u64, Arc<ExperienceReport>)> {
        let _ = place;
        None
    }
    /// Takes the fleet's public keys.
    fn handle_keys(&self, keys: Keys);
    /// Takes the keys with which it proves to other nodes that it copies titles.
    ///
    /// # Errors
    /// Why they cannot be used.
    fn handle_copy_keys(&self, _text: &str) -> Result<(), String> {
        Ok(())
    }
    /// Takes a gateway's snapshot. Returns the number of its nodes, if it was accepted.
    fn handle_snapshot(&self, gateway: &str, signed: Signed) -> Option<usize>;
    /// A few of the documents that it needs to answer viewers and has no copy of.
    fn missing_documents(&self) -> Vec<Digest>;
    /// Takes one of these documents.
    fn handle_document(&self, bytes: Vec<u8>);
    /// How far its edge is with the fleet's purges, with the receipts after the one of this number; `None` if it has no edge.
    fn edge_progress(&self, _known: u64) -> Option<EdgeProgress> {
        None
    }
    /// Takes the purges that its edge lacks.
    fn handle_purge_orders(&self, _orders: PurgeOrders) {}
    /// Its request for the viewers' certificate, in PEM, if it wants one.
    fn viewer_request(&self) -> Option<String> {
        None
    }
    /// The digest of its current chain for that certificate.
    fn viewer_chain(&self) -> Option<Digest> {
        None
    }
    /// Takes the chain that was issued for that request.
    ///
    /// # Errors
    /// Why it is refused.
    fn handle_viewer_chain(&self, _chain: String) -> Result<(), String> {
        Ok(())
    }
}

impl BoxState for Agent {
    fn condition(&self) -> Condition {
        self.condition()
    }

    fn load(&self) -> Load {
        self.load()
    }

    fn inventory(&self) -> Arc<Inventory> {
        self.replicator().inventory()
    }

    fn receipts(&self) -> Vec<Receipt> {
        self.replicator().receipts()
    }

    fn fill(&self) -> Option<FillProgress> {
        self.replicator().fill_progress()
    }

    fn fill_bytes_per_day(&self) -> Option<u64> {
        self.replicator().fill_bytes_per_day()
    }

    fn served_at(&self) -> Option<ServedAt> {
        self.served_at()
    }

    fn address_of(&self, node: &Name) -> Option<(String, u16)> {
        let fleet = self.gateway_state().fleet()?;
        let at = fleet.node(node.as_str())?;
        let snapshot = fleet.snapshot();
        Some((snapshot.nodes[at].host.clone(), snapshot.policy.port))
    }

    fn wanted_grant(&self) -> Option<HeldTitle> {
        self.replicator().grants().wanted()
    }

    fn handle_grant(&self, grant: FillGrant) {
        self.replicator().grants().handle(grant);
    }

    fn evictable(&self) -> Vec<HeldTitle> {
        self.replicator().evictable()
    }

    fn handle_eviction_leave(&self, held: Vec<HeldTitle>) {
        self.replicator().handle_eviction_leave(held);
    }

    fn handle_answer(&self, gateway: &str, answer: &HeartbeatAnswer, clock_ahead_millis: i64) {
        self.note_answer(gateway, answer, clock_ahead_millis);
    }

    fn handle_revocation(&self, gateway: &str) {
        self.note_revocation(gateway);
    }

    fn handle_overtaken(&self) {
        self.note_overtaken();
    }

    fn handle_desired(&self, desired: Desired) -> bool {
        let taken = self.replicator().handle_desired(desired);
        if let Err(why) = &taken {
            crate::tell(why);
        }
        taken.is_ok()
    }

    fn gone(&self) -> Option<ReturnedTombstones> {
        ReturnedTombstones::of(&self.replicator().desired())
    }

    fn watched_after(&self, number: u64) -> Option<Arc<WatchReport>> {
        self.watched_after(number)
    }

    fn experience_after(&self, place: u64) -> Option<(u64, Arc<ExperienceReport>)> {
        self.experience_after(place)
    }

    fn handle_keys(&self, keys: Keys) {
        self.note_keys(keys.snapshots, &keys.tokens);
    }

    fn handle_copy_keys(&self, text: &str) -> Result<(), String> {
        self.note_copy_keys(text)
    }

    fn handle_snapshot(&self, gateway: &str, signed: Signed) -> Option<usize> {
        let taken = self.gateway_state().handle_snapshot(&signed);
        match &taken {
            Err(why) => crate::tell(&format!("a snapshot of {gateway} is refused: {why}")),
            Ok(_) => self
                .gateway_state()
                .fleet()
                .into_iter()
                .for_each(|fleet| self.replicator().note_fleet(fleet)),
        }
        taken.ok()
    }

    fn missing_documents(&self) -> Vec<Digest> {
        self.missing()
    }

    fn handle_document(&self, bytes: Vec<u8>) {
        self.gateway_state().handle_document(&bytes);
    }

    fn edge_progress(&self, known: u64) -> Option<EdgeProgress> {
        self.edge().map(|edge| edge.progress(known))
    }

    fn handle_purge_orders(&self, orders: PurgeOrders) {
        if let Some(edge) = self.edge() {
            edge.handle(orders);
        }
    }

    fn viewer_request(&self) -> Option<String> {
        self.certificate().map(|certificate| certificate.request().to_owned())
    }

    fn viewer_chain(&self) -> Option<Digest> {
        self.certificate()?.digest()
    }

    fn handle_viewer_chain(&self, chain: String) -> Result<(), String> {
        self.certificate().map_or(Ok(()), |certificate| certificate.take(&chain))
    }
}
