//! The simulated day.

use std::mem;
use std::net::Ipv4Addr;

use fastrand::Rng;
use fleet_protocol::State;
use placement::{Plan, plan};
use steering::{Decision, Fleet, FleetChanges, Label, Playing, Question, Standing, decide};

use crate::crowd::{self, Crowd, START_HOUR, STEPS_PER_HOUR, Session};
use crate::expected::{Today, input, window_bytes};
use crate::faults::Faults;
use crate::fill::{Fill, WINDOW_STEPS};
use crate::judge::Judge;
use crate::newcomers::NewTitles;
use crate::plays::{ORDERS, Play, SitePlays};
use crate::report::{DayReport, HourOfDay, RuleShare, SiteOfDay};
use crate::world::{PLAYS_PER_NODE, VIEWER_BITS_PER_SECOND, World, drawn};
use crate::{rivals, threads};

/// Bytes that a viewer receives in a step of five minutes.
pub(crate) const STEP_BYTES: u64 = VIEWER_BITS_PER_SECOND / 8 * 300;

/// A plan may move this share of the bytes expected to be watched in a day. The expectation is slightly above what is actually watched,
/// because new titles go live at noon.
const CHURN_PERMILLE: u64 = 48;

/// In each step, one in this many playing viewers asks steering again.
const ASKS_ONE_IN: usize = 16;

/// This many steering decisions take much longer than starting threads for them.
const WORTH_THREADS: usize = 1000;

/// Options of the simulation.
#[derive(Clone, Copy, Debug)]
pub struct DayOptions {
    /// Number of nodes, at least 3.
    pub nodes: u32,
    /// Number of titles, at least 100.
    pub titles: u32,
    /// The seed of all random choices.
    pub seed: u64,
    /// Hours to simulate, starting at 02:00.
    pub hours: u32,
    /// The nodes' room, in percent of the room that was drawn.
    pub room_percent: u32,
    /// If set, nothing fails.
    pub healthy: bool,
    /// How much is known about new titles when the day is planned.
    pub new: NewTitles,
    /// A bug to plant.
    pub planted: Option<Planted>,
}

/// A bug that the simulation must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Sends viewers to a node of the best site that may lack the title.
    Lacking,
    /// Sends viewers to the first choice although it is full.
    Ceiling,
    /// Puts all three nodes into one failure domain if possible.
    OneDomain,
    /// Answers playing viewers like new ones.
    Swing,
    /// Every node that lacks a title fetches it from the origin.
    Stampede,
}

/// Simulates a day.
///
/// # Panics
/// If steering or placement refuse the generated fleet, which would be an error in them, or here.
pub fn simulate(options: &DayOptions) -> DayReport {
    Day::new(options).run()
}

struct Day<'o> {
    options: &'o DayOptions,
    random: Rng,
    world: World,
    faults: Faults,
    fill: Fill,
    crowd: Crowd,
    judge: Judge,
    /// By site, for the competing rules.
    plays: Vec<SitePlays>,
    fleet: Fleet,
    report: DayReport,
    steps: u32,
    is_lost: Vec<bool>,
    /// Copies added since the last snapshot; `went` has those removed.
    came: Vec<(u32, u32)>,
    went: Vec<(u32, u32)>,
}

impl<'o> Day<'o> {
    fn new(options: &'o DayOptions) -> Self {
        let mut random = Rng::with_seed(options.seed);
        let mut world = World::new(options, &mut random);
        let steps = options.hours * STEPS_PER_HOUR;
        let drawn = Faults::drawn(&world, steps, &mut random);
        let faults = if options.healthy { Faults::none() } else { drawn };
        let fleet = yesterday(&mut world);
        let paces =
            world.nodes.iter().map(|node| window_bytes(node.kind) / u64::from(WINDOW_STEPS));
        Self {
            options,
            fill: Fill::new(&world, paces.collect()),
            crowd: Crowd::new(steps, world.nodes.len()),
            judge: Judge::default(),
            plays: vec![SitePlays::default(); world.sites.len()],
            fleet,
            report: blank(options, &world),
            is_lost: vec![false; world.nodes.len()],
            came: Vec::new(),
            went: Vec::new(),
            random,
            world,
            faults,
            steps,
        }
    }

