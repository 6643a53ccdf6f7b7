//! Errors of the operator's API.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::WWW_AUTHENTICATE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use store::StoreError;
use store::records::BadRecord;

/// Why the operator's API does not carry out a request, as a sentence for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The request is wrong.
    #[error("{0}")]
    Wrong(String),
    /// The request has no token, or an unknown one.
    #[error(
        "this needs an operator's token, sent as \"Authorization: Bearer TOKEN\", or an operator's certificate"
    )]
    NoToken,
    /// The certificate does not belong to an operator.
    #[error("{0}")]
    NoOperator(String),
    /// The operator's role does not allow it.
    #[error("{0}")]
    Forbidden(String),
    /// It does not exist.
    #[error("{0}")]
    NotFound(String),
    /// It conflicts with the present state.
    #[error("{0}")]
    Conflict(String),
    /// It exceeds a limit.
    #[error("{0}")]
    TooLarge(String),
    /// Its body did not arrive in time.
    #[error("{0}")]
    Slow(String),
    /// It is not possible now.
    #[error("{0}")]
    Unavailable(String),
    /// An internal error.
    #[error("{0}")]
    Broken(String),
}

impl ApiError {
    /// Its status in HTTP.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Wrong(_) => StatusCode::BAD_REQUEST,
            Self::NoToken | Self::NoOperator(_) => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The name of the error in metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Wrong(_) => "wrong_request",
            Self::NoToken => "no_token",
            Self::NoOperator(_) => "no_operator",
            Self::Forbidden(_) => "forbidden",
            Self::NotFound(_) => "not_found",
            Self::Conflict(_) => "conflict",
            Self::TooLarge(_) => "too_large",
            Self::Slow(_) => "body_slow",
            Self::Unavailable(_) => "unavailable",
            Self::Broken(_) => "broken",
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        match error {
            StoreError::Conflict => Self::Conflict(text),
            StoreError::TooLarge(_) => Self::TooLarge(text),
            StoreError::Damaged(_) => Self::Broken(text),
            StoreError::Unavailable(_)
            | StoreError::SecondMachine(_)
            | StoreError::NotUsable(_) => Self::Unavailable(text),
        }
    }
}

/// The operator's request would make a record that violates its bounds.
impl From<BadRecord> for ApiError {
    fn from(bad: BadRecord) -> Self {
        Self::Wrong(bad.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Json(json!({ "error": self.to_string() }));
        let mut response = (self.status(), body).into_response();
        if self == Self::NoToken {
            let value = axum::http::HeaderValue::from_static("Bearer realm=\"fullbore\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, value);
        }
        response
    }
}
