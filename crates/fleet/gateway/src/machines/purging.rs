//! Reports of nodes on their edges, which are answered with the purges that an edge lacks.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::Response;
use fleet_protocol::{EdgeReport, PurgeOrders};
use identity::{Caller, RefusalReason};

use super::body::{self, read_json};
use super::speaking::answer;
use super::{MachineApi, MachineRefusal};

pub(super) async fn purges(
    State(api): State<Arc<MachineApi>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    body: Body,
) -> Response {
    answer(&api, &caller, take_report(&api, &caller, body).await.map(Json))
}

async fn take_report(
    api: &MachineApi,
    caller: &Caller,
    body: Body,
) -> Result<PurgeOrders, MachineRefusal> {
    let peer = api.node(caller).await?;
    let report: EdgeReport = read_json(body, body::HEARTBEAT).await?;
    if report.node != peer.node {
        return Err(RefusalReason::OtherName.into());
    }
    Ok(api.machines.live.handle_edge_report(&peer.node, report)?)
}
