//! Sites, clusters, invitations, and the steering policy.

use fleet_protocol::{Name, NodeKind, NodePlace, SteeringPolicy, check_node_host};
use identity::InvitationToken;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::operation::{Answer, Call};
use super::{ApiError, object};
use store::records::{
    ClusterRecord, ClusterTitles, FleetRecord, InviteRecord, SiteRecord, StoreRecord, load,
    load_all, lost_field,
};

/// Default lifetime of an unused invitation: a day.
const INVITE_SECONDS: u64 = 24 * 3600;

/// Longest lifetime of an invitation: 30 days.
const INVITE_SECONDS_MAX: u64 = 30 * 24 * 3600;

pub(super) async fn sites(call: Call) -> Answer {
    let (sites, _) = load_all::<SiteRecord>(call.gateway.engine()).await?;
    let sites = sites.into_iter().map(|site| named(&site.name, &site.record));
    object(json!({ "sites": sites.collect::<Result<Vec<_>, _>>()? }))
}

pub(super) async fn put_site(call: Call) -> Answer {
    let record: SiteRecord = record(&call)?;
    let name = name(call.segment("site"))?;
    let by = call.by("site", "");
    // The file of prefixes has an operation of its own, and is not changed here.
    let edit = |before: Option<SiteRecord>| {
        let announced_file = before.and_then(|before| before.announced_file);
        Ok(SiteRecord { announced_file, ..record.clone() })
    };
    let record = call.gateway.change(&by, name.as_str(), edit).await?;
    object(named(name.as_str(), &record)?)
}

pub(super) async fn clusters(call: Call) -> Answer {
    let (clusters, _) = load_all::<ClusterRecord>(call.gateway.engine()).await?;
    let clusters = clusters.into_iter().map(|cluster| named(&cluster.name, &cluster.record));
    object(json!({ "clusters": clusters.collect::<Result<Vec<_>, _>>()? }))
}

pub(super) async fn put_cluster(call: Call) -> Answer {
    let site = name(call.text("site").unwrap_or_default())?;
    let cluster = name(call.segment("cluster"))?;
    need_site(&call, &site).await?;
    let record = ClusterRecord { site, titles: ClusterTitles::All };
    let by = call.by("cluster", "");
    call.gateway.change(&by, cluster.as_str(), |_| Ok(record.clone())).await?;
    object(named(cluster.as_str(), &record)?)
}

pub(super) async fn policy(call: Call) -> Answer {
    let policy = &call.gateway.live().world().policy;
    object(serde_json::to_value(policy).map_err(|error| ApiError::Broken(error.to_string()))?)
}

pub(super) async fn put_policy(call: Call) -> Answer {
    let policy: SteeringPolicy = record(&call)?;
    if policy.port == 0 {
        return Err(ApiError::Wrong("policy.port is 0, which is not a port".to_owned()));
    }
    let by = call.by("policy", "");
    let missing = || ApiError::Broken("the store has no fleet".to_owned());
    call.gateway
        .change(&by, "", |before: Option<FleetRecord>| {
            let mut fleet = before.ok_or_else(missing)?;
            fleet.policy = policy.clone();
            Ok(fleet)
        })
        .await?;
    self::policy(call).await
}

pub(super) async fn invite(call: Call) -> Answer {
    let place = place(&call).await?;
    let kind = call.body.get("kind").filter(|kind| !kind.is_null()).cloned();
    let kind: NodeKind = kind.map_or(Ok(NodeKind::default()), |kind| {
        serde_json::from_value(kind)
            .map_err(|_| ApiError::Wrong("kind is storage, flash or global".to_owned()))
    })?;
    let node = call.text("node").map(name).transpose()?;
    let host = call.text("host").map(str::to_owned);
    if let Some(Err(why)) = host.as_deref().map(check_node_host) {
        return Err(ApiError::Wrong(format!("host cannot be that of a node: {why}")));
    }
    let seconds = call.whole("seconds").unwrap_or(INVITE_SECONDS);
    if !(1..=INVITE_SECONDS_MAX).contains(&seconds) {
        return Err(ApiError::Wrong(
            "an invitation is valid for 1 second to 30 days (seconds is 1 to 2592000)".to_owned(),
        ));
    }
    let now = call.gateway.now().unix_seconds();
    let token = InvitationToken::draw(call.gateway.authority().fingerprint());
    let record = InviteRecord {
        sha256: token.digest(),
        place,
        kind,
        node,
        host,
        ceiling_bits_per_second: call.whole("ceiling_bits_per_second").unwrap_or(0),
        made_unix_seconds: now,
        expires_unix_seconds: now + seconds,
        used: None,
    };
    let by = call.by("invite", record.place.cluster.as_str());
    let new = |before: Option<InviteRecord>| match before {
        None => Ok(record.clone()),
        Some(_) => {
            Err(ApiError::Conflict("an invitation has this identifier: try again".to_owned()))
        }
    };
    call.gateway.change(&by, token.id(), new).await?;
    let gateways = &call.gateway.live().world().gateways;
    let command = identity::join_command(gateways, &token, record.host.as_deref());
    object(json!({
        "id": token.id(), "token": token.to_string(), "command": command,
        "expires_unix_seconds": now + seconds
    }))
}

