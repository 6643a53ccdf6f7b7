//! The fleet's issues: listing them, and snoozing one.

use fleet_protocol::Name;
use serde_json::json;

use super::operation::FieldKind::{List, Object, Text, Whole};
use super::operation::{Answer, ApiField, Call, maybe, needed};
use super::{ApiError, object};
use crate::gateway::{SNOOZE_SECONDS_MAX, ShownIssue};
use crate::issues::ListedIssue;

/// Ended issues per answer: default and maximum.
const LIMIT: u64 = 100;
const LIMIT_MAX: u64 = 1000;

/// The query of a list.
pub(super) const LISTED: &[ApiField] =
    &[maybe("ended", Whole, "Most ended issues to list, at most 1,000; default 100.")];

/// A list.
pub(super) const ISSUES: &[ApiField] = &[
    needed("counts", Object, "Numbers of open issues: {critical, warning, snoozed}."),
    needed(
        "issues",
        List,
        "Open issues, critical ones first: {id, kind, severity, subject, site, text, advice, since_unix_millis, snoozed}; \
         snoozed is null or {until_unix_seconds, by, reason}.",
    ),
    needed(
        "ended",
        List,
        "Issues that have ended, the last one first, with ended_unix_millis and without snoozed.",
    ),
];

/// The body of a snooze.
pub(super) const SNOOZE: &[ApiField] = &[
    needed("id", Text, "The issue's ID."),
    needed("seconds", Whole, "For how long, at most 90 days."),
    needed("reason", Text, "Why, for other operators."),
];

/// The body that wakes an issue.
pub(super) const WAKE: &[ApiField] = &[needed("id", Text, "The issue's ID.")];

/// The answer to both.
pub(super) const SNOOZED: &[ApiField] = &[
    needed("id", Text, "The issue's ID."),
    maybe("snoozed", Object, "{until_unix_seconds, by, reason}, or null."),
];

/// Whether the operator may see an issue: partners see those of their own sites.
fn sees(own: Option<&[Name]>, issue: &ListedIssue) -> bool {
    own.is_none_or(|own| issue.site.as_ref().is_some_and(|site| own.contains(site)))
}

pub(super) async fn list(call: Call) -> Answer {
    let limit = call.query_whole("ended").unwrap_or(LIMIT).min(LIMIT_MAX) as usize;
    let own = call.own_sites();
    let (shown, mut counts) = call.gateway.shown_issues(call.gateway.now());
    let shown: Vec<_> = shown.into_iter().filter(|one| sees(own, &one.issue)).collect();
    if own.is_some() {
        counts = ShownIssue::count(&shown);
    }
    let ended = call.gateway.ended_issues();
    let ended: Vec<_> = ended.into_iter().filter(|one| sees(own, &one.issue)).take(limit).collect();
    object(json!({ "counts": counts, "issues": shown, "ended": ended }))
}

pub(super) async fn snooze(call: Call) -> Answer {
    let seconds = call.whole("seconds").unwrap_or(0);
    if seconds == 0 || seconds > SNOOZE_SECONDS_MAX {
        return Err(ApiError::Wrong("seconds is not between 1 and 90 days".to_owned()));
    }
    let reason = call.text("reason").unwrap_or_default().trim().to_owned();
    if reason.is_empty() {
        return Err(ApiError::Wrong("reason is empty: give one for other operators".to_owned()));
    }
    change(&call, Some(seconds), &reason).await
}

pub(super) async fn wake(call: Call) -> Answer {
    change(&call, None, "").await
}

async fn change(call: &Call, seconds: Option<u64>, reason: &str) -> Answer {
    let id = call.text("id").unwrap_or_default();
    let find = |shown: Vec<ShownIssue>| shown.into_iter().find(|one| one.issue.id == id);
    let (shown, _) = call.gateway.shown_issues(call.gateway.now());
    // A partner must not learn of issues at other sites.
    let known = find(shown).filter(|one| sees(call.own_sites(), &one.issue));
    if known.is_none() {
        return Err(ApiError::NotFound(format!("there is no open issue {id:?}")));
    }
    let (what, detail) = match seconds {
        Some(seconds) => ("snooze", format!("{id} for {seconds} s: {reason}")),
        None => ("wake", id.to_owned()),
    };
    call.gateway.snooze(id, seconds, reason, &call.by(what, &detail)).await?;
    let (shown, _) = call.gateway.shown_issues(call.gateway.now());
    // It may have ended meanwhile.
    object(json!({ "id": id, "snoozed": find(shown).and_then(|one| one.snoozed) }))
}
