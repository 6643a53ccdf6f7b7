//! Fleets that show one idea each, and invalid input.

use fleet_protocol::NodeKind;
use fullbore_placement::{
    ClusterManifest, Pin, PinScope, PlacementError, PlacementInput, Plan, RegionDemand,
    TitleDemand, Why, plan,
};

use crate::draw::{name, node, title};

fn demand(region: &str, titles: &[(u32, u64, u64)]) -> RegionDemand {
    let demand = |&(title, starts, bytes): &(u32, u64, u64)| TitleDemand { title, starts, bytes };
    RegionDemand { region: name(region), titles: titles.iter().map(demand).collect() }
}

fn planned(input: &PlacementInput) -> Plan {
    plan(input.clone()).expect("a good input")
}

/// Six nodes at three sites, forty titles of 100 bytes, each watched less than the one before.
fn fleet() -> PlacementInput {
    let nodes = ["a1", "a2", "b1", "b2", "c1", "c2"];
    let watched: Vec<_> =
        (0..40).map(|title| (title, 1000, 100_000 / u64::from(title + 1))).collect();
    PlacementInput {
        titles: (0..40).map(|number| title(number, 100)).collect(),
        nodes: nodes.map(|own| node(own, &own[..1], 2500)).into(),
        demand: vec![demand("north", &watched)],
        ..Default::default()
    }
}

/// The next day's input: nodes hold the titles that the plan assigned.
fn next_day(mut input: PlacementInput, plan: &Plan) -> PlacementInput {
    for (at, own) in plan.nodes().enumerate() {
        let node = input.nodes.iter_mut().find(|node| node.name == *own).expect("it is one");
        node.holds = plan.holds(at).to_vec();
    }
    input
}

#[test]
fn nothing_to_plan_is_a_plan() {
    let empty = planned(&PlacementInput::default());
    assert_eq!((empty.moves().len(), empty.manifests().count()), (0, 0));
    let no_nodes = PlacementInput { nodes: Vec::new(), ..fleet() };
    assert_eq!(planned(&no_nodes).floors_unmet, 120);
    let no_titles = PlacementInput { titles: Vec::new(), demand: Vec::new(), ..fleet() };
    assert_eq!(planned(&no_titles).manifests().count(), 3);
}

#[test]
fn a_title_that_fits_nowhere_is_told_and_hurts_no_other() {
    let mut input = fleet();
    let without = planned(&input);
    input.titles.push(title(99, 2501));
    let plan = planned(&input);
    assert_eq!(plan.floors_unmet, 3);
    assert_eq!(plan.moves().len(), without.moves().len());
    input.nodes.iter_mut().for_each(|node| node.room_bytes = 0);
    assert_eq!(planned(&input).moves().len(), 0);
}

#[test]
fn the_same_day_again_moves_nothing() {
    let input = fleet();
    let first = planned(&input);
    assert!(first.moves().len() > 100);
    let again = planned(&next_day(input, &first));
    assert_eq!(again.moves().len(), 0);
    assert_eq!(again.near_before_bytes, again.near_after_bytes);
    assert_eq!(again.near_after_bytes, first.near_after_bytes);
}

#[test]
fn a_manifest_says_why_and_is_read_as_it_was_written() {
    let mut input = fleet();
    let pin = Pin { scope: PinScope::Everywhere, copies: 2 };
    input.titles[7].pins = vec![pin];
    let plan = planned(&input);
    let mut seen = std::collections::BTreeSet::new();
    for manifest in plan.manifests() {
        let read = ClusterManifest::from_bytes(&manifest.to_bytes()).expect("a manifest");
        assert_eq!(read, manifest);
        for title in &manifest.titles {
            assert_eq!(title.on.len(), title.why.len());
            let is_pinned = title.path == input.titles[7].path;
            assert!(title.why.iter().all(|why| (*why == Why::Pin) == is_pinned), "{title:?}");
            seen.extend(title.why.iter().copied());
        }
        let mut broken = manifest.clone();
        broken.titles[0].on[0] = 99;
        assert!(ClusterManifest::from_bytes(&broken.to_bytes()).is_err());
    }
    assert_eq!(Vec::from_iter(seen), [Why::Pin, Why::Floor, Why::Demand]);
}

#[test]
fn a_site_that_lacks_room_says_how_much_more_it_could_use() {
    let mut input = fleet();
    let roomy = planned(&input).sites();
    assert!(roomy.iter().all(|site| site.held_bytes <= site.room_bytes), "{roomy:?}");
    input.nodes.iter_mut().for_each(|node| node.room_bytes = 300);
    let tight = planned(&input).sites();
    for (roomy, tight) in roomy.iter().zip(&tight) {
        assert_eq!(tight.watched_bytes, roomy.watched_bytes);
        assert!(tight.near_bytes < roomy.near_bytes && tight.lacking_bytes > roomy.lacking_bytes);
    }
}

#[test]
fn what_is_watched_more_comes_nearer_and_what_is_not_worth_it_stays() {
    let mut input = fleet();
    input.nodes.iter_mut().for_each(|node| node.room_bytes = 1000);
    input.policy.floor_copies = 0;
    let first = planned(&input);
    let mut second_day = next_day(input, &first);
    // Slightly more for a title that is nowhere: within the margin.
    second_day.demand[0].titles[20].bytes = 100_000 / 20 + 10;
    assert_eq!(planned(&second_day).moves().len(), 0);
    second_day.demand[0].titles[39].bytes = 90_000;
    let plan = planned(&second_day);
    assert!(plan.near_after_bytes > plan.near_before_bytes);
    let moves: Vec<_> = plan.moves().collect();
    assert!(moves.len() >= 3 && moves.iter().all(|step| step.title == 39), "{moves:?}");
    assert!(moves.iter().all(|step| step.why == Why::Demand && step.watched_bytes == 30_000));
    // A limit on churn leaves the most valuable of them.
    second_day.policy.churn_bytes_max = Some(150);
    assert_eq!(planned(&second_day).moves().len(), 1);
}

