//! An index that is updated in place.

use fastrand::Rng;
use fleet_protocol::{FleetSnapshot, State};
use fullbore_steering::{Fleet, FleetChanges, Question, decide};

use crate::draw;

/// Draws a change, and also applies it to the snapshot.
struct Drawn {
    reports: Vec<(State, u16)>,
    came: Vec<(u32, u32)>,
    went: Vec<(u32, u32)>,
}

impl Drawn {
    fn new(snapshot: &mut FleetSnapshot, random: &mut Rng) -> Self {
        let mut drawn = Self { reports: Vec::new(), came: Vec::new(), went: Vec::new() };
        snapshot.number += 1;
        for (at, node) in (0..).zip(&mut snapshot.nodes) {
            if random.u8(..3) == 0 {
                node.state = [State::Serving, State::Lost, State::Revoked][random.usize(..3)];
            }
            node.load_permille = random.u16(700..1000);
            drawn.reports.push((node.state, node.load_permille));
            for title in 0..snapshot.titles.len() as u32 {
                match (node.holds.binary_search(&title), random.u8(..4)) {
                    (Err(place), 0) => {
                        node.holds.insert(place, title);
                        drawn.came.push((at, title));
                    }
                    (Ok(place), 0) => {
                        node.holds.remove(place);
                        drawn.went.push((at, title));
                    }
                    _ => {}
                }
            }
        }
        random.shuffle(&mut drawn.came);
        drawn
    }
}

#[test]
fn a_renewed_index_decides_as_a_new_one() {
    let mut changed = 0;
    for seed in 0..500 {
        let mut random = Rng::with_seed(seed);
        let mut fleet = Fleet::new(draw::fleet(&mut random), None).expect("a good snapshot");
        let mut snapshot = fleet.snapshot().clone();
        for _ in 0..3 {
            let drawn = Drawn::new(&mut snapshot, &mut random);
            let next = Fleet::new(snapshot.clone(), Some(&fleet)).expect("a good snapshot");
            let (reports, came, went) = (&drawn.reports[..], &drawn.came[..], &drawn.went[..]);
            fleet.renew(&FleetChanges { number: snapshot.number, reports, came, went });
            assert_eq!(fleet.snapshot(), next.snapshot(), "seed {seed}");
            for viewer in 0..20 {
                let question = Question {
                    address: draw::address(&mut random, true),
                    title: crate::build::TITLE,
                    viewer,
                    region: None,
                    playing: None,
                };
                assert_eq!(decide(&fleet, &question), decide(&next, &question), "seed {seed}");
            }
            changed += came.len() + went.len();
            snapshot = next.snapshot().clone();
        }
    }
    assert!(changed > 5_000, "{changed} copies came or went");
}
