//! The events stream of the fleet page: one line of JSON a second, made once for all readers.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::watch;

use super::operation::Needed;
use super::{ApiError, told, who_asks};
use crate::gateway::Gateway;

pub(super) async fn answer(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Response {
    let answer = who_asks(&gateway, &headers, Needed::Read).map(|_| streamed(&gateway));
    told(&gateway, answer)
}

fn streamed(gateway: &Arc<Gateway>) -> impl IntoResponse + use<> {
    // The first event comes at once: nobody looks at an empty page for a second.
    let first = gateway.page_line();
    let later = gateway.page();
    let events = stream::unfold((Some(first), later), |(first, mut later)| async move {
        let line = match first {
            Some(line) => line,
            None => next(&mut later).await?,
        };
        Some((Ok::<_, ApiError>(event(&line)), (None, later)))
    });
    ([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")], Body::from_stream(events))
}

/// The newest line, once it is new. A reader who is slow misses those between.
async fn next(later: &mut watch::Receiver<Bytes>) -> Option<Bytes> {
    later.changed().await.ok()?;
    Some(later.borrow_and_update().clone())
}

fn event(line: &[u8]) -> Bytes {
    [b"event: fleet\ndata: ", line, b"\n\n"].concat().into()
}