#[test]
fn unlike_nodes_get_titles_by_their_weights() {
    let mut input = fleet();
    input.titles = (0..2000).map(|number| title(number, 100)).collect();
    input.nodes = vec![node("small", "a", 1 << 40), node("large", "a", 1 << 40)];
    input.nodes[1].ceiling_bits_per_second *= 4;
    let watched: Vec<_> = (0..2000).map(|title| (title, 1000, 1000)).collect();
    input.demand = vec![demand("north", &watched)];
    input.policy.floor_copies = 1;
    // A further copy is worth too little here.
    input.policy.worth_permille = 9_000;
    let plan = planned(&input);
    let (large, small) = (plan.holds(0).len(), plan.holds(1).len());
    assert_eq!(large + small, 2000);
    // 4 : 1 by single orders; the lowest cost of eight orders favours the larger one a little.
    assert!((1500..=1950).contains(&large), "{large} and {small}");
}

#[test]
fn flash_takes_what_is_in_demand_alone() {
    let mut input = fleet();
    input.nodes.iter_mut().for_each(|node| node.room_bytes = 1 << 20);
    input.nodes[0].kind = NodeKind::Flash;
    input.policy.floor_copies = 1;
    input.policy.worth_permille = 0;
    let plan = planned(&input);
    // Two tenths of 40 titles are 8.
    assert!(plan.holds(0).iter().all(|title| *title < 8), "{:?}", plan.holds(0));
    assert!(!plan.holds(0).is_empty() && plan.holds(1).len() > 20);
}

#[test]
fn titles_with_few_starts_join_the_rest() {
    let mut input = fleet();
    input.titles.truncate(4);
    input.policy.floor_copies = 0;
    // Nine starts, three starts and none are pooled; ten are not.
    input.demand = vec![demand("north", &[(0, 10, 3000), (1, 9, 2999), (2, 3, 1)])];
    let watched: Vec<u64> = {
        let mut steps: Vec<_> = planned(&input).moves().collect();
        steps.retain(|step| step.node == 0 || step.node == 1);
        steps.sort_by_key(|step| step.title);
        steps.dedup_by_key(|step| step.title);
        steps.iter().map(|step| step.watched_bytes).collect()
    };
    assert_eq!(watched, [1000, 333, 333, 333]);
}

#[test]
fn pins_come_before_all_else() {
    let mut input = fleet();
    input.nodes.iter_mut().for_each(|node| node.room_bytes = 100);
    input.titles[39].pins = vec![Pin { scope: PinScope::Site(name("b")), copies: 2 }];
    let plan = planned(&input);
    assert_eq!((plan.holds(2), plan.holds(3)), (&[39][..], &[39][..]));
    assert_eq!(plan.pins_unmet, 0);
    assert_eq!(plan.moves().filter(|step| step.why == Why::Pin).count(), 2);
}

#[test]
fn what_is_new_displaces_third_copies_but_no_last_one() {
    let mut input = fleet();
    // Room for 120 copies, which is what forty titles want.
    input.nodes.iter_mut().for_each(|node| node.room_bytes = 2000);
    let mut second_day = next_day(input.clone(), &planned(&input));
    second_day.titles.extend([title(97, 100), title(98, 100)]);
    let plan = planned(&second_day);
    let copies = |number: u32| (0..6).filter(|n| plan.holds(*n).contains(&number)).count();
    assert!((0..42).all(|number| copies(number) >= 2), "{:?}", (0..42).map(copies));
    assert_eq!((plan.moves().len(), plan.floors_unmet), (4, 6));
    // After that it stays.
    assert_eq!(planned(&next_day(second_day, &plan)).moves().len(), 0);
}

#[test]
fn copies_move_apart_when_a_site_comes_back() {
    let mut input = fleet();
    input.policy.worth_permille = u32::MAX;
    let lost = input.nodes.split_off(4);
    let without = planned(&input);
    assert_eq!((without.moves().len(), without.floors_unmet), (100, 20));
    let mut back = next_day(input, &without);
    back.nodes.extend(lost);
    let plan = planned(&back);
    for number in 0..40 {
        let sites = [0..2, 2..4, 4..6].map(|mut n| n.any(|n| plan.holds(n).contains(&number)));
        assert_eq!(sites, [true; 3], "title {number}");
    }
    assert_eq!((plan.moves().len(), plan.floors_unmet), (40, 0));
}

#[test]
fn wrong_input_is_refused_by_name() {
    let refused = |change: &dyn Fn(&mut PlacementInput)| {
        let mut input = fleet();
        change(&mut input);
        plan(input).map(|_| ()).expect_err("it is wrong")
    };
    let twice = refused(&|input| input.nodes[1].name = name("a1"));
    assert_eq!(twice, PlacementError::NodeTwice(name("a1")));
    let twice = refused(&|input| input.titles[1] = title(0, 1));
    assert_eq!(twice, PlacementError::TitleTwice("films/000".to_owned()));
    let regions = refused(&|input| input.nodes[1].region = name("south"));
    assert_eq!(regions, PlacementError::TwoRegions(name("a")));
    let missing = refused(&|input| input.nodes[1].holds.push(40));
    assert_eq!(missing, PlacementError::NoSuchTitle(40));
    let missing = refused(&|input| input.demand[0].titles[0].title = u32::MAX);
    assert_eq!(missing, PlacementError::NoSuchTitle(u32::MAX));
}
