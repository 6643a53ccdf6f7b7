//! Data of any bytes that a node reads about titles: a gateway's list, the record of a title at an origin or another node, and the head of another
//! node's response.
//!
//! Checks that nothing panics; that a list that passes its check names paths of titles; that an accepted record has files in its own folder only and
//! a checksum for each block; and that an accepted head promises exactly the requested bytes, however the head arrives.

#![no_main]

use catalog::{BLOCK_BYTES, Record, TitlePath};
use fleet_protocol::Desired;
use libfuzzer_sys::fuzz_target;

use http_head::Wanted;

// Only this file, because its crate also needs an HTTP client.
#[allow(dead_code, reason = "the agent uses the rest")]
#[path = "../../crates/fleet/node/src/holding/http_head.rs"]
mod http_head;

fuzz_target!(|bytes: &[u8]| {
    check_head(bytes);
    if let Ok(desired) = serde_json::from_slice::<Desired>(bytes) {
        check_desired(&desired);
    }
    if let Ok(record) = Record::parse(bytes) {
        check_record(&record);
    }
    // The record gets its checksum here, so that the fuzzer need not find it.
    if let Ok(mut record) = serde_json::from_slice::<Record>(bytes) {
        if let Ok(record) = Record::parse(record.seal().as_bytes()) {
            check_record(&record);
        }
    }
});

fn check_desired(desired: &Desired) {
    if desired.check().is_ok() {
        let titles = desired.titles.iter().map(|title| &title.path);
        let held = desired.withdrawn.iter().chain(&desired.at_once).map(|held| &held.path);
        assert!(titles.chain(held).all(|path| TitlePath::new(path).is_ok()));
    }
}

fn check_record(record: &Record) {
    let _ = record.bytes();
    for file in &record.files {
        assert!(!file.path.starts_with('/') && file.path.split('/').all(|part| part != ".."));
        let blocks = file.blocks_sha256.as_ref().map(|blocks| blocks.len() as u64);
        assert!(blocks.is_none_or(|blocks| blocks == file.bytes.div_ceil(BLOCK_BYTES)));
    }
}

fn check_head(bytes: &[u8]) {
    let whole = http_head::parse(bytes);
    // The first piece of a head decides nothing, or the same.
    let first = http_head::parse(&bytes[..bytes.len() / 2]);
    assert!(first == Ok(None) || first == whole);
    let Ok(Some((head, _))) = whole else { return };
    if let Ok(length) = http_head::check(&head, &Wanted::All { bytes_max: 1000 }) {
        assert!(length <= 1000);
    }
    if let Ok(length) = http_head::check(&head, &Wanted::Part { from: 4, count: 3, of: 10 }) {
        assert_eq!(length, 3);
    }
}
