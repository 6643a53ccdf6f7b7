//! What a router says on its control socket, or whatever listens there instead: lines of any bytes.
//!
//! Must hold: no panic; the routes are sorted, each prefix once, and within their bound; what a node passes on of them is accepted by a gateway, and
//! makes the same routes there; how the lines come does not matter.

#![no_main]

use fleet::{Announced, ROUTES_MAX, RoutesUpdate, route_changes};
use libfuzzer_sys::fuzz_target;

use reply::RoutesReader;

// The file and not its crate, which brings an HTTP client with it that has nothing to do with this.
#[allow(dead_code, reason = "the agent uses the rest")]
#[path = "../../crates/node/src/bird/reply.rs"]
mod reply;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = RoutesReader::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        match reader.line(line) {
            Ok(false) => {}
            Ok(true) => break,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        }
    }
    let routes = reader.routes().announced;
    assert!(routes.len() <= ROUTES_MAX);
    assert!(routes.is_sorted_by(|one, next| one.prefix < next.prefix));
    assert_eq!(Announced::read_file(&Announced::write_file(&routes)), Ok(routes.clone()));
    pass_on(&routes);
});

fn pass_on(routes: &[Announced]) {
    let half: Vec<_> = routes.iter().step_by(2).copied().collect();
    for (before, after) in [(&half[..], routes), (routes, &half[..])] {
        let (announced, withdrawn) = route_changes(before, after);
        let base = (!announced.is_empty() || !withdrawn.is_empty()).then_some(1);
        let node = "n1".parse().expect("a name");
        let boot = "b1".to_owned();
        let base = base.or(Some(2));
        let update = RoutesUpdate { version: 1, node, boot, number: 2, base, announced, withdrawn };
        assert_eq!(update.check(), Ok(()));
        assert_eq!(update.applied(before).as_deref(), Ok(after));
    }
}
