//! Requests of nodes that have joined.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use fleet_protocol::{
    Digest, EvictionLeave, EvictionRequest, ExperienceReport, FillGrant, FillGrantRequest,
    GRANT_SECONDS, Heartbeat, Inventory, RoutesUpdate, Signed, WatchReport,
};
use identity::{Caller, RefusalReason};

use super::body::{self, read_json};
use super::{MachineApi, MachineRefusal, SIGNATURE};

type Asked = (State<Arc<MachineApi>>, ConnectInfo<Caller>);

/// The response; a refusal is logged and counted.
pub(super) fn answer(
    api: &MachineApi,
    caller: &Caller,
    answered: Result<impl IntoResponse, MachineRefusal>,
) -> Response {
    match answered {
        Ok(answer) => answer.into_response(),
        Err(refusal) => refusal.tell(caller, &api.machines.refusals),
    }
}

pub(super) async fn heartbeat((State(api), ConnectInfo(caller)): Asked, body: Body) -> Response {
    let heard = hear(&api, &caller, body).await;
    if let (Err(refusal), Some(peer)) = (&heard, &caller.peer) {
        // A node with refused heartbeats is not silent, and operators need to see the difference.
        api.machines.live.note_refused(&peer.node, &refusal.text, api.machines.clock.now());
    }
    answer(&api, &caller, heard)
}

async fn hear(
    api: &MachineApi,
    caller: &Caller,
    body: Body,
) -> Result<impl IntoResponse, MachineRefusal> {
    let peer = api.node(caller).await?;
    let beat: Heartbeat = read_json(body, body::HEARTBEAT).await?;
    if beat.node != peer.node {
        return Err(RefusalReason::OtherName.into());
    }
    let now = api.machines.clock.now();
    let mut answer = api.machines.live.handle_heartbeat(&peer.node, beat, now)?;
    answer.keys = api.keys_digest();
    Ok(Json(answer))
}

pub(super) async fn inventory((State(api), ConnectInfo(caller)): Asked, body: Body) -> Response {
    answer(&api, &caller, take_inventory(&api, &caller, body).await)
}

