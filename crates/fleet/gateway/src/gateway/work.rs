//! A gateway's periodic work: reading the store, making snapshots, and updating the fleet page.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use fleet_protocol::{Digest, PublishedTitle};
use serde::Serialize;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::{Gateway, Known, lock};
use crate::api::ApiError;
use crate::desired::{Records, Wishes};
use crate::live::FleetView;
use crate::moves::{DecisionCounts, ViewerMoves};
use store::StoreError;
use store::records::FleetRecord;

use super::changes::By;
use super::introducing::Again;
use super::issues::{IssueCounts, ShownIssue};

/// How often silent nodes are looked for.
const TICK: Duration = Duration::from_millis(250);

/// Minimum interval of snapshots, and interval of polling the store.
const SECOND: Duration = Duration::from_secs(1);

/// Making snapshots may take a tenth of the time. Beyond a few thousand nodes with a few thousand titles, they are made less often than once a
/// second.
const SNAPSHOT_SHARE: u32 = 10;

/// But at least this often, so that a revoked node is out of all answers within 5 s.
const SNAPSHOT_PAUSE_MAX: Duration = Duration::from_secs(4);

/// Most issues in an event for the fleet page. The page says how many there are in all, and the API lists them.
const PAGE_ISSUES_MAX: usize = 100;

/// The state that the fleet page gets every second.
#[derive(Serialize)]
struct Page<'p> {
    version: u32,
    fullbore: &'static str,
    fleet: &'p str,
    leader: Option<&'p str>,
    store: StoreState<'p>,
    decisions: DecisionCounts,
    moves: Vec<ViewerMoves>,
    /// The open issues, critical ones first and snoozed ones last; at most [`PAGE_ISSUES_MAX`].
    issues: Vec<ShownIssue>,
    /// Numbers of all open issues.
    issue_counts: IssueCounts,
    #[serde(flatten)]
    view: FleetView,
}

#[derive(Serialize)]
struct StoreState<'p> {
    engine: &'p str,
    problem: Option<&'p str>,
}

impl Gateway {
    /// Works until it is dropped.
    pub async fn work(self: Arc<Self>) {
        // Errors of renewing the lease are ignored here: polling the store reports the same problem once instead of every few seconds.
        let elect = self.election.run(|_| {});
        tokio::join!(
            self.tick_on(),
            self.read_on(),
            self.snapshot_on(),
            self.tell_page_on(),
            self.forget_on(),
            self.keep_popularity_on(),
            self.place_on(),
            self.follow_issues_on(),
            self.keep_experience_on(),
            self.deliver_on(),
            elect
        );
    }

    /// Lets another gateway lead, or a restore begin, immediately.
    pub(crate) async fn resign(&self) {
        if let Err(error) = self.election.resign().await {
            self.tell(&format!(
                "cannot resign as leader, so the lease will expire by itself: {error}"
            ));
        }
    }

