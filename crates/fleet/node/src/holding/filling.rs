//! Fetches missing titles: what may be fetched now, from where, and how far it has got.
//!
//! A title is fetched while a window is open, or at once if the fleet asks for that. It comes from a node of the same cluster if one has
//! it; only the node whose turn it is ([`FetchRanks`]) asks other nodes and the origin. Damaged titles are repaired at any time, from any
//! source.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::TitlePath;
use fleet_protocol::{FillProgress, HeldTitle, PublishedTitle};
use serde::Serialize;
use steering::Fleet;
use token::CopyRing;

use super::copies::CopyProofs;
use super::fetch_rank::FetchRanks;
use super::giving_way::{GivingWay, Viewers};
use super::grants::Grants;
use super::http_client::HttpClient;
use super::origin::origin;
use super::peer::{self, PeerOrigin};
use super::run_last::run_last;
use super::sources::{Distance, FillCounts, Ledger, TitleSource};
use super::volume::Volume;
use super::window::Windows;
use super::{Replicator, VOLUME, lock};
use crate::persistence;

/// The rate assumed for an unlimited fill when it gives way to viewers, and when its speed is not known yet: a link of 10 Gb/s.
const UNBOUND_BYTES_PER_SECOND: u64 = 1_250_000_000;
/// The window for measuring the fill's speed.
const SPEED_WINDOW: Duration = Duration::from_secs(10);
/// A title may take this multiple of the time that its bytes need at the full rate before the next node fetches it from outside.
const PATIENCE_FACTOR: f64 = 2.0;
/// Ten years: longer than any title takes, and small enough not to overflow.
const PATIENCE_SECONDS_MAX: f64 = 3e8;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The state that filling needs.
pub(super) struct Fill {
    pub(super) ledger: Ledger,
    pub(super) grants: Arc<Grants>,
    pub(super) copies: Arc<CopyProofs>,
    windows: Windows,
    volume: Mutex<Volume>,
    fetch_ranks: Mutex<FetchRanks>,
    fleet: Mutex<Option<Arc<Known>>>,
    giving_way: Mutex<GivingWay>,
    /// The box has viewers now.
    is_watched: AtomicBool,
    /// The title in progress: its path, bytes present, and bytes in all.
    current: Mutex<Option<(String, u64, u64)>>,
    /// Samples of the time and of the bytes fetched until then.
    brought: Mutex<VecDeque<(Duration, u64)>>,
    /// Rounds in which the copier looked for work and found none.
    idle_rounds: AtomicU64,
}

/// A snapshot of the fleet.
struct Known {
    fleet: Arc<Fleet>,
    /// Positions in it of the other nodes of this cluster.
    cluster_peers: Vec<usize>,
}

impl Fill {
    pub(super) fn new(windows: Windows, volume: Volume) -> Self {
        let volume = Mutex::new(volume);
        let (ledger, grants, copies, fetch_ranks, fleet, giving_way, is_watched, current, brought) =
            Default::default();
        let idle_rounds = AtomicU64::new(0);
        Self {
            ledger,
            grants,
            copies,
            windows,
            volume,
            fetch_ranks,
            fleet,
            giving_way,
            is_watched,
            current,
            brought,
            idle_rounds,
        }
    }

    /// Counts a round in which the copier found no work.
    pub(super) fn note_idle_round(&self) {
        self.idle_rounds.fetch_add(1, Ordering::Relaxed);
    }

    /// Call this from threads that fetch or read titles. Once the box has viewers, the calling thread runs at idle priority.
    pub(super) fn let_viewers_run_first(&self) {
        if self.is_watched.load(Ordering::Relaxed) {
            run_last();
        }
    }

    /// Notes the progress of the current title.
    pub(super) fn note(&self, path: &str, done_bytes: u64, all_bytes: u64) {
        *lock(&self.current) = Some((path.to_owned(), done_bytes, all_bytes));
    }

