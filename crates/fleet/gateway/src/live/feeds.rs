//! Routing feeds: routes of sites' routers, forwarded by nodes.
//!
//! A node next to a router sends its routes, and every few seconds a confirmation that they are still valid. A node may report only on its own
//! site, and only routes within the site's allow-list are accepted. Several nodes of a site may feed: a prefix is announced as long as one of them
//! announces it, and the best route of each prefix counts. The routes of a silent feed stay for [`FEED_HOLDS`], since its router most likely works
//! on without it; then they are dropped.
//!
//! None of this is in the store. After a start, a gateway uses the routes in its last snapshot until feeds report.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleet_protocol::{
    Announced, FleetSnapshot, Name, Prefix, ROUTES_MAX, RoutesAnswer, RoutesUpdate, Site,
};

use super::RejectedMessage;
use super::allow_list::{AllowList, Sifted};
use super::world::World;
use crate::clock::Now;

/// How long the routes of a silent feed stay valid.
pub const FEED_HOLDS: Duration = Duration::from_secs(60);

/// How long a gateway that has started waits for a site's other feeds after the first one: each sends every 5 s.
const OTHERS_SPEAK: Duration = Duration::from_secs(7);

/// Most routes of all feeds together: 128 MB, and three times as much while they change.
const ROUTES_OF_ALL_MAX: usize = 40 * ROUTES_MAX;

/// Minimum interval of log lines about a feed whose number of refused routes keeps changing.
const TOLD_APART: Duration = Duration::from_secs(60);

/// The feed of one node.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) site: Name,
    boot: String,
    number: u64,
    /// All its routes, sorted by prefix.
    routes: Vec<Announced>,
    /// The routes split by the allow-list.
    pub(super) sifted: Sifted,
    heard: Duration,
    told: Option<(Duration, u64)>,
}

/// A site's routes from the snapshot on disk.
#[derive(Debug)]
struct Remembered {
    announced: Vec<Announced>,
    until: Duration,
}

/// The feeds of all nodes.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    of_nodes: BTreeMap<Name, Feed>,
    remembered: BTreeMap<Name, Remembered>,
    /// Each site's announcements from its file and its feeds; sites without feeds are not included.
    merged: BTreeMap<Name, Vec<Announced>>,
    /// Sites whose entry in `merged` is out of date.
    changed: BTreeSet<Name>,
}

impl Feeds {
    /// Restores the state of an earlier run.
    pub(super) fn restore(&mut self, snapshot: &FleetSnapshot, now: Now) {
        for site in snapshot.sites.iter().filter(|site| !site.announced.is_empty()) {
            let (announced, until) = (site.announced.clone(), now.uptime + FEED_HOLDS);
            self.remembered.insert(site.name.clone(), Remembered { announced, until });
            self.changed.insert(site.name.clone());
        }
    }

    /// Adopts a change by the operator: files, allow-lists or the set of nodes.
    pub(super) fn set_world(&mut self, world: &World) {
        let is_at = |name: &Name, site: &Name| {
            let node = world.nodes.get(name);
            node.is_some_and(|node| !node.is_revoked && node.place.site == *site)
        };
        self.of_nodes.retain(|name, feed| is_at(name, &feed.site));
        // Announcements in a site's file need not be remembered, and must disappear with the file.
        self.remembered.retain(|site, remembered| {
            let Some(site) = world.sites.get(site) else { return false };
            let of_file: BTreeSet<_> = site.announced.iter().map(|one| one.prefix).collect();
            remembered.announced.retain(|one| !of_file.contains(&one.prefix));
            !remembered.announced.is_empty()
        });
        for feed in self.of_nodes.values_mut() {
            feed.sifted = world.allow_list(&feed.site).sift(&feed.routes);
        }
        self.merged.clear();
        self.changed = self.of_nodes.values().map(|feed| feed.site.clone()).collect();
        self.changed.extend(self.remembered.keys().cloned());
    }

    /// Handles an update from `from`, a node of `site`. Returns the answer, and whether the accepted routes may have changed.
    pub(super) fn handle(
        &mut self,
        from: &Name,
        site: &Name,
        allowed: &AllowList,
        update: RoutesUpdate,
        now: Now,
    ) -> Result<(RoutesAnswer, bool), RejectedMessage> {
        update.check().map_err(RejectedMessage::OutOfBounds)?;
        let known = self.of_nodes.get_mut(from).filter(|feed| feed.boot == update.boot);
        let before = known.as_ref().map_or(&[][..], |feed| &feed.routes);
        let routes = match (&known, update.base) {
            (Some(feed), _) if update.number < feed.number => return Err(RejectedMessage::Stale),
            (_, None) => update.announced,
            (Some(feed), Some(base)) if feed.number == base => {
                update.applied(before).map_err(RejectedMessage::OutOfBounds)?
            }
            _ => {
                let answer = RoutesAnswer { wants_all: true, believed: 0, refused: 0 };
                return Ok((answer, false));
            }
        };
        if let Some(feed) = known.filter(|feed| feed.routes == routes) {
            (feed.number, feed.heard) = (update.number, now.uptime);
            return Ok((feed.answer(), false));
        }
        self.check_room(from, routes.len())?;
        if let Some(remembered) = self.remembered.get_mut(site) {
            remembered.until = remembered.until.min(now.uptime + OTHERS_SPEAK);
        }
        let told = self.of_nodes.get(from).and_then(|feed| feed.told);
        let feed = Feed {
            site: site.clone(),
            boot: update.boot,
            number: update.number,
            sifted: allowed.sift(&routes),
            routes,
            heard: now.uptime,
            told,
        };
        let answer = feed.answer();
        self.changed.insert(site.clone());
        self.of_nodes.insert(from.clone(), feed);
        Ok((answer, true))
    }

