//! A manifest of HLS or DASH, and a pathway cloned from its first one.
//!
//! Checks that nothing panics; that parsing it again gives the same result; that counts, times and memory are within their limits; that each
//! rendition has a source for each pathway; and that each URL can be requested.

#![no_main]

use fullbore_fuzz::manifests;
use libfuzzer_sys::fuzz_target;
use player::{PathwayClone, Presentation};

fuzz_target!(|bytes: &[u8]| {
    let url = manifests::url();
    let Ok(mut presentation) = Presentation::parse(&url, bytes) else { return };
    manifests::check_presentation(&presentation);
    assert_eq!(
        Presentation::parse(&url, bytes).as_ref(),
        Ok(&presentation),
        "it is read differently again"
    );
    let clone = PathwayClone {
        base_id: presentation.pathways[0].id.clone(),
        id: "a pathway that no manifest names".into(),
        host: Some("clone.example".into()),
        params: vec![("token".into(), "a&b".into())],
        variants: [("v".to_owned(), "v.m3u8".to_owned())].into(),
        renditions: [("r".to_owned(), "//r.example/".to_owned())].into(),
    };
    let count = presentation.pathways.len();
    match presentation.clone_pathway(&clone) {
        Ok(()) => assert_eq!(presentation.pathways.len(), count + 1),
        Err(_) => assert_eq!(presentation.pathways.len(), count),
    }
    manifests::check_presentation(&presentation);
});