async fn take_inventory(
    api: &MachineApi,
    caller: &Caller,
    body: Body,
) -> Result<StatusCode, MachineRefusal> {
    let peer = api.node(caller).await?;
    let bytes = api.large.read(&peer.node, body, body::INVENTORY).await?;
    let inventory: Inventory = body::parse(&bytes)?;
    if inventory.node != peer.node {
        return Err(RefusalReason::OtherName.into());
    }
    // The digest covers the received bytes instead of the parsed data: a later release may send more fields, and its heartbeats have the digest of
    // all of it.
    api.machines.live.handle_summed_inventory(&peer.node, inventory, Digest::of(&bytes))?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn routes((State(api), ConnectInfo(caller)): Asked, body: Body) -> Response {
    answer(&api, &caller, take_routes(&api, &caller, body).await)
}

async fn take_routes(
    api: &MachineApi,
    caller: &Caller,
    body: Body,
) -> Result<impl IntoResponse, MachineRefusal> {
    let peer = api.node(caller).await?;
    let update: RoutesUpdate = api.large.read_json(&peer.node, body, body::ROUTES).await?;
    if update.node != peer.node {
        return Err(RefusalReason::OtherName.into());
    }
    let now = api.machines.clock.now();
    Ok(Json(api.machines.live.handle_routes(&peer.node, update, now)?))
}

pub(super) async fn grant((State(api), ConnectInfo(caller)): Asked, body: Body) -> Response {
    answer(&api, &caller, give_grant(&api, &caller, body).await)
}

/// Grants a node only what it should hold.
async fn give_grant(
    api: &MachineApi,
    caller: &Caller,
    body: Body,
) -> Result<impl IntoResponse, MachineRefusal> {
    let peer = api.node(caller).await?;
    let request: FillGrantRequest = read_json(body, body::HEARTBEAT).await?;
    request.check()?;
    let held = request.held;
    if !api.machines.live.is_wanted_of(&peer.node, &held) {
        return Err(MachineRefusal::new(
            RefusalReason::NotFound,
            "the node is not meant to hold this version of this title",
        ));
    }
    let expires_unix_seconds = api.machines.clock.now().unix_seconds() + GRANT_SECONDS;
    let token = (api.machines.sign)(&held.path, expires_unix_seconds);
    Ok(Json(FillGrant { held, token, expires_unix_seconds }))
}

pub(super) async fn evictions((State(api), ConnectInfo(caller)): Asked, body: Body) -> Response {
    answer(&api, &caller, give_leave(&api, &caller, body).await)
}

/// Permits a node to remove titles that it should not hold, once enough other nodes hold them.
async fn give_leave(
    api: &MachineApi,
    caller: &Caller,
    body: Body,
) -> Result<impl IntoResponse, MachineRefusal> {
    let peer = api.node(caller).await?;
    let request: EvictionRequest = read_json(body, body::HEARTBEAT).await?;
    request.check()?;
    let live = &api.machines.live;
    let may = !live.reads_back(api.machines.clock.now());
    let held = if may { live.may_evict(&peer.node, request.held) } else { Vec::new() };
    Ok(Json(EvictionLeave { held }))
}

pub(super) async fn watched((State(api), ConnectInfo(caller)): Asked, body: Body) -> Response {
    answer(&api, &caller, take_watched(&api, &caller, body).await)
}

async fn take_watched(
    api: &MachineApi,
    caller: &Caller,
    body: Body,
) -> Result<StatusCode, MachineRefusal> {
    let peer = api.node(caller).await?;
    let report: WatchReport = api.large.read_json(&peer.node, body, body::WATCHED).await?;
    if report.node != peer.node {
        return Err(RefusalReason::OtherName.into());
    }
    api.machines.live.handle_watched(&peer.node, &report, api.machines.clock.now())?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn experience((State(api), ConnectInfo(caller)): Asked, body: Body) -> Response {
    answer(&api, &caller, take_experience(&api, &caller, body).await)
}

async fn take_experience(
    api: &MachineApi,
    caller: &Caller,
    body: Body,
) -> Result<StatusCode, MachineRefusal> {
    let peer = api.node(caller).await?;
    let report: ExperienceReport = api.large.read_json(&peer.node, body, body::EXPERIENCE).await?;
    if report.node != peer.node {
        return Err(RefusalReason::OtherName.into());
    }
    api.machines.live.handle_experience(&peer.node, &report, api.machines.clock.now())?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn desired((State(api), ConnectInfo(caller)): Asked) -> Response {
    let found = api.node(&caller).await.and_then(|peer| {
        let live = &api.machines.live;
        if live.wants_gone(&peer.node) || live.reads_back(api.machines.clock.now()) {
            let text = "a backup was restored, and this gateway first asks nodes for withdrawals since then: try again in a few seconds";
            return Err(MachineRefusal::new(RefusalReason::Unavailable, text));
        }
        if !live.knows_wishes_of(&peer.node) {
            // A node would take the incomplete list for the full one. With an error, it keeps its previous list, or gets it from another gateway.
            let text = "not known yet: this gateway has not read all of the plan, and retries twice a minute";
            return Err(MachineRefusal::new(RefusalReason::Unavailable, text));
        }
        let desired = live.desired_of(&peer.node);
        let desired = desired.ok_or_else(|| MachineRefusal::from(RefusalReason::UnknownNode))?;
        serde_json::to_vec(&*desired)
            .map_err(|error| MachineRefusal::new(RefusalReason::Unavailable, error.to_string()))
    });
    answer(&api, &caller, found.map(|json| ([(CONTENT_TYPE, "application/json")], json)))
}

pub(super) async fn keys((State(api), ConnectInfo(caller)): Asked) -> Response {
    let node = api.node(&caller).await;
    answer(&api, &caller, node.map(|_| Json(api.keys())))
}

/// A snapshot has megabytes in a large fleet, so it is shared instead of copied for each node.
struct SnapshotBytes(Arc<Signed>);

impl AsRef<[u8]> for SnapshotBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

pub(super) async fn snapshot((State(api), ConnectInfo(caller)): Asked) -> Response {
    let found = api.node(&caller).await.and_then(|_| {
        let none =
            || MachineRefusal::new(RefusalReason::NotFound, "this gateway has no snapshot yet");
        api.machines.live.signed_snapshot().ok_or_else(none)
    });
    let made = found.map(|signed| {
        let signature = HEXLOWER.encode(&signed.signature);
        let mut response = Bytes::from_owner(SnapshotBytes(signed)).into_response();
        if let Ok(signature) = HeaderValue::try_from(signature) {
            response.headers_mut().insert(SIGNATURE, signature);
        }
        response
    });
    answer(&api, &caller, made)
}

pub(super) async fn document(
    (State(api), ConnectInfo(caller)): Asked,
    Path(digest): Path<String>,
) -> Response {
    let found = api.node(&caller).await.and_then(|_| {
        let digest: Option<Digest> = digest.parse().ok();
        let document = digest.and_then(|digest| api.machines.live.document(&digest));
        document.ok_or_else(|| MachineRefusal::from(RefusalReason::NotFound))
    });
    answer(&api, &caller, found)
}

pub(super) async fn nothing((State(api), ConnectInfo(caller)): Asked) -> Response {
    answer(&api, &caller, Err::<(), _>(MachineRefusal::from(RefusalReason::NotFound)))
}
