//! Answers from a caching edge whose origin may spell a file's name in another of Unicode's forms.
//!
//! An origin that is a Fullbore finds the file by any spelling. A bucket that was filled from a Mac knows its own bytes only. So an edge asks for the
//! composed path first, as it does for every path, and for another spelling if there is no such file. Each spelling is an object of its own: an
//! origin with both has two files.

use super::edged;
use crate::edge::{LocalEdge, Viewer};
use crate::worker::Worker;
use disk::File;
use fullbore_http::{LibraryPath, Request, Response};
use std::rc::Rc;

/// The response to a request for the file at `path`, however the origin spells its name.
pub(super) async fn answer(
    worker: &Worker,
    edge: &LocalEdge,
    request: &Request,
    path: &LibraryPath,
    viewer: Viewer<'_>,
) -> (Response, Option<Rc<File>>) {
    let answer = edged::prepare(worker, edge, request, path.as_bytes(), viewer).await;
    if answer.0.status != 404 || path.as_bytes().is_ascii() {
        return answer;
    }
    // Boxed, so that other requests don't pay for it.
    Box::pin(answer_other(worker, edge, request, path, viewer)).await.unwrap_or(answer)
}

/// The response under the first other spelling that the origin has, if any.
async fn answer_other(
    worker: &Worker,
    edge: &LocalEdge,
    request: &Request,
    path: &LibraryPath,
    viewer: Viewer<'_>,
) -> Option<(Response, Option<Rc<File>>)> {
    for spelling in spellings(path) {
        let answer = edged::prepare(worker, edge, request, &spelling, viewer).await;
        if answer.0.status != 404 {
            return Some(answer);
        }
    }
    None
}

/// Decomposed, and as the viewer sent it, which may be in neither form. No others: each is a request to the origin, and viewers can invent paths.
fn spellings(path: &LibraryPath) -> Vec<Vec<u8>> {
    let mut spellings = path.other_spellings();
    spellings.truncate(1);
    let sent = path.as_sent();
    if *sent != *path.as_bytes() && spellings.iter().all(|known| **known != *sent) {
        spellings.push(sent.to_vec());
    }
    spellings
}
