//! Answers the authority's challenges: over HTTP (RFC 8555 section 8.3) on a port of our own, in DNS (section 8.4) through the operator's
//! hook, and over TLS (RFC 8737) through the server.
//!
//! The port is open to everyone. It serves one request on each connection, for the tokens of the current order only; everything else gets
//! 404, or is redirected to HTTPS if the operator wants that.

use crate::AcmeProof;
use crate::hook::{self, HookVerb, TxtRecord};
use crate::obtain::NotObtained;
use crate::proving::AtServer;
use fullbore_http::{
    Parse, RefusedRequest, Request, RequestLimits, secure_place, send_on, whole_answer,
};
use instant_acme::ChallengeType;
use listener::{Descriptors, HeldPlace, PlaceBounds, Places};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The path at which the authority fetches an answer.
const PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// An authority connects from a handful of addresses, with a connection or two each. Connections that have sent no request give way to new
/// ones, so silent ones cannot keep the authority out, however many there are.
const PLACES: PlaceBounds = PlaceBounds {
    connections_max: 256,
    fresh_max: 256,
    fresh_min: Duration::from_secs(1),
    per_address_max: 16,
    per_site_max: 32,
};

/// The time limit for a whole connection.
const CONVERSATION_MAX: Duration = Duration::from_secs(10);

/// Tokens and their answers, while an order is in progress.
#[derive(Clone, Default)]
pub(crate) struct Answers(Arc<Mutex<HashMap<String, String>>>);

impl Answers {
    fn all(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.0.lock().expect("no holder of this lock can panic")
    }

    fn of(&self, token: &[u8]) -> Option<String> {
        self.all().get(std::str::from_utf8(token).ok()?).cloned()
    }
}

/// An answer that the authority may fetch.
pub(crate) enum Challenged {
    /// At the path of this token.
    Http { token: String, answer: String },
    /// In this record.
    Dns(TxtRecord),
    /// In a certificate, from the server.
    Tls(AcmeProof),
}

/// Publishes answers, and withdraws them.
pub(crate) struct Challenges {
    pub(crate) answers: Answers,
    pub(crate) hook: Option<PathBuf>,
    /// The server, if the answers are given over TLS.
    pub(crate) at_server: Option<AtServer>,
}

impl Challenges {
    /// The type of challenge to answer, and a description of the proof.
    pub(crate) fn kind(&self) -> (ChallengeType, &'static str) {
        match (&self.hook, &self.at_server) {
            (Some(_), _) => (ChallengeType::Dns01, "a record in DNS"),
            (None, Some(_)) => (ChallengeType::TlsAlpn01, "a certificate over TLS"),
            (None, None) => (ChallengeType::Http01, "an answer over HTTP"),
        }
    }

    pub(crate) async fn present(&self, challenged: &Challenged) -> Result<(), NotObtained> {
        match challenged {
            Challenged::Dns(record) => self.run_hook(HookVerb::Present, record).await,
            Challenged::Http { token, answer } => {
                self.answers.all().insert(token.clone(), answer.clone());
                Ok(())
            }
            Challenged::Tls(proof) => match &self.at_server {
                Some(at_server) => at_server.prove(proof.clone()).await,
                None => Ok(()),
            },
        }
    }

    /// Returns the reason if a record could not be removed.
    pub(crate) async fn withdraw(&self, challenged: &Challenged) -> Result<(), NotObtained> {
        match challenged {
            Challenged::Dns(record) => self.run_hook(HookVerb::Cleanup, record).await,
            Challenged::Http { token, .. } => {
                self.answers.all().remove(token);
                Ok(())
            }
            Challenged::Tls(proof) => {
                if let Some(at_server) = &self.at_server {
                    // The next order removes leftovers.
                    let _ = at_server.withdraw(&proof.name).await;
                }
                Ok(())
            }
        }
    }

    async fn run_hook(&self, verb: HookVerb, record: &TxtRecord) -> Result<(), NotObtained> {
        match &self.hook {
            Some(hook) => hook::run(hook, verb, record).await,
            None => Ok(()),
        }
    }
}

