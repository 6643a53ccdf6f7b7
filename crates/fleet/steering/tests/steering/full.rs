//! The conditions for a full node.

use fullbore_steering::Fleet;

use crate::build::{Builder, node};

#[test]
fn a_full_node_stays_full_until_it_is_roomy() {
    let mut before: Option<Fleet> = None;
    let course = [(899, false), (900, true), (850, true), (801, true), (800, false), (850, false)];
    for (load, expected) in course {
        let mut snapshot = Builder::default().with(node("a", "s")).snapshot();
        snapshot.nodes[0].load_permille = load;
        let fleet = Fleet::new(snapshot, before.as_ref()).expect("a good snapshot");
        assert_eq!(fleet.snapshot().nodes[0].full, expected, "at {load}");
        // A reader of the published snapshot makes the same decisions without the previous one.
        let again = Fleet::new(fleet.snapshot().clone(), None).expect("a good snapshot");
        assert_eq!(again.snapshot(), fleet.snapshot());
        before = Some(fleet);
    }
}

#[test]
fn an_index_made_from_the_one_before_is_as_a_new_one() {
    let base = || {
        let builder = Builder::default().with(node("a", "s")).with(node("b", "t"));
        builder.announced("s", "192.0.2.0/24").snapshot()
    };
    let before = Fleet::new(base(), None).expect("a good snapshot");
    let mut changed: Vec<fleet_protocol::FleetSnapshot> = (0..6).map(|_| base()).collect();
    changed[0].nodes[0].holds.clear();
    changed[1].sites[0].announced.clear();
    changed[2].sites[1].latitude = Some(1.0);
    changed[3].nodes[0].ceiling_bits_per_second = 1;
    changed[4].titles[0].path = "films/zebra".to_owned();
    changed[5].nodes[0].place.site = "t".parse().expect("a name");
    for (number, snapshot) in changed.into_iter().enumerate() {
        let shared = Fleet::new(snapshot.clone(), Some(&before)).expect("a good snapshot");
        let own = Fleet::new(snapshot, None).expect("a good snapshot");
        for viewer in 0..64 {
            let mut question = crate::build::question("192.0.2.1");
            question.viewer = viewer;
            let (shared, own) = (
                fullbore_steering::decide(&shared, &question),
                fullbore_steering::decide(&own, &question),
            );
            assert_eq!(shared, own, "change {number}");
        }
    }
}
