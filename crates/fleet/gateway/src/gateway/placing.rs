//! Applying plans: the manifests of all clusters become objects, and one record in the store names them. So a plan takes effect with a single
//! commit, for every gateway.
//!
//! An operator makes the first plan, and may undo it. From then on, the leading gateway repairs it when needed (`live/upkeep.rs`), and makes a new
//! one at the configured interval.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::Digest;
use placement::ClusterManifest;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::changes::By;
use super::manifests::KnownManifests;
use super::replanning::Replanning;
use super::{Gateway, lock};
use crate::api::ApiError;
use crate::live::{Absent, PlacedTitles, World};
use crate::planning::{DryRun, dry_run};
use store::forgetting::claim;
use store::records::{PlanRecord, StoreRecord, load};
use store::{COMMIT_OPERATIONS_MAX, Check, LEADER};

/// How often the leading gateway checks whether the plan needs a repair.
const LOOK: Duration = Duration::from_secs(2);

/// By this time after its start, a gateway knows all nodes and titles' popularity, so it may replan by itself.
const FIRST: Duration = Duration::from_secs(120);

/// How often an unreadable manifest is tried again.
const READ_AGAIN: Duration = Duration::from_secs(30);

/// Scope of a plan's moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moving {
    /// Every move that pays off.
    Everything,
    /// Copies that pins and the floor require, and none for demand: between two plans, as little as possible moves.
    Repairs,
}

/// The plan that a new one starts from. The check fails if it has been replaced in the meantime.
struct Present {
    record: PlanRecord,
    check: Check,
}

impl Gateway {
    /// Summarizes the moves of a plan made now, without applying it.
    pub(crate) async fn dry_run(self: &Arc<Self>, moves_max: usize) -> Result<DryRun, ApiError> {
        let planned = self.plan(Absent::LeaveOut, Moving::Everything, moves_max).await?;
        Ok(planned.0)
    }

    /// Makes a plan and applies it.
    pub(crate) async fn apply_plan(
        self: &Arc<Self>,
        by: &By,
        moves_max: usize,
    ) -> Result<DryRun, ApiError> {
        let present = self.present_plan().await?;
        let planned = self.plan(Absent::LeaveOut, Moving::Everything, moves_max).await?;
        let planned_unix_seconds = self.now().unix_seconds();
        self.carry_out(by, present, planned, planned_unix_seconds, &[]).await
    }

    /// Undoes the plan: every node holds every title again. Returns whether there was a plan.
    pub(crate) async fn undo_plan(&self, by: &By) -> Result<bool, ApiError> {
        let before = load::<PlanRecord>(self.engine(), "").await?.map(|stored| stored.record);
        let Some(old) = before.and_then(|before| before.manifests) else { return Ok(false) };
        self.mark(&old).await?;
        self.change(by, "", |_| Ok(PlanRecord::default())).await?;
        Ok(true)
    }

    /// The plan in the store, if this gateway has read all of it.
    async fn present_plan(&self) -> Result<Present, ApiError> {
        self.read_store_if_changed().await?;
        let stored = load::<PlanRecord>(self.engine(), "").await?;
        let check = stored.as_ref().map_or_else(
            || Check::Absent(PlanRecord::key("")),
            |stored| Check::At(PlanRecord::key(""), stored.revision),
        );
        let record = stored.map(|stored| stored.record).unwrap_or_default();
        let named: BTreeSet<Digest> = record.manifests.iter().flatten().copied().collect();
        if !named.iter().eq(lock(&self.manifests).digests()) {
            return Err(ApiError::Unavailable(
                "this gateway has not read all of the current plan yet: try again in a minute, or undo it (fullbore control plan --everything)"
                    .to_owned(),
            ));
        }
        Ok(Present { record, check })
    }

