//! Invariants of every plan, in 20,000 random fleets, checked from the input and the plan's manifests alone.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use fullbore_placement::{PinScope, PlacementInput, PlacementNode, Plan, Why, plan};

use crate::draw;

const FLEETS: u64 = 20_000;

/// A plan, by names.
struct Case<'c> {
    input: &'c PlacementInput,
    plan: &'c Plan,
    /// Titles by node.
    held: BTreeMap<String, BTreeSet<String>>,
    /// Bytes of copies for pins and floors, by node: all other copies may be displaced by them.
    kept: BTreeMap<String, u128>,
}

impl<'c> Case<'c> {
    fn new(input: &'c PlacementInput, plan: &'c Plan) -> Self {
        let mut held: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for manifest in plan.manifests() {
            for title in &manifest.titles {
                for on in &title.on {
                    let node = manifest.nodes[*on as usize].to_string();
                    assert!(held.entry(node).or_default().insert(title.path.clone()));
                }
            }
        }
        let mut kept = BTreeMap::new();
        let names: Vec<String> = plan.nodes().map(ToString::to_string).collect();
        for (at, name) in names.iter().enumerate() {
            let titles = plan.holds(at).iter().filter(|title| plan.is_kept(at, **title));
            let paths: Vec<&str> = plan.titles().collect();
            let bytes = titles.map(|title| size(input, paths[*title as usize]));
            kept.insert(name.clone(), bytes.sum());
        }
        Self { input, plan, held, kept }
    }

    fn holds(&self, node: &PlacementNode, path: &str) -> bool {
        self.held.get(node.name.as_str()).is_some_and(|titles| titles.contains(path))
    }

    /// Whether a title could have been added to a node, given its room and both limits on churn.
    fn could_bring(&self, node: &PlacementNode, bytes: u128) -> bool {
        let moved = |of: &dyn Fn(&str) -> bool| -> u128 {
            let names: Vec<&str> = self.plan.nodes().map(|name| name.as_str()).collect();
            let moves = self.plan.moves().filter(|step| of(names[step.node]));
            moves.map(|step| u128::from(step.bytes)).sum()
        };
        let left = |bound: Option<u64>, moved: u128| {
            bound.is_none_or(|bound| moved + bytes <= u128::from(bound))
        };
        let room = u128::from(node.room_bytes);
        self.kept[node.name.as_str()] + bytes <= room
            && left(self.input.policy.churn_bytes_max, moved(&|_| true))
            && left(node.fill_bytes_max, moved(&|name| name == node.name.as_str()))
    }

    fn room_and_churn(&self) {
        let mut all = 0;
        for (at, name) in self.plan.nodes().enumerate() {
            let node = self.input.nodes.iter().find(|node| node.name == *name).expect("it is one");
            let titles = self.held.get(name.as_str()).into_iter().flatten();
            let held: u128 = titles.map(|path| size(self.input, path)).sum();
            assert!(held <= u128::from(node.room_bytes), "{name} holds {held}");
            let moves = self.plan.moves().filter(|step| step.node == at);
            let moved: u128 = moves.map(|step| u128::from(step.bytes)).sum();
            assert!(moved <= u128::from(node.fill_bytes_max.unwrap_or(u64::MAX)), "{name}");
            all += moved;
            // Every title held was held before, or is moved.
            let old: BTreeSet<&str> = node.holds.iter().map(|t| self.path(*t)).collect();
            let paths: Vec<&str> = self.plan.titles().collect();
            let brought: BTreeSet<&str> = self
                .plan
                .moves()
                .filter(|step| step.node == at)
                .map(|step| paths[step.title])
                .collect();
            for path in self.held.get(name.as_str()).into_iter().flatten() {
                assert!(old.contains(path.as_str()) != brought.contains(path.as_str()));
            }
        }
        // Without a limit, two titles of 2^64 - 1 bytes may move.
        let bound = self.input.policy.churn_bytes_max;
        assert!(bound.is_none_or(|bound| all <= u128::from(bound)), "{all} bytes move");
    }

    fn path(&self, title: u32) -> &str {
        &self.input.titles[title as usize].path
    }

    fn pins(&self) {
        for title in &self.input.titles {
            for pin in &title.pins {
                let is_meant = |node: &&PlacementNode| match &pin.scope {
                    PinScope::Everywhere => true,
                    PinScope::Region(region) => node.region == *region,
                    PinScope::Site(site) => node.place.site == *site,
                };
                let mut sites: BTreeMap<&str, Vec<&PlacementNode>> = BTreeMap::new();
                for node in self.input.nodes.iter().filter(is_meant) {
                    sites.entry(node.place.site.as_str()).or_default().push(node);
                }
                for nodes in sites.values() {
                    let (has, lacks): (Vec<&PlacementNode>, Vec<&PlacementNode>) =
                        nodes.iter().partition(|node| self.holds(node, &title.path));
                    let is_met = has.len() >= pin.copies.into();
                    let bytes = u128::from(title.bytes.max(1));
                    assert!(
                        is_met || !lacks.iter().any(|node| self.could_bring(node, bytes)),
                        "{}: {:?}",
                        title.path,
                        pin
                    );
                }
            }
        }
    }

