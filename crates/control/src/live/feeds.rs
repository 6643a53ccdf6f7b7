//! What routers say, as nodes pass it on.
//!
//! A node beside a router tells the routes, and every few seconds that they still hold. A node speaks for its own site alone, and only what is within
//! the site's allow-list is believed. Several nodes of a site may feed: a prefix is announced while one of them announces it, and the best route of
//! each counts. A feed that falls silent stays for [`FEED_HOLDS`], since its router most likely works on without it; then it falls away.
//!
//! None of this is in the store. A gateway that starts takes up what its last snapshot said, until feeds speak.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleet::{Announced, FleetSnapshot, Name, Prefix, ROUTES_MAX, RoutesAnswer, RoutesUpdate, Site};

use super::Unheard;
use super::allow_list::{AllowList, Sifted};
use super::world::World;
use crate::clock::Now;

/// How long the routes of a silent feed count.
pub const FEED_HOLDS: Duration = Duration::from_secs(60);

/// A gateway that has started waits so long for a site's other feeds after it heard the first: they speak every 5 s.
const OTHERS_SPEAK: Duration = Duration::from_secs(7);

/// Most routes of all feeds together: 128 MB, three times over while they change.
const ROUTES_OF_ALL_MAX: usize = 40 * ROUTES_MAX;

/// A feed whose refused routes change all the time is told no more often.
const TOLD_APART: Duration = Duration::from_secs(60);

/// What one node passes on.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) site: Name,
    boot: String,
    number: u64,
    /// All that it says, sorted by prefix.
    routes: Vec<Announced>,
    /// What of it is believed.
    pub(super) sifted: Sifted,
    heard: Duration,
    told: Option<(Duration, u64)>,
}

/// What the snapshot on disk said that a site announces.
#[derive(Debug)]
struct Remembered {
    announced: Vec<Announced>,
    until: Duration,
}

/// What all nodes pass on.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    of_nodes: BTreeMap<Name, Feed>,
    remembered: BTreeMap<Name, Remembered>,
    /// What each site announces by its file and its feeds; sites without feeds are not here.
    merged: BTreeMap<Name, Vec<Announced>>,
    /// Sites of which `merged` is old.
    changed: BTreeSet<Name>,
}

impl Feeds {
    /// Takes up what an earlier run of this gateway knew.
    pub(super) fn restore(&mut self, snapshot: &FleetSnapshot, now: Now) {
        for site in snapshot.sites.iter().filter(|site| !site.announced.is_empty()) {
            let (announced, until) = (site.announced.clone(), now.uptime + FEED_HOLDS);
            self.remembered.insert(site.name.clone(), Remembered { announced, until });
            self.changed.insert(site.name.clone());
        }
    }

    /// The operator has changed something: files, allow-lists, which nodes there are.
    pub(super) fn set_world(&mut self, world: &World) {
        let is_at = |name: &Name, site: &Name| {
            let node = world.nodes.get(name);
            node.is_some_and(|node| !node.is_revoked && node.place.site == *site)
        };
        self.of_nodes.retain(|name, feed| is_at(name, &feed.site));
        // What a site's file announces needs no memory, and has to go with the file.
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

    /// Takes what `from`, a node of `site`, says. Returns the answer, and whether what is believed may have changed.
    pub(super) fn handle(
        &mut self,
        from: &Name,
        site: &Name,
        allowed: &AllowList,
        update: RoutesUpdate,
        now: Now,
    ) -> Result<(RoutesAnswer, bool), Unheard> {
        update.check().map_err(Unheard::OutOfBounds)?;
        let known = self.of_nodes.get_mut(from).filter(|feed| feed.boot == update.boot);
        let before = known.as_ref().map_or(&[][..], |feed| &feed.routes);
        let routes = match (&known, update.base) {
            (Some(feed), _) if update.number < feed.number => return Err(Unheard::Stale),
            (_, None) => update.announced,
            (Some(feed), Some(base)) if feed.number == base => {
                update.applied(before).map_err(Unheard::OutOfBounds)?
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

    fn check_room(&self, from: &Name, count: usize) -> Result<(), Unheard> {
        let others = self.of_nodes.iter().filter(|(name, _)| *name != from);
        let held: usize = others.map(|(_, feed)| feed.routes.len()).sum();
        if held + count > ROUTES_OF_ALL_MAX { Err(Unheard::NoRoom) } else { Ok(()) }
    }

    /// Drops what has been silent for too long. Returns whether anything was, and tells the operator.
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
                "site {site}: the {routes} routes that node {name} told {silence} s ago no longer count"
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

    /// The gateway itself did not run for `gap`: that time is nobody's silence.
    pub(super) fn skip(&mut self, gap: Duration, now: Now) {
        for feed in self.of_nodes.values_mut() {
            feed.heard = (feed.heard + gap).min(now.uptime.max(feed.heard));
        }
        for remembered in self.remembered.values_mut() {
            remembered.until += gap;
        }
    }

    /// Puts together what sites announce.
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

    /// What a site announces, as of the last [`merge`](Self::merge).
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

    /// A line for the operator, if it is news how many routes are refused.
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

/// What the operator is told of refused prefixes.
pub(crate) fn told_refused(site: &Name, who: &str, sifted: &Sifted) -> String {
    let first = sifted.first_refused.as_ref().map(Prefix::to_string);
    match first {
        None => format!("site {site}: all prefixes that {who} announces are within its allow-list"),
        Some(first) => format!(
            "site {site}: {} prefixes that {who} announces are outside its allow-list and not believed, {first} for one; \
             see them with: fullbore control announce {site}",
            sifted.refused
        ),
    }
}

/// Each prefix once, with its best route: the shortest path, then the lowest MED.
fn best<'a>(all: impl Iterator<Item = &'a Announced>) -> Vec<Announced> {
    let mut all: Vec<_> = all.copied().collect();
    all.sort_unstable_by_key(|one| (one.prefix, one.as_path_length, one.med));
    all.dedup_by_key(|one| one.prefix);
    all
}
