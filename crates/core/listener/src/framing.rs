//! Decides which bytes of an HTTP/1 connection reach hyper: complete heads that [`fullbore_http::parse`] accepts, and bodies of the length that
//! their heads give. No I/O and no clock.
//!
//! A refused request is replaced by one that no client can send: its method is [`METHOD`], which the parser never accepts. The service
//! answers it with the refusal, so refusals are sent in order after responses to earlier requests, and the connection closes after them.
//! Bytes after a refused head are never read as a request.

use fullbore_http::{BodyFraming, Method, Parse, Reject, Request, RequestLimits};

use crate::bounds::Bodies;
use crate::refused::ListenerRefusal;

/// The method of the replacement for a refused request.
pub(crate) const METHOD: &str = "REFUSED";

/// The query of the replacement if the refused request was for a head only.
pub(crate) const HEAD_QUERY: &str = "head";

/// The framing of one connection.
#[derive(Debug)]
pub(crate) struct Framing {
    limits: RequestLimits,
    bodies: Bodies,
    /// Bytes of an incomplete head, or bytes after the last request.
    input: Vec<u8>,
    /// Bytes to pass on, and the number passed on so far.
    output: Vec<u8>,
    passed: usize,
    phase: Phase,
}

/// The next part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A head.
    Head,
    /// This many bytes of a body.
    Body(u64),
    /// Nothing: a request was refused.
    Over,
}

impl Framing {
    pub(crate) fn new(bodies: Bodies) -> Self {
        let limits = match bodies {
            Bodies::None => RequestLimits { body_drain_bytes_max: 0, ..RequestLimits::default() },
            Bodies::OfKnownLength => {
                RequestLimits { are_bodies_taken: true, ..RequestLimits::default() }
            }
        };
        Self {
            limits,
            bodies,
            input: Vec::new(),
            output: Vec::new(),
            passed: 0,
            phase: Phase::Head,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether part of a head has arrived.
    pub(crate) fn has_partial_head(&self) -> bool {
        self.phase == Phase::Head && !self.input.is_empty()
    }

    /// Bytes that may be passed on now.
    pub(crate) fn ready(&self) -> &[u8] {
        &self.output[self.passed..]
    }

    /// Marks `count` bytes of [`Self::ready`] as passed on.
    pub(crate) fn pass(&mut self, count: usize) {
        self.passed += count;
        if self.passed == self.output.len() {
            // An idle connection keeps no memory for its last head.
            self.output = Vec::new();
            self.passed = 0;
        }
    }

    /// How many bytes of a head may still arrive.
    pub(crate) fn room(&self) -> usize {
        self.limits.head_bytes_max.saturating_sub(self.input.len())
    }

    /// Takes received bytes. Afterwards [`Self::ready`] has the next request, or the head is incomplete. Returns why the request is
    /// refused, if it is.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Option<ListenerRefusal> {
        self.input.extend_from_slice(bytes);
        self.advance()
    }

    /// Marks `count` bytes of a body as passed on directly.
    pub(crate) fn pass_body(&mut self, count: u64) {
        if let Phase::Body(left) = self.phase {
            self.phase = match left.saturating_sub(count) {
                0 => Phase::Head,
                left => Phase::Body(left),
            };
        }
    }

    /// Looks for the next request in the received bytes.
    pub(crate) fn advance(&mut self) -> Option<ListenerRefusal> {
        if self.phase != Phase::Head || self.input.is_empty() {
            return None;
        }
        let parsed = match fullbore_http::parse(&self.input, &self.limits) {
            Ok(Parse::Partial) => return None,
            Ok(Parse::Complete { request, consumed }) => {
                self.body_length(&request).map(|length| (length, consumed))
            }
            Err(reject) => Err(ListenerRefusal::Head(reject)),
        };
        match parsed {
            Ok((length, consumed)) => {
                self.pass_head(consumed, length);
                None
            }
            Err(refused) => {
                self.refuse(refused);
                Some(refused)
            }
        }
    }

    /// The length of the body, if the request may have one.
    fn body_length(&self, request: &Request) -> Result<u64, ListenerRefusal> {
        match (request.body, self.bodies) {
            (BodyFraming::None, _) => Ok(0),
            (BodyFraming::Length(bytes), Bodies::OfKnownLength) => Ok(bytes),
            (BodyFraming::Chunked, Bodies::OfKnownLength) => Err(ListenerRefusal::NoLength),
            (_, Bodies::None) if !request.method.is_served() => {
                Err(ListenerRefusal::Head(Reject::MethodNotAllowed))
            }
            (_, Bodies::None) => Err(ListenerRefusal::Body),
        }
    }

    /// Passes on the first `consumed` bytes, and the received part of a body of `length` bytes.
    fn pass_head(&mut self, consumed: usize, length: u64) {
        debug_assert!(
            self.ready().is_empty(),
            "the caller passes on one request before it takes the next"
        );
        let of_body =
            (self.input.len() - consumed).min(usize::try_from(length).unwrap_or(usize::MAX));
        let rest = self.input.split_off(consumed + of_body);
        self.output = std::mem::replace(&mut self.input, rest);
        as_known_version(&mut self.output[..consumed]);
        self.phase = Phase::Body(length);
        self.pass_body(of_body as u64);
    }

    /// Puts the refusal in place of the next request.
    pub(crate) fn refuse(&mut self, refused: ListenerRefusal) {
        let query =
            if self.input.starts_with(Method::Head.as_str().as_bytes()) { HEAD_QUERY } else { "" };
        let reason = refused.as_str();
        let line =
            format!("{METHOD} /{reason}?{query} HTTP/1.1\r\nHost: \r\nConnection: close\r\n\r\n");
        self.output.extend_from_slice(line.as_bytes());
        self.input = Vec::new();
        self.phase = Phase::Over;
    }
}

/// Rewrites a later minor version as HTTP/1.1, as which it is served (RFC 9110 section 2.5): hyper does not know any.
fn as_known_version(head: &mut [u8]) {
    // Empty lines may come first.
    let start = head.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(0);
    let Some(end) = head[start..].iter().position(|byte| *byte == b'\r') else { return };
    if let Some(minor) = head[start..start + end].last_mut().filter(|minor| **minor != b'0') {
        *minor = b'1';
    }
}

#[cfg(test)]
#[path = "framing_tests.rs"]
mod tests;