    /// Nothing is being fetched any more.
    pub(super) fn end(&self) {
        *lock(&self.current) = None;
        self.grants.release();
    }

    fn all_bytes(&self) -> u64 {
        let counts = self.ledger.counts();
        counts.cluster_bytes + counts.fleet_bytes + counts.origin_bytes
    }

    fn bytes_per_second(&self) -> u64 {
        let brought = lock(&self.brought);
        let ends = brought.front().zip(brought.back());
        let Some(((from, before), (to, after))) = ends.filter(|(from, to)| from.0 < to.0) else {
            return 0;
        };
        ((after - before) as f64 / (*to - *from).as_secs_f64()) as u64
    }
}

/// Fill progress, for operators.
#[derive(Clone, Debug, Serialize)]
pub struct FillStatus {
    /// The remaining work, if there is any.
    pub progress: Option<FillProgress>,
    /// The current share of the fill's rate: less than 1 while it gives way to viewers.
    pub share: f64,
    /// Rounds in which the copier looked for work and found none. It looks at least once a second, so if this number stands still while no
    /// title is being copied, verified or repaired, the copier hangs.
    pub idle_rounds: u64,
    /// Bytes by source, and refusals.
    #[serde(flatten)]
    pub counts: FillCounts,
}

impl Replicator {
    /// Takes a snapshot of the fleet: its nodes, and the titles that each holds.
    pub fn note_fleet(&self, fleet: Arc<Fleet>) {
        let now = self.started.elapsed();
        lock(&self.fill.fetch_ranks).handle_fleet(fleet.snapshot(), &self.options.node, now);
        let cluster_peers = peer::cluster_peers(&fleet, &self.options.node);
        *lock(&self.fill.fleet) = Some(Arc::new(Known { fleet, cluster_peers }));
        self.copier.wake();
    }

    /// Sets whether the fleet signs addresses.
    pub fn note_signing(&self, signs: bool) {
        self.fill.grants.note_signing(signs);
    }

    /// Sets the keys that prove to other nodes that this one copies titles.
    pub fn note_copy_keys(&self, ring: CopyRing) {
        self.fill.copies.handle(ring);
    }

    pub(crate) fn grants(&self) -> &Grants {
        &self.fill.grants
    }

    /// Takes the viewers' measurements, once a second: filling and scrubbing give way to viewers.
    pub(crate) fn note_viewers(&self, viewers: Option<Viewers>) {
        let now = self.started.elapsed();
        self.scrub.note_viewers(viewers, now);
        let mut brought = lock(&self.fill.brought);
        brought.push_back((now, self.fill.all_bytes()));
        while brought.len() > 2 && brought[1].0 + SPEED_WINDOW <= now {
            brought.pop_front();
        }
        drop(brought);
        self.keep_volume();
        let is_filling = lock(&self.fill.current).is_some();
        let mut giving_way = lock(&self.fill.giving_way);
        let before = giving_way.share();
        giving_way.handle(viewers, is_filling, now);
        self.fill.is_watched.store(giving_way.has_viewers(), Ordering::Relaxed);
        let share = giving_way.share();
        if share != before {
            let whole = match self.options.copy_bytes_per_second {
                0 if share < 1.0 => UNBOUND_BYTES_PER_SECOND,
                bound => bound,
            };
            // 0 would mean no limit.
            let bound = (whole as f64 * share) as u64;
            lock(&self.copy_pace).set(bound.max(whole.min(1)), now);
        }
    }

    /// Whether a window is open and its volume is not used up.
    fn is_time(&self) -> bool {
        self.fill.windows.is_open(self.unix_seconds()) && self.volume_left() != Some(0)
    }

