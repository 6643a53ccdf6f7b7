//! A value on the command line that is not of its kind.

use std::fmt;
use std::net::SocketAddr;

/// A value that is not of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadValue {
    text: String,
    wanted: &'static str,
}

impl BadValue {
    /// `wanted` says what its kind is, with examples.
    pub(crate) fn new(text: &str, wanted: &'static str) -> Self {
        Self { text: text.to_owned(), wanted }
    }
}

/// Reads the address of a listener.
pub(crate) fn address(text: &str) -> Result<SocketAddr, BadValue> {
    let wanted = "an IP address and a port, such as 127.0.0.1:8443, or 0.0.0.0:443 or [::]:443 for every address of this machine";
    text.parse().map_err(|_| BadValue::new(text, wanted))
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not {}", self.text, self.wanted)
    }
}

impl std::error::Error for BadValue {}
