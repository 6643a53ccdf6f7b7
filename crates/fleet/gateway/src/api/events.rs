//! The event stream of the fleet page: one line of JSON a second, shared by all clients.

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
    // The first event is sent immediately, so that the page is not empty for a second.
    let first = gateway.page_line();
    let later = gateway.page();
    let begin = (Some(first), later, gateway, asker);
    let events = stream::unfold(begin, |(first, mut later, gateway, asker)| async move {
        let line = match first {
            Some(line) => line,
            None => next(&mut later).await?,
        };
        // The stream ends for an operator who has been revoked.
        asker.operator(&gateway, Needed::Read).ok()?;
        Some((Ok::<_, ApiError>(event(&line)), (None, later, gateway, asker)))
    });
    ([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")], Body::from_stream(events))
}

/// Waits for the next line. A slow client skips lines and gets the newest one.
async fn next(later: &mut watch::Receiver<Bytes>) -> Option<Bytes> {
    later.changed().await.ok()?;
    Some(later.borrow_and_update().clone())
}

fn event(line: &[u8]) -> Bytes {
    [b"event: fleet\ndata: ", line, b"\n\n"].concat().into()
}
