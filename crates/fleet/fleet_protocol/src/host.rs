//! Hosts: the part of an address that identifies a node to viewers.

use std::net::{IpAddr, Ipv4Addr};

use crate::OutOfBounds;

/// RFC 1035, section 2.3.4.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// Checks that `host` can be the host of a URL, with or without a port.
pub(crate) fn check_host(host: &str) -> Result<(), OutOfBounds> {
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte);
    if host.is_empty() || host.len() > NAME_BYTES_MAX || !host.bytes().all(is_host) {
        return Err(OutOfBounds("a host is neither a name nor an address"));
    }
    Ok(())
}

/// Checks that `host` can be the host of a node: a name, or an address of a single machine. It has no port, because all nodes of a fleet use the
/// same one.
///
/// # Errors
/// The fault.
pub fn check_node_host(host: &str) -> Result<(), OutOfBounds> {
    check_host(host)?;
    if let Some(address) = address(host) {
        let is_of_one = !address.is_unspecified()
            && !address.is_multicast()
            && address != IpAddr::V4(Ipv4Addr::BROADCAST);
        return match is_of_one {
            true => Ok(()),
            false => {
                Err(OutOfBounds("a host is an address that does not belong to a single machine"))
            }
        };
    }
    if host.contains(['[', ']', ':']) {
        return Err(OutOfBounds("a host has a port, or is not an address: name it without a port"));
    }
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if !host.split('.').all(is_label) {
        return Err(OutOfBounds(
            "a host is not a valid name: a label is empty, too long, or has a hyphen at an end",
        ));
    }
    // Browsers treat a name whose last label is a number as an IPv4 address, and refuse invalid ones (WHATWG URL, "ends in a number checker").
    let last = host.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    match is_number {
        true => {
            Err(OutOfBounds("a host ends with a number like an address, but is not an address"))
        }
        false => Ok(()),
    }
}

/// The address in a host, if it is one.
fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse().ok().filter(IpAddr::is_ipv6),
        None => host.parse().ok(),
    }
}

/// The canonical form of a host: hosts that name the same machine are equal in this form.
pub fn plain_host(host: &str) -> String {
    match address(host) {
        Some(address) => address.to_canonical().to_string(),
        None => host.trim_end_matches('.').to_ascii_lowercase(),
    }
}

/// The host in an address such as `https://HOST:PORT/path`.
pub fn host_of_url(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rfind(']') {
        Some(end) => &authority[..=end],
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Whether a host always means the local machine, as in a test fleet on one machine.
pub fn is_own_machine(host: &str) -> bool {
    match address(host) {
        Some(address) => address.to_canonical().is_loopback(),
        None => {
            let name = plain_host(host);
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_s_host_is_a_name_or_an_address_without_a_port() {
        for good in [
            "box1.example",
            "BOX-1.example",
            "box",
            "192.0.2.7",
            "::1",
            "[::1]",
            "7.example",
            "1a",
            "xn--bcher-kva.example",
            "0xg",
        ] {
            assert_eq!(check_node_host(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "box1.example:443",
            "192.0.2.7:80",
            "[::1]:80",
            "http://a",
            "a:b",
            "[192.0.2.7]",
            "1.2.3.4.5",
            "1.2.3",
            "256.1.1.1",
            "010.0.0.1",
            "a.1",
            "0x7f.1",
            "a.0x7f",
            "1",
            "0x",
            "a..b",
            ".a",
            "a.",
            "-a.example",
            "a-.example",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
            "a_b",
            "ü",
        ] {
            assert!(check_node_host(bad).is_err(), "{bad}");
        }
        assert!(check_node_host(&format!("{}.example", "x".repeat(64))).is_err());
    }

    #[test]
    fn hosts_of_one_machine_are_equal() {
        for (one, other) in [
            ("BOX1.Example", "box1.example"),
            ("box1.example.", "box1.example"),
            ("[2001:DB8:0::1]", "2001:db8::1"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
        ] {
            assert_eq!(plain_host(one), plain_host(other));
        }
        assert_ne!(plain_host("box1.example"), plain_host("box2.example"));
        for (url, host) in [
            ("https://gw.example:8702", "gw.example"),
            ("https://[::1]:8702/a", "[::1]"),
            ("tv.example", "tv.example"),
            ("https://tv.example/", "tv.example"),
        ] {
            assert_eq!(host_of_url(url), host);
        }
        for own in ["127.0.1.6", "::1", "[::1]", "localhost", "a.localhost", "::ffff:127.0.0.1"] {
            assert!(is_own_machine(own), "{own}");
        }
        assert!(!is_own_machine("192.0.2.7") && !is_own_machine("localhost.example"));
    }
}
