//! What a node is told of titles by a gateway, by the record that an origin or another node has, and by the head of another node's response: of any
//! bytes.
//!
//! Must hold: no panic; what passes its check names titles' paths; a record that passes has files in its own folder and a sum for each block; a head
//! that passes promises exactly what was asked for, however it comes.

#![no_main]

use catalog::{BLOCK_BYTES, Record, TitlePath};
use fleet::Desired;
use libfuzzer_sys::fuzz_target;

use http_head::{Head, Wanted};

// The file and not its crate, which brings an HTTP client with it.
#[allow(dead_code, reason = "the agent uses the rest")]
#[path = "../../crates/node/src/holding/http_head.rs"]
mod http_head;

fuzz_target!(|bytes: &[u8]| {
    check_head(bytes);
    if let Ok(desired) = serde_json::from_slice::<Desired>(bytes) {
        check_desired(&desired);
    }
    if let Ok(record) = Record::parse(bytes) {
        check_record(&record);
    }
    // Sealed here, so that the fuzzer need not find a sum.
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
    let end = Head::end(bytes, 0);
    // In two pieces it ends at the same place.
    let cut = bytes.len() / 2;
    let in_pieces = Head::end(&bytes[..cut], 0).or_else(|| Head::end(bytes, cut));
    assert_eq!(in_pieces, end);
    let Some(head) = end.and_then(|end| Head::parse(&bytes[..end])) else { return };
    if let Ok(length) = head.check(&Wanted::All { bytes_max: 1000 }) {
        assert!(length <= 1000);
    }
    if let Ok(length) = head.check(&Wanted::Part { from: 4, count: 3, of: 10 }) {
        assert_eq!(length, 3);
    }
}
