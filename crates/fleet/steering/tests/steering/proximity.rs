//! The first site.

use fullbore_steering::{ChoiceReason, Label, decide};

use crate::build::{Builder, names, node, question};

fn one_node_each(sites: &[&str], builder: Builder) -> Builder {
    sites.iter().fold(builder, |builder, site| builder.with(node(&format!("{site}-1"), site)))
}

#[test]
fn the_longest_prefix_wins_then_the_as_path_then_the_med() {
    let fleet = one_node_each(&["a", "b", "c", "d"], Builder::default())
        .announced_by("a", "192.0.2.0/24", 9, 9)
        .announced_by("b", "192.0.0.0/16", 1, 5)
        .announced_by("c", "192.0.0.0/16", 1, 4)
        .announced_by("d", "192.0.0.0/16", 0, 9)
        .fleet();
    let near = decide(&fleet, &question("192.0.2.1"));
    assert_eq!(names(&fleet, &near), ["a-1", "d-1", "c-1"]);
    let far = decide(&fleet, &question("192.0.3.1"));
    assert_eq!(names(&fleet, &far), ["d-1", "c-1", "b-1"]);
    assert!(near.ranked.iter().all(|ranked| ranked.reason == ChoiceReason::Prefix));
    assert_eq!(far.matched, "192.0.0.0/16".parse().ok());
}

#[test]
fn ipv6_has_prefixes_of_its_own() {
    let fleet = one_node_each(&["a", "b"], Builder::default())
        .announced("a", "0.0.0.0/0")
        .announced("b", "2001:db8::/32")
        .fleet();
    assert_eq!(names(&fleet, &decide(&fleet, &question("2001:db8::1")))[0], "b-1");
    assert_eq!(names(&fleet, &decide(&fleet, &question("::ffff:192.0.2.1")))[0], "a-1");
    assert_eq!(decide(&fleet, &question("2001:db9::1")).matched, None);
}

/// Three cities in one region and one in another, some with the default route that all of them announce.
fn cities() -> Builder {
    let builder = Builder::default()
        .site("amsterdam", "europe", Some((52.4, 4.9)))
        .site("frankfurt", "europe", Some((50.1, 8.7)))
        .site("lisbon", "europe", Some((38.7, -9.1)))
        .site("somewhere", "europe", None)
        .site("tokyo", "asia", Some((35.7, 139.7)));
    one_node_each(&["amsterdam", "frankfurt", "lisbon", "somewhere", "tokyo"], builder)
}

#[test]
fn other_sites_follow_by_region_and_distance() {
    let fleet = cities().announced("amsterdam", "192.0.2.0/24").fleet();
    let decision = decide(&fleet, &question("192.0.2.1"));
    assert_eq!(names(&fleet, &decision), ["amsterdam-1", "frankfurt-1", "lisbon-1"]);
    let reasons: Vec<_> = decision.ranked.iter().map(|ranked| ranked.reason).collect();
    assert_eq!(reasons, [ChoiceReason::Prefix, ChoiceReason::Near, ChoiceReason::Near]);
    // A site without coordinates is in its region, but not near.
    let fleet = cities().announced("somewhere", "192.0.2.0/24").fleet();
    let decision = decide(&fleet, &question("192.0.2.1"));
    assert_eq!(decision.ranked[1].reason, ChoiceReason::Region);
    assert!(!names(&fleet, &decision).contains(&"tokyo-1"));
}

#[test]
fn of_those_that_all_announce_the_nearest_to_the_best_comes_first() {
    let mut builder = cities().announced("lisbon", "192.0.2.0/24");
    for site in ["amsterdam", "frankfurt", "lisbon", "somewhere", "tokyo"] {
        builder = builder.announced(site, "0.0.0.0/0");
    }
    let fleet = builder.fleet();
    for viewer in 0..20 {
        let mut question = question("192.0.2.1");
        question.viewer = viewer;
        let decision = decide(&fleet, &question);
        assert_eq!(names(&fleet, &decision), ["lisbon-1", "amsterdam-1", "frankfurt-1"]);
    }
}

#[test]
fn sites_that_routing_does_not_tell_apart_share_their_viewers() {
    let fleet = one_node_each(&["a", "b", "c"], Builder::default())
        .announced("a", "192.0.2.0/24")
        .announced("b", "192.0.2.0/24")
        .fleet();
    let mut first = [0; 3];
    for viewer in 0..1000 {
        let mut question = question("192.0.2.1");
        question.viewer = viewer;
        first[decide(&fleet, &question).ranked[0].node] += 1;
    }
    assert!(first[0] > 400 && first[1] > 400 && first[2] == 0, "{first:?}");
}

#[test]
fn a_site_without_the_title_is_a_miss_for_want_of_content() {
    let mut empty = node("a-1", "a");
    empty.holds.clear();
    let builder = Builder::default().with(empty).with(node("b-1", "b"));
    let fleet = builder.announced("a", "192.0.2.0/24").fleet();
    let decision = decide(&fleet, &question("192.0.2.1"));
    assert_eq!(names(&fleet, &decision), ["b-1"]);
    assert_eq!((decision.label, decision.first_choice), (Some(Label::Content), Some(0)));
}

#[test]
fn a_full_node_is_a_miss_for_its_health() {
    let mut full = node("a-1", "a");
    full.load_permille = 950;
    let builder = Builder::default().with(full).with(node("b-1", "b"));
    let fleet = builder.announced("a", "192.0.2.0/24").fleet();
    let decision = decide(&fleet, &question("192.0.2.1"));
    assert_eq!(names(&fleet, &decision), ["b-1", "a-1"]);
    assert_eq!((decision.label, decision.first_choice), (Some(Label::Health), Some(0)));
}
