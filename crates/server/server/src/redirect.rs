//! Redirects viewers of plain HTTP to HTTPS, from a listener of its own (`tls.redirect_listen`). The admin pages' thread does this, so
//! it costs the workers nothing.
//!
//! It answers one request on each connection and serves nothing.

use crate::admin::{accept_into, read_request, send_bytes};
use crate::drain::Drain;
use fullbore_http::{RefusedRequest, Request, RequestLimits};
use net::{Admission, Socket};
use reactor::{Fd, spawn, timeout_at};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use telemetry::{Exposition, Kind, Metric};

/// Connections at once.
const CONNECTIONS_MAX: usize = 1000;

/// Connections at once from one address.
const OF_ADDRESS_MAX: usize = 100;

/// Time limit for a whole conversation.
const CONVERSATION_MAX: Duration = Duration::from_secs(10);

const REDIRECTS: Metric = Metric::new(
    Kind::Counter,
    "fullbore_redirects_total",
    "Connections to tls.redirect_listen, by what became of them.",
)
.by("result");

/// The metrics of redirects.
pub(crate) const METRICS: [Metric; 1] = [REDIRECTS];

/// The outcome of a connection.
#[derive(Clone, Copy)]
enum Outcome {
    /// It was redirected.
    Sent,
    /// Its request was refused: it names no host, is malformed, or wants to write.
    Refused,
    /// The limit on connections was reached.
    Full,
    /// It sent no request, or did not take the answer.
    Left,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Sent, Self::Refused, Self::Full, Self::Left];

    fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Refused => "refused",
            Self::Full => "full",
            Self::Left => "left",
        }
    }
}

/// The redirects' target, and their counts.
pub(crate) struct Redirects {
    /// The port of HTTPS.
    port: u16,
    counts: [AtomicU64; 4],
    /// Held once for each listener and each conversation.
    under_way: Arc<()>,
}

impl Redirects {
    /// Redirects to this port of HTTPS.
    pub(crate) fn new(port: u16) -> Arc<Self> {
        Arc::new(Self { port, counts: Default::default(), under_way: Arc::default() })
    }

    /// Whether connections are accepted, or some accepted ones have no answer yet.
    pub(crate) fn are_under_way(&self) -> bool {
        Arc::strong_count(&self.under_way) > 1
    }

    fn count(&self, outcome: Outcome) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Adds its metrics to `out`.
    pub(crate) fn expose(&self, out: &mut Exposition) {
        let labels = Outcome::ALL.map(Outcome::as_str).into_iter();
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        out.labelled(&REDIRECTS, labels.zip(counts));
    }

    /// Accepts connections until `stop` begins.
    pub(crate) async fn accept(self: Arc<Self>, listener: Fd, stop: Rc<Drain>) {
        let _accepting = Arc::clone(&self.under_way);
        let admission = Admission::new(CONNECTIONS_MAX, OF_ADDRESS_MAX);
        let receive = |socket: Socket| {
            let Ok(peer) = socket.peer() else { return self.count(Outcome::Left) };
            let Ok(pass) = admission.admit(peer.ip()) else { return self.count(Outcome::Full) };
            let (redirects, held) = (Arc::clone(&self), (pass, Arc::clone(&self.under_way)));
            spawn(async move {
                let _held = held;
                let deadline = Instant::now() + CONVERSATION_MAX;
                let outcome = timeout_at(deadline, redirects.converse(&socket)).await;
                redirects.count(outcome.unwrap_or(Outcome::Left));
            });
        };
        accept_into(listener, &stop, receive).await;
    }

    async fn converse(&self, socket: &Socket) -> Outcome {
        let mut input = Vec::new();
        let (outcome, answer) =
            match read_request(socket, &mut input, &RequestLimits::default()).await {
                Some(Ok(request)) => self.answer(&request),
                Some(Err(_)) => (Outcome::Refused, refuse(&input)),
                None => return Outcome::Left,
            };
        let sent = send_bytes(socket, &answer).await;
        socket.finish();
        sent.map_or(Outcome::Left, |()| outcome)
    }

    fn answer(&self, request: &Request) -> (Outcome, Vec<u8>) {
        let refused = |status, lines: &[u8], body: &[u8]| {
            (Outcome::Refused, fullbore_http::whole_answer(request, status, lines, body))
        };
        if !request.method.reads() {
            let allow = b"Allow: GET, HEAD\r\n";
            return refused("405 Method Not Allowed", allow, b"Only GET is answered.\n");
        }
        match fullbore_http::secure_place(request, self.port) {
            Some(place) => (Outcome::Sent, fullbore_http::send_on(request, &place)),
            None => refused("404 Not Found", b"", b"There is nothing here.\n"),
        }
    }
}

/// Refuses `received`, which is not a request, or one with a body.
fn refuse(received: &[u8]) -> Vec<u8> {
    let asked = RefusedRequest::Unparsed(received);
    fullbore_http::whole_answer(asked, "400 Bad Request", b"", b"This is not an HTTP request.\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_http::Parse;

    fn answer(text: &str) -> String {
        let Ok(Parse::Complete { request, .. }) =
            fullbore_http::parse(text.as_bytes(), &RequestLimits::default())
        else {
            panic!("{text}")
        };
        String::from_utf8(Redirects::new(8443).answer(&request).1).unwrap()
    }

    #[test]
    fn only_what_reads_and_names_a_host_is_sent_on() {
        let sent = answer("GET /a?b HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert!(sent.starts_with("HTTP/1.1 308 ") && sent.contains("https://a.example:8443/a?b"));
        let absolute = answer("GET http://tv.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert!(absolute.starts_with("HTTP/1.1 308 "), "{absolute}");
        assert!(absolute.contains("\r\nLocation: https://tv.example:8443/x\r\n"), "{absolute}");
        assert!(answer("GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 "));
        let posted = "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n";
        assert!(answer(posted).starts_with("HTTP/1.1 405 "));
    }
}