    fn run(mut self) -> DayReport {
        for step in 0..self.steps {
            let filled = self.fill.bytes;
            self.plays.iter_mut().for_each(SitePlays::begin_step);
            self.crowd.end(step);
            self.lose(step);
            if !self.faults.has_no_gateway(step) {
                // Without a gateway, no one learns of changed copies, so nodes change nothing.
                if step >= self.faults.plan_late_steps && self.report.churn_bytes_max == 0 {
                    self.plan();
                }
                if step < WINDOW_STEPS {
                    let crowds = self.options.planted == Some(Planted::Stampede);
                    self.came = self.fill.step(&mut self.world, &self.is_lost, crowds);
                }
                self.look(step);
            }
            self.hour(step).filled_bytes += self.fill.bytes - filled;
            self.move_on(step);
            self.ask_again(step);
            self.welcome(step);
            self.weigh();
        }
        self.finish()
    }

    fn hour(&mut self, step: u32) -> &mut HourOfDay {
        &mut self.report.by_hour[(step / STEPS_PER_HOUR) as usize]
    }

    /// Sets which nodes are lost in this step.
    fn lose(&mut self, step: u32) {
        self.is_lost.fill(false);
        for node in self.faults.lost(step) {
            self.is_lost[node as usize] = true;
        }
    }

    fn plan(&mut self) {
        let expected = u64::from(self.options.nodes) * PLAYS_PER_NODE * STEP_BYTES * 9;
        let churn = expected / 1000 * CHURN_PERMILLE;
        let held = &self.fleet.snapshot().nodes;
        let today = Today {
            held,
            lies: &self.faults.lies,
            churn_bytes_max: churn,
            new: self.options.new,
            seed: self.options.seed,
        };
        let plan: Plan = plan(input(&self.world, Some(today))).expect("a drawn fleet is sound");
        let moved = plan.moved_bytes();
        self.report.churn_bytes_max = churn;
        self.report.planned_bytes = moved as u64;
        if moved > u128::from(churn) {
            self.judge.breach(|| format!("the plan moves {moved} bytes, {churn} are allowed"));
        }
        self.went = self.fill.take(&plan, &mut self.world);
    }

    /// Has a gateway make a snapshot.
    fn look(&mut self, step: u32) {
        let report = |(at, node): (usize, &fleet_protocol::SnapshotNode)| {
            let bits = self.crowd.on[at] * VIEWER_BITS_PER_SECOND;
            let permille = u128::from(bits) * 1000 / u128::from(node.ceiling_bits_per_second);
            let state = if self.is_lost[at] { State::Lost } else { State::Serving };
            (state, permille.min(u128::from(u16::MAX)) as u16)
        };
        let reports: Vec<(State, u16)> = self.world.nodes.iter().enumerate().map(report).collect();
        let (came, went) = (mem::take(&mut self.came), mem::take(&mut self.went));
        self.fleet.renew(&FleetChanges {
            number: u64::from(step),
            reports: &reports,
            came: &came,
            went: &went,
        });
    }

    /// Notes each site's load.
    fn weigh(&mut self) {
        for (at, site) in self.report.by_site.iter_mut().enumerate() {
            let viewers: u64 = self.crowd.on[self.world.nodes_of(at)].iter().sum();
            let bits = u128::from(viewers * VIEWER_BITS_PER_SECOND) * 1000;
            let permille = (bits / u128::from(self.world.ceiling_of(at))) as u32;
            site.peak_permille = site.peak_permille.max(permille);
        }
    }

