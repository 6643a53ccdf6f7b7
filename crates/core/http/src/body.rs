//! Request bodies: how long they are, and how to read past them.
//!
//! No request to a file server needs a body, but one may arrive (RFC 9110 section 9.3.1), and the next request starts after it. [`BodyDrain`] reads
//! past a small one; a larger one is refused. Framing that two readers could understand differently is refused: it allows requests to be smuggled
//! past a proxy (RFC 9112 section 11.2).

use httparse::Header;

use crate::fields::{elements, values};
use crate::request::is_token_byte;
use crate::{Reject, RequestLimits, Version};

/// How the end of a request body is found (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// No body.
    None,
    /// This many bytes, at least 1.
    Length(u64),
    /// Chunks (RFC 9112 section 7.1).
    Chunked,
}

impl BodyFraming {
    /// Reads the framing from the header lines.
    pub(crate) fn of(headers: &[Header<'_>], version: Version) -> Result<Self, Reject> {
        let coded = values(headers, "transfer-encoding").next().is_some();
        let mut lengths = values(headers, "content-length");
        match (coded, lengths.next()) {
            (false, None) => Ok(Self::None),
            // RFC 9110 section 8.6: a doubled length, even with equal values, may be refused.
            (false, Some(length)) if lengths.next().is_none() => Self::of_length(length),
            // RFC 9112 section 6.1: HTTP/1.0 has no transfer codings; a length together with a coding is an attack or a
            // bug.
            (true, None) if version == Version::Http11 => Self::of_codings(headers),
            _ => Err(Reject::BadFraming),
        }
    }

    fn of_length(value: &[u8]) -> Result<Self, Reject> {
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(value).ok().filter(|_| digits).ok_or(Reject::BadFraming)?;
        match text.parse().map_err(|_| Reject::BadFraming)? {
            0 => Ok(Self::None),
            length => Ok(Self::Length(length)),
        }
    }

    /// Chunked must come last and once (RFC 9112 sections 6.1 and 6.3); a coding before it is not supported.
    fn of_codings(headers: &[Header<'_>]) -> Result<Self, Reject> {
        let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
        let codings = || elements(headers, "transfer-encoding");
        let chunked_count = codings().filter(|coding| is_chunked(coding)).count();
        if chunked_count != 1 || !codings().last().is_some_and(is_chunked) {
            return Err(Reject::BadFraming);
        }
        if codings().count() == 1 { Ok(Self::Chunked) } else { Err(Reject::CodingNotImplemented) }
    }
}

/// The result of [`BodyDrain::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyProgress {
    /// All bytes given belong to the body, and more must follow.
    Partial,
    /// The body ended after `consumed` of the bytes given; the next request starts there.
    Complete {
        /// Bytes of this call's buffer that belonged to the body.
        consumed: usize,
    },
}

/// Reads past one request body, however the connection's reads cut it.
#[derive(Clone, Debug)]
pub struct BodyDrain {
    state: State,
    budget_bytes: u64,
}

/// The part that comes next. Line ends in chunk framing must be CR LF, as in heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Length { remaining_bytes: u64 },
    Size { value: u64, digits: u8 },
    Extension { value: u64, within: Extension },
    SizeLineFeed { value: u64 },
    Data { remaining_bytes: u64 },
    DataReturn,
    DataLineFeed,
    TrailerStart,
    TrailerLine,
    TrailerLineFeed,
    LastLineFeed,
    Done,
}

/// The place in a chunk's extensions: `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )` (RFC 9112 section 7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    /// After a semicolon: a name has to come.
    Start,
    Name,
    /// In white space after a name: another extension or a value has to come.
    NameSpace,
    /// After an equals sign: a value has to come.
    Value,
    Token,
    Quoted,
    /// After a backslash within quotes.
    Escaped,
    QuoteEnd,
    /// In white space after a size or a value: another extension has to come.
    Space,
}

impl Extension {
    /// The place after one more byte of extensions; `None` if that byte is not allowed there.
    fn after(self, byte: u8) -> Option<Self> {
        let is_space = matches!(byte, b' ' | b'\t');
        match self {
            Self::Start if is_space => Some(Self::Start),
            Self::Start | Self::Name if is_token_byte(byte) => Some(Self::Name),
            Self::Name | Self::NameSpace if byte == b'=' => Some(Self::Value),
            Self::Name | Self::NameSpace if is_space => Some(Self::NameSpace),
            Self::Value if is_space => Some(Self::Value),
            Self::Value if byte == b'"' => Some(Self::Quoted),
            Self::Value | Self::Token if is_token_byte(byte) => Some(Self::Token),
            Self::Quoted if byte == b'"' => Some(Self::QuoteEnd),
            Self::Quoted if byte == b'\\' => Some(Self::Escaped),
            Self::Quoted | Self::Escaped if is_field_byte(byte) => Some(Self::Quoted),
            Self::Token | Self::QuoteEnd | Self::Space if is_space => Some(Self::Space),
            Self::Name | Self::NameSpace | Self::Token | Self::QuoteEnd | Self::Space
                if byte == b';' =>
            {
                Some(Self::Start)
            }
            _ => None,
        }
    }

