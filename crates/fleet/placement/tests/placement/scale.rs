//! A full-size fleet. Run it as a release build: cargo test --release -p fullbore-placement --test placement -- --ignored --nocapture

use std::time::Instant;

use fullbore_placement::{PlacementInput, RegionDemand, TitleDemand, plan};

use crate::draw::{name, node, title};

#[test]
#[ignore = "takes a release build and gigabytes: it prints how long a plan of full size takes"]
fn ten_thousand_nodes_and_a_hundred_thousand_titles_are_planned() {
    let (nodes, titles, regions) = (10_000, 100_000u32, 20);
    let mut input = PlacementInput {
        titles: (0..titles as usize).map(|number| title(number, 4_000_000_000)).collect(),
        ..Default::default()
    };
    for number in 0..nodes {
        let site = number / 10;
        let mut node =
            node(&format!("n{number:05}"), &format!("s{site:04}"), 9_000 * 4_000_000_000);
        node.region = name(&format!("r{}", site % regions));
        input.nodes.push(node);
    }
    for region in 0..regions {
        let demand = |at: u32| {
            let starts = 1_000_000.0 / 45.0 * f64::from(at + 1).powf(-0.8);
            TitleDemand { title: at, starts: starts as u64, bytes: (starts * 3e9) as u64 }
        };
        let titles = (0..titles).map(demand).collect();
        input.demand.push(RegionDemand { region: name(&format!("r{region}")), titles });
    }
    let begin = Instant::now();
    let first = plan(input.clone()).expect("a good input");
    let share = |near: u128| near as f64 / first.watched_bytes as f64;
    println!("the first plan: {:?}, {} moves", begin.elapsed(), first.moves().len());
    println!("near: {:.4} -> {:.4}", share(first.near_before_bytes), share(first.near_after_bytes));
    for (at, node) in input.nodes.iter_mut().enumerate() {
        node.holds = first.holds(at).to_vec();
    }
    drop(first);
    input.policy.churn_bytes_max = Some(1_000_000_000_000_000);
    for region in &mut input.demand {
        region.titles.iter_mut().for_each(|demand| demand.bytes ^= u64::from(demand.title) << 24);
    }
    let begin = Instant::now();
    let second = plan(input).expect("a good input");
    println!("the next day's: {:?}, {} moves", begin.elapsed(), second.moves().len());
}