    /// Moves viewers of lost nodes to their second node, as players do: they ask steering as playing viewers.
    fn move_on(&mut self, step: u32) {
        if !self.is_lost.contains(&true) {
            return;
        }
        for end in step as usize + 1..self.crowd.ends.len() {
            let mut sessions = std::mem::take(&mut self.crowd.ends[end]);
            sessions.retain_mut(|session| {
                if !self.is_lost[session.node as usize] {
                    return true;
                }
                let decision = self.ask(session, true);
                let next = decision.ranked.iter().find(|ranked| !self.is_lost[ranked.node]);
                self.crowd.on[session.node as usize] -= 1;
                self.report.moved += 1;
                let Some(next) = next else { return false };
                session.node = next.node as u32;
                self.crowd.on[next.node] += 1;
                true
            });
            self.crowd.ends[end] = sessions;
        }
    }

    /// Has some playing viewers ask steering again: none may be moved without need.
    fn ask_again(&mut self, step: u32) {
        let swings = self.options.planted == Some(Planted::Swing);
        let mut asking: Vec<Session> = Vec::new();
        for end in step as usize + 1..self.crowd.ends.len() {
            let from = self.random.usize(..ASKS_ONE_IN);
            asking.extend(self.crowd.ends[end].iter().skip(from).step_by(ASKS_ONE_IN));
        }
        asking.retain(|session| {
            let node = session.node as usize;
            self.fleet.standing(node) <= Standing::Closed
                && self.fleet.holds(node, session.title as usize)
        });
        let decisions = threads::map(&asking, WORTH_THREADS, |session| self.ask(session, !swings));
        for (session, decision) in asking.iter().zip(&decisions) {
            self.judge.stays(session.node as usize, decision, step);
        }
        self.report.asked_again += asking.len() as u64;
    }

    fn ask(&self, session: &Session, is_playing: bool) -> Decision {
        let nodes = &self.world.nodes;
        let pathway = nodes.get(session.node as usize).map(|node| node.name.as_str());
        let host = 1 + (session.viewer % 250) as u32;
        decide(
            &self.fleet,
            &Question {
                address: Ipv4Addr::from_bits((10 << 24) + (session.site << 8) + host).into(),
                title: &self.world.titles[session.title as usize].path,
                viewer: session.viewer,
                region: None,
                playing: pathway.filter(|_| is_playing).map(Playing::from),
            },
        )
    }

    /// Adds new viewers.
    fn welcome(&mut self, step: u32) {
        let plays = u64::from(self.options.nodes) * PLAYS_PER_NODE;
        let mut comers: Vec<(Session, u32)> = Vec::new();
        for _ in 0..crowd::comers(plays, step, &mut self.random) {
            let title = drawn(&self.world.wanted, &mut self.random);
            // A new title goes live when the window has closed.
            if title >= self.world.known && step < WINDOW_STEPS {
                continue;
            }
            let site = drawn(&self.world.site_sums, &mut self.random) as u32;
            let length = crowd::steps_of_film(&mut self.random);
            let viewer = self.random.u64(..);
            comers.push((Session { title: title as u32, site, node: u32::MAX, viewer }, length));
        }
        // Decisions depend only on the snapshot.
        let decisions =
            threads::map(&comers, WORTH_THREADS, |(session, _)| self.ask(session, false));
        for ((session, length), decision) in comers.into_iter().zip(decisions) {
            self.play(session, length, decision, step);
        }
    }

    fn play(&mut self, mut session: Session, length: u32, mut decision: Decision, step: u32) {
        self.spoil(&mut decision);
        self.judge.answer(&self.world, &self.fleet, session.title, &decision, step);
        let bytes = u64::from(length) * STEP_BYTES;
        let order = (session.viewer % ORDERS) as u32;
        self.plays[session.site as usize].push(Play { title: session.title, order, length });
        let well = decision.ranked.iter().find(|ranked| !self.is_lost[ranked.node]).copied();
        self.report.plays += 1;
        self.report.watched_bytes += bytes;
        let hour = self.hour(step);
        hour.plays += 1;
        hour.watched_bytes += bytes;
        hour.content += u64::from(decision.label == Some(Label::Content));
        hour.health += u64::from(decision.label == Some(Label::Health));
        let site = &mut self.report.by_site[session.site as usize];
        site.watched_bytes += bytes;
        let is_new = session.title as usize >= self.world.known;
        self.report.new_titles.watched_bytes += if is_new { bytes } else { 0 };
        let shares = &mut self.report.by_reason;
        let Some(first) = well else {
            self.report.nowhere += 1;
            shares.nowhere += bytes;
            return;
        };
        match decision.label {
            Some(Label::Content) => shares.content += bytes,
            Some(Label::Health) => shares.health += bytes,
            None if Some(first.node) == decision.first_choice => {
                shares.first_choice += bytes;
                self.report.new_titles.first_choice_bytes += if is_new { bytes } else { 0 };
                site.near_bytes += bytes;
            }
            None => shares.lost += bytes,
        }
        session.node = first.node as u32;
        self.crowd.add(session, step + length);
    }

