//! Messages of any bytes from a node to a gateway: heartbeats, inventories, routes, requests to copy a title, and the record that a node returns
//! after a restore. Also the grant with which a gateway answers such a request.
//!
//! Checks that nothing panics; that a message that passes its check is within its limits and the same after writing and reading it; and that its
//! names are paths of titles.

#![no_main]

use catalog::TitlePath;
use fleet_protocol::{
    Condition, FillGrant, FillGrantRequest, Heartbeat, Inventory, ReturnedTombstones, RoutesUpdate,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(beat) = serde_json::from_slice::<Heartbeat>(bytes) {
        check_beat(&beat);
    }
    if let Ok(inventory) = serde_json::from_slice::<Inventory>(bytes) {
        check_inventory(&inventory);
    }
    if let Ok(routes) = serde_json::from_slice::<RoutesUpdate>(bytes) {
        check_routes(&routes);
    }
    if let Ok(request) = serde_json::from_slice::<FillGrantRequest>(bytes) {
        assert!(request.check().is_err() || TitlePath::new(&request.held.path).is_ok());
    }
    if let Ok(grant) = serde_json::from_slice::<FillGrant>(bytes) {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_part_of_address = grant.token.iter().all(|token| token.bytes().all(is_plain));
        assert!(grant.check().is_err() || is_part_of_address);
    }
    if let Ok(kept) = serde_json::from_slice::<ReturnedTombstones>(bytes) {
        check_gone(&kept);
    }
});

fn check_gone(kept: &ReturnedTombstones) {
    if kept.check().is_ok() {
        assert!(kept.gone.withdrawn.iter().all(|held| TitlePath::new(&held.path).is_ok()));
    }
    let written = serde_json::to_vec(kept).expect("it is plain JSON");
    let again: ReturnedTombstones = serde_json::from_slice(&written).expect("what was written");
    assert_eq!((again.gone.to_bytes(), &again), (kept.gone.to_bytes(), kept));
}

fn check_beat(beat: &Heartbeat) {
    // Computed before the check, so it must not overflow.
    let _ = beat.load.permille();
    if beat.check().is_err() {
        return;
    }
    assert!(beat.receipts.len() <= 1000 && beat.boot.len() <= 64);
    assert!(beat.receipts.iter().all(|receipt| TitlePath::new(&receipt.held.path).is_ok()));
    if let Some(fill) = &beat.fill {
        assert!(fill.done_bytes <= fill.title_bytes);
        assert!(fill.title.iter().all(|title| TitlePath::new(title).is_ok()));
    }
    if let Condition::NotMe(reasons) = &beat.condition {
        assert!((1..=16).contains(&reasons.len()));
    }
    let written = serde_json::to_vec(beat).expect("a heartbeat is plain JSON");
    let again: Heartbeat = serde_json::from_slice(&written).expect("what was written");
    assert_eq!(again, *beat);
}

fn check_routes(routes: &RoutesUpdate) {
    if routes.check().is_err() {
        return;
    }
    assert!(routes.base.is_none_or(|base| base <= routes.number));
    let after = routes.applied(&[]).expect("no more than are announced");
    assert_eq!(after, routes.announced);
    // The same routes a second time change nothing.
    assert_eq!(routes.applied(&after).as_ref(), Ok(&after));
    let (announced, withdrawn) = fleet_protocol::route_changes(&[], &after);
    assert_eq!((announced, withdrawn), (after, Vec::new()));
}

fn check_inventory(inventory: &Inventory) {
    let digest = inventory.digest();
    if inventory.check().is_err() {
        return;
    }
    assert!(inventory.held.iter().all(|held| TitlePath::new(&held.path).is_ok()));
    // An accepted inventory is sorted and has no duplicates, so that it has only one digest.
    let again = Inventory::new(inventory.node.clone(), inventory.held.clone());
    assert_eq!((again.digest(), &again), (digest, inventory));
}
