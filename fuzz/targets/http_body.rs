//! Requests with bodies, one after another on a connection. Where each ends decides where the next one begins.
//!
//! The input comes after a fixed request line, so it begins with header lines. Checks that heads and bodies end at the same offsets however
//! the connection is cut into reads; that a head is refused if two programs could frame it differently (RFC 9112 section 11.2); and that
//! a chunked body ends where a simple parser of the grammar finds its end (RFC 9112 section 7.1).

#![no_main]

use fullbore_fuzz::choices::Derived;
use fullbore_http::{BodyDrain, BodyFraming, BodyProgress, Parse, Reject, RequestLimits};
use libfuzzer_sys::fuzz_target;

const REQUEST_LINE: &[u8] = b"POST / HTTP/1.1\r\nHost: h\r\n";

fuzz_target!(|bytes: &[u8]| {
    let wire = [REQUEST_LINE, bytes].concat();
    for body_drain_bytes_max in [RequestLimits::default().body_drain_bytes_max, 40] {
        let limits = RequestLimits { body_drain_bytes_max, ..RequestLimits::default() };
        let mut whole = Connection::new(&limits);
        whole.receive(&wire);
        let mut cut = Connection::new(&limits);
        for piece in Derived::of(bytes).pieces(&wire) {
            cut.receive(piece);
        }
        assert_eq!(whole.seen, cut.seen, "it matters how the bytes were cut");
        check_first(&wire, &whole.seen, &limits);
    }
});

/// The requests found in a connection's bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// For each request: its framing, the end of its head, the end of its body.
    requests: Vec<(BodyFraming, usize, Option<usize>)>,
    rejected: Option<Reject>,
}

/// Reads requests as a session does.
struct Connection<'a> {
    limits: &'a RequestLimits,
    held: Vec<u8>,
    offset: usize,
    body: Option<BodyDrain>,
    seen: Seen,
}

impl<'a> Connection<'a> {
    fn new(limits: &'a RequestLimits) -> Self {
        Self { limits, held: Vec::new(), offset: 0, body: None, seen: Seen::default() }
    }

    fn receive(&mut self, piece: &[u8]) {
        self.held.extend_from_slice(piece);
        while self.seen.rejected.is_none() {
            match self.step() {
                Ok(true) => {}
                Ok(false) => return,
                Err(reject) => self.seen.rejected = Some(reject),
            }
        }
    }

    /// Takes a head or a body from the front. Returns false if it needs more bytes first.
    fn step(&mut self) -> Result<bool, Reject> {
        let Some(body) = &mut self.body else {
            let Parse::Complete { request, consumed } =
                fullbore_http::parse(&self.held, self.limits)?
            else {
                return Ok(false);
            };
            self.advance(consumed);
            self.body = Some(BodyDrain::new(request.body, self.limits));
            self.seen.requests.push((request.body, self.offset, None));
            return Ok(true);
        };
        let BodyProgress::Complete { consumed } = body.advance(&self.held)? else {
            self.advance(self.held.len());
            return Ok(false);
        };
        self.body = None;
        self.advance(consumed);
        let (_, _, end) = self.seen.requests.last_mut().expect("a body follows a head");
        *end = Some(self.offset);
        Ok(true)
    }

    fn advance(&mut self, consumed: usize) {
        self.held.drain(..consumed);
        self.offset += consumed;
    }
}

/// Compares the first request with the result of a simple parser.
fn check_first(wire: &[u8], seen: &Seen, limits: &RequestLimits) {
    let Some(&(framing, head_end, body_end)) = seen.requests.first() else { return };
    assert_eq!(framing, plain_framing(&wire[..head_end]));
    let body = &wire[head_end..];
    let budget_bytes = limits.body_drain_bytes_max as usize;
    let plain_end = match framing {
        BodyFraming::None => Some(0),
        BodyFraming::Length(bytes) => Some(bytes as usize).filter(|bytes| *bytes <= body.len()),
        BodyFraming::Chunked => plain_chunked_end(body),
    };
    let expected = plain_end.filter(|end| *end <= budget_bytes).map(|end| head_end + end);
    assert_eq!(body_end, expected, "where the body ends");
}