    /// Returns true if the line may end here.
    fn may_end(self) -> bool {
        matches!(self, Self::Name | Self::Token | Self::QuoteEnd)
    }
}

/// How many hex digits a chunk size may have: 60 bits cannot overflow, and no honest chunk is larger.
const SIZE_DIGITS_MAX: u8 = 15;

impl BodyDrain {
    /// For a body with this framing. Reads at most `limits.body_drain_bytes_max` bytes, chunk framing and trailers included.
    pub fn new(framing: BodyFraming, limits: &RequestLimits) -> Self {
        let state = match framing {
            BodyFraming::None => State::Done,
            BodyFraming::Length(remaining_bytes) => State::Length { remaining_bytes },
            BodyFraming::Chunked => State::Size { value: 0, digits: 0 },
        };
        Self { state, budget_bytes: limits.body_drain_bytes_max }
    }

    /// Takes the next bytes of the connection.
    ///
    /// # Errors
    /// [`Reject::BodyTooLarge`] once the body is known to exceed the limit, [`Reject::BadFraming`] for a malformed
    /// chunk. In both cases the connection must close.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<BodyProgress, Reject> {
        let mut consumed = 0;
        while self.state != State::Done {
            let Some(rest) = bytes.get(consumed..).filter(|rest| !rest.is_empty()) else {
                return Ok(BodyProgress::Partial);
            };
            let step_bytes = self.step(rest)?;
            self.spend(step_bytes as u64)?;
            consumed += step_bytes;
        }
        Ok(BodyProgress::Complete { consumed })
    }

    /// Consumes one byte of framing or a run of data; `rest` is not empty. Returns how many bytes.
    fn step(&mut self, rest: &[u8]) -> Result<usize, Reject> {
        match self.state {
            State::Length { remaining_bytes } => {
                let (taken, left) = self.skip(remaining_bytes, rest)?;
                self.state =
                    if left == 0 { State::Done } else { State::Length { remaining_bytes: left } };
                Ok(taken)
            }
            State::Data { remaining_bytes } => {
                let (taken, left) = self.skip(remaining_bytes, rest)?;
                self.state = if left == 0 {
                    State::DataReturn
                } else {
                    State::Data { remaining_bytes: left }
                };
                Ok(taken)
            }
            framing => {
                self.state = framing.after(rest[0]).ok_or(Reject::BadFraming)?;
                Ok(1)
            }
        }
    }

    /// How many bytes of `rest` belong to a run of data, and how many of the run are still to come.
    fn skip(&self, remaining_bytes: u64, rest: &[u8]) -> Result<(usize, u64), Reject> {
        if remaining_bytes > self.budget_bytes {
            return Err(Reject::BodyTooLarge);
        }
        let taken_bytes = remaining_bytes.min(rest.len() as u64);
        Ok((taken_bytes as usize, remaining_bytes - taken_bytes))
    }

    fn spend(&mut self, bytes: u64) -> Result<(), Reject> {
        self.budget_bytes = self.budget_bytes.checked_sub(bytes).ok_or(Reject::BodyTooLarge)?;
        Ok(())
    }
}

impl State {
    /// The state after one byte of chunk framing; `None` if that byte is not allowed there.
    fn after(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Size { value, digits }, b'\r') if digits > 0 => {
                Some(Self::SizeLineFeed { value })
            }
            (Self::Size { value, digits }, b';') if digits > 0 => {
                Some(Self::Extension { value, within: Extension::Start })
            }
            (Self::Size { value, digits }, b' ' | b'\t') if digits > 0 => {
                Some(Self::Extension { value, within: Extension::Space })
            }
            (Self::Size { value, digits }, _) if digits < SIZE_DIGITS_MAX => {
                let digit = char::from(byte).to_digit(16)?;
                Some(Self::Size { value: value * 16 + u64::from(digit), digits: digits + 1 })
            }
            (Self::Extension { value, within }, b'\r') if within.may_end() => {
                Some(Self::SizeLineFeed { value })
            }
            (Self::Extension { value, within }, _) => {
                within.after(byte).map(|within| Self::Extension { value, within })
            }
            (Self::SizeLineFeed { value: 0 }, b'\n') => Some(Self::TrailerStart),
            (Self::SizeLineFeed { value }, b'\n') => Some(Self::Data { remaining_bytes: value }),
            (Self::DataReturn, b'\r') => Some(Self::DataLineFeed),
            (Self::DataLineFeed, b'\n') => Some(Self::Size { value: 0, digits: 0 }),
            (Self::TrailerStart, b'\r') => Some(Self::LastLineFeed),
            (Self::TrailerLine, b'\r') => Some(Self::TrailerLineFeed),
            (Self::TrailerStart | Self::TrailerLine, _) if is_field_byte(byte) => {
                Some(Self::TrailerLine)
            }
            (Self::TrailerLineFeed, b'\n') => Some(Self::TrailerStart),
            (Self::LastLineFeed, b'\n') => Some(Self::Done),
            _ => None,
        }
    }
}

