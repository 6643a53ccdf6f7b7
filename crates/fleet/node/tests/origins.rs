//! Titles whose origin is a web server, honest and malicious, with real folders and sockets.

mod folders;
mod peers;

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use fleet_protocol::{OriginRoot, PublishedTitle};
use folders::{Box, Folders, film};
use fullbore_node::HoldingOptions;
use fullbore_tests::{Launch, certificate, until};
use peers::{Manner, Peers};
use tls::client::Trust;

/// A box that may copy from `allowed`, with `title` published from the origin `root`.
fn box_with(folders: &Folders, title: &PublishedTitle, root: &str, allowed: &[&str]) -> Box {
    let origins = allowed.iter().map(|text| text.parse::<OriginRoot>().unwrap()).collect();
    let one = folders.open_with(HoldingOptions {
        origins,
        trust: Trust::AnyCertificate,
        ..folders.options()
    });
    let one = one.start();
    one.desire(&[&PublishedTitle { origin: root.to_owned(), ..title.clone() }], &[]);
    one
}

/// Returns the reported reason why a title cannot be copied.
fn refusal(one: &Box, title: &PublishedTitle) -> String {
    until("it to be refused", || one.trouble(&title.path).is_some());
    assert!(!one.holds(title));
    one.trouble(&title.path).unwrap()
}

#[test]
fn a_title_comes_from_a_web_server_in_ranges_with_and_without_tls() {
    let origin = Folders::default();
    let title = origin.publish("films/a film", &film(1));
    let plain = Launch::of(origin.root()).arguments("--tls off").start();
    let sealed = Launch::of(origin.root()).start();
    let roots = [format!("http://{}", plain.address), format!("https://{}", sealed.address)];
    for root in roots {
        let folders = Folders::default();
        let one = box_with(&folders, &title, &format!("{root}/origin/"), &[&root]);
        until("the title to arrive", || one.holds(&title));
        assert_eq!(fs::read(folders.film("films/a film")).unwrap(), film(1));
        assert!(one.replicator.status().fill.counts.origin_bytes > title.bytes);
    }
}

#[test]
fn an_origin_whose_certificate_nobody_trusts_is_not_asked_for_anything() {
    let origin = Folders::default();
    let title = origin.publish("film", &film(2));
    let server = Launch::of(&origin.origin()).start();
    let root = format!("https://{}", server.address);
    let folders = Folders::default();
    let origins = vec![root.parse().unwrap()];
    let trust = Trust::File(certificate(origin.root(), "strangers", "ec").cert);
    let one = folders.open_with(HoldingOptions { origins, trust, ..folders.options() }).start();
    one.desire(&[&PublishedTitle { origin: root, ..title.clone() }], &[]);
    let why = refusal(&one, &title);
    assert!(why.contains("cannot be reached"), "{why}");
}

/// Neither a publisher nor a gateway may make nodes connect to machines that their operators did not name.
#[test]
fn a_node_asks_no_machine_that_its_operator_has_not_named() {
    let origin = Folders::default();
    let title = origin.publish("film", &film(3));
    let mut peers = Peers::new(50);
    peers.add("n2", "c1", &origin.origin(), Manner::Honest);
    let (web, folder) = (peers.last(), title.origin.clone());
    let elsewhere = "https://elsewhere.example/films";
    for (root, allowed) in [(&web, &[][..]), (&web, &[elsewhere]), (&folder, &[elsewhere])] {
        let folders = Folders::default();
        let one = box_with(&folders, &title, root, allowed);
        let why = refusal(&one, &title);
        assert!(why.contains(&format!("fullbore node --origin {root}")), "{why}");
    }
    assert_eq!(peers.nodes[0].sent_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn what_a_web_server_should_not_send_is_refused_with_its_reason() {
    let cases = [
        (Manner::Lies, "does not match its SHA-256"),
        (Manner::OtherPart, "another part"),
        (Manner::Whole, "does not serve that file"),
        (Manner::Ends, "ended the connection"),
        (Manner::TooMuch, "another part"),
        (Manner::Redirects, "redirects, which is never followed"),
        (Manner::Lacks, "does not serve that file"),
        (Manner::Stalls, "stopped sending"),
        (Manner::Resets, "ended the connection"),
        (Manner::OtherLength, "another part"),
        (Manner::NoPart, "another part"),
        (Manner::OtherRecord, "is not the record that was published"),
        (Manner::Away, "cannot be reached"),
    ];
    let origin = Folders::default();
    let title = origin.publish("film", &film(4));
    std::thread::scope(|scope| {
        for (number, (manner, reason)) in cases.into_iter().enumerate() {
            let (title, origin) = (&title, &origin);
            scope.spawn(move || {
                let mut peers = Peers::new(51 + number as u8);
                peers.add("n2", "c1", &origin.origin(), manner);
                let folders = Folders::default();
                let one = box_with(&folders, title, &peers.last(), &[&peers.last()]);
                let why = refusal(&one, title);
                assert!(why.contains(reason), "{manner:?}: {why}");
                assert!(!holds_a_film(&folders.library()), "{manner:?}: nothing is published");
            });
        }
    });
}

fn holds_a_film(library: &Path) -> bool {
    library.join("film").exists()
}