/// The framing of an accepted head. Fails if two programs could read it differently.
fn plain_framing(head: &[u8]) -> BodyFraming {
    let text: Vec<_> = head.iter().map(|byte| char::from(*byte)).collect();
    let text = String::from_iter(text).to_ascii_lowercase();
    let values = |name: &str| -> Vec<String> {
        let fields = text.split("\r\n").filter_map(|line| line.split_once(':'));
        fields
            .filter(|(known, _)| *known == name)
            .map(|(_, value)| value.trim_matches([' ', '\t']).to_owned())
            .collect()
    };
    match (&values("content-length")[..], &values("transfer-encoding")[..]) {
        ([], []) => BodyFraming::None,
        ([length], []) => match length.parse().expect("a length") {
            0 => BodyFraming::None,
            bytes => BodyFraming::Length(bytes),
        },
        ([], codings) => {
            let listed = codings
                .iter()
                .flat_map(|value| value.split(','))
                .map(|coding| coding.trim_matches([' ', '\t']));
            let listed: Vec<_> = listed.filter(|coding| !coding.is_empty()).collect();
            assert_eq!(listed, ["chunked"]);
            BodyFraming::Chunked
        }
        both => panic!("ambiguous framing was accepted: {both:?}"),
    }
}

/// The end of a chunked body; none if it isn't complete or not well formed. Chunk sizes have at most 15 digits, as in `BodyDrain`.
fn plain_chunked_end(body: &[u8]) -> Option<usize> {
    let mut offset = 0;
    loop {
        let line = plain_line(body, &mut offset)?;
        let digits_end = line.iter().position(|byte| !byte.is_ascii_hexdigit());
        let (digits, extensions) = line.split_at(digits_end.unwrap_or(line.len()));
        if !are_extensions(extensions) {
            return None;
        }
        if !(1..=15).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        match usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()? {
            0 => break,
            size => offset = offset.checked_add(size)?,
        }
        if !plain_line(body, &mut offset)?.is_empty() {
            return None;
        }
    }
    while !plain_line(body, &mut offset)?.is_empty() {}
    Some(offset)
}

/// Whether these are chunk extensions, which may follow a chunk's size on its line (RFC 9112 section 7.1.1).
fn are_extensions(mut rest: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let token = |rest: &mut &[u8]| {
        let end = rest.iter().position(|byte| !is_token(byte)).unwrap_or(rest.len());
        *rest = &rest[end..];
        end > 0
    };
    let unspaced = |rest: &[u8]| {
        let end = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t'));
        rest[end.unwrap_or(rest.len())..].to_vec()
    };
    while !rest.is_empty() {
        let owned = unspaced(rest);
        let Some(named) = owned.strip_prefix(b";") else { return false };
        let named = unspaced(named);
        let mut behind = &named[..];
        if !token(&mut behind) {
            return false;
        }
        if let Some(value) = unspaced(behind).strip_prefix(b"=") {
            let value = unspaced(value);
            let mut behind_value = &value[..];
            let is_whole = match value.strip_prefix(b"\"") {
                Some(quoted) => match quoted_end(quoted) {
                    Some(end) => {
                        behind_value = &quoted[end..];
                        true
                    }
                    None => false,
                },
                None => token(&mut behind_value),
            };
            if !is_whole {
                return false;
            }
            rest = &rest[rest.len() - behind_value.len()..];
        } else {
            rest = &rest[rest.len() - behind.len()..];
        }
    }
    true
}

/// The end of a quoted string. `quoted` begins after its first quote.
fn quoted_end(quoted: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match quoted.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The line at `offset`; none if it has a control character other than HTAB. `offset` moves to after the line's CR LF.
fn plain_line<'a>(body: &'a [u8], offset: &mut usize) -> Option<&'a [u8]> {
    let rest = body.get(*offset..)?;
    let line = &rest[..rest.windows(2).position(|pair| pair == b"\r\n")?];
    *offset += line.len() + 2;
    let allowed = |byte: &u8| *byte == b'\t' || !byte.is_ascii_control();
    line.iter().all(allowed).then_some(line)
}
