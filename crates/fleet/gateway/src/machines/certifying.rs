//! Certificates for viewers: receives nodes' requests, and hands out the chains that an operator has uploaded for them.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::response::Response;
use fleet_protocol::{Digest, ViewerChain, ViewerRequest};
use identity::{Caller, RefusalReason, check_viewer_request};

use super::body::{self, read_json};
use super::hosts::check_own_host;
use super::joining::conflict;
use super::speaking::answer;
use super::{MachineApi, MachineRefusal};
use store::records::{AuditRecord, StoreRecord, ViewerCertificateRecord, load};
use store::{Check, StoreError};

pub(super) async fn request(
    State(api): State<Arc<MachineApi>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    body: Body,
) -> Response {
    answer(&api, &caller, api.take_viewer_request(&caller, body).await)
}

pub(super) async fn chain(
    State(api): State<Arc<MachineApi>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
) -> Response {
    answer(&api, &caller, api.viewer_chain(&caller).await.map(Json))
}

impl MachineApi {
    /// Saves a node's request. It is written only if it has changed; a chain for an older key is useless then.
    async fn take_viewer_request(
        &self,
        caller: &Caller,
        body: Body,
    ) -> Result<StatusCode, MachineRefusal> {
        let node = self.node(caller).await?.node.clone();
        let sent: ViewerRequest = read_json(body, body::JOINING).await?;
        sent.check()?;
        if sent.node != node {
            return Err(RefusalReason::OtherName.into());
        }
        let world = self.machines.live.world();
        let host = world.nodes.get(&node).map(|wanted| wanted.host.clone());
        let host = host.ok_or(RefusalReason::UnknownNode)?;
        check_own_host(&world, &node, &host)?;
        check_viewer_request(&sent.request, &host).map_err(|why| {
            MachineRefusal::new(
                RefusalReason::BadSigningRequest,
                format!("the request for a viewers' certificate: {why}"),
            )
        })?;
        let engine = &*self.machines.engine;
        let known = load::<ViewerCertificateRecord>(engine, node.as_str()).await?;
        if known.as_ref().is_some_and(|known| known.record.request == sent.request) {
            return Ok(StatusCode::NO_CONTENT);
        }
        if !self.viewer_requests.may(&node, Instant::now()) {
            return Err(RefusalReason::Flood.into());
        }
        let key = ViewerCertificateRecord::key(node.as_str());
        let check = match &known {
            Some(known) => Check::At(key.clone(), known.revision),
            None => Check::Absent(key.clone()),
        };
        let now = self.machines.clock.now();
        let record = ViewerCertificateRecord {
            request: sent.request,
            requested_unix_seconds: now.unix_seconds(),
            chain: None,
        };
        let audit = AuditRecord {
            who: node.to_string(),
            what: "request-certificate".to_owned(),
            subject: key,
            detail: String::new(),
            unix_millis: now.unix_millis,
        };
        let digest = Digest::of(record.request.as_bytes()).to_string();
        // A request's digest is random, because its key is.
        let random = u64::from_str_radix(&digest[..16], 16).unwrap_or_default();
        let writes =
            [record.put(node.as_str())?, audit.put(&AuditRecord::name(now.unix_millis, random))?];
        match engine.commit(&[check], &writes).await {
            Err(StoreError::Conflict) => return Err(conflict()),
            committed => committed?,
        };
        self.machines.store.reread().await;
        Ok(StatusCode::NO_CONTENT)
    }

    async fn viewer_chain(&self, caller: &Caller) -> Result<ViewerChain, MachineRefusal> {
        let node = self.node(caller).await?.node.clone();
        let known = load::<ViewerCertificateRecord>(&*self.machines.engine, node.as_str()).await?;
        let issued = known.and_then(|known| known.record.chain);
        let none = || {
            MachineRefusal::new(
                RefusalReason::NotFound,
                "its certificate has not been uploaded yet",
            )
        };
        Ok(ViewerChain { version: 1, chain: issued.ok_or_else(none)?.pem })
    }
}