    /// In as many failure domains as the floor requires, or in all that have room; sites first.
    fn floors(&self) {
        let floor = usize::from(self.input.policy.floor_copies);
        let levels: [fn(&PlacementNode) -> String; 3] = [
            |node| node.place.site.to_string(),
            |node| format!("{}/{}", node.place.site, node.place.cluster),
            |node| format!("{:?}", node.place),
        ];
        for title in &self.input.titles {
            let bytes = u128::from(title.bytes.max(1));
            let holders = || self.input.nodes.iter().filter(|n| self.holds(n, &title.path));
            for level in levels {
                let domains: BTreeSet<String> = holders().map(level).collect();
                let others = self.input.nodes.iter().filter(|n| !domains.contains(&level(n)));
                let could = others.filter(|node| self.could_bring(node, bytes)).count();
                assert!(domains.len() >= floor || could == 0, "{}: {domains:?}", title.path);
            }
        }
    }
}

fn size(input: &PlacementInput, path: &str) -> u128 {
    let title = input.titles.iter().find(|title| title.path == path).expect("it is in the catalog");
    u128::from(title.bytes.max(1))
}

#[test]
fn every_plan_keeps_room_churn_pins_and_floors() {
    let mut full = 0;
    for seed in 0..FLEETS {
        let input = draw::input(&mut Rng::with_seed(seed));
        let plan = plan(input.clone()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let case = Case::new(&input, &plan);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            case.room_and_churn();
            case.pins();
            case.floors();
        }));
        assert!(outcome.is_ok(), "seed {seed}: {:?} {:?}", input.policy, input.nodes);
        full += u64::from(plan.floors_unmet > 0);
        assert!(plan.near_after_bytes <= plan.watched_bytes);
    }
    assert!((FLEETS / 50..FLEETS * 49 / 50).contains(&full), "{full} fleets are too small");
}

/// The whole plan, as text.
fn told(plan: &Plan) -> String {
    let manifests: Vec<_> = plan.manifests().map(|manifest| manifest.digest()).collect();
    let moves: Vec<_> = plan.moves().collect();
    let near = (plan.watched_bytes, plan.near_before_bytes, plan.near_after_bytes);
    format!("{manifests:?} {moves:?} {near:?} {} {}", plan.pins_unmet, plan.floors_unmet)
}

#[test]
fn the_order_of_the_input_does_not_matter() {
    for seed in 0..2_000 {
        let mut random = Rng::with_seed(seed);
        let input = draw::input(&mut random);
        let mut other = input.clone();
        let mut order: Vec<u32> = (0..input.titles.len() as u32).collect();
        random.shuffle(&mut order);
        let place = |title: u32| order[title as usize];
        for (old, new) in order.iter().enumerate() {
            other.titles[*new as usize] = input.titles[old].clone();
        }
        for node in &mut other.nodes {
            node.holds = node.holds.iter().map(|title| place(*title)).collect();
            random.shuffle(&mut node.holds);
        }
        for region in &mut other.demand {
            region.titles.iter_mut().for_each(|demand| demand.title = place(demand.title));
            random.shuffle(&mut region.titles);
        }
        random.shuffle(&mut other.nodes);
        random.shuffle(&mut other.demand);
        let (one, two) = (plan(input).expect("a good input"), plan(other).expect("a good input"));
        assert_eq!(told(&one), told(&two), "seed {seed}");
    }
}

#[test]
fn pins_and_floors_come_to_rest() {
    for seed in 0..2_000 {
        let mut input = draw::input(&mut Rng::with_seed(seed));
        input.policy.churn_bytes_max = None;
        input.nodes.iter_mut().for_each(|node| node.fill_bytes_max = None);
        let comes_to_rest = (0..8).any(|_| {
            let plan = plan(input.clone()).expect("a good input");
            for (at, name) in plan.nodes().enumerate() {
                let node = input.nodes.iter_mut().find(|node| node.name == *name);
                node.expect("it is one").holds = plan.holds(at).to_vec();
            }
            plan.moves().all(|step| step.why == Why::Demand)
        });
        assert!(comes_to_rest, "seed {seed}: {:?} {:?}", input.policy, input.nodes);
    }
}
