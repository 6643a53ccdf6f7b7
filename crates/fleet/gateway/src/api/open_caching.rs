//! What an upstream CDN reads before it sends viewers here: footprints and capabilities (RFC 8008) and capacity (RFC 9808), by site.
//!
//! A site's footprints are the prefixes that steering uses for it. RFC 8008 takes an object without footprints as meant for everywhere, which is how
//! steering treats a site without prefixes.

use std::collections::BTreeMap;

use fleet_protocol::{Name, Site, State};
use serde_json::{Value, json};

use super::operation::FieldKind::{List, Text};
use super::operation::{Answer, ApiField, Call, maybe, needed};
use super::places::name;
use super::{ApiError, object};
use crate::live::NodeView;

/// Most prefixes in one advertisement: some 3 MB of text.
const PREFIXES_MAX: usize = 100_000;

/// The query.
pub(super) const ADVERTISED: &[ApiField] = &[maybe(
    "site",
    Text,
    "Only this site. Needed if all sites together announce more than 100,000 prefixes.",
)];

/// The advertisement.
pub(super) const ADVERTISEMENT: &[ApiField] = &[needed(
    "capabilities",
    List,
    "Objects of RFC 8008: {capability-type, capability-value, footprints}. FCI.DeliveryProtocol holds for all sites together, and each \
     site has an FCI.CapacityLimits (RFC 9808) while nodes of it serve.",
)];

pub(super) async fn advertisement(call: Call) -> Answer {
    let only = call.query.get("site").map(|site| name(site)).transpose()?;
    let own = call.own_sites();
    let shows = |site: &Name| {
        own.is_none_or(|own| own.contains(site)) && only.as_ref().is_none_or(|only| only == site)
    };
    let (live, now) = (call.gateway.live(), call.gateway.now());
    let fleet = live.fleet();
    let sites: Vec<&Site> = match &fleet {
        Some(fleet) => fleet.snapshot().sites.iter().filter(|site| shows(&site.name)).collect(),
        None => Vec::new(),
    };
    if let (Some(only), true) = (&only, sites.is_empty()) {
        return Err(ApiError::NotFound(format!("there is no site {only}")));
    }
    let prefixes: usize = sites.iter().map(|site| site.announced.len()).sum();
    if prefixes > PREFIXES_MAX {
        return Err(ApiError::Wrong(format!(
            "these sites announce {prefixes} prefixes, and an advertisement has at most {PREFIXES_MAX}: ask for one site (?site=NAME)"
        )));
    }
    let policy = live.world().policy.clone();
    let view = live.view(now);
    let mut capabilities = general(&policy.scheme, &sites);
    for site in sites {
        let nodes = view.nodes.iter().filter(|node| node.place.site == site.name);
        capabilities.extend(capacity(site, nodes, policy.full_permille));
    }
    object(json!({ "capabilities": capabilities }))
}

/// The capabilities that do not differ between sites.
fn general(scheme: &str, sites: &[&Site]) -> Vec<Value> {
    if sites.is_empty() {
        return Vec::new();
    }
    let footprints = match sites.iter().any(|site| site.announced.is_empty()) {
        true => Vec::new(),
        false => footprints(sites),
    };
    let protocols = json!({ "delivery-protocols": [format!("{scheme}/1.1")] });
    vec![capability("FCI.DeliveryProtocol", protocols, &footprints)]
}

/// What the site's serving nodes can send together: all of it at most, and the share from which they get no new viewers as the soft limit.
fn capacity<'v>(
    site: &Site,
    nodes: impl Iterator<Item = &'v NodeView>,
    full_permille: u16,
) -> Option<Value> {
    let serving = nodes.filter(|node| node.state == State::Serving && node.not_me.is_empty());
    let bits = serving.fold(0_u64, |sum, node| sum.saturating_add(node.weight_bits_per_second));
    let soft = u128::from(bits) * u128::from(full_permille.min(1000)) / 1000;
    let limit = json!({
        "id": format!("{}-egress", site.name),
        "limit-type": "egress",
        "maximum-hard": bits,
        "maximum-soft": soft as u64,
    });
    let value = json!({ "limits": [limit] });
    (bits > 0).then(|| capability("FCI.CapacityLimits", value, &footprints(&[site])))
}

fn capability(kind: &str, value: Value, footprints: &[Value]) -> Value {
    let mut capability = json!({ "capability-type": kind, "capability-value": value });
    if !footprints.is_empty() {
        capability["footprints"] = footprints.into();
    }
    capability
}

/// The prefixes of these sites, by family (RFC 8006 4.2.2.1): none twice.
fn footprints(sites: &[&Site]) -> Vec<Value> {
    let mut families = BTreeMap::<&str, Vec<String>>::new();
    for announced in sites.iter().flat_map(|site| &site.announced) {
        let prefix = announced.prefix.to_string();
        let family = if prefix.contains(':') { "ipv6cidr" } else { "ipv4cidr" };
        families.entry(family).or_default().push(prefix);
    }
    families
        .into_iter()
        .map(|(family, mut prefixes)| {
            prefixes.sort_unstable();
            prefixes.dedup();
            json!({ "footprint-type": family, "footprint-value": prefixes })
        })
        .collect()
}
