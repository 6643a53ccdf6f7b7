//! A connection's life: handshake, then request after request.
//!
//! Read it top to bottom: [`run`], `establish`, `converse`. `answer` decides on the responses. `moving` is for
//! connections that move to another worker while they are open.

mod ahead;
mod answer;
mod collecting;
mod edged;
mod forms;
mod forwarding;
mod growing;
#[cfg(test)]
mod memory_tests;
mod moving;
mod other_spelling;
mod purging;

pub(crate) use moving::{MovingSession, arrive};

use crate::worker::Worker;
use delivery::memory_budget::HandshakePermit;
use delivery::{Carrier, Channel, End, Link, Outgoing, Protection};
use fullbore_http::{
    BodyDrain, BodyFraming, BodyProgress, Parse, Refusal, RefusedRequest, Reject, Request,
};
use moving::Elsewhere;
use net::Permit;
use reactor::{now, timeout_at};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};
use telemetry::Family;
use tls::{Alert, Handshake, HandshakeError, Progress, SessionInfo, Suite, TlsContext, TlsVersion};
use token::Verified;

/// The alerts that end a connection in order.
const GOODBYE: &[Alert] = &[Alert::CloseNotify];

/// A connection that is ready for requests.
struct Session {
    worker: Rc<Worker>,
    channel: Channel,
    peer: SocketAddr,
    /// Received bytes that are not parsed yet.
    input: Vec<u8>,
    tls: Option<Suited>,
    /// When it may move to another worker: after TCP has accepted this many bytes, in units of `moving`. 0 is at once.
    stays_until: u32,
    /// The token that this viewer has shown last.
    verified: Verified,
}

/// Why a session stops answering.
enum Pause {
    /// The connection ends.
    End(End),
    /// The next request, which is still in the input, is for another worker.
    Elsewhere(Elsewhere),
    /// The next request, which is still in the input, is for the first title, and is answered here, so the kernel may have the keys. The time when it
    /// was complete.
    TitleKnown(Instant),
}

/// Serves one connection from its first byte to its last, and counts the reason for its end.
pub fn run<C: Carrier>(
    worker: Rc<Worker>,
    socket: C,
    peer: SocketAddr,
    permit: Permit,
    handshake: HandshakePermit,
) -> impl Future<Output = ()> {
    // Boxed, because a handshake's state is large, and this frees it afterwards. Anything that the future below captures keeps its memory as long as
    // that future lives, so this takes the session's parts by value, or they would be in memory twice.
    let establishing = Box::pin(async move {
        match establish(Rc::clone(&worker), socket, handshake).await {
            Ok((channel, tls)) => {
                let (input, stays_until) = (Vec::new(), 0);
                let verified = Verified::default();
                Some(Session { worker, channel, peer, input, tls, stays_until, verified })
            }
            Err(end) => {
                worker.numbers.count(Family::Ends, end.as_str());
                None
            }
        }
    });
    async move {
        let mut session = establishing.await;
        converse(&mut session).await;
        let _until_then = &permit;
    }
}

/// Makes a channel of a connection, which counts as entering (`_handshake`) until that is done.
async fn establish<C: Carrier>(
    worker: Rc<Worker>,
    socket: C,
    _handshake: HandshakePermit,
) -> Result<(Channel, Option<Suited>), End> {
    let link = Link::new(Rc::clone(&worker.resources), socket);
    let tls = worker.entrance.tls.borrow().clone();
    let (channel, tls) = match tls {
        None => (C::establish(link, Protection::None, Vec::new()), None),
        Some(tls) => {
            let deadline = Instant::now() + worker.answering.timeouts.handshake;
            match timeout_at(deadline, shake_hands(&worker, link, &tls)).await {
                Ok(shaken) => shaken.map(|(channel, tls)| (channel, Some(tls)))?,
                Err(_) => return Err(End::HandshakeTimeout),
            }
        }
    };
    if !channel.is_deferred() {
        worker.numbers.count(Family::Routes, channel.route());
    }
    Ok((channel, tls))
}

