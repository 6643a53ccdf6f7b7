//! Response headers: `no-store`, and CORS for every origin.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW,
    CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER,
};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::answering::Answers;
use crate::manifest::DocumentError;

pub(crate) const JSON: &str = "application/json";

/// Supported methods.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");

/// A response with a body.
pub(crate) fn reply(media_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// A JSON response.
pub(crate) fn json(value: &impl Serialize) -> Response {
    // It has only strings, numbers and lists of them, which JSON can express.
    reply(JSON, serde_json::to_vec(value).unwrap_or_default())
}

/// Why a request is refused. Each reason has a label for counters, and a sentence for the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoFleet,
    NoSuchTitle(String),
    NoSuchPage,
    NoNode(String),
    NoDocument(String),
    BadDocument(String, DocumentError),
    BadToken,
    NoTitle,
    TooLong,
}

impl Refusal {
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::NoFleet => "no_snapshot",
            Self::NoSuchTitle(_) => "no_such_title",
            Self::NoSuchPage => "no_such_page",
            Self::NoNode(_) => "no_node",
            Self::NoDocument(_) => "no_document",
            Self::BadDocument(..) => "bad_document",
            Self::BadToken => "bad_token",
            Self::NoTitle => "no_title",
            Self::TooLong => "too_long",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::NoSuchTitle(_) | Self::NoSuchPage => StatusCode::NOT_FOUND,
            Self::NoFleet | Self::NoNode(_) | Self::NoDocument(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::BadDocument(..) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::BadToken | Self::NoTitle => StatusCode::BAD_REQUEST,
            Self::TooLong => StatusCode::URI_TOO_LONG,
        }
    }

    fn sentence(&self) -> String {
        match self {
            Self::NoFleet => {
                "there is no snapshot of the fleet here yet: try again in a few seconds".into()
            }
            Self::NoSuchTitle(title) => {
                format!("there is no title {title:?}: /api/v1/titles lists those that there are")
            }
            Self::NoSuchPage => {
                "below /play/TITLE/ there are master.m3u8 and manifest.mpd, and nothing else".into()
            }
            Self::NoNode(title) => {
                format!("no node that serves has {title:?} now: try again later")
            }
            Self::NoDocument(title) => {
                format!("the manifest of {title:?} is not here yet: try again in a few seconds")
            }
            Self::BadDocument(title, why) => {
                format!(
                    "the manifest of {title:?} cannot be served by a fleet: {why}; publish it again"
                )
            }
            Self::BadToken => {
                "token has an invalid character: use a signed address unchanged".into()
            }
            Self::NoTitle => "name a title: /api/v1/route?title=TITLE".into(),
            Self::TooLong => "the address is longer than any title's".into(),
        }
    }
}

/// The body of an error.
#[derive(Serialize)]
struct ErrorBody {
    error: String,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = json(&ErrorBody { error: self.sentence() });
        *response.status_mut() = self.status();
        if self.status() == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

/// Counts a response and returns it.
pub(crate) fn counted(
    answers: &Answers,
    label: &'static str,
    result: Result<Response, Refusal>,
) -> Response {
    match result {
        Ok(response) => {
            answers.source.count(label);
            response
        }
        Err(refusal) => {
            answers.source.count(refusal.label());
            refusal.into_response()
        }
    }
}

/// `/healthz`.
pub(crate) async fn health(State(answers): State<Arc<Answers>>) -> Response {
    match answers.fleet() {
        Ok(_) => reply("text/plain", "ok\n"),
        Err(refusal) => refusal.into_response(),
    }
}

/// OPTIONS, which browsers send before unusual requests, and unsupported methods.
pub(crate) async fn other_method(method: Method) -> Response {
    let mut response = reply(JSON, Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    if method != Method::OPTIONS {
        response = json(&ErrorBody { error: format!("{method} is not supported here: use GET") });
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    }
    let headers = response.headers_mut();
    headers.insert(ALLOW, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    response
}
