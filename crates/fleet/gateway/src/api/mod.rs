//! The operator's API, on the admin listener.
//!
//! Every request needs an operator's token or certificate, except for the pages, `/healthz` and the API's own description. Bodies are JSON objects
//! with fields of known names and types, of up to [`BODY_BYTES_MAX`], or [`LARGE_BODY_BYTES_MAX`] for two operations. A body is read only after the
//! sender is authenticated and authorized. Every change has a line in the audit log.
//!
//! Read first: `operation.rs`, then `operations.rs`, which is the table of all operations.

mod asker;
mod certificates;
mod error;
mod events;
mod experience;
mod gateways;
mod issues;
mod metrics;
mod nodes;
mod open_caching;
mod openapi;
mod operation;
mod operations;
mod operators;
mod places;
mod plans;
mod purges;
mod routing;
mod titles;
mod viewing;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on};
use listener::{BodyBounds, BodyBudget, BodyFault, read_body};
use serde_json::{Map, Value};

pub use error::ApiError;
pub use metrics::METRICS;
pub use openapi::document;
pub use operation::{ApiField, FieldKind, Needed, Operation};
pub use operations::OPERATIONS;

use crate::gateway::Gateway;
use asker::Asker;
use operation::Call;

/// Largest body of most operations: lists of a few thousand names or prefixes.
pub const BODY_BYTES_MAX: usize = 256 << 10;

/// Largest body for publishing a title (its three documents, in base64) or replacing a site's file of prefixes.
pub const LARGE_BODY_BYTES_MAX: usize = 32 << 20;

/// Most memory for all small bodies that operators are sending, and for all large ones, per process, for all of its gateways.
static SMALL_BODIES: LazyLock<Arc<BodyBudget>> = LazyLock::new(|| BodyBudget::new(16 << 20));
static LARGE_BODIES: LazyLock<Arc<BodyBudget>> = LazyLock::new(|| BodyBudget::new(96 << 20));

/// The API of a gateway.
pub fn router(gateway: &Arc<Gateway>) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(metrics::answer))
        .route("/api/v1/fleet", get(events::answer))
        .route("/api/v1/openapi.json", get(|| async { Json(document()) }));
    let paths: std::collections::BTreeSet<_> = OPERATIONS.iter().map(|one| one.path).collect();
    for path in paths {
        let operations = OPERATIONS.iter().filter(|operation| operation.path == path);
        let methods = operations
            .fold(MethodRouter::new(), |methods, operation| methods.merge(method(operation)));
        router = router.route(path, methods);
    }
    router
        .fallback(|| async {
            ApiError::NotFound(
                "the operator's API has no such path: see /api/v1/openapi.json".to_owned(),
            )
        })
        .method_not_allowed_fallback(|| async {
            let error = ApiError::Wrong(
                "this path does not take that method: see /api/v1/openapi.json".to_owned(),
            );
            let mut response = error.into_response();
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            response
        })
        .with_state(Arc::clone(gateway))
}

fn method(operation: &'static Operation) -> MethodRouter<Arc<Gateway>> {
    let filter = MethodFilter::try_from(operation.method.clone());
    let filter = filter.expect("operations are GET, POST or PUT");
    let handler = move |State(gateway): State<Arc<Gateway>>,
                        Path(path): Path<HashMap<String, String>>,
                        query: Result<Query<HashMap<String, String>>, _>,
                        asker: Asker,
                        body: Body| async move {
        let asked: Result<_, ApiError> = async {
            let operator = asker.operator(&gateway, operation.role)?;
            let wrong = |error: axum::extract::rejection::QueryRejection| {
                ApiError::Wrong(format!("the query cannot be read: {error}"))
            };
            let Query(query) = query.map_err(wrong)?;
            operation::check_query(operation.query, &query)?;
            let body = read(body, operation.body_bytes_max).await?;
            operation::check_body(operation.body, &body)?;
            let gateway = Arc::clone(&gateway);
            let call = Call { gateway, operator, path, query, body };
            let mut answer = (operation.handler)(call).await?;
            answer.insert("version".to_owned(), Value::from(1));
            Ok(answer)
        }
        .await;
        told(&gateway, asked.map(Json))
    };
    on(filter, handler)
}

/// The response; a refusal is counted.
fn told(gateway: &Gateway, answer: Result<impl IntoResponse, ApiError>) -> Response {
    answer.map_or_else(
        |error| {
            gateway.count_refused(error.as_str());
            error.into_response()
        },
        IntoResponse::into_response,
    )
}

/// Parses a body as a JSON object.
async fn read(body: Body, bytes_max: usize) -> Result<Map<String, Value>, ApiError> {
    let (bounds, budget) = match bytes_max {
        BODY_BYTES_MAX => (BodyBounds::small(bytes_max), &*SMALL_BODIES),
        _ => (BodyBounds::large(bytes_max), &*LARGE_BODIES),
    };
    let body = read_body(body, bounds, budget).await.map_err(|fault| match fault {
        BodyFault::TooLarge => {
            ApiError::TooLarge(format!("the body is larger than {bytes_max} bytes"))
        }
        BodyFault::Slow => ApiError::Slow("the body did not arrive completely in time".to_owned()),
        BodyFault::NoMemory => ApiError::Unavailable(
            "too many requests with large bodies are being read: try again in a few seconds"
                .to_owned(),
        ),
    })?;
    if body.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(&body) {
        Ok(Value::Object(body)) => Ok(body),
        Ok(_) => Err(ApiError::Wrong("the body is not a JSON object".to_owned())),
        Err(error) => Err(ApiError::Wrong(format!("the body is not JSON: {error}"))),
    }
}

/// Converts a value that is an object into an answer.
fn object(value: Value) -> operation::Answer {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(ApiError::Broken("the answer is not an object".to_owned())),
    }
}
