//! The reasons for which a listener refuses a connection or a request before a handler sees it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::body::Body;
use axum::http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderValue, Response, StatusCode};
use fullbore_http::Reject;

/// Why a listener refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListenerRefusal {
    /// There was no place for the connection, in total or for its address, and no connection that could be evicted.
    NoPlace,
    /// The connection was evicted for a new one: it was the oldest without a request in progress.
    GaveWay,
    /// The head was not complete in time.
    HeadSlow,
    /// The head can't be parsed, or asks for something that no listener supports.
    Head(Reject),
    /// The request has a body, and this listener accepts none.
    Body,
    /// The request has a body without a length.
    NoLength,
}

impl ListenerRefusal {
    /// Number of reasons.
    const COUNT: usize = 5 + Reject::ALL.len();

    /// All reasons.
    pub fn all() -> impl Iterator<Item = Self> {
        let own = [Self::NoPlace, Self::GaveWay, Self::HeadSlow, Self::Body, Self::NoLength];
        own.into_iter().chain(Reject::ALL.into_iter().map(Self::Head))
    }

    fn index(self) -> usize {
        // There are twenty.
        Self::all().position(|reason| reason == self).unwrap_or(0)
    }

    /// The label in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoPlace => "no_place",
            Self::GaveWay => "gave_way",
            Self::HeadSlow => "head_slow",
            Self::Head(reject) => reject.as_str(),
            Self::Body => "body_unwanted",
            Self::NoLength => "no_length",
        }
    }

    /// Parses [`Self::as_str`].
    pub(crate) fn of(text: &str) -> Option<Self> {
        Self::all().find(|reason| reason.as_str() == text)
    }

    fn status(self) -> StatusCode {
        match self {
            Self::NoPlace | Self::GaveWay => StatusCode::SERVICE_UNAVAILABLE,
            Self::HeadSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Head(reject) => {
                StatusCode::from_u16(reject.status()).unwrap_or(StatusCode::BAD_REQUEST)
            }
            Self::Body => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoLength => StatusCode::LENGTH_REQUIRED,
        }
    }

    fn sentence(self) -> String {
        match self {
            Self::NoPlace | Self::GaveWay => "There are too many connections.".to_owned(),
            Self::HeadSlow => "The request did not arrive in time.".to_owned(),
            Self::Head(reject) => reject.to_string(),
            Self::Body => "This listener accepts no request bodies.".to_owned(),
            Self::NoLength => "A request with a body needs Content-Length.".to_owned(),
        }
    }

    /// The response. The connection closes after it; over HTTP/2, only the stream does.
    pub(crate) fn response(self, is_head: bool, closes: bool) -> Response<Body> {
        let text = if is_head { String::new() } else { self.sentence() + "\n" };
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if self.status() == StatusCode::METHOD_NOT_ALLOWED {
            // RFC 9110 section 15.5.6 requires Allow.
            headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
        }
        response
    }
}

/// Counts refusals by reason.
#[derive(Debug)]
pub struct RefusedCounts([AtomicU64; ListenerRefusal::COUNT]);

impl Default for RefusedCounts {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; ListenerRefusal::COUNT])
    }
}

impl RefusedCounts {
    pub(crate) fn add(&self, reason: ListenerRefusal) {
        self.0[reason.index()].fetch_add(1, Relaxed);
    }

    /// Refusals for this reason.
    pub fn count(&self, reason: ListenerRefusal) -> u64 {
        self.0[reason.index()].load(Relaxed)
    }

    /// All counts, by reason.
    pub fn counts(&self) -> impl Iterator<Item = (ListenerRefusal, u64)> + '_ {
        ListenerRefusal::all().map(|reason| (reason, self.count(reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_name_and_counter() {
        let counts = RefusedCounts::default();
        for reason in ListenerRefusal::all() {
            assert_eq!(ListenerRefusal::of(reason.as_str()), Some(reason));
            counts.add(reason);
            assert_eq!(counts.count(reason), 1, "{reason:?}");
        }
        assert_eq!(ListenerRefusal::all().count(), ListenerRefusal::COUNT);
    }
}
