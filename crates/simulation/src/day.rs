//! The day.

use std::net::Ipv4Addr;
use std::sync::Arc;

use fastrand::Rng;
use fleet::State;
use placement::{
    PlacementInput, PlacementNode, PlacementTitle, Plan, RegionDemand, TitleDemand, plan,
};
use steering::{Decision, Fleet, Label, Playing, Question, Standing, decide};

use crate::crowd::{self, Crowd, START_HOUR, STEPS_PER_HOUR, Session};
use crate::faults::Faults;
use crate::fill::{Fill, WINDOW_STEPS};
use crate::judge::Judge;
use crate::report::{DayReport, HourOfDay, RuleShare};
use crate::rivals::Rivals;
use crate::world::{PLAYS_PER_NODE, VIEWER_BITS_PER_SECOND, World, drawn};

/// Bytes that a viewer takes in a step of five minutes.
const STEP_BYTES: u64 = VIEWER_BITS_PER_SECOND / 8 * 300;

/// A plan may move so much of what is watched in a day.
const CHURN_PERMILLE: u64 = 50;

/// One in so many playing viewers asks again in each step.
const ASKS_ONE_IN: usize = 16;

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct DayOptions {
    /// Nodes, from 3 on.
    pub nodes: u32,
    /// Titles, from 100 on.
    pub titles: u32,
    /// What all is drawn from.
    pub seed: u64,
    /// Hours, from 02:00 on.
    pub hours: u32,
    /// A bug to plant.
    pub planted: Option<Planted>,
}

/// A bug that the simulation must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Viewers are sent to a node of the best site, whether it has the title or not.
    Lacking,
    /// Viewers are sent to the first choice although it is full.
    Ceiling,
    /// All three nodes are in one failure domain if possible.
    OneDomain,
    /// Playing viewers are answered as new ones.
    Swing,
    /// Whoever lacks a title asks the origin for it.
    Stampede,
}

/// Simulates a day.
///
/// # Panics
/// If steering or placement refuse what was drawn: that would be an error in them, or here.
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
    rivals: Rivals,
    fleet: Arc<Fleet>,
    report: DayReport,
    near_bytes: u64,
    steps: u32,
    is_lost: Vec<bool>,
}

impl<'o> Day<'o> {
    fn new(options: &'o DayOptions) -> Self {
        let mut random = Rng::with_seed(options.seed);
        let mut world = World::new(options, &mut random);
        let steps = options.hours * STEPS_PER_HOUR;
        let faults = Faults::drawn(&world, steps, &mut random);
        // Yesterday's plan, for yesterday's titles.
        let yesterday =
            plan(input(&world, world.known, &[], None)).expect("a drawn fleet is sound");
        for node in 0..world.nodes.len() {
            world.nodes[node].holds = yesterday.holds(node).to_vec();
        }
        let paces =
            world.nodes.iter().map(|node| window_bytes(node.kind) / u64::from(WINDOW_STEPS));
        let report = DayReport {
            nodes: options.nodes,
            sites: world.sites.len() as u32,
            titles: options.titles,
            seed: options.seed,
            hours: options.hours,
            by_hour: (0..options.hours)
                .map(|hour| HourOfDay { hour: (START_HOUR + hour) % 24, ..Default::default() })
                .collect(),
            ..Default::default()
        };
        let fleet = Fleet::new(world.snapshot(), None).expect("a drawn snapshot is sound");
        Self {
            options,
            fill: Fill::new(&world, paces.collect()),
            crowd: Crowd::new(steps, world.nodes.len()),
            judge: Judge::new((u64::from(options.nodes) / 20).max(1)),
            rivals: Rivals::new(&world),
            fleet: Arc::new(fleet),
            near_bytes: 0,
            is_lost: vec![false; world.nodes.len()],
            random,
            world,
            faults,
            report,
            steps,
        }
    }

    fn run(mut self) -> DayReport {
        for step in 0..self.steps {
            self.crowd.end(step);
            self.lose(step);
            if !self.faults.has_no_gateway(step) {
                // Without a gateway nobody hears of what comes and goes, so nodes change nothing.
                if step >= self.faults.plan_late_steps && self.report.churn_bytes_max == 0 {
                    self.plan();
                }
                if step < WINDOW_STEPS {
                    let crowds = self.options.planted == Some(Planted::Stampede);
                    self.fill.step(&mut self.world, &self.is_lost, crowds);
                }
                self.look(step);
            }
            self.move_on(step);
            self.ask_again(step);
            self.welcome(step);
        }
        self.finish()
    }

