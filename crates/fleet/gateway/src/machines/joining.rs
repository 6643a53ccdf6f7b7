//! Joining and renewing, which write to the store.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::Response;
use fleet_protocol::{JoinAnswer, JoinRequest, Name, RenewAnswer, RenewRequest};
use identity::{
    AuthorityError, Caller, Invitation, InvitationToken, Issued, JoinKind, RefusalReason,
    SigningRequest, Used,
};

use super::body::{self, read_json, read_json_of_stranger};
use super::speaking::answer;
use super::{MachineApi, MachineRefusal};
use store::records::{
    AuditRecord, BadRecord, InviteRecord, NodeRecord, RevokedNameRecord, SERIALS_MAX, StoreRecord,
    Stored, UsedInvite, Wanted, load,
};
use store::{Check, StoreError, Write};

/// Attempts, because another gateway or an operator may change the same record at the same time.
const ATTEMPTS: usize = 4;

pub(super) async fn join(
    State(api): State<Arc<MachineApi>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    body: Body,
) -> Response {
    answer(&api, &caller, api.join(&caller, body).await.map(Json))
}

pub(super) async fn renew(
    State(api): State<Arc<MachineApi>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    body: Body,
) -> Response {
    answer(&api, &caller, api.renew(&caller, body).await.map(Json))
}

impl From<AuthorityError> for MachineRefusal {
    fn from(error: AuthorityError) -> Self {
        Self::new(RefusalReason::Unavailable, error.to_string())
    }
}

impl From<BadRecord> for MachineRefusal {
    fn from(bad: BadRecord) -> Self {
        StoreError::from(bad).into()
    }
}

/// A machine that asks to join, after all checks that don't need the store.
struct Applicant {
    token: InvitationToken,
    wish: JoinRequest,
    request: SigningRequest,
    from: String,
}

impl MachineApi {
    async fn join(&self, caller: &Caller, body: Body) -> Result<JoinAnswer, MachineRefusal> {
        if !self.strangers.may(&caller.address.ip().to_canonical(), Instant::now()) {
            return Err(RefusalReason::Flood.into());
        }
        let wish: JoinRequest = read_json_of_stranger(body).await?;
        wish.check()?;
        let token: InvitationToken = wish.token.parse().map_err(|_| RefusalReason::TokenUnknown)?;
        if token.fingerprint() != self.machines.authority.fingerprint() {
            let text = "the invitation is from another fleet, or from this one before its authority was replaced";
            return Err(MachineRefusal::new(RefusalReason::TokenUnknown, text));
        }
        let request = check_request(&wish.request, &wish.node)?;
        let from = caller.address.ip().to_string();
        let applicant = Applicant { token, wish, request, from };
        for _ in 1..ATTEMPTS {
            match self.try_to_admit(&applicant).await {
                Err(refusal) if refusal == conflict() => {}
                admitted => return admitted,
            }
        }
        self.try_to_admit(&applicant).await
    }

    async fn try_to_admit(&self, applicant: &Applicant) -> Result<JoinAnswer, MachineRefusal> {
        let Applicant { token, wish, request, .. } = applicant;
        let engine = &*self.machines.engine;
        let now = self.machines.clock.now();
        let invite: Stored<InviteRecord> =
            load(engine, token.id()).await?.ok_or(RefusalReason::TokenUnknown)?;
        let entry = invitation(&invite.record).check(token, request, now.unix_seconds())?;
        let known: Option<Stored<NodeRecord>> = load(engine, wish.node.as_str()).await?;
        let (node, checks) = match (entry, known) {
            (JoinKind::First, None) => {
                let checks = self.check_free(&invite.record, wish).await?;
                (new_node(&invite.record, wish, now.unix_seconds()), checks)
            }
            (JoinKind::Again, Some(known)) => {
                self.check_certificates(&wish.node)?;
                let (node, check) = at(known);
                (node, vec![check])
            }
            (JoinKind::First, Some(_)) => return Err(RefusalReason::NameTaken.into()),
            (JoinKind::Again, None) => return Err(RefusalReason::UnknownNode.into()),
        };
        if node.revoked.is_some() {
            return Err(RefusalReason::Revoked.into());
        }
        let issued = self.issue(request)?;
        let node = with_serial(node, &issued);
        let used = used_by(&invite, request, now.unix_seconds());
        let invite = Check::At(InviteRecord::key(token.id()), invite.revision);
        let checks: Vec<_> = checks.into_iter().chain([invite]).collect();
        let detail = format!("by invitation {} from {}", token.id(), applicant.from);
        let writes = [
            used.put(token.id())?,
            node.put(wish.node.as_str())?,
            audit(&wish.node, "join", detail, now.unix_millis, &issued)?,
        ];
        self.commit(&checks, &writes).await?;
        // The node sends its first heartbeat as soon as it has the answer.
        self.machines.store.reread().await;
        Ok(JoinAnswer {
            version: 1,
            node: wish.node.clone(),
            place: node.place,
            kind: node.kind,
            certificate: issued.pem,
            authority: self.machines.authority.certificate_pem().to_owned(),
            keys: self.keys(),
            now_unix_millis: now.unix_millis,
        })
    }