async fn shake_hands<C: Carrier>(
    worker: &Worker,
    link: Link<C>,
    tls: &TlsContext,
) -> Result<(Channel, Suited), End> {
    let begin = if worker.entrance.hands_keys_out { Handshake::new } else { Handshake::retaining };
    let mut handshake = begin(tls).map_err(End::Handshake)?;
    if tls.asks_for_nics() && link.socket.wants_tls12(&link.resources) {
        handshake = handshake.preferring_tls12(tls);
    }
    let (mut input, mut output) = (Vec::new(), Vec::new());
    loop {
        link.receive(&mut input).await?;
        let advanced = handshake.advance(&input, &mut output);
        link.send_all(&output).await?;
        output.clear();
        match advanced {
            Ok((consumed, progress)) => {
                input.drain(..consumed);
                let count = |info: &SessionInfo| (count_handshake(worker, info), info.is_proof);
                let ((suited, is_proof), protection) = match progress {
                    Progress::NeedsInput => continue,
                    Progress::Done(established) => {
                        (count(&established.info), Protection::Keys(established))
                    }
                    Progress::Retained(tls) => (count(tls.info()), Protection::Retained(tls)),
                };
                let channel = C::establish(link, protection, input);
                if is_proof {
                    return Err(Box::pin(end_proof(channel)).await);
                }
                return Ok((channel, suited));
            }
            Err(HandshakeError::PlainHttp) => {
                let asked = RefusedRequest::Unparsed(&input);
                let response = worker.with_context(|context| {
                    fullbore_http::refuse(Refusal::HttpOnTlsPort, asked, context)
                });
                let outgoing = Outgoing::new(response.head, response.body, None);
                let whole = outgoing.in_memory();
                link.send_all(&whole).await?;
                link.socket.finish();
                link.linger().await;
                return Err(End::Handshake(HandshakeError::PlainHttp));
            }
            Err(error) => {
                // Lets the alert arrive before the close.
                link.socket.finish();
                link.linger().await;
                return Err(End::Handshake(error));
            }
        }
    }
}

/// Ends the connection of a certificate authority, which has seen the proof that it came for (RFC 8737 section 3).
async fn end_proof(mut channel: Channel) -> End {
    // The authority may have closed it already, because it knows that this is the end.
    if channel.finish(GOODBYE).await.is_ok() {
        channel.linger().await;
    }
    End::Proved
}

fn count_handshake(worker: &Worker, info: &SessionInfo) -> Suited {
    let suited = Suited(info.version, info.suite);
    worker.numbers.count(Family::Handshakes, suited.label());
    worker.numbers.count(Family::Resumptions, if info.resumed { "resumed" } else { "full" });
    suited
}

/// The result of a handshake.
#[derive(Clone, Copy)]
struct Suited(TlsVersion, Suite);

impl Suited {
    /// The label for the counter and the access log.
    fn label(self) -> &'static str {
        match self {
            Self(TlsVersion::Tls13, Suite::Aes128Gcm) => "tls1.3 aes-128-gcm",
            Self(TlsVersion::Tls13, Suite::Aes256Gcm) => "tls1.3 aes-256-gcm",
            Self(TlsVersion::Tls13, Suite::ChaCha20Poly1305) => "tls1.3 chacha20-poly1305",
            Self(TlsVersion::Tls12, Suite::Aes128Gcm) => "tls1.2 aes-128-gcm",
            Self(TlsVersion::Tls12, Suite::Aes256Gcm) => "tls1.2 aes-256-gcm",
            Self(TlsVersion::Tls12, Suite::ChaCha20Poly1305) => "tls1.2 chacha20-poly1305",
        }
    }
}

