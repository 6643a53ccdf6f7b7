//! Refusals: the response for a machine whose request is not carried out.

use axum::Json;
use axum::http::header::{CONNECTION, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use fleet_protocol::OutOfBounds;
use identity::{Caller, RefusalLog, RefusalReason};
use serde_json::json;

use crate::live;
use store::StoreError;

/// Why a machine's request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineRefusal {
    /// The reason for counters.
    pub reason: RefusalReason,
    /// A sentence for the node's operator.
    pub text: String,
}

impl MachineRefusal {
    /// A refusal with its own text.
    pub fn new(reason: RefusalReason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }

    /// Counts and logs it, and builds the response.
    pub(super) fn tell(self, caller: &Caller, refusals: &RefusalLog) -> Response {
        refusals.refuse(self.reason, caller);
        let told = json!({ "version": 1, "error": self.text, "reason": self.reason.as_str() });
        let mut response = (status(self.reason), Json(told)).into_response();
        let headers = response.headers_mut();
        match self.reason {
            RefusalReason::Revoked
            | RefusalReason::Expired
            | RefusalReason::BodyTooLarge
            | RefusalReason::BodySlow => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            RefusalReason::Flood | RefusalReason::Unavailable => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
            }
            _ => {}
        }
        response
    }
}

fn status(reason: RefusalReason) -> StatusCode {
    match reason {
        RefusalReason::NoCertificate => StatusCode::UNAUTHORIZED,
        RefusalReason::BadSigningRequest
        | RefusalReason::Malformed
        | RefusalReason::OutOfBounds => StatusCode::BAD_REQUEST,
        RefusalReason::NameTaken | RefusalReason::HostTaken | RefusalReason::Stale => {
            StatusCode::CONFLICT
        }
        RefusalReason::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        RefusalReason::BodySlow => StatusCode::REQUEST_TIMEOUT,
        RefusalReason::Flood => StatusCode::TOO_MANY_REQUESTS,
        RefusalReason::NotFound => StatusCode::NOT_FOUND,
        RefusalReason::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::FORBIDDEN,
    }
}

/// The texts of reasons that need no details.
impl From<RefusalReason> for MachineRefusal {
    fn from(reason: RefusalReason) -> Self {
        let text = match reason {
            RefusalReason::NoCertificate => "this needs a node's certificate: join the fleet first",
            RefusalReason::Revoked => {
                "this node was revoked: it can no longer take part in the fleet"
            }
            RefusalReason::UnknownNode => {
                "the fleet does not know this node: if it has just joined, try again in a second; otherwise join again"
            }
            RefusalReason::Expired => {
                "the node's certificate has expired: join again with a new invitation"
            }
            RefusalReason::TokenUnknown => {
                "the fleet has no such invitation: copy all of the token that `fullbore control invite` printed, or ask for a new one"
            }
            RefusalReason::TokenExpired => "the invitation has expired: ask for a new one",
            RefusalReason::TokenUsed => {
                "the invitation was used: each is for one box, so ask for a new one"
            }
            RefusalReason::TokenForOther => "the invitation is for a box with another name",
            RefusalReason::NameTaken => {
                "another node has, or had, that name: choose another with --name"
            }
            RefusalReason::HostTaken => {
                "another machine of the fleet has that host: choose another with --host"
            }
            RefusalReason::OtherName => "a node may report on itself only",
            RefusalReason::BodyTooLarge => "the body is too large for this request",
            RefusalReason::BodySlow => "the body did not arrive in time",
            RefusalReason::Flood => "too many requests: wait a few seconds",
            RefusalReason::NotFound => "nothing has that name",
            RefusalReason::Unavailable => "the gateway cannot do this now: try again",
            other => other.as_str(),
        };
        Self::new(reason, text)
    }
}

impl From<OutOfBounds> for MachineRefusal {
    fn from(why: OutOfBounds) -> Self {
        Self::new(RefusalReason::OutOfBounds, why.to_string())
    }
}

impl From<StoreError> for MachineRefusal {
    fn from(error: StoreError) -> Self {
        Self::new(RefusalReason::Unavailable, format!("the fleet's store: {error}"))
    }
}

impl From<live::RejectedMessage> for MachineRefusal {
    fn from(why: live::RejectedMessage) -> Self {
        let reason = match why {
            live::RejectedMessage::NotItself => RefusalReason::OtherName,
            live::RejectedMessage::Unknown => RefusalReason::UnknownNode,
            live::RejectedMessage::Revoked => RefusalReason::Revoked,
            live::RejectedMessage::Stale => RefusalReason::Stale,
            live::RejectedMessage::NoRoom => RefusalReason::Unavailable,
            live::RejectedMessage::OverCeiling => RefusalReason::OverCeiling,
            live::RejectedMessage::OutOfBounds(_) => RefusalReason::OutOfBounds,
        };
        Self::new(reason, why.to_string())
    }
}