    /// Checks that the requested name was never used, and that the host is free. Returns the conditions that the commit checks again.
    async fn check_free(
        &self,
        invite: &InviteRecord,
        wish: &JoinRequest,
    ) -> Result<Vec<Check>, MachineRefusal> {
        let name = wish.node.as_str();
        let revoked = load::<RevokedNameRecord>(&*self.machines.engine, name).await?;
        if revoked.is_some() {
            return Err(RefusalReason::NameTaken.into());
        }
        // Hosts are looked up in memory, so machines that joined a moment ago through another gateway must be loaded first.
        self.machines.store.reread().await;
        self.check_host(&self.machines.live.world(), invite, &wish.host)?;
        Ok(vec![Check::Absent(NodeRecord::key(name)), Check::Absent(RevokedNameRecord::key(name))])
    }

    /// Checks that a node does not get more certificates than it can need.
    fn check_certificates(&self, node: &Name) -> Result<(), MachineRefusal> {
        if self.certificates.may(node, Instant::now()) {
            return Ok(());
        }
        let text = "this node has got as many certificates as a node can need: try again in a day";
        Err(MachineRefusal::new(RefusalReason::Flood, text))
    }

    async fn renew(&self, caller: &Caller, body: Body) -> Result<RenewAnswer, MachineRefusal> {
        let node = self.node(caller).await?.node.clone();
        let wish: RenewRequest = read_json(body, body::JOINING).await?;
        wish.check()?;
        let request = check_request(&wish.request, &node)?;
        self.check_certificates(&node)?;
        let issued = self.issue(&request)?;
        for _ in 1..ATTEMPTS {
            match self.try_to_renew(&node, &issued).await {
                Err(refusal) if refusal == conflict() => {}
                renewed => return renewed,
            }
        }
        self.try_to_renew(&node, &issued).await
    }

    async fn try_to_renew(
        &self,
        node: &Name,
        issued: &Issued,
    ) -> Result<RenewAnswer, MachineRefusal> {
        let now = self.machines.clock.now();
        let known: Option<Stored<NodeRecord>> = load(&*self.machines.engine, node.as_str()).await?;
        let (record, check) = at(known.ok_or(RefusalReason::UnknownNode)?);
        // The store may have the revocation before this gateway does.
        if record.revoked.is_some() {
            return Err(RefusalReason::Revoked.into());
        }
        let writes = [
            with_serial(record, issued).put(node.as_str())?,
            audit(node, "renew", String::new(), now.unix_millis, issued)?,
        ];
        self.commit(&[check], &writes).await?;
        Ok(RenewAnswer { version: 1, certificate: issued.pem.clone() })
    }

    fn issue(&self, request: &SigningRequest) -> Result<Issued, MachineRefusal> {
        let now = self.machines.clock.now().unix_seconds();
        let lifetime = self.machines.node_lifetime;
        Ok(self.machines.authority.sign_node(request, lifetime, now)?)
    }

    async fn commit(&self, checks: &[Check], writes: &[Write]) -> Result<(), MachineRefusal> {
        match self.machines.engine.commit(checks, writes).await {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict) => Err(conflict()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Another request changed a record at the same time: it must be read again.
pub(super) fn conflict() -> MachineRefusal {
    MachineRefusal::new(
        RefusalReason::Unavailable,
        "another request changed the same records at the same time: try again",
    )
}

fn check_request(pem: &str, node: &Name) -> Result<SigningRequest, MachineRefusal> {
    SigningRequest::check(pem, node)
        .map_err(|why| MachineRefusal::new(RefusalReason::BadSigningRequest, why.to_string()))
}

fn invitation(record: &InviteRecord) -> Invitation {
    let used = record.used.as_ref();
    Invitation {
        digest: record.sha256,
        node: record.node.clone(),
        expires_unix_seconds: record.expires_unix_seconds,
        used: used.map(|used| Used { node: used.node.clone(), key: used.key }),
    }
}

fn used_by(invite: &Stored<InviteRecord>, request: &SigningRequest, now: u64) -> InviteRecord {
    let used =
        UsedInvite { node: request.node().clone(), key: request.key(), used_unix_seconds: now };
    InviteRecord { used: Some(used), ..invite.record.clone() }
}

fn new_node(invite: &InviteRecord, wish: &JoinRequest, now: u64) -> NodeRecord {
    NodeRecord {
        place: invite.place.clone(),
        kind: invite.kind,
        host: wish.host.clone(),
        // The node's own figure comes with each heartbeat and is accepted within bounds. This is the operator's limit.
        ceiling_bits_per_second: invite.ceiling_bits_per_second,
        serials: Vec::new(),
        wanted: Wanted::Serving,
        joined_unix_seconds: now,
        revoked: None,
    }
}

fn at(known: Stored<NodeRecord>) -> (NodeRecord, Check) {
    (known.record, Check::At(NodeRecord::key(&known.name), known.revision))
}

/// The record with one more serial number, and without the oldest if there are too many.
fn with_serial(mut node: NodeRecord, issued: &Issued) -> NodeRecord {
    node.serials.push(issued.serial.as_str().to_owned());
    let too_many = node.serials.len().saturating_sub(SERIALS_MAX);
    node.serials.drain(..too_many);
    node
}

fn audit(
    node: &Name,
    what: &str,
    detail: String,
    unix_millis: u64,
    issued: &Issued,
) -> Result<Write, MachineRefusal> {
    let (who, subject) = (node.as_str().to_owned(), NodeRecord::key(node.as_str()));
    let record = AuditRecord { who, what: what.to_owned(), subject, detail, unix_millis };
    // A serial number is random.
    let random = u64::from_str_radix(&issued.serial.as_str()[16..], 16).unwrap_or_default();
    Ok(record.put(&AuditRecord::name(unix_millis, random))?)
}
