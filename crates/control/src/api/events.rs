//! The events stream of the fleet page: one line of JSON a second, made once for all readers.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::watch;

use super::asker::Asker;
use super::operation::Needed;
use super::{ApiError, told};
use crate::gateway::Gateway;

pub(super) async fn answer(State(gateway): State<Arc<Gateway>>, asker: Asker) -> Response {
    let answer = asker.operator(&gateway, Needed::Read);
    let answer = answer.map(|_| streamed(Arc::clone(&gateway), asker));
    told(&gateway, answer)
}

fn streamed(gateway: Arc<Gateway>, asker: Asker) -> impl IntoResponse {
    // The first event comes at once: nobody looks at an empty page for a second.
    let first = gateway.page_line();
    let later = gateway.page();
    let begin = (Some(first), later, gateway, asker);
    let events = stream::unfold(begin, |(first, mut later, gateway, asker)| async move {
        let line = match first {
            Some(line) => line,
            None => next(&mut later).await?,
        };
        // Somebody who was revoked meanwhile sees no more.
        asker.operator(&gateway, Needed::Read).ok()?;
        Some((Ok::<_, ApiError>(event(&line)), (None, later, gateway, asker)))
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