    /// Bytes left of the volume of the current window or day; `None`: no limit.
    fn volume_left(&self) -> Option<u64> {
        let bytes_max = Some(self.options.fill_bytes_max).filter(|bytes| *bytes > 0)?;
        let mut volume = lock(&self.fill.volume);
        volume.count(self.fill.windows.began(self.unix_seconds()), self.fill.all_bytes());
        Some(volume.left(bytes_max))
    }

    /// Saves the volume used in the current window.
    pub(super) fn keep_volume(&self) {
        if self.options.fill_bytes_max == 0 {
            return;
        }
        let mut volume = lock(&self.fill.volume);
        let began = self.fill.windows.began(self.unix_seconds());
        volume.count(began, self.fill.all_bytes());
        let news = volume.take_news();
        drop(volume);
        if let Some(kept) = news {
            if let Err(error) = persistence::write_json(&self.options.state.join(VOLUME), &kept) {
                crate::tell(&format!("cannot save how much was fetched in this window: {error}"));
            }
        }
    }

    /// Whether the windows allow this title to be fetched now.
    pub(super) fn is_time_for(&self, wanted: &PublishedTitle) -> bool {
        self.is_time() || self.is_wanted_at_once(wanted)
    }

    /// Whether anything may be fetched now. If so, old titles may be removed to make room for it.
    pub(super) fn may_fill_now(&self) -> bool {
        let desired = self.desired();
        let waits = |held: &HeldTitle| {
            desired.titles.iter().any(|title| title.held() == *held && self.is_missing(title))
        };
        self.is_time() || desired.at_once.iter().any(waits)
    }

    /// The published version of the title at this path, if the fleet has one.
    pub(super) fn published(&self, path: &str) -> Option<HeldTitle> {
        let known = lock(&self.fill.fleet).clone()?;
        let title = known.fleet.title(path)?;
        known.fleet.snapshot().titles.get(title).map(PublishedTitle::held)
    }

    fn is_wanted_at_once(&self, wanted: &PublishedTitle) -> bool {
        let is_it = |held: &HeldTitle| held.path == wanted.path && held.version == wanted.version;
        self.desired().at_once.iter().any(is_it)
    }

    /// Picks the next missing title: first those that are wanted at once, then those that no node of the cluster has, because the others
    /// wait for them, and then those that one of them has.
    pub(super) fn next_missing(
        &self,
        missing: &[&PublishedTitle],
        may: impl Fn(&str) -> bool,
    ) -> Option<PublishedTitle> {
        self.keep_volume();
        let waited: HashSet<_> =
            missing.iter().map(|one| (one.path.as_str(), one.version)).collect();
        lock(&self.fill.fetch_ranks)
            .keep(|held| waited.contains(&(held.path.as_str(), held.version)));
        let patience = self.patience(missing);
        let is_open = self.is_time();
        let can = |wanted: &&&PublishedTitle| {
            may(&wanted.path) && (self.has_peer_with(wanted) || self.may_go_out(wanted, patience))
        };
        let at_once = missing.iter().filter(|wanted| self.is_wanted_at_once(wanted)).find(can);
        if at_once.is_some() || !is_open {
            return at_once.map(|wanted| (*wanted).clone());
        }
        let mut of_cluster_peers = None;
        for wanted in missing.iter().filter(|wanted| may(&wanted.path)) {
            if self.has_peer_with(wanted) {
                of_cluster_peers = of_cluster_peers.or(Some(wanted));
            } else if self.may_go_out(wanted, patience) {
                return Some((*wanted).clone());
            }
        }
        of_cluster_peers.map(|wanted| (*wanted).clone())
    }

    /// How long a title should take: as long as the largest one, because a node that fetches that one fetches nothing else meanwhile.
    fn patience(&self, missing: &[&PublishedTitle]) -> Duration {
        let rate = match self.options.copy_bytes_per_second {
            0 => UNBOUND_BYTES_PER_SECOND,
            bound => bound,
        };
        let bytes = missing.iter().map(|wanted| wanted.bytes).max().unwrap_or(0);
        let seconds = PATIENCE_FACTOR * bytes as f64 / rate as f64;
        self.options.fill_wait + Duration::from_secs_f64(seconds.min(PATIENCE_SECONDS_MAX))
    }

