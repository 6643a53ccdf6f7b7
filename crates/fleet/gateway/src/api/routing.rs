//! Sites' allow-lists, and the prefixes that sites announce.

use fleet_protocol::{Name, Prefix};
use serde_json::{Value, json};

use super::operation::{Answer, Call};
use super::places::name;
use super::{ApiError, object};
use store::records::{SiteRecord, load};

/// The requested site. A partner must not learn whether sites of others exist.
async fn site(call: &Call) -> Result<(Name, SiteRecord), ApiError> {
    let missing = || ApiError::NotFound(format!("there is no site {:?}", call.segment("site")));
    let site = name(call.segment("site")).map_err(|_| missing())?;
    if call.own_sites().is_some_and(|own| !own.contains(&site)) {
        return Err(missing());
    }
    let stored = load::<SiteRecord>(call.gateway.engine(), site.as_str()).await?;
    stored.map(|stored| (site, stored.record)).ok_or_else(missing)
}

pub(super) async fn announced(call: Call) -> Answer {
    let (site, record) = site(&call).await?;
    let (live, now) = (call.gateway.live(), call.gateway.now());
    let view = live.view(now).sites.into_iter().find(|view| view.name == site);
    let world = live.world();
    let allowed = world.allowed.get(&site);
    let refused = world.refused.get(&site);
    object(json!({
        "site": site,
        "allowed": record.allowed,
        "allows_all": allowed.is_some_and(crate::live::AllowList::is_open),
        "prefixes": view.as_ref().map_or(0, |view| view.prefixes),
        "refused": view.as_ref().map_or(0, |view| view.prefixes_refused),
        "file": {
            "prefixes": record.announced_file.map_or(0, |file| file.prefixes as usize) + record.announced.len(),
            "refused": refused.map_or(0, |sifted| sifted.refused),
            "first_refused": refused.and_then(|sifted| sifted.first_refused),
            "since_unix_seconds": record.announced_file.map(|file| file.since_unix_seconds),
        },
        "feeds": live.feeds(&site, now),
    }))
}

pub(super) async fn announce(call: Call) -> Answer {
    let (site, _) = site(&call).await?;
    let text = call.text("file").unwrap_or_default();
    let by = call.by("announce", "");
    let done = call.gateway.announce(&by, &site, text).await?;
    object(json!({
        "site": site,
        "prefixes": done.prefixes,
        "refused": done.sifted.refused,
        "first_refused": done.sifted.first_refused,
    }))
}

pub(super) async fn allow(call: Call) -> Answer {
    let (site, _) = site(&call).await?;
    let list = call.body.get("allowed").cloned().unwrap_or(Value::Null);
    let allowed: Vec<Prefix> = serde_json::from_value(list)
        .map_err(|error| ApiError::Wrong(format!("allowed is not a list of prefixes: {error}")))?;
    let by = call.by("allow", &format!("{} prefixes", allowed.len()));
    call.gateway.allow(&by, &site, allowed.clone()).await?;
    let refused = call.gateway.live().world().refused.get(&site).map_or(0, |sifted| sifted.refused);
    object(json!({ "site": site, "allowed": allowed, "refused": refused }))
}