/// Serves answers on `listener` until the server is gone; then finishes the open connections, and exits. Connections still in the
/// listener's queue are left for the next helper. With `https_port`, everything else is redirected to HTTPS there.
pub(crate) async fn serve(
    listener: TcpListener,
    answers: Answers,
    https_port: Option<u16>,
    mut is_gone: watch::Receiver<bool>,
) {
    let places = Places::new(PLACES, Descriptors::of_process().share(0), Arc::default());
    let mut conversations = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Finished ones make room.
            Some(_) = conversations.join_next() => continue,
            _ = is_gone.changed() => {
                while conversations.join_next().await.is_some() {}
                std::process::exit(0);
            }
        };
        match accepted {
            Ok((stream, address)) => {
                let Some(place) = places.enter(address.ip()) else { continue };
                let answers = answers.clone();
                conversations.spawn(async move {
                    let conversation = converse(stream, &place, &answers, https_port);
                    tokio::select! {
                        // A client that has left or is too slow gets no answer.
                        _ = timeout(CONVERSATION_MAX, conversation) => {}
                        () = place.ended() => {}
                    }
                });
            }
            // Out of descriptors: wait for some to be closed.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse(
    mut stream: TcpStream,
    place: &HeldPlace,
    answers: &Answers,
    https_port: Option<u16>,
) -> io::Result<()> {
    let limits = RequestLimits::default();
    let mut input = Vec::new();
    let answer = loop {
        match fullbore_http::parse(&input, &limits) {
            Ok(Parse::Complete { request, .. }) => break answer(&request, answers, https_port),
            Ok(Parse::Partial) => {}
            Err(_) => {
                let asked = RefusedRequest::Unparsed(&input);
                break whole_answer(
                    asked,
                    "400 Bad Request",
                    b"",
                    b"This is not an HTTP request.\n",
                );
            }
        }
        let before = input.len();
        stream.read_buf(&mut input).await?;
        if input.len() == before {
            return Ok(());
        }
    };
    place.is_busy();
    stream.write_all(&answer).await?;
    stream.shutdown().await?;
    place.is_waiting();
    // Closing with unread bytes would reset the connection and lose the answer.
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

fn answer(request: &Request, answers: &Answers, https_port: Option<u16>) -> Vec<u8> {
    let plain = |status, lines: &[u8], body: &[u8]| whole_answer(request, status, lines, body);
    if !request.method.reads() {
        return plain(
            "405 Method Not Allowed",
            b"Allow: GET, HEAD\r\n",
            b"Only GET is supported.\n",
        );
    }
    let place = request.path_and_query().unwrap_or_default();
    let token = place.as_bytes().strip_prefix(PREFIX);
    if let Some(answer) = token.and_then(|token| answers.of(token)) {
        return plain("200 OK", b"", answer.as_bytes());
    }
    match https_port.filter(|_| token.is_none()).and_then(|port| secure_place(request, port)) {
        Some(place) => send_on(request, &place),
        None => plain("404 Not Found", b"", b"There is nothing here.\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use tokio::net::TcpSocket;

    fn answer_to(head: &str, https_port: Option<u16>) -> String {
        let answers = Answers::default();
        answers.all().insert("tok-en_1".into(), "tok-en_1.thumb".into());
        let Ok(Parse::Complete { request, .. }) =
            fullbore_http::parse(head.as_bytes(), &RequestLimits::default())
        else {
            panic!("{head}")
        };
        String::from_utf8(answer(&request, &answers, https_port)).unwrap()
    }

    fn get(target: &str, host: &str) -> String {
        format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")
    }

    #[test]
    fn only_the_tokens_of_the_order_are_answered() {
        let found = answer_to(&get("/.well-known/acme-challenge/tok-en_1", "a.example"), None);
        assert!(found.starts_with("HTTP/1.1 200 OK\r\n"), "{found}");
        assert!(found.ends_with("\r\n\r\ntok-en_1.thumb"), "{found}");
        for target in ["/", "/film.mp4", "/.well-known/acme-challenge/", "/tok-en_1"] {
            assert!(answer_to(&get(target, "a.example"), None).starts_with("HTTP/1.1 404"));
        }
        let posted = "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n";
        assert!(answer_to(posted, Some(443)).starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn the_rest_is_sent_on_to_the_same_place_over_https_if_asked() {
        let place = |target: &str, host: &str, port| {
            let answer = answer_to(&get(target, host), Some(port));
            let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
            location.map(str::to_owned)
        };
        let of = |text: &str| Some(text.to_owned());
        assert_eq!(place("/a?b=%20c", "a.example", 443), of("https://a.example/a?b=%20c"));
        assert_eq!(place("/.well-known/acme-challenge/other", "a.example", 443), None);
        // The authority's request is answered before that.
        assert_eq!(place("/.well-known/acme-challenge/tok-en_1", "a.example", 443), None);
        let absolute = "http://a.example/.well-known/acme-challenge/tok-en_1";
        assert!(answer_to(&get(absolute, "a.example"), Some(443)).starts_with("HTTP/1.1 200"));
    }

    /// All of loopback belongs to this machine: each last byte is another address.
    async fn connect(to: SocketAddr, last: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
        socket.connect(to).await.unwrap()
    }

    /// The answer for the authority, if there is one: a connection beyond the limit is closed.
    async fn ask(to: SocketAddr) -> Option<String> {
        let mut stream = connect(to, 99).await;
        let request = get("/.well-known/acme-challenge/tok", "a.example");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        Some(String::from_utf8(answer).unwrap()).filter(|answer| !answer.is_empty())
    }

    #[tokio::test]
    async fn silent_connections_keep_no_authority_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answers = Answers::default();
        answers.all().insert("tok".into(), "tok.thumb".into());
        let (_here, is_gone) = watch::channel(false);
        tokio::spawn(serve(listener, answers, None, is_gone));
        let mut silent = Vec::new();
        for at in 0..400 {
            silent.push(connect(address, 1 + (at / 20) as u8).await);
        }
        let answer = async {
            loop {
                match ask(address).await {
                    Some(answer) => break answer,
                    None => sleep(Duration::from_millis(50)).await,
                }
            }
        };
        let answer = timeout(Duration::from_secs(60), answer).await.expect("an answer");
        assert!(answer.ends_with("\r\n\r\ntok.thumb"), "{answer}");
        // They did not have to time out first.
        let is_open = |stream: &TcpStream| {
            let read = stream.try_read(&mut [0; 1]);
            read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        let open = silent.iter().filter(|stream| is_open(stream)).count();
        assert!(open > 200, "{open}");
    }
}