    fn may_go_out(&self, wanted: &PublishedTitle, patience: Duration) -> bool {
        let now = self.started.elapsed();
        // The nodes of the cluster are known from the first heartbeats on.
        let is_known = lock(&self.fill.fleet).is_some();
        let patience = if is_known { patience } else { self.options.fill_wait };
        lock(&self.fill.fetch_ranks).may_go_out(&wanted.held(), &self.options.node, patience, now)
    }

    fn peers(&self, wanted: &PublishedTitle) -> Vec<peer::Peer> {
        let Some(known) = lock(&self.fill.fleet).clone() else { return Vec::new() };
        let now = self.started.elapsed();
        let mut peers = peer::peers(&known.fleet, &known.cluster_peers, &self.options.node, wanted);
        peers.retain(|peer| self.fill.ledger.may_ask(&peer.node, now));
        peers
    }

    /// Whether a node of the cluster has a title. This runs for every missing title, so it looks only at those nodes.
    fn has_peer_with(&self, wanted: &PublishedTitle) -> bool {
        let Some(known) = lock(&self.fill.fleet).clone() else { return false };
        let Known { fleet, cluster_peers } = &*known;
        let Some(title) = peer::title(fleet, wanted) else { return false };
        let now = self.started.elapsed();
        let may_ask = |at: usize| {
            let node = &fleet.snapshot().nodes[at];
            peer::is_source(fleet, at, title) && self.fill.ledger.may_ask(&node.name, now)
        };
        cluster_peers.iter().any(|at| may_ask(*at))
    }

    /// The sources of a title, nearest first. A repair may use any of them.
    pub(super) fn sources(
        &self,
        title: &TitlePath,
        wanted: &PublishedTitle,
        is_mending: bool,
    ) -> Vec<TitleSource> {
        let may_go_out = is_mending || self.may_go_out(wanted, self.patience(&[wanted]));
        let mut peers = self.peers(wanted);
        peers.retain(|peer| peer.is_cluster_peer || may_go_out);
        if !peers.is_empty() && !self.fill.grants.obtain(&wanted.held()) {
            crate::tell(&format!(
                "{} is not copied from other nodes: no gateway granted permission",
                wanted.path
            ));
            peers.clear();
        }
        let mut sources = self.peer_sources(peers, wanted);
        if may_go_out {
            let from = origin(&wanted.origin, title, &wanted.version, &self.options);
            sources.push(TitleSource { distance: Distance::Origin, node: None, from });
        }
        sources
    }

    fn peer_sources(&self, peers: Vec<peer::Peer>, wanted: &PublishedTitle) -> Vec<TitleSource> {
        let Some(first) = peers.first() else { return Vec::new() };
        let client = match HttpClient::new(&first.base, &self.options.trust) {
            Ok(client) => Arc::new(client),
            Err(why) => {
                crate::tell(&format!("cannot copy titles from other nodes: {why}"));
                return Vec::new();
            }
        };
        let source = |peer: peer::Peer| TitleSource {
            distance: if peer.is_cluster_peer { Distance::Cluster } else { Distance::Fleet },
            node: Some(peer.node.clone()),
            from: Ok(Box::new(PeerOrigin {
                client: Arc::clone(&client),
                title: wanted.held(),
                grants: Arc::clone(&self.fill.grants),
                copies: Arc::clone(&self.fill.copies),
                peer,
            })),
        };
        peers.into_iter().map(source).collect()
    }