    async fn plan(
        self: &Arc<Self>,
        absent: Absent,
        moving: Moving,
        moves_max: usize,
    ) -> Result<(DryRun, Vec<ClusterManifest>), ApiError> {
        let gateway = Arc::clone(self);
        let planned = spawn_blocking(move || {
            // A plan of a large fleet takes seconds and a few hundred megabytes.
            let _turn = gateway.try_to_plan().ok_or_else(|| {
                ApiError::Unavailable(
                    "this gateway is already making a plan: try again in a minute".to_owned(),
                )
            })?;
            let basis = gateway.live().plan_basis(absent, gateway.now());
            let mut basis = basis.map_err(|why| ApiError::Conflict(why.to_owned()))?;
            if moving == Moving::Repairs {
                // No title has that much demand. Missing copies must not wait for the bound on churn, which is there for economy.
                basis.input.policy.worth_permille = u32::MAX;
                basis.input.policy.churn_bytes_max = None;
            }
            dry_run(basis, moves_max).map_err(|error| ApiError::Conflict(error.to_string()))
        });
        planned.await.map_err(|error| ApiError::Broken(error.to_string()))?
    }

    /// Applies a plan, unless nodes already follow it. `planned_unix_seconds`: when the demand that it is based on was read.
    async fn carry_out(
        &self,
        by: &By,
        present: Present,
        (mut told, manifests): (DryRun, Vec<ClusterManifest>),
        planned_unix_seconds: u64,
        fence: &[Check],
    ) -> Result<DryRun, ApiError> {
        if manifests.is_empty() {
            return Err(ApiError::Conflict(
                "no node can take part in a plan now: see fullbore control nodes".to_owned(),
            ));
        }
        let Present { record: before, check } = present;
        if before.manifests.is_some() && self.follows(&manifests) {
            return Ok(told);
        }
        let named: Vec<(Digest, Vec<u8>)> =
            manifests.iter().map(|one| (one.digest(), one.to_bytes())).collect();
        let new: BTreeSet<Digest> = named.iter().map(|(digest, _)| *digest).collect();
        let old: BTreeSet<Digest> = before.manifests.into_iter().flatten().collect();
        // Marked before the commit: whether or not it succeeds, objects that no plan needs a week later are removed.
        self.mark(&old.symmetric_difference(&new).copied().collect::<Vec<_>>()).await?;
        for (digest, bytes) in named {
            if !old.contains(&digest) {
                self.objects.put(bytes.into()).await?;
            }
        }
        let manifests = Some(new.into_iter().collect());
        let record = PlanRecord { manifests, planned_unix_seconds };
        let key = PlanRecord::key("");
        let checks = [fence, &[check]].concat();
        self.commit(by, &key, &checks, vec![record.put("")?]).await?;
        // Applies the change immediately, instead of at the next poll.
        self.read_store().await?;
        told.is_applied = true;
        told.planned_unix_seconds = Some(planned_unix_seconds);
        Ok(told)
    }

    /// Whether nodes already hold the titles in these manifests.
    fn follows(&self, manifests: &[ClusterManifest]) -> bool {
        let world = self.live.world();
        let Some(placed) = world.placed.as_ref().filter(|placed| placed.is_whole()) else {
            return false;
        };
        let manifests: Vec<_> = manifests.iter().cloned().map(Arc::new).collect();
        PlacedTitles::new(&manifests, &world.titles, true, 0).is_same(placed)
    }

    /// Marks objects that are about to be written, or that no plan will need any more.
    async fn mark(&self, digests: &[Digest]) -> Result<(), ApiError> {
        let now = self.now().unix_seconds();
        for some in digests.chunks(COMMIT_OPERATIONS_MAX) {
            claim(self.engine(), some, now).await?;
        }
        Ok(())
    }

