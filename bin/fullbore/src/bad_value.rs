//! A value on the command line that is not of its kind.

use ::load::Url;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

/// A value that is not of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {wanted}")]
pub(crate) struct BadValue {
    text: String,
    wanted: &'static str,
}

impl BadValue {
    /// `wanted` describes valid values, with examples.
    pub(crate) fn new(text: &str, wanted: &'static str) -> Self {
        Self { text: text.to_owned(), wanted }
    }
}

/// Parses a listener's address.
pub(crate) fn address(text: &str) -> Result<SocketAddr, BadValue> {
    let wanted = "an IP address and a port, such as 127.0.0.1:8443, or 0.0.0.0:443 or [::]:443 for every address of this machine";
    text.parse().map_err(|_| BadValue::new(text, wanted))
}

/// Parses a viewer's address.
pub(crate) fn viewer_address(text: &str) -> Result<IpAddr, BadValue> {
    let wanted = "an IP address without a port: write one such as 192.0.2.7 or 2001:db8::7";
    text.parse().map_err(|_| BadValue::new(text, wanted))
}

/// Parses a URL to append paths to: it ends without a slash. A scheme is required, because nothing could open the results without one.
pub(crate) fn base_url(text: &str) -> Result<String, BadValue> {
    let wanted = "an address that viewers can open: write one such as https://tv.example or http://192.0.2.1:8080";
    let is_whole = text.parse::<Url>().is_ok() && !text.contains(['?', '#']);
    let base = is_whole.then(|| text.trim_end_matches('/').to_owned());
    base.ok_or_else(|| BadValue::new(text, wanted))
}

/// Parses a port to advertise; 0 is not allowed.
pub(crate) fn port(text: &str) -> Result<NonZeroU16, BadValue> {
    text.parse().map_err(|_| BadValue::new(text, "a port from 1 to 65535"))
}

/// Parses a number of copies.
pub(crate) fn copies(text: &str) -> Result<NonZeroU16, BadValue> {
    text.parse().map_err(|_| BadValue::new(text, "a number of copies, from 1 to 65535"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_has_a_scheme_and_ends_where_paths_begin() {
        for (text, base) in [
            ("https://tv.example", "https://tv.example"),
            ("http://[2001:db8::1]:8080//", "http://[2001:db8::1]:8080"),
            ("https://tv.example/films/", "https://tv.example/films"),
        ] {
            assert_eq!(base_url(text).as_deref(), Ok(base));
        }
        for text in ["", "tv.example", "tv.example:443", "//tv.example", "ftp://tv.example"] {
            let said = base_url(text).map_err(|error| error.to_string());
            assert!(said.is_err_and(|said| said.contains("such as https://tv.example")), "{text}");
        }
        for text in ["https://", "https://a b", "https://a?b", "https://a/#b"] {
            assert!(base_url(text).is_err(), "{text}");
        }
    }
}
