//! Answers from a caching edge whose origin may spell a file's name in another of Unicode's forms.
//!
//! An origin that is a Fullbore finds the file by any spelling. A bucket that was filled from a Mac knows its own bytes only. So an edge asks for the
//! composed path first, as it does for every path, and for another spelling if there is no such file. From then on it asks for the spelling that it
//! has found ([`crate::edge::LocalEdge::spelling`]), so requests for cached files go to the origin no more often than others do.
//!
//! Each spelling is an object of its own: an origin with both has two files. Rules, figures and tokens are for the composed path.

use super::edged::{self, Asked};
use disk::File;
use fullbore_http::{LibraryPath, Response};
use std::rc::Rc;

type Answer = (Response, Option<Rc<File>>);

/// The response to a request, however the origin spells the name of its file.
pub(super) async fn answer(asked: Asked<'_>) -> Answer {
    if asked.path.has_other_spellings() {
        // Boxed, so that other requests don't pay for it.
        return Box::pin(answer_spelled(asked)).await;
    }
    edged::prepare(asked).await
}

async fn answer_spelled(asked: Asked<'_>) -> Answer {
    let Asked { edge, path, .. } = asked;
    let path_bytes = path.as_bytes();
    let known = edge.spelling(path_bytes);
    let answer = edged::prepare(Asked { spelling: known.as_ref(), ..asked }).await;
    let missing = Missing::of(answer.0.status);
    // A request that may change something is sent on once.
    let Some(missing) = missing.filter(|_| asked.request.method.reads()) else { return answer };
    let growing = asked.growing.take();
    let first = known.as_deref().unwrap_or(path_bytes);
    for spelling in spellings(path).into_iter().filter(|spelling| **spelling != *first) {
        drop(asked.growing.take());
        let other = edged::prepare(Asked { spelling: Some(&spelling), ..asked }).await;
        let status = other.0.status;
        // A moment's failure says nothing about spellings.
        if is_found(status) && missing == Missing::NotFound {
            edge.note_spelling(path_bytes, &spelling);
        }
        if is_found(status) || missing == Missing::NotFound && status != 404 {
            return other;
        }
    }
    if missing == Missing::NotFound {
        edge.forget_spelling(path_bytes);
    }
    *asked.growing.borrow_mut() = growing;
    answer
}

/// Why another spelling is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// The origin has no such file.
    NotFound,
    /// The origin can't be asked. The file may be cached under another spelling, from before a restart.
    Unknown,
}

impl Missing {
    fn of(status: u16) -> Option<Self> {
        match status {
            404 => Some(Self::NotFound),
            502 => Some(Self::Unknown),
            _ => None,
        }
    }
}

fn is_found(status: u16) -> bool {
    (200..400).contains(&status)
}

/// Composed, decomposed, and as the viewer sent it, which may be in neither form. No others: each is a request to the origin, and viewers can invent
/// paths.
fn spellings(path: &LibraryPath) -> Vec<Vec<u8>> {
    let mut spellings = vec![path.as_bytes().to_vec()];
    let others = path.other_spellings().into_iter().take(1);
    for spelling in others.chain([path.as_sent().to_vec()]) {
        if !spellings.contains(&spelling) {
            spellings.push(spelling);
        }
    }
    spellings
}
