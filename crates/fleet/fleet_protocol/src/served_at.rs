//! How a node's server is reached by viewers: scheme and port.
//!
//! A fleet sends viewers to all of its nodes in the same way ([`SteeringPolicy::served_at`](crate::SteeringPolicy::served_at)). Viewers can't reach
//! a node that serves in another way, unless a proxy in front of it forwards.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::OutOfBounds;

/// A scheme and a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedAt {
    /// `http` or `https`.
    pub scheme: String,
    /// The port.
    pub port: u16,
}

impl Display for ServedAt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} at port {}", self.scheme, self.port)
    }
}

impl ServedAt {
    /// The scheme and port in a server's address, such as `https://[::1]:8443/`.
    pub fn of_url(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (_, port) = rest.trim_end_matches('/').rsplit_once(':')?;
        let own = Self { scheme: scheme.to_owned(), port: port.parse().ok()? };
        own.check().is_ok().then_some(own)
    }

    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        match matches!(self.scheme.as_str(), "http" | "https") {
            true => Ok(()),
            false => Err(OutOfBounds("served_at.scheme is neither http nor https")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_how_a_server_serves() {
        let words = |url: &str| ServedAt::of_url(url).map(|own| own.to_string());
        assert_eq!(words("https://[::1]:8443/").as_deref(), Some("https at port 8443"));
        assert_eq!(words("http://localhost:80").as_deref(), Some("http at port 80"));
        for bad in ["", "localhost:80", "https://localhost", "https://[::1]/", "ftp://a:21"] {
            assert_eq!(words(bad), None, "{bad}");
        }
    }
}