/// Returns true if a field value may contain this byte: HTAB, SP, VCHAR, obs-text (RFC 9110 section 5.5).
fn is_field_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain_chunked(body: &[u8]) -> Result<BodyProgress, Reject> {
        BodyDrain::new(BodyFraming::Chunked, &RequestLimits::default()).advance(body)
    }

    #[test]
    fn a_body_of_known_length_ends_where_it_says() {
        let mut drain = BodyDrain::new(BodyFraming::Length(5), &RequestLimits::default());
        assert_eq!(drain.advance(b"abc"), Ok(BodyProgress::Partial));
        assert_eq!(drain.advance(b""), Ok(BodyProgress::Partial));
        assert_eq!(drain.advance(b"deGET /"), Ok(BodyProgress::Complete { consumed: 2 }));
        assert_eq!(drain.advance(b"GET /"), Ok(BodyProgress::Complete { consumed: 0 }));
    }

    #[test]
    fn no_body_is_complete_at_once() {
        let mut drain = BodyDrain::new(BodyFraming::None, &RequestLimits::default());
        assert_eq!(drain.advance(b""), Ok(BodyProgress::Complete { consumed: 0 }));
    }

    #[test]
    fn chunks_extensions_and_trailers_are_read_past() {
        for body in [
            "0\r\n\r\n",
            "3\r\nabc\r\n0\r\n\r\n",
            "A;x=\"y\"\r\n0123456789\r\n00\r\nEtag: \"x\"\r\nMore: b\r\n\r\n",
            "1;a\r\nz\r\n0;b=c\r\n\r\n",
            "1;a;b=c;d=\"e;f\\\"g\\\\\";h\r\nz\r\n0\r\n\r\n",
            "1 ; a = \"\" \t;\tb\t=\tc\r\nz\r\n0\r\n\r\n",
            "1;a=\"\u{fc}\"\r\nz\r\n0\r\n\r\n",
        ] {
            let mut bytes = body.as_bytes().to_vec();
            bytes.extend_from_slice(b"GET / HTTP/1.1\r\n");
            assert_eq!(
                drain_chunked(&bytes),
                Ok(BodyProgress::Complete { consumed: body.len() }),
                "{body:?}"
            );
        }
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for body in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1 \r\n",
            "1\na",
            "1\r\nab",
            "1\r\na\n",
            "1\r\na\r\r",
            "0\n",
            "0\r\n\n",
            "0\r\nA: b\n",
            "0\r\nA: \0\r\n",
            "1;a\nb\r\n",
            // RFC 9112 section 7.1.1: an extension has a name, and a value if there is an equals sign.
            "5;\r\n",
            "5; \r\n",
            "5;;a\r\n",
            "5;a;\r\n",
            "5;=b\r\n",
            "5;a=\r\n",
            "5;a= ;b\r\n",
            "5;bad[=x\r\n",
            "5;a=b c\r\n",
            "5;a b\r\n",
            "5;a=b \r\n",
            "5;a \r\n",
            "5;a=\"b\r\n",
            "5;a=\"b\"c\r\n",
            "5;a=\"b\\\r\n",
            "5;a=\"\x01\"\r\n",
            "5 a\r\n",
            "0000000000000001\r\n",
        ] {
            assert_eq!(drain_chunked(body.as_bytes()), Err(Reject::BadFraming), "{body:?}");
        }
    }

    #[test]
    fn a_body_over_the_limit_is_refused_before_it_is_read() {
        let limits = RequestLimits { body_drain_bytes_max: 10, ..RequestLimits::default() };
        let start = |framing| BodyDrain::new(framing, &limits);
        assert_eq!(start(BodyFraming::Length(11)).advance(b"a"), Err(Reject::BodyTooLarge));
        assert_eq!(start(BodyFraming::Length(10)).advance(b"a"), Ok(BodyProgress::Partial));
        assert_eq!(start(BodyFraming::Chunked).advance(b"fffffff\r\na"), Err(Reject::BodyTooLarge));
        assert_eq!(
            start(BodyFraming::Chunked).advance(b"1\r\na\r\n1\r\na\r\n"),
            Err(Reject::BodyTooLarge)
        );
        assert_eq!(
            start(BodyFraming::Chunked).advance(b"1;aaaaaaaaaaaaaaaaaaaa"),
            Err(Reject::BodyTooLarge)
        );
    }
}