    /// Adds the titles that nodes hold, if there is a plan. Clusters with an unreadable manifest keep the titles of their last readable one.
    pub(super) async fn with_plan(&self, mut world: World, plan: Option<&PlanRecord>) -> World {
        let Some(plan) = plan else {
            *lock(&self.manifests) = KnownManifests::default();
            return world;
        };
        // The old ones stay until the new ones are read, because planning requests need them meanwhile.
        let had = lock(&self.manifests).clone();
        let digests = plan.manifests.as_deref().unwrap_or_default();
        let mut read = BTreeMap::new();
        for digest in digests {
            let manifest = match had.get(digest) {
                Some(manifest) => Some(Arc::clone(manifest)),
                None => self.read_manifest(digest).await,
            };
            read.extend(manifest.map(|manifest| (*digest, manifest)));
        }
        let is_whole = read.len() == digests.len();
        let known = had.replaced(read, is_whole);
        let followed = known.followed();
        *lock(&self.manifests) = known;
        let placed =
            PlacedTitles::new(&followed, &world.titles, is_whole, plan.planned_unix_seconds);
        world.placed = Some(Arc::new(placed));
        world
    }

    async fn read_manifest(&self, digest: &Digest) -> Option<Arc<ClusterManifest>> {
        let bytes = self.bring_document(digest).await?;
        match ClusterManifest::from_bytes(&bytes) {
            Ok(manifest) => Some(Arc::new(manifest)),
            Err(why) => {
                self.tell(&format!("the manifest {digest} cannot be used: {why}"));
                None
            }
        }
    }

    /// Maintains the plan while this gateway leads.
    pub(super) async fn place_on(self: &Arc<Self>) {
        let begun = Instant::now();
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut tried, mut planned, mut read) = (Replanning::default(), None, begun);
        loop {
            ticks.tick().await;
            if self.lacks_manifests() && read.elapsed() >= READ_AGAIN {
                read = Instant::now();
                // Errors are ignored here, because the poll every second reports them.
                let _ = self.read_store().await;
            }
            let Some(term) = self.election.term() else { continue };
            let fence = [Check::At(LEADER.to_owned(), term)];
            let is_old = begun.elapsed() >= FIRST && self.is_plan_old(planned);
            let (what, moving, key) = match self.live.upkeep(self.now()) {
                _ if is_old => ("plan", Moving::Everything, Digest::of(b"plan")),
                Some(upkeep) => ("repair_plan", Moving::Repairs, upkeep.key),
                None => continue,
            };
            if !tried.is_due(key, Instant::now()) {
                continue;
            }
            let result = self.plan_by_itself(what, moving, &fence).await;
            let now = Instant::now();
            let pause = tried.note(key, result.as_ref().copied(), now).as_secs();
            match result {
                Ok(()) if is_old => planned = Some(now),
                Ok(()) => {}
                Err(error) => {
                    self.tell(&format!(
                        "cannot repair the plan, and will retry in {pause} s: {error}"
                    ));
                }
            }
        }
    }

    /// Whether a manifest of the plan could not be read.
    fn lacks_manifests(&self) -> bool {
        self.live.world().placed.as_ref().is_some_and(|placed| !placed.is_whole())
    }

    /// Whether a new plan is due. `planned`: when this gateway made the last one, which may have changed nothing.
    fn is_plan_old(&self, planned: Option<Instant>) -> bool {
        let Some(every) = self.plan_every else { return false };
        let world = self.live.world();
        let Some(placed) = &world.placed else { return false };
        let age = self.now().unix_seconds().saturating_sub(placed.planned_unix_seconds);
        age >= every.as_secs() && planned.is_none_or(|planned| planned.elapsed() >= every)
    }

    async fn plan_by_itself(
        self: &Arc<Self>,
        what: &'static str,
        moving: Moving,
        fence: &[Check],
    ) -> Result<(), ApiError> {
        let why = self.live.upkeep(self.now()).map(|upkeep| upkeep.why).unwrap_or_default();
        let present = self.present_plan().await?;
        if present.record.manifests.is_none() {
            // It has just been undone.
            return Ok(());
        }
        let planned = self.plan(Absent::Keep, moving, 0).await?;
        let by = By { who: self.name.to_string(), what, detail: why };
        let planned_unix_seconds = match moving {
            Moving::Everything => self.now().unix_seconds(),
            Moving::Repairs => present.record.planned_unix_seconds,
        };
        self.carry_out(&by, present, planned, planned_unix_seconds, fence).await.map(drop)
    }
}
