//! Operators, and the log of their changes.

use fleet_protocol::{Digest, Name};
use serde_json::json;

use super::operation::{Answer, Call};
use super::places::name;
use super::{ApiError, object};
use crate::gateway::draw_token;
use store::records::{AuditRecord, OperatorRecord, Revoked, Role, load_all};

/// Lines of the audit log per answer: default and maximum.
const AUDIT_LIMIT: u64 = 100;
const AUDIT_LIMIT_MAX: u64 = 10_000;

pub(super) async fn list(call: Call) -> Answer {
    let (operators, _) = load_all::<OperatorRecord>(call.gateway.engine()).await?;
    let shown = operators.into_iter().map(|operator| {
        json!({
            "id": operator.name, "role": operator.record.role,
            "has_token": operator.record.sha256.is_some(),
            "made_unix_seconds": operator.record.made_unix_seconds,
            "revoked": operator.record.revoked
        })
    });
    object(json!({ "operators": shown.collect::<Vec<_>>() }))
}

pub(super) async fn add(call: Call) -> Answer {
    let id = name(call.text("id").unwrap_or_default())?;
    let role = role(&call)?;
    let token = call.truth("token").unwrap_or(true).then(draw_token);
    let record = OperatorRecord {
        role,
        sha256: token.as_ref().map(|token| Digest::of(token.as_bytes())),
        made_unix_seconds: call.gateway.now().unix_seconds(),
        revoked: None,
    };
    let by = call.by("add-operator", call.text("role").unwrap_or_default());
    let new = |before: Option<OperatorRecord>| match before {
        None => Ok(record.clone()),
        Some(_) => {
            Err(ApiError::Conflict(format!("there is an operator {id}: choose another name")))
        }
    };
    call.gateway.change(&by, id.as_str(), new).await?;
    object(json!({ "id": id, "token": token }))
}

fn role(call: &Call) -> Result<Role, ApiError> {
    let sites = call.body.get("sites").filter(|sites| !sites.is_null());
    let role = call.text("role").unwrap_or_default();
    match (role, sites) {
        ("read", None) => Ok(Role::Read),
        ("operate", None) => Ok(Role::Operate),
        ("admin", None) => Ok(Role::Admin),
        ("partner", Some(sites)) => {
            let sites: Vec<Name> = serde_json::from_value(sites.clone()).map_err(|error| {
                ApiError::Wrong(format!("sites are not a list of names: {error}"))
            })?;
            Ok(Role::Partner(sites))
        }
        ("partner", None) => Err(ApiError::Wrong("a partner needs sites".to_owned())),
        ("read" | "operate" | "admin", Some(_)) => {
            Err(ApiError::Wrong("only a partner has sites".to_owned()))
        }
        _ => Err(ApiError::Wrong("role is read, operate, admin or partner".to_owned())),
    }
}

pub(super) async fn revoke(call: Call) -> Answer {
    let id = call.segment("operator").to_owned();
    if id == call.operator.id {
        return Err(ApiError::Conflict("you can't revoke yourself: ask another admin".to_owned()));
    }
    let reason = call.text("reason").unwrap_or_default().to_owned();
    let since_unix_seconds = call.gateway.now().unix_seconds();
    let by = call.by("revoke-operator", &reason);
    call.gateway
        .change(&by, &id, |before: Option<OperatorRecord>| {
            let missing = || ApiError::NotFound(format!("there is no operator {id:?}"));
            let mut record = before.ok_or_else(missing)?;
            let reason = reason.clone();
            record.revoked.get_or_insert(Revoked { reason, since_unix_seconds });
            Ok(record)
        })
        .await?;
    object(json!({ "id": id }))
}

pub(super) async fn audit(call: Call) -> Answer {
    let limit = call.query_whole("limit").unwrap_or(AUDIT_LIMIT).min(AUDIT_LIMIT_MAX);
    let (lines, bad) = load_all::<AuditRecord>(call.gateway.engine()).await?;
    // Keys sort by time; the newest lines come first.
    let newest = lines.into_iter().rev().take(limit as usize).map(|line| line.record);
    object(json!({ "lines": newest.collect::<Vec<_>>(), "unreadable": bad.len() }))
}
