//! What an upstream CDN reads about the fleet: footprints, capabilities and capacity.

use fullbore_tests::PATIENCE;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::fleet::{Running, eventually, folder};

const ADVERTISEMENT: &str = "/api/v1/open-caching/advertisement";

/// The capacity of each site, with its footprints.
fn capacities(advertisement: &Value) -> Vec<(&str, u64, u64, &Value)> {
    let all = advertisement["capabilities"].as_array().expect("a list").iter();
    let limits = all.filter(|one| one["capability-type"] == "FCI.CapacityLimits");
    limits
        .map(|one| {
            let limit = &one["capability-value"]["limits"][0];
            assert_eq!(limit["limit-type"], "egress", "{one}");
            let bits = |name: &str| limit[name].as_u64().expect("a number");
            let id = limit["id"].as_str().expect("a text");
            (id, bits("maximum-hard"), bits("maximum-soft"), &one["footprints"])
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_cdn_reads_networks_protocols_and_capacity() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris"), ("n2", "rome"), ("n3", "rome")]).await;
    let file = "192.0.2.0/24\n198.51.100.0/24 med=5\n2001:db8::/32\n";
    fleet.done("/api/v1/sites/rome/announced", json!({ "file": file })).await;
    let footprints = json!([
        { "footprint-type": "ipv4cidr", "footprint-value": ["192.0.2.0/24", "198.51.100.0/24"] },
        { "footprint-type": "ipv6cidr", "footprint-value": ["2001:db8::/32"] },
    ]);
    // Snapshots follow the store after a second or more.
    let announces = || {
        let steering = fleet.gateway.live().fleet()?;
        let of_rome = steering.snapshot().sites.iter().find(|site| site.name.as_str() == "rome")?;
        (of_rome.announced.len() == 3).then_some(())
    };
    eventually(announces).await;
    let all = fleet.get(ADVERTISEMENT).await;
    let shown = capacities(&all);
    let (paris, rome) = (shown[0], shown[1]);
    assert_eq!((paris.0, paris.3), ("paris-egress", &Value::Null), "everywhere: {all}");
    assert_eq!((rome.0, rome.3), ("rome-egress", &footprints), "{all}");
    assert!(rome.1 == 2 * paris.1 && paris.1 > 0, "two nodes and one: {all}");
    assert_eq!(rome.2, rome.1 / 10 * 9, "full_permille is 900: {all}");
    let of = |kind: &str| {
        let all = all["capabilities"].as_array().expect("a list").iter();
        all.filter(|one| one["capability-type"] == kind).cloned().collect::<Vec<_>>()
    };
    let protocols = json!({ "delivery-protocols": ["http/1.1"] });
    let delivery =
        json!({ "capability-type": "FCI.DeliveryProtocol", "capability-value": protocols });
    assert_eq!(of("FCI.DeliveryProtocol"), [delivery], "paris serves everywhere");

    // A drained site has no capacity to offer, and its networks stay.
    fleet.done("/api/v1/nodes/n1/drain", json!({ "reason": "new disks" })).await;
    let drained = async { while capacities(&fleet.get(ADVERTISEMENT).await).len() > 1 {} };
    tokio::time::timeout(PATIENCE, drained).await.expect("a drained site offers no capacity");
    // One site, and a partner's.
    let one = fleet.get(&format!("{ADVERTISEMENT}?site=rome")).await;
    assert_eq!(one["capabilities"][0]["footprints"], footprints, "{one}");
    let partner = fleet.operator("isp", "partner", Some(&["rome"])).await;
    for (path, status) in [
        (ADVERTISEMENT, StatusCode::OK),
        ("/api/v1/open-caching/advertisement?site=paris", StatusCode::NOT_FOUND),
        ("/api/v1/open-caching/advertisement?site=oslo", StatusCode::NOT_FOUND),
        ("/api/v1/open-caching/advertisement?site=%00", StatusCode::BAD_REQUEST),
    ] {
        let (got, answer) = fleet.ask(Some(&partner), Method::GET, path, None).await;
        assert_eq!(got, status, "{path}: {answer}");
        if got.is_success() {
            assert!(!answer.to_string().contains("paris"), "{answer}");
        }
    }
    let (status, _) = fleet.ask(None, Method::GET, ADVERTISEMENT, None).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    fleet.stop().await;
}