    async fn tick_on(&self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for line in self.live.tick(self.now()) {
                self.tell(&line);
            }
        }
    }

    async fn read_on(&self) {
        let mut again = Again::default();
        let mut ticks = interval(SECOND);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let problem = self.read_store_if_changed().await.err();
            if problem.is_none() {
                self.introduce_again(&mut again).await;
            }
            self.note_store_problem(problem.map(|error| error.to_string()));
            self.follow_token_keys().await;
            self.end_read_back().await;
        }
    }

    /// After a restore: once nodes have reported their revocations and withdrawals, or have had the time, gateways that start later need not wait.
    async fn end_read_back(&self) {
        let world = self.live.world();
        if !world.is_restored || world.is_read_back || self.live.reads_back(self.now()) {
            return;
        }
        let by = By { who: self.name.to_string(), what: "read_back", detail: String::new() };
        let end = |fleet: Option<FleetRecord>| {
            let mut fleet =
                fleet.ok_or_else(|| ApiError::Broken("the store has no fleet".to_owned()))?;
            if let Some(restored) = &mut fleet.restored {
                restored.read_back = true;
            }
            Ok(fleet)
        };
        // Errors are ignored: reading the store has already reported the problem, and this is tried again in a second.
        let _ = self.change(&by, "", end).await;
    }

    fn note_store_problem(&self, problem: Option<String>) {
        let known = self.known();
        if known.store_problem == problem {
            return;
        }
        match &problem {
            Some(problem) => self.tell(&format!("the store takes no changes: {problem}")),
            None => self.tell("the store takes changes again"),
        }
        self.set_known(Known {
            records: known.records.clone(),
            operators: known.operators.clone(),
            signer: known.signer.clone(),
            keys_change_at: known.keys_change_at,
            revision: known.revision,
            store_problem: problem,
        });
    }

    async fn snapshot_on(self: &Arc<Self>) {
        let mut told = None;
        loop {
            let gateway = Arc::clone(self);
            let began = self.now().uptime;
            // A panic has already been reported; it is tried again in a second.
            let made = spawn_blocking(move || gateway.make_snapshot()).await;
            // A full disk stays full for longer than a second, so the problem is logged once.
            match made.unwrap_or(Ok(false)) {
                Ok(false) => {}
                Ok(true) if told.take().is_some() => self.tell("snapshots are saved again"),
                Ok(true) => {}
                Err(problem) if told.as_ref() == Some(&problem) => {}
                Err(problem) => self.tell(told.insert(problem)),
            }
            let took = self.now().uptime.saturating_sub(began);
            tokio::time::sleep((took * SNAPSHOT_SHARE).clamp(SECOND, SNAPSHOT_PAUSE_MAX)).await;
        }
    }

    /// Makes a snapshot, if something has changed, and saves it. Returns whether it made one.
    pub(super) fn make_snapshot(&self) -> Result<bool, String> {
        let made = self.live.make_snapshot(self.now());
        let made = made.map_err(|error| format!("cannot make a snapshot: {error}"))?;
        let Some(made) = made else { return Ok(false) };
        self.decisions.snapshot(Arc::clone(&made.fleet));
        self.state.write_snapshot(&made.signed).map_err(|error| {
            format!("cannot save the snapshot in {}: {error}", self.state.path().display())
        })?;
        Ok(true)
    }

    async fn tell_page_on(self: &Arc<Self>) {
        let mut ticks = interval(SECOND);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.page.receiver_count() == 0 {
                continue;
            }
            let gateway = Arc::clone(self);
            if let Ok(line) = spawn_blocking(move || gateway.page_line()).await {
                self.page.send_replace(line);
            }
        }
    }

    /// The present state for the fleet page.
    pub fn page_line(&self) -> Bytes {
        let now = self.now();
        let (problem, leader) = (self.store_problem(), self.leader());
        let (decisions, moves) = {
            let mut counted = self.moves();
            (counted.counts(), counted.told(now.unix_seconds()))
        };
        let (mut issues, issue_counts) = self.shown_issues(now);
        issues.truncate(PAGE_ISSUES_MAX);
        let page = Page {
            version: 1,
            fullbore: env!("CARGO_PKG_VERSION"),
            fleet: self.fleet_name.as_str(),
            leader: leader.as_deref(),
            store: StoreState { engine: self.engine_name, problem: problem.as_deref() },
            decisions,
            moves,
            issues,
            issue_counts,
            view: self.live.view(now),
        };
        // It has only strings, numbers and lists of them, which JSON can express.
        serde_json::to_vec(&page).expect("a page is plain JSON").into()
    }

    /// Reads the store, whether or not it has changed.
    pub(super) async fn read_store(&self) -> Result<(), StoreError> {
        let _turn = self.reading.lock().await;
        // The revision is read before the records, so that a change between the two is read again.
        let revision = self.engine.revision().await?;
        let records = Records::load(&*self.engine).await?;
        match records.wishes(self.now().unix_seconds()) {
            Ok(wishes) => {
                self.take(records, wishes, Some(revision), None).await;
                Ok(())
            }
            Err(problem) => Err(StoreError::Damaged(problem)),
        }
    }

    /// Adopts a new desired state.
    pub(super) async fn take(
        &self,
        records: Records,
        mut wishes: Wishes,
        revision: Option<u64>,
        store_problem: Option<String>,
    ) {
        let known = self.known();
        if known.records != records || known.revision.is_none() {
            for problem in &wishes.problems {
                self.tell(problem);
            }
        }
        // Only records from the store are saved, and only if they are not older than what is known.
        let is_newest = self.note_newest(&records);
        if revision.is_some() && known.records != records && is_newest {
            self.keep(&records);
        }
        let world = std::mem::take(&mut wishes.world);
        let world = self.with_files(world, &wishes.files).await;
        let world = self.with_plan(world, wishes.plan.as_ref()).await;
        self.bring_documents(&world.titles).await;
        self.remove_objects(&world.titles, &wishes);
        self.set_known(Known::of(records, &wishes, revision, store_problem));
        self.live.set_world(Arc::new(world), self.now());
    }

    fn keep(&self, records: &Records) {
        let json = serde_json::to_vec(records).expect("records are texts");
        if let Err(error) = self.state.write_store(&json) {
            self.tell(&format!(
                "cannot save a copy of the store in {}: {error}",
                self.state.path().display()
            ));
        }
    }

    /// Loads the documents of published titles into memory and onto this gateway's disk.
    async fn bring_documents(&self, titles: &[PublishedTitle]) {
        let had = self.live.documents();
        let mut documents = HashMap::new();
        let wanted = titles.iter().flat_map(|title| [&title.record, &title.hls, &title.dash]);
        for digest in wanted.map(|document| document.sha256) {
            let bytes = match had.get(&digest) {
                Some(bytes) => Some(bytes.clone()),
                None => self.bring_document(&digest).await,
            };
            if let Some(bytes) = bytes {
                documents.insert(digest, bytes);
            }
        }
        self.live.set_documents(documents);
    }

    /// Removes local copies of objects that are not needed any more.
    fn remove_objects(&self, titles: &[PublishedTitle], wishes: &Wishes) {
        let documents = titles.iter().flat_map(|title| [&title.record, &title.hls, &title.dash]);
        let mut needed: BTreeSet<Digest> = documents.map(|document| document.sha256).collect();
        needed.extend(wishes.files.values());
        needed.extend(wishes.plan.iter().flat_map(|plan| plan.manifests.iter().flatten()));
        if lock(&self.objects_needed).clone() != needed {
            // A failed removal is tried again at the next change.
            let _ = self.state.remove_documents(|digest| needed.contains(digest));
            *lock(&self.objects_needed) = needed;
        }
    }

    /// An object, from this gateway's disk or from the object storage.
    pub(super) async fn bring_document(&self, digest: &Digest) -> Option<Bytes> {
        if let Some(bytes) = self.state.read_document(digest) {
            return Some(bytes);
        }
        match self.objects.get(digest).await {
            Ok(bytes) => {
                // If it cannot be saved, it is still used from memory.
                let _ = self.state.write_document(digest, &bytes);
                Some(bytes)
            }
            Err(error) => {
                self.tell(&format!("cannot read the object {digest}: {error}"));
                None
            }
        }
    }
}