pub(super) async fn invites(call: Call) -> Answer {
    let (invites, _) = load_all::<InviteRecord>(call.gateway.engine()).await?;
    // The secret's digest is left out, because it is of no use to operators.
    let shown = invites.into_iter().map(|invite| {
        json!({
            "id": invite.name, "place": invite.record.place, "kind": invite.record.kind,
            "node": invite.record.node, "host": invite.record.host,
            "expires_unix_seconds": invite.record.expires_unix_seconds,
            "used_by": invite.record.used.map(|used| used.node)
        })
    });
    object(json!({ "invites": shown.collect::<Vec<_>>() }))
}

/// The place of an invited machine: its cluster's site, or a new cluster at the given site.
async fn place(call: &Call) -> Result<NodePlace, ApiError> {
    let cluster = name(call.text("cluster").unwrap_or_default())?;
    let rack = call.text("rack").map(name).transpose()?;
    let named = call.text("site").map(name).transpose()?;
    let known = load::<ClusterRecord>(call.gateway.engine(), cluster.as_str()).await?;
    let site = match (known.map(|known| known.record.site), named) {
        (Some(site), Some(named)) if site != named => {
            return Err(ApiError::Conflict(format!(
                "cluster {cluster} is at site {site}, not {named}"
            )));
        }
        (Some(site), _) => {
            check_region(call, &site).await?;
            site
        }
        (None, Some(site)) => {
            check_region(call, &site).await?;
            make_site(call, &site).await?;
            let record = ClusterRecord { site: site.clone(), titles: ClusterTitles::All };
            let by = call.by("cluster", "made by an invitation");
            call.gateway.change(&by, cluster.as_str(), |_| Ok(record.clone())).await?;
            site
        }
        (None, None) => {
            return Err(ApiError::NotFound(format!(
                "there is no cluster {cluster} yet: name the site where it should be created"
            )));
        }
    };
    Ok(NodePlace { site, cluster, rack })
}

/// Checks that a given region is the one of the site, if the site exists: another region would have no effect.
async fn check_region(call: &Call, site: &Name) -> Result<(), ApiError> {
    let known = load::<SiteRecord>(call.gateway.engine(), site.as_str()).await?;
    match (known.map(|known| known.record.region), call.text("region")) {
        (Some(own), Some(named)) if own.as_str() != named => Err(ApiError::Conflict(format!(
            "site {site} is in region {own}, not {named}: leave the region out, or change that of the site (PUT /api/v1/sites/{site})"
        ))),
        _ => Ok(()),
    }
}

/// Creates a site with only a name and a region, if it does not exist.
async fn make_site(call: &Call, site: &Name) -> Result<(), ApiError> {
    if load::<SiteRecord>(call.gateway.engine(), site.as_str()).await?.is_some() {
        return Ok(());
    }
    let region = call.text("region").unwrap_or("default");
    let record = SiteRecord {
        region: name(region)?,
        latitude: None,
        longitude: None,
        operator: None,
        allowed: Vec::new(),
        announced: Vec::new(),
        announced_file: None,
    };
    let by = call.by("site", "made by an invitation");
    call.gateway
        .change(&by, site.as_str(), |before| Ok(before.unwrap_or_else(|| record.clone())))
        .await?;
    Ok(())
}

async fn need_site(call: &Call, site: &Name) -> Result<(), ApiError> {
    match load::<SiteRecord>(call.gateway.engine(), site.as_str()).await? {
        Some(_) => Ok(()),
        None => Err(ApiError::NotFound(format!("there is no site {site}"))),
    }
}

/// Decodes the body as a record.
fn record<R: DeserializeOwned + Serialize>(call: &Call) -> Result<R, ApiError> {
    let body = Value::Object(call.body.clone());
    let record: R =
        serde_json::from_value(body.clone()).map_err(|error| ApiError::Wrong(error.to_string()))?;
    let known =
        serde_json::to_value(&record).map_err(|error| ApiError::Broken(error.to_string()))?;
    match lost_field(&body, &known) {
        None => Ok(record),
        Some(field) => Err(ApiError::Wrong(format!("{field:?} is not known here"))),
    }
}

/// A record with its name, as JSON.
fn named<R: StoreRecord>(name: &str, record: &R) -> Result<Value, ApiError> {
    let broken = |error: serde_json::Error| ApiError::Broken(error.to_string());
    let mut value = serde_json::to_value(record).map_err(broken)?;
    value["name"] = Value::from(name);
    Ok(value)
}

pub(super) fn name(text: &str) -> Result<Name, ApiError> {
    text.parse().map_err(|error| ApiError::Wrong(format!("{text:?} is not a name: {error}")))
}
