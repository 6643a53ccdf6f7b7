//! Adding pathways to a title's manifest. The first byte chooses the kind of manifest.
//!
//! Checks that nothing panics; that the result is a manifest of that kind; that everything that a player fetches by it is below the title's folder
//! on the pathway's own node; and that the steering server is ours.

#![no_main]

use libfuzzer_sys::fuzz_target;
use player::manifest::ManifestError;
use player::{Presentation, Reference, Source, Url};
use viewer_api::manifest::{ManifestKind, ManifestTemplate, NodeAddress};

const STEERING: &str = "https://gateway.example/steering?s=1.7.a_b.00.film";

const FOLDERS: [&str; 3] = [
    "https://a.example:8443/films/a/",
    "https://b.example:8443/films/a/",
    "https://[2001:db8::3]:8443/films/a/",
];

fn nodes() -> [NodeAddress<'static>; 3] {
    let ids = ["node-a", "node-b", "node-c"];
    std::array::from_fn(|nth| NodeAddress { id: ids[nth], folder: FOLDERS[nth].to_owned() })
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, text)) = bytes.split_first() else { return };
    let kind = if first % 2 == 0 { ManifestKind::Hls } else { ManifestKind::Dash };
    let Ok(template) = ManifestTemplate::parse(kind, text) else { return };
    let written = template.write(&nodes(), STEERING);
    match kind {
        ManifestKind::Hls => check_playlist(&written),
        ManifestKind::Dash => check_elements(&written),
    }
    let url: Url = "https://gateway.example/play/films/a/manifest".parse().expect("a URL");
    match Presentation::parse(&url, written.as_bytes()) {
        Ok(presentation) => check(&presentation),
        // Times, indexes and counts that no player accepts stay in the manifest.
        Err(ManifestError::Neither | ManifestError::NotText) => panic!("{written}"),
        Err(_) => {}
    }
});

/// Checks that all lines without a tag are addresses of our nodes, and that there is exactly one steering server.
fn check_playlist(text: &str) {
    let is_ours = |line: &str| FOLDERS.iter().any(|folder| line.starts_with(folder));
    let addresses = text.lines().filter(|line| !line.starts_with('#'));
    addresses.for_each(|line| assert!(is_ours(line), "{line}"));
    for line in text.lines() {
        // Quotes do not nest, so every second part stands between quotes. An id may end in "URI=", too.
        let mut parts = line.split('"');
        while let (Some(before), Some(quoted)) = (parts.next(), parts.next()) {
            let is_reference = before.ends_with("URI=") && !before.ends_with("SERVER-URI=");
            assert!(!is_reference || is_ours(quoted), "{before}{quoted}");
        }
    }
    let steers = |line: &&str| line.starts_with("#EXT-X-CONTENT-STEERING:");
    assert_eq!(text.lines().filter(steers).count(), 1);
}

fn check_elements(text: &str) {
    let document = roxmltree::Document::parse(text).expect("XML");
    let named = |name: &str| {
        let nodes = document.root_element().children();
        nodes.filter(|node| node.tag_name().name() == name).count()
    };
    assert_eq!((named("BaseURL"), named("ContentSteering")), (3, 1));
}

fn check(presentation: &Presentation) {
    let ids: Vec<_> = presentation.pathways.iter().map(|pathway| pathway.id.as_str()).collect();
    assert_eq!(ids, ["node-a", "node-b", "node-c"]);
    let steering = presentation.steering.as_ref().expect("a steering server");
    assert_eq!(steering.url.to_string(), STEERING);
    let renditions = presentation.tracks.iter().flat_map(|track| &track.renditions);
    for (source, folder) in renditions.flat_map(|one| one.sources.iter().zip(FOLDERS)) {
        let is_below = |reference: &Reference| {
            let url = reference.url.to_string();
            assert!(url.starts_with(folder), "{url}");
        };
        source.document().into_iter().for_each(is_below);
        if let Source::Listed(segments) = source {
            segments.start.iter().for_each(is_below);
            segments.list.iter().map(|segment| &segment.reference).for_each(is_below);
        }
    }
}
