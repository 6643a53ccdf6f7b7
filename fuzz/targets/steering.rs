//! The answer of a content steering server.
//!
//! Checks that nothing panics; that an answer is within its limits and names a pathway; that clones can be made one after another; and that
//! the next request can be sent and has the right parameters.

#![no_main]

use fullbore_fuzz::manifests;
use libfuzzer_sys::fuzz_target;
use player::{Answer, Format, Presentation, steering};
use std::time::Duration;

const MASTER: &[u8] =
    b"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1,STABLE-VARIANT-ID=\"v\",PATHWAY-ID=\"a\"\nv.m3u8\n";

fuzz_target!(|bytes: &[u8]| {
    let url = manifests::url();
    let Ok(answer) = Answer::parse(&url, bytes) else { return };
    assert!(answer.ttl >= Duration::from_secs(1) && answer.ttl <= Duration::from_secs(86_400));
    assert!((1..=64).contains(&answer.priority.len()) && answer.clones.len() <= 16);
    let mut presentation = Presentation::parse(&url, MASTER).expect("a presentation");
    for clone in &answer.clones {
        // This may fail, depending on the clone's host and URIs.
        let _ = presentation.clone_pathway(clone);
    }
    manifests::check_presentation(&presentation);
    let server = answer.reload.as_ref().unwrap_or(&url);
    for format in [Format::Hls, Format::Dash] {
        let request = steering::request(server, format, &answer.priority[0], Some(7));
        let text = request.path_and_query();
        assert!(text.ends_with("S_throughput=7") || text.ends_with("H_throughput=7"), "{text}");
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
    }
});