    /// The remaining work, if there is any.
    pub fn fill_progress(&self) -> Option<FillProgress> {
        let desired = self.desired();
        let missing: Vec<_> =
            desired.titles.iter().filter(|wanted| self.is_missing(wanted)).collect();
        if missing.is_empty() {
            return None;
        }
        let current = lock(&self.fill.current).clone();
        // A title under repair is not missing.
        let current =
            current.filter(|(path, ..)| missing.iter().any(|wanted| wanted.path == *path));
        let (title, done_bytes, title_bytes) = match current {
            Some((path, done, all)) => (Some(path), done, all),
            None => (None, 0, 0),
        };
        // A publisher may have claimed any size.
        let all = missing.iter().fold(0, |sum: u64, wanted| sum.saturating_add(wanted.bytes));
        let missing_bytes = all.saturating_sub(done_bytes);
        let bytes_per_second = self.fill.bytes_per_second();
        let is_open = self.is_time();
        // While the window is closed, the configured limit is the only rate that is known.
        let rate = if is_open { bytes_per_second } else { self.options.copy_bytes_per_second };
        let seconds = missing_bytes.checked_div(rate);
        Some(FillProgress {
            title,
            done_bytes,
            title_bytes,
            missing_titles: missing.len() as u64,
            missing_bytes,
            bytes_per_second,
            is_open,
            done_unix_seconds: seconds.and_then(|seconds| self.done_at(missing_bytes, seconds)),
        })
    }

    /// When `bytes` will have arrived if they take `seconds`: what exceeds the windows' volume arrives on later days.
    fn done_at(&self, bytes: u64, seconds: u64) -> Option<u64> {
        let now = self.unix_seconds();
        let more = self.volume_left().map_or(0, |left| bytes.saturating_sub(left));
        if more == 0 {
            return self.fill.windows.after(now, seconds);
        }
        let days = more.div_ceil(self.volume_a_day()?);
        let last = more - (days - 1) * self.volume_a_day()?;
        let then = now.checked_add(days.checked_mul(DAY_SECONDS)?)?;
        let begins = self.fill.windows.began(then);
        self.fill
            .windows
            .after(begins, (u128::from(seconds) * u128::from(last) / u128::from(bytes)) as u64)
    }

    /// The volume of all windows of a day.
    fn volume_a_day(&self) -> Option<u64> {
        let bytes_max = Some(self.options.fill_bytes_max).filter(|bytes| *bytes > 0)?;
        Some(bytes_max.saturating_mul(self.fill.windows.0.len().max(1) as u64))
    }

    /// What windows, rate and volume allow to be fetched within a day; `None` if nothing limits it. Viewers may reduce it.
    pub fn fill_bytes_per_day(&self) -> Option<u64> {
        let seconds = self.fill.windows.open_seconds(self.unix_seconds(), DAY_SECONDS);
        let by_rate = match self.options.copy_bytes_per_second {
            0 => None,
            rate => Some(rate.saturating_mul(seconds)),
        };
        by_rate.into_iter().chain(self.volume_a_day()).min()
    }

    pub(super) fn fill_status(&self) -> FillStatus {
        FillStatus {
            progress: self.fill_progress(),
            share: lock(&self.fill.giving_way).share(),
            idle_rounds: self.fill.idle_rounds.load(Ordering::Relaxed),
            counts: self.fill.ledger.counts(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_brings_titles_runs_last_once_the_box_has_viewers() {
        // The 41st field (proc_pid_stat(5)), counted from the third, behind the name.
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields = stat.rsplit(") ").next().unwrap();
            fields.split(' ').nth(41 - 3).unwrap().parse::<i32>().unwrap()
        };
        let before = policy();
        let fill = Fill::new(Windows(Vec::new()), Volume::default());
        std::thread::scope(|scope| {
            let brings = scope.spawn(|| {
                fill.let_viewers_run_first();
                let unwatched = policy();
                fill.is_watched.store(true, Ordering::Relaxed);
                fill.let_viewers_run_first();
                (unwatched, policy())
            });
            assert_eq!(brings.join().unwrap(), (before, libc::SCHED_IDLE));
        });
    }
}