/// Answers requests in order, until one side ends the connection, which is counted, or until it has moved to another worker. The session stays in
/// the caller's memory: an `async fn` that takes it by value would keep it twice.
async fn converse(place: &mut Option<Session>) {
    while let Some(session) = place {
        let end = match session.answer_all().await {
            Ok(Pause::End(end)) | Err(end) => end,
            Ok(Pause::Elsewhere(elsewhere)) => {
                // Boxed, because few connections move.
                let leaving = place.take().map(|session| Box::pin(session.leave(elsewhere)));
                let Some(leaving) = leaving else { return };
                *place = leaving.await.err();
                continue;
            }
            Ok(Pause::TitleKnown(asked_at)) => {
                *place = place.take().map(|session| session.pass_keys_on(asked_at));
                continue;
            }
        };
        if session.channel.is_deferred() {
            session.worker.numbers.count(Family::Routes, session.channel.route());
        }
        let end = Box::pin(session.part(end)).await.err().unwrap_or(end);
        session.worker.numbers.count(Family::Ends, end.as_str());
        return;
    }
}

impl Session {
    /// Says goodbye, if this kind of end has a goodbye.
    async fn part(&mut self, end: End) -> Result<(), End> {
        match end {
            // The response must arrive although the viewer may still be sending.
            // So must the goodbye if keys cannot be changed, because the viewer's next records may be on their way.
            End::Answered | End::KeysFixed => {
                self.channel.finish(GOODBYE).await?;
                self.channel.linger().await;
            }
            End::Drained | End::IdleTimeout | End::PeerClosed => {
                self.channel.finish(GOODBYE).await?;
            }
            // So must the alert. If it does not arrive, the bad record still counts as the reason for the end.
            End::Record(error) => {
                let alerts = [error.alert(), Alert::CloseNotify];
                let said = if error.alert().ends() { &alerts[..1] } else { &alerts };
                let _ = self.channel.finish(said).await;
                self.channel.linger().await;
            }
            // A response that cannot be completed ends without a goodbye, because a goodbye would mark it as complete.
            _ => return Ok(()),
        }
        // The result does not matter: everything has been sent.
        let _ = self.channel.settle().await;
        Ok(())
    }

    async fn answer_all(&mut self) -> Result<Pause, End> {
        loop {
            let (mut request, head_bytes) = match self.next_request().await? {
                Ok(next) => next,
                Err(refusal) => {
                    self.refuse(refusal).await?;
                    return Ok(Pause::End(End::Answered));
                }
            };
            // The request was complete earlier, if the connection came from another worker or was refused there.
            let asked_at = self.channel.awaited_since().unwrap_or_else(Instant::now);
            let mut opened = None;
            if self.worker.moves.is_some() {
                match Box::pin(self.elsewhere(&request, asked_at)).await {
                    Ok(looked_up) => opened = looked_up,
                    Err(elsewhere) => return Ok(Pause::Elsewhere(elsewhere)),
                }
                if self.may_pass_keys_on(opened.as_ref()) {
                    return Ok(Pause::TitleKnown(asked_at));
                }
            }
            self.consume(head_bytes);
            self.worker.numbers.requests_total.add(1);
            if self.channel.is_costly() || self.worker.drain.sends_away(now()) {
                // The response announces it, as if the viewer had asked for it.
                request.keep_alive = false;
            }
            if !request.method.reads() {
                if self.posts_events(&request) {
                    if !Box::pin(self.collect(request, asked_at)).await? {
                        return Ok(Pause::End(End::Answered));
                    }
                    continue;
                }
                if let Err(refusal) = Box::pin(self.await_body_sent_on(&request)).await? {
                    self.refuse(refusal).await?;
                    return Ok(Pause::End(End::Answered));
                }
            }
            // Boxed, so that an idle viewer does not pay for the state of a response.
            if !Box::pin(self.answer(&request, opened, asked_at)).await? {
                return Ok(Pause::End(End::Answered));
            }
            if let Err(refusal) = Box::pin(self.skip_body(&request)).await? {
                // The request was answered: a second response would be taken for that of the next request.
                self.worker.numbers.count(Family::Refusals, refusal.as_str());
                return Ok(Pause::End(End::Answered));
            }
            if self.worker.drain.has_begun() {
                return Ok(Pause::End(End::Drained));
            }
        }
    }

