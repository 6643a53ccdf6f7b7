//! Lines of any bytes from a router's control socket, or from a program that listens there in the router's place.
//!
//! Checks that nothing panics; that the routes are sorted, within their limit, and have each prefix once; that a gateway accepts the routes
//! that a node passes on, and gets the same routes from them; and that it doesn't matter how the lines arrive.

#![no_main]

use fleet_protocol::{Announced, ROUTES_MAX, RoutesUpdate, route_changes};
use libfuzzer_sys::fuzz_target;

use reply::RoutesReader;

// Only this file, because its crate also needs an HTTP client, which this target doesn't use.
#[allow(dead_code, reason = "the agent uses the rest")]
#[path = "../../crates/fleet/node/src/bird/reply.rs"]
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
