//! Messages of any bytes between the server of a caching edge and its helper. The helper reads bytes from anyone, so the server must not
//! trust it.
//!
//! Checks that nothing panics; that a message that passes its check is within its limits, fits into one header line, and is the same after writing
//! and reading it; and that a map of an object's blocks can be made and accepts any block numbers.

#![no_main]

use disk::PresentBlocks;
use edge::contract::{Described, EdgeAsk, EdgeTold, OBJECT_BYTES_MAX, PassedResponse};
use libfuzzer_sys::fuzz_target;

/// Larger objects only have larger maps, so they are not tried.
const MAPPED_BYTES_MAX: u64 = 1 << 36;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(ask) = serde_json::from_slice::<EdgeAsk>(bytes) {
        let written = serde_json::to_vec(&ask).expect("it is plain JSON");
        assert_eq!(serde_json::from_slice::<EdgeAsk>(&written).expect("what was written"), ask);
    }
    let Ok(told) = serde_json::from_slice::<EdgeTold>(bytes) else { return };
    if told.check().is_err() {
        return;
    }
    let written = serde_json::to_vec(&told).expect("it is plain JSON");
    assert_eq!(serde_json::from_slice::<EdgeTold>(&written).expect("what was written"), told);
    match told {
        EdgeTold::Object(described) => check(&described),
        EdgeTold::Passed { response, .. } => check_response(&response),
        EdgeTold::There { first, end, .. } | EdgeTold::Failed { first, end, .. } => {
            let arrived = PresentBlocks::new(1 << 24);
            arrived.note_failed(first..end, 0);
            arrived.note(first..end);
            assert_eq!(arrived.is_whole(), first == 0 && end >= 16);
        }
        _ => {}
    }
});

fn check(described: &Described) {
    assert!(described.size <= OBJECT_BYTES_MAX);
    assert!(described.etag.len() >= 2 && described.etag.starts_with('"'));
    let lines = [&described.content_type, &described.cache_control];
    for line in lines.into_iter().flatten().chain([&described.etag]) {
        assert!(line.len() <= 512 && !line.contains(['\r', '\n', '\0']), "{line:?}");
    }
    if described.size <= MAPPED_BYTES_MAX {
        let arrived = PresentBlocks::new(described.size);
        arrived.note(0..u64::MAX);
        assert!(arrived.is_whole());
    }
}

fn check_response(response: &PassedResponse) {
    assert!(response.size.is_none_or(|size| size <= OBJECT_BYTES_MAX));
    for (name, value) in &response.fields.0 {
        assert!(!name.is_empty() && !name.contains([':', ' ', '\r', '\n']), "{name:?}");
        assert!(!value.contains(['\r', '\n', '\0']), "{value:?}");
        assert!(!name.eq_ignore_ascii_case("transfer-encoding"));
    }
    assert!(response.fields.all("content-length").count() <= 1);
}