    /// Who is lost in this step, and who is back.
    fn lose(&mut self, step: u32) {
        self.is_lost.fill(false);
        for node in self.faults.lost(step) {
            self.is_lost[node as usize] = true;
        }
    }

    fn plan(&mut self) {
        let expected = u64::from(self.options.nodes) * PLAYS_PER_NODE * STEP_BYTES * 9;
        let churn = expected / 1000 * CHURN_PERMILLE;
        let titles = self.world.titles.len();
        let drawn = input(&self.world, titles, &self.faults.lies, Some(churn));
        let plan: Plan = plan(drawn).expect("a drawn fleet is sound");
        let moved = plan.moved_bytes();
        self.report.churn_bytes_max = churn;
        self.report.planned_bytes = moved as u64;
        if moved > u128::from(churn) {
            self.judge.breach(|| format!("the plan moves {moved} bytes, {churn} are allowed"));
        }
        self.fill.take(&plan, &mut self.world);
    }

    /// A gateway makes a snapshot.
    fn look(&mut self, step: u32) {
        for (at, node) in self.world.nodes.iter_mut().enumerate() {
            node.state = if self.is_lost[at] { State::Lost } else { State::Serving };
            let bits = self.crowd.on[at] * VIEWER_BITS_PER_SECOND;
            let permille = u128::from(bits) * 1000 / u128::from(node.ceiling_bits_per_second);
            node.load_permille = permille.min(u128::from(u16::MAX)) as u16;
        }
        let mut snapshot = self.world.snapshot();
        snapshot.number = u64::from(step);
        let fleet = Fleet::new(snapshot, Some(&self.fleet)).expect("a drawn snapshot is sound");
        self.fleet = Arc::new(fleet);
    }

    /// Viewers of lost nodes go to their second node, as players do: by asking as viewers who play.
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

    /// Some who play ask again: nobody moves without need.
    fn ask_again(&mut self, step: u32) {
        let swings = self.options.planted == Some(Planted::Swing);
        for end in step as usize + 1..self.crowd.ends.len() {
            let from = self.random.usize(..ASKS_ONE_IN);
            for at in (from..self.crowd.ends[end].len()).step_by(ASKS_ONE_IN) {
                let session = self.crowd.ends[end][at];
                let node = session.node as usize;
                let must_leave = self.fleet.standing(node) > Standing::Closed
                    || !self.fleet.holds(node, session.title as usize);
                if must_leave {
                    continue;
                }
                let decision = self.ask(&session, !swings);
                self.judge.stays(node, &decision, step);
                self.report.asked_again += 1;
            }
        }
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

    /// New viewers.
    fn welcome(&mut self, step: u32) {
        let plays = u64::from(self.options.nodes) * PLAYS_PER_NODE;
        for _ in 0..crowd::comers(plays, step, &mut self.random) {
            let title = drawn(&self.world.wanted, &mut self.random);
            // A new title goes live when the window has closed.
            if title >= self.world.known && step < WINDOW_STEPS {
                continue;
            }
            let site = drawn(&self.world.site_sums, &mut self.random) as u32;
            let length = crowd::steps_of_film(&mut self.random);
            let viewer = self.random.u64(..);
            let session = Session { title: title as u32, site, node: u32::MAX, viewer };
            self.play(session, length, step);
        }
    }

    fn play(&mut self, mut session: Session, length: u32, step: u32) {
        let mut decision = self.ask(&session, false);
        self.spoil(&mut decision);
        self.judge.answer(&self.world, &self.fleet, session.title, &decision, step);
        let bytes = u64::from(length) * STEP_BYTES;
        self.report.plays += 1;
        self.report.watched_bytes += bytes;
        self.rivals.play(&self.world, session.site as usize, session.title, bytes);
        let hour = &mut self.report.by_hour[(step / STEPS_PER_HOUR) as usize];
        hour.plays += 1;
        hour.content += u64::from(decision.label == Some(Label::Content));
        hour.health += u64::from(decision.label == Some(Label::Health));
        let well = decision.ranked.iter().find(|ranked| !self.is_lost[ranked.node]);
        let Some(first) = well else {
            self.report.nowhere += 1;
            return;
        };
        if decision.label.is_none() && Some(first.node) == decision.first_choice {
            self.near_bytes += bytes;
        }
        session.node = first.node as u32;
        self.crowd.add(session, step + length);
    }

    /// Does what a planted bug would do.
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
            // One copy for the fleet, whoever wants it.
            if *fetches > 1 {
                self.judge.breach(|| format!("title {title} came from the origin {fetches} times"));
            }
        }
        let watched = self.report.watched_bytes;
        let mut report = self.report;
        report.placement = RuleShare::new(self.near_bytes, self.fill.bytes, watched);
        let (hashing, lru) = (self.rivals.hashing, self.rivals.lru);
        report.consistent_hashing = RuleShare::new(hashing.near, hashing.fill, watched);
        report.lru_pull_through = RuleShare::new(lru.near, lru.fill, watched);
        report.unfilled = self.fill.left() as u64;
        report.origin_bytes = self.fill.origin_bytes;
        report.looked_closely = self.judge.looked_closely;
        report.breaches = self.judge.count;
        report.told = self.judge.told;
        report
    }
}

