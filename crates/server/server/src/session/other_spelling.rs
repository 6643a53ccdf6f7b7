//! Answers from a caching edge whose origin may spell a file's name in another of Unicode's forms.
//!
//! An origin that is a Fullbore finds the file by any spelling. A bucket that was filled from a Mac knows its own bytes only. So an edge asks for the
//! composed path first, as it does for every path, and for another spelling if there is no such file. Each spelling is an object of its own: an
//! origin with both has two files.

use super::edged::{self, Asked};
use disk::File;
use fullbore_http::{LibraryPath, Response};
use std::rc::Rc;

/// The response to a request for the file at `path`, however the origin spells its name.
pub(super) async fn answer(asked: Asked<'_>, path: &LibraryPath) -> (Response, Option<Rc<File>>) {
    let answer = edged::prepare(asked).await;
    // A request that may change something is sent on once.
    let is_final = answer.0.status != 404 || !asked.request.method.reads();
    if is_final || path.as_bytes().is_ascii() {
        return answer;
    }
    let growing = asked.growing.take();
    // Boxed, so that other requests don't pay for it.
    match Box::pin(answer_other(asked, path)).await {
        Some(other) => other,
        None => {
            *asked.growing.borrow_mut() = growing;
            answer
        }
    }
}

/// The response under the first other spelling that the origin has, if any.
async fn answer_other(
    asked: Asked<'_>,
    path: &LibraryPath,
) -> Option<(Response, Option<Rc<File>>)> {
    for spelling in spellings(path) {
        drop(asked.growing.take());
        let answer = edged::prepare(Asked { path: &spelling, ..asked }).await;
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