    fn check_room(&self, from: &Name, count: usize) -> Result<(), RejectedMessage> {
        let others = self.of_nodes.iter().filter(|(name, _)| *name != from);
        let held: usize = others.map(|(_, feed)| feed.routes.len()).sum();
        if held + count > ROUTES_OF_ALL_MAX { Err(RejectedMessage::NoRoom) } else { Ok(()) }
    }

    /// Drops feeds that have been silent for too long, and logs them. Returns whether any were dropped.
    pub(super) fn tick(&mut self, now: Now, lines: &mut Vec<String>) -> bool {
        let count = self.of_nodes.len() + self.remembered.len();
        let changed = &mut self.changed;
        self.of_nodes.retain(|name, feed| {
            let silence = now.uptime.saturating_sub(feed.heard);
            if silence < FEED_HOLDS {
                return true;
            }
            changed.insert(feed.site.clone());
            let (site, routes, silence) = (&feed.site, feed.routes.len(), silence.as_secs());
            lines.push(format!(
                "site {site}: the {routes} routes that node {name} sent {silence} s ago no longer count"
            ));
            false
        });
        self.remembered.retain(|site, remembered| {
            let stays = now.uptime < remembered.until;
            if !stays {
                changed.insert(site.clone());
            }
            stays
        });
        for (name, feed) in &mut self.of_nodes {
            lines.extend(feed.tell(name, now));
        }
        count != self.of_nodes.len() + self.remembered.len()
    }

    /// The gateway itself did not run for `gap`: that time does not count as silence.
    pub(super) fn skip(&mut self, gap: Duration, now: Now) {
        for feed in self.of_nodes.values_mut() {
            feed.heard = (feed.heard + gap).min(now.uptime.max(feed.heard));
        }
        for remembered in self.remembered.values_mut() {
            remembered.until += gap;
        }
    }

    /// Recomputes sites' announcements that have changed.
    pub(super) fn merge(&mut self, world: &World) {
        for name in std::mem::take(&mut self.changed) {
            let Some(site) = world.sites.get(&name) else { continue };
            let remembered = self.remembered.get(&name).map(|one| one.announced.as_slice());
            let feeds = self.of_nodes.values().filter(|feed| feed.site == name);
            let feeds = feeds.map(|feed| feed.sifted.believed.as_slice());
            let told: Vec<_> = feeds.chain(remembered).collect();
            if told.is_empty() {
                self.merged.remove(&name);
            } else {
                let allowed = world.allow_list(&name);
                let told = told.into_iter().flatten().filter(|one| allowed.allows(&one.prefix));
                self.merged.insert(name, best(site.announced.iter().chain(told)));
            }
        }
    }

    /// A site's announcements as of the last [`merge`](Self::merge).
    pub(super) fn announced<'a>(&'a self, site: &'a Site) -> &'a [Announced] {
        self.merged.get(&site.name).unwrap_or(&site.announced)
    }

    /// The feeds of a site, and how long each has been silent.
    pub(super) fn of_site<'a>(
        &'a self,
        site: &'a Name,
        now: Now,
    ) -> impl Iterator<Item = (&'a Name, &'a Feed, Duration)> {
        let of_site = self.of_nodes.iter().filter(move |(_, feed)| feed.site == *site);
        of_site.map(move |(name, feed)| (name, feed, now.uptime.saturating_sub(feed.heard)))
    }
}

impl Feed {
    fn answer(&self) -> RoutesAnswer {
        let believed = self.sifted.believed.len() as u64;
        RoutesAnswer { wants_all: false, believed, refused: self.sifted.refused }
    }

    /// A log line, if the number of refused routes has changed.
    fn tell(&mut self, name: &Name, now: Now) -> Option<String> {
        let refused = self.sifted.refused;
        let (at, before) = self.told.unwrap_or_default();
        let is_soon = self.told.is_some() && now.uptime.saturating_sub(at) < TOLD_APART;
        if refused == before || is_soon {
            return None;
        }
        self.told = Some((now.uptime, refused));
        Some(told_refused(&self.site, &format!("node {name}"), &self.sifted))
    }
}

/// The log line about prefixes outside the allow-list.
pub(crate) fn told_refused(site: &Name, who: &str, sifted: &Sifted) -> String {
    let first = sifted.first_refused.as_ref().map(Prefix::to_string);
    match first {
        None => format!("site {site}: all prefixes that {who} announces are within its allow-list"),
        Some(first) => format!(
            "site {site}: {} prefixes that {who} announces are outside its allow-list and ignored, for example {first}; \
             see them with: fullbore control announce {site}",
            sifted.refused
        ),
    }
}

/// Each prefix once, with its best route: the shortest AS path, then the lowest MED.
fn best<'a>(all: impl Iterator<Item = &'a Announced>) -> Vec<Announced> {
    let mut all: Vec<_> = all.copied().collect();
    all.sort_unstable_by_key(|one| (one.prefix, one.as_path_length, one.med));
    all.dedup_by_key(|one| one.prefix);
    all
}