/// What a node may take in one window: 1.2 Gb/s for storage, 0.4 and 0.3 Gb/s for the others, whatever else they do.
fn window_bytes(kind: fleet::NodeKind) -> u64 {
    match kind {
        fleet::NodeKind::Storage => 6_500_000_000_000,
        fleet::NodeKind::Flash => 1_350_000_000_000,
        fleet::NodeKind::Global => 2_100_000_000_000,
    }
}

/// What placement is told of the first `titles` titles.
fn input(world: &World, titles: usize, lies: &[u32], churn: Option<u64>) -> PlacementInput {
    let region_of = |node: &fleet::SnapshotNode| {
        let site = world.sites.iter().find(|site| site.name == node.place.site);
        site.expect("each node has a site").region.clone()
    };
    let nodes = world.nodes.iter().zip(&world.rooms).map(|(node, room)| PlacementNode {
        name: node.name.clone(),
        place: node.place.clone(),
        region: region_of(node),
        kind: node.kind,
        room_bytes: *room,
        ceiling_bits_per_second: node.ceiling_bits_per_second,
        fill_bytes_max: churn.map(|_| window_bytes(node.kind)),
        holds: node.holds.clone(),
    });
    let title = |title: &fleet::PublishedTitle| PlacementTitle {
        path: title.path.clone(),
        bytes: title.bytes,
        pins: Vec::new(),
    };
    let mut input = PlacementInput {
        titles: world.titles[..titles].iter().map(title).collect(),
        nodes: nodes.collect(),
        demand: demand(world, titles, lies),
        ..Default::default()
    };
    input.policy.churn_bytes_max = churn;
    input
}

/// What each region is expected to watch. The first region's feed lies about some titles.
fn demand(world: &World, titles: usize, lies: &[u32]) -> Vec<RegionDemand> {
    let plays = world.nodes.len() as u128 * u128::from(PLAYS_PER_NODE);
    let (all_sites, all_titles) =
        (world.site_sums.last().copied().unwrap_or(1).max(1), world.wanted_sum().max(1));
    let mut regions: Vec<(fleet::Name, u64)> = Vec::new();
    let mut before = 0;
    for (site, sum) in world.sites.iter().zip(&world.site_sums) {
        match regions.last_mut() {
            Some((region, weight)) if *region == site.region => *weight += sum - before,
            _ => regions.push((site.region.clone(), sum - before)),
        }
        before = *sum;
    }
    let of = |(at, (region, weight)): (usize, (fleet::Name, u64))| {
        let demand = |title: u32| {
            let part = u128::from(world.share(title as usize)) * u128::from(weight);
            let thousandths = part / u128::from(all_sites) * plays * 1000 / u128::from(all_titles);
            let lie = if at == 0 && lies.contains(&title) { 1000 } else { 1 };
            TitleDemand {
                title,
                starts: (thousandths * lie / 1000) as u64,
                bytes: (thousandths * lie * u128::from(STEP_BYTES) * 9 / 1000) as u64,
            }
        };
        RegionDemand { region, titles: (0..titles as u32).map(demand).collect() }
    };
    regions.into_iter().enumerate().map(of).collect()
}
