//! Lines of the decision log.

use fullbore_steering::{Logged, Playing, ReplayError, decide, replay};

use crate::build::{Builder, node, question};

#[test]
fn a_prefix_of_one_address_is_not_written() {
    let fleet = Builder::default().with(node("a", "s")).announced("s", "192.0.2.7/32").fleet();
    let question = question("192.0.2.7");
    let decision = decide(&fleet, &question);
    assert!(decision.matched.is_some());
    let logged = Logged::new(&fleet, &question, &decision, 1);
    assert_eq!(logged.matched.as_deref(), Some("s#0"));
    assert!(!logged.to_line().contains("192.0.2.7"), "{}", logged.to_line());
    assert_eq!(replay(&fleet, &logged), Ok(decision));
}

#[test]
fn a_strangers_text_does_not_reach_the_log() {
    let fleet = Builder::default().with(node("a", "s")).fleet();
    let pathway = "x\n192.0.2.7";
    let mut question = question("192.0.2.7");
    question.playing = Some(Playing { pathway, bits_per_second: Some(u64::MAX) });
    let logged = Logged::new(&fleet, &question, &decide(&fleet, &question), 1);
    assert_eq!((logged.playing, logged.bits_per_second), (None, None));
}

#[test]
fn a_line_of_another_snapshot_is_refused() {
    let fleet = Builder::default().with(node("a", "s")).fleet();
    let question = question("192.0.2.7");
    let logged = Logged::new(&fleet, &question, &decide(&fleet, &question), 1);
    let other = Logged { snapshot: logged.snapshot + 1, ..logged.clone() };
    assert!(matches!(replay(&fleet, &other), Err(ReplayError::OtherSnapshot(..))));
    for text in ["192.0.2.0/24", "s#0", "t#0", "s#-1", "#", ""] {
        let prefix = Logged { matched: Some(text.to_owned()), ..logged.clone() };
        assert!(matches!(replay(&fleet, &prefix), Err(ReplayError::UnknownPrefix(_))), "{text}");
    }
    let viewer = Logged { viewer: "x".to_owned(), ..logged.clone() };
    assert_eq!(replay(&fleet, &viewer), Err(ReplayError::BadViewer));
}

#[test]
fn what_is_no_line_is_refused() {
    let fleet = Builder::default().with(node("a", "s")).fleet();
    let question = question("192.0.2.7");
    let line = Logged::new(&fleet, &question, &decide(&fleet, &question), 1).to_line();
    assert!(Logged::from_line(&line).is_ok());
    let newer = line.replace("\"version\":1", "\"version\":2");
    let unknown = line.replace("\"version\"", "\"address\":\"192.0.2.7\",\"version\"");
    for bad in ["", "{}", "null", &"[".repeat(10_000), &" ".repeat(100_000), &newer, &unknown] {
        assert!(Logged::from_line(bad).is_err());
    }
}