    /// Does what the planted bug would do.
    fn spoil(&self, decision: &mut Decision) {
        let (Some(first), Some(best)) = (decision.ranked.first().copied(), decision.first_choice)
        else {
            return;
        };
        let nodes = &self.world.nodes;
        match self.options.planted {
            Some(Planted::Lacking) => {
                let next = (best + 1) % nodes.len();
                if nodes[next].place.site == nodes[best].place.site {
                    decision.ranked[0].node = next;
                }
            }
            Some(Planted::Ceiling) if decision.label == Some(Label::Health) => {
                decision.ranked[0].node = best;
            }
            Some(Planted::OneDomain) => {
                decision
                    .ranked
                    .retain(|ranked| nodes[ranked.node].place.site == nodes[first.node].place.site);
            }
            _ => {}
        }
    }

    fn finish(mut self) -> DayReport {
        for (title, fetches) in self.fill.origin_fetches.iter().enumerate() {
            // One copy from the origin for the whole fleet, however many nodes want it.
            if *fetches > 1 {
                self.judge.breach(|| format!("title {title} came from the origin {fetches} times"));
            }
        }
        let watched = self.report.watched_bytes;
        let mut report = self.report;
        report.placement = RuleShare::new(report.by_reason.first_choice, self.fill.bytes, watched);
        let lost: Vec<Vec<u32>> =
            (0..self.steps).map(|step| self.faults.lost_sorted(step)).collect();
        // Free the index first, because it is the largest structure.
        drop(self.fleet);
        let rivals::Rivals { hashing, lru } = rivals::serve(&self.world, &self.plays, &lost);
        report.consistent_hashing = RuleShare::new(hashing.near, hashing.fill, watched);
        report.lru_pull_through = RuleShare::new(lru.near, lru.fill, watched);
        report.unfilled = self.fill.left() as u64;
        report.origin_bytes = self.fill.origin_bytes;
        report.breaches = self.judge.count;
        report.told = self.judge.told;
        report
    }
}

/// Yesterday's plan for yesterday's titles, and the first snapshot.
fn yesterday(world: &mut World) -> Fleet {
    let mut snapshot = world.snapshot();
    let plan = plan(input(world, None)).expect("a drawn fleet is sound");
    for (at, node) in snapshot.nodes.iter_mut().enumerate() {
        node.holds = plan.holds(at).to_vec();
        node.holds.iter().for_each(|title| world.held.set(*title, at));
    }
    drop(plan);
    Fleet::new(snapshot, None).expect("a drawn snapshot is sound")
}

fn blank(options: &DayOptions, world: &World) -> DayReport {
    let hour = |hour| HourOfDay { hour: (START_HOUR + hour) % 24, ..Default::default() };
    let site = |site: &fleet_protocol::Site| SiteOfDay {
        site: site.name.to_string(),
        region: site.region.to_string(),
        ..Default::default()
    };
    DayReport {
        version: 1,
        kind: "day",
        nodes: options.nodes,
        titles: options.titles,
        seed: options.seed,
        hours: options.hours,
        room_percent: options.room_percent,
        healthy: options.healthy,
        by_hour: (0..options.hours).map(hour).collect(),
        by_site: world.sites.iter().map(site).collect(),
        ..Default::default()
    }
}
