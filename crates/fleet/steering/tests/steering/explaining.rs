//! Explanations for operators.

use fleet_protocol::{SheddingReason, State};
use fullbore_steering::{Playing, explain};

use crate::build::{Builder, node, question};

#[test]
fn an_explanation_names_sites_nodes_and_the_answer_with_reasons() {
    let (mut lacks, mut full, mut drains, mut sick) =
        (node("ams-1", "ams"), node("ams-2", "ams"), node("fra-1", "fra"), node("fra-2", "fra"));
    lacks.holds.clear();
    full.load_permille = 934;
    drains.state = State::Draining;
    sick.not_me = vec![SheddingReason::DiskErrors];
    let builder = Builder::default()
        .site("ams", "europe", Some((52.4, 4.9)))
        .site("fra", "europe", Some((50.1, 8.7)))
        .site("lis", "europe", Some((38.7, -9.1)));
    let nodes = [lacks, full, drains, sick, node("lis-1", "lis")];
    let builder = nodes.into_iter().fold(builder, Builder::with);
    let fleet = builder.announced_by("ams", "192.0.2.0/24", 2, 10).fleet();
    let mut question = question("192.0.2.1");
    question.playing = Some(Playing::from("fra-1"));
    let told = explain(&fleet, &question);
    let expected = "\
192.0.2.1 asks for films/tears (snapshot 7 of gw, epoch 1)
The longest announced prefix that contains the address is 192.0.2.0/24.
It plays from fra-1 (draining), and has to leave it.

Sites, best first:
  1. ams: announces 192.0.2.0/24, AS path length 2, MED 10
       ams-1: takes viewers, at 10.0 % of its ceiling, lacks the title
       ams-2: full, at 93.4 % of its ceiling
  2. fra: 368 km from ams (region europe)
       fra-1: draining
       fra-2: serves badly (disk_errors), at 10.0 % of its ceiling
  3. lis: 1866 km from ams (region europe)
       lis-1: takes viewers, at 10.0 % of its ceiling

Answer, good for 23 s:
  1. lis-1 (site lis, cluster c): near
  2. ams-2 (site ams, cluster c): prefix
  3. fra-2 (site fra, cluster c): near
Label H: the first choice is ams-2, but it is full, at 93.4 % of its ceiling.
";
    assert_eq!(told, expected);
}

#[test]
fn far_sites_are_counted_not_listed() {
    let mut builder = Builder::default();
    for number in 0..40 {
        let mut node = node(&format!("n{number}"), &format!("s{number}"));
        node.holds.retain(|_| number == 0);
        builder = builder.with(node);
    }
    let told = explain(&builder.fleet(), &question("192.0.2.1"));
    assert!(told.lines().count() < 40, "{told}");
    assert!(told.contains("1. n0 (site s0"), "{told}");
}