    /// The next request and the bytes of its head, which stay in the input, or why it is invalid.
    async fn next_request(&mut self) -> Result<Result<(Request, usize), Refusal>, End> {
        let mut head_deadline = None;
        loop {
            let worker = Rc::clone(&self.worker);
            match fullbore_http::parse(&self.input, &worker.answering.limits) {
                Ok(Parse::Complete { request, consumed }) => {
                    return Ok(Ok((request, consumed)));
                }
                Ok(Parse::Partial) => {}
                Err(reject) => return Ok(Err(reject.into())),
            }
            if self.input.is_empty() {
                self.await_first_byte(&worker).await?;
            } else {
                let deadline = *head_deadline
                    .get_or_insert_with(|| Instant::now() + worker.answering.timeouts.head);
                match timeout_at(deadline, self.channel.receive(&mut self.input)).await {
                    Ok(received) => received?,
                    Err(_) => return Ok(Err(Refusal::RequestTimeout)),
                }
            }
        }
    }

    /// The idle state: waits for a request to begin. The viewer holds no resources meanwhile.
    async fn await_first_byte(&mut self, worker: &Worker) -> Result<(), End> {
        let deadline = Instant::now() + worker.answering.timeouts.idle;
        let receiving = pin!(timeout_at(deadline, self.channel.receive(&mut self.input)));
        match worker.drain.unless_begun(receiving).await {
            None => Err(End::Drained),
            Some(Err(_)) => Err(End::IdleTimeout),
            Some(Ok(received)) => received,
        }
    }

    /// Waits for the body of a request that is sent on to an edge's origin.
    async fn await_body_sent_on(&mut self, request: &Request) -> Result<Result<(), Refusal>, End> {
        match self.worker.libraries.sends_on(request) {
            true => {
                let wait = self.worker.answering.timeouts.head;
                self.await_body(request, wait).await
            }
            false => Ok(Ok(())),
        }
    }

    /// Waits until the body of a request is in the input. It stays there until the request has been answered, so that no viewer pays for a copy. Only
    /// bodies of known length are taken, and small ones.
    async fn await_body(
        &mut self,
        request: &Request,
        wait: Duration,
    ) -> Result<Result<(), Refusal>, End> {
        let bytes = match request.body {
            BodyFraming::None => return Ok(Ok(())),
            // A longer one was refused with its head.
            BodyFraming::Length(bytes) => bytes as usize,
            BodyFraming::Chunked => return Ok(Err(Reject::LengthRequired.into())),
        };
        let deadline = Instant::now() + wait;
        while self.input.len() < bytes {
            match timeout_at(deadline, self.channel.receive(&mut self.input)).await {
                Ok(received) => received?,
                Err(_) => return Ok(Err(Refusal::RequestTimeout)),
            }
        }
        Ok(Ok(()))
    }

    /// Skips a body that came with the request.
    async fn skip_body(&mut self, request: &Request) -> Result<Result<(), Refusal>, End> {
        if request.body == fullbore_http::BodyFraming::None {
            return Ok(Ok(()));
        }
        let worker = Rc::clone(&self.worker);
        let mut body = BodyDrain::new(request.body, &worker.answering.limits);
        let deadline = Instant::now() + worker.answering.timeouts.head;
        loop {
            match body.advance(&self.input) {
                Ok(BodyProgress::Complete { consumed }) => {
                    self.consume(consumed);
                    return Ok(Ok(()));
                }
                Ok(BodyProgress::Partial) => self.input.clear(),
                Err(reject) => return Ok(Err(reject.into())),
            }
            match timeout_at(deadline, self.channel.receive(&mut self.input)).await {
                Ok(received) => received?,
                Err(_) => return Ok(Err(Refusal::RequestTimeout)),
            }
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.input.drain(..bytes);
        if self.input.is_empty() {
            // An idle viewer keeps no buffer.
            self.input = Vec::new();
        }
    }
}
