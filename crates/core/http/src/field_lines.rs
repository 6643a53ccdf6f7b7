//! Header lines that an operator adds to the responses for files. They are checked and written out once, so that a response only copies them.

use crate::Cors;
use crate::request::is_token_byte;
use std::fmt;

/// The most bytes of all lines together. Clients accept heads of 8 KiB and more, and this leaves half of that to the server.
const BYTES_MAX: usize = 4096;

/// Names that an operator cannot set: the server writes them itself, they frame the message, or they concern only the connection (RFC 9110 section
/// 7.6.1). `Content-Encoding` would be wrong for a response with several ranges. In lower case.
const RESERVED: &[&str] = &[
    "accept-ranges",
    "age",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "server",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-content-type-options",
];

/// Names that the server writes if pages of any origin may read its answers. In lower case.
const OF_CORS: &[&str] = &[
    "access-control-allow-origin",
    "access-control-expose-headers",
    "cross-origin-resource-policy",
    "timing-allow-origin",
];

/// Whether the server writes this field itself while pages of any origin may read its answers.
pub(crate) fn is_of_cors(name: &str) -> bool {
    OF_CORS.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Additional header lines, each with its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldLines(Box<[u8]>);

impl FieldLines {
    /// Writes lines of names and values, for a server that answers with `cors`.
    ///
    /// # Errors
    /// If a name or a value is not allowed in a head, or in this server's heads.
    pub fn new<'f>(
        fields: impl IntoIterator<Item = (&'f str, &'f str)>,
        cors: Cors,
    ) -> Result<Self, FieldFault> {
        let (mut names, mut lines) = (Vec::<&str>::new(), Vec::new());
        for (name, value) in fields {
            let is_in = |list: &[&str]| list.iter().any(|other| name.eq_ignore_ascii_case(other));
            let fault = if !is_token(name) {
                FieldFault::Name
            } else if is_in(RESERVED) {
                FieldFault::Reserved
            } else if cors == Cors::AnyOrigin && is_in(OF_CORS) {
                FieldFault::OfCors
            } else if is_in(&names) {
                FieldFault::Twice
            } else if !is_value(value) {
                FieldFault::Value
            } else {
                names.push(name);
                for piece in [name, ": ", value, "\r\n"] {
                    lines.extend_from_slice(piece.as_bytes());
                }
                continue;
            };
            return Err(fault(name.to_owned()));
        }
        match lines.len() {
            0..=BYTES_MAX => Ok(Self(lines.into())),
            _ => Err(FieldFault::TooLong),
        }
    }

    /// The lines as they are sent.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Whether `text` is a token (RFC 9110 section 5.6.2), such as the name of a header field.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

/// Visible ASCII with spaces in between.
fn is_value(value: &str) -> bool {
    let is_ok = |byte: u8| (0x20..0x7f).contains(&byte);
    !value.is_empty() && value.trim() == value && value.bytes().all(is_ok)
}

/// Why a header line cannot be added. All except the last have the line's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldFault {
    /// It is not a valid name.
    Name(String),
    /// Only the server may set this header, or it may not be sent at all.
    Reserved(String),
    /// The server sets this header while pages of other origins may read.
    OfCors(String),
    /// The name appears twice, perhaps in another case.
    Twice(String),
    /// The value cannot be sent.
    Value(String),
    /// All lines together are too long.
    TooLong,
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => {
                write!(f, "{name:?} is not a header name; write one such as \"X-Robots-Tag\"")
            }
            Self::Reserved(name) => {
                let instead = match &*name.to_ascii_lowercase() {
                    "cache-control" => "set cache_control instead",
                    "strict-transport-security" => "set tls.hsts_seconds instead",
                    _ => "leave it out",
                };
                write!(f, "only the server itself may set {name}; {instead}")
            }
            Self::OfCors(name) => write!(
                f,
                "the server sets {name} itself while http.cors is true; leave it out, or set http.cors = false"
            ),
            Self::Twice(name) => {
                write!(
                    f,
                    "{name} appears twice; write it once, with its values separated by commas"
                )
            }
            Self::Value(name) => write!(
                f,
                "the value of {name} must be visible ASCII, with spaces only in between; write one such as \"noindex\""
            ),
            Self::TooLong => {
                write!(f, "its headers are longer than {BYTES_MAX} bytes in total; shorten them")
            }
        }
    }
}

impl std::error::Error for FieldFault {}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[(&str, &str)], cors: Cors) -> Result<String, FieldFault> {
        let lines = FieldLines::new(fields.iter().copied(), cors)?;
        Ok(String::from_utf8(lines.as_bytes().to_vec()).unwrap())
    }

    #[test]
    fn lines_are_written_in_the_order_given() {
        let fields = [("X-Robots-Tag", "noindex, nofollow"), ("link", "</a>; rel=\"next\"")];
        let expected = "X-Robots-Tag: noindex, nofollow\r\nlink: </a>; rel=\"next\"\r\n";
        assert_eq!(of(&fields, Cors::AnyOrigin).as_deref(), Ok(expected));
        assert_eq!(of(&[], Cors::AnyOrigin).as_deref(), Ok(""));
    }

    #[test]
    fn what_frames_a_message_or_ends_at_the_next_hop_is_refused_in_any_letters() {
        for name in ["Content-Length", "transfer-encoding", "CONNECTION", "Upgrade", "ETag"] {
            let fault = of(&[("A", "b"), (name, "1")], Cors::SameOrigin).unwrap_err();
            assert_eq!(fault, FieldFault::Reserved(name.into()));
            assert!(fault.to_string().contains(name), "{fault}");
        }
        let fault = of(&[("Cache-Control", "no-cache")], Cors::SameOrigin).unwrap_err();
        assert!(fault.to_string().contains("set cache_control"), "{fault}");
    }

    #[test]
    fn what_could_end_a_line_or_a_head_is_no_name_and_no_value() {
        for name in ["", "a b", "a:", "a\r\nb", "\u{e9}", "a\0"] {
            let fault = of(&[(name, "v")], Cors::SameOrigin).unwrap_err();
            assert_eq!(fault, FieldFault::Name(name.into()));
        }
        for value in ["", " v", "v ", "v\r\nSet-Cookie: a", "v\n", "v\0", "caf\u{e9}", "a\tb"] {
            let fault = of(&[("X", value)], Cors::SameOrigin).unwrap_err();
            assert_eq!(fault, FieldFault::Value("X".into()), "{value:?}");
        }
    }

    #[test]
    fn no_name_is_written_twice_by_the_operator_or_beside_the_server() {
        let fault = of(&[("X-A", "1"), ("x-a", "2")], Cors::SameOrigin).unwrap_err();
        assert_eq!(fault, FieldFault::Twice("x-a".into()));
        let allow = [("Access-Control-Allow-Origin", "https://a.example")];
        assert!(matches!(of(&allow, Cors::AnyOrigin), Err(FieldFault::OfCors(_))));
        of(&allow, Cors::SameOrigin).unwrap();
    }

    #[test]
    fn together_they_are_bounded() {
        let value = "a".repeat(BYTES_MAX - "X: \r\n".len());
        of(&[("X", &value)], Cors::SameOrigin).unwrap();
        let longer = value + "a";
        assert_eq!(of(&[("X", &longer)], Cors::SameOrigin), Err(FieldFault::TooLong));
    }
}
