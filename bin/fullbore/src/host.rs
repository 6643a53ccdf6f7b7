//! Hosts and addresses on the command line that other machines will use: a mistake in one would only show there.

use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::bad_value::BadValue;

/// A host name or an IP address, as certificates name it: IPv6 without brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host(pub(crate) String);

impl FromStr for Host {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(address) = bare.and_then(|bare| bare.parse::<Ipv6Addr>().ok()) {
            return Ok(Self(address.to_string()));
        }
        let wanted = "a host name or an IP address, without scheme and port, such as box1.example or 192.0.2.7";
        match fleet_protocol::check_node_host(text) {
            Ok(()) => Ok(Self(text.to_owned())),
            Err(_) => Err(BadValue::new(text, wanted)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_nothing_more() {
        let host = |text: &str| text.parse::<Host>().ok().map(|host| host.0);
        for good in ["a", "box-1.example", "192.0.2.7", "2001:db8::1"] {
            assert_eq!(host(good).as_deref(), Some(good));
        }
        assert_eq!(host("[::1]").as_deref(), Some("::1"));
        for bad in [
            "",
            "a:80",
            "[::1]:80",
            "https://a",
            "a b",
            "a..b",
            "-a",
            "a_b",
            "a/b",
            "[a]",
            "1.2.3.4.5",
        ] {
            assert_eq!(host(bad), None, "{bad}");
        }
    }
}
