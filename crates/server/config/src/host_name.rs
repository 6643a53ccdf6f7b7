//! Host names in settings.

use crate::HOST_BYTES_MAX;
use std::net::Ipv6Addr;

/// Whether `name` is a bare host name, without scheme, port or path.
pub(crate) fn is_host_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !name.is_empty() && name.bytes().all(fits)
}

/// The scheme and the host, perhaps with a port, of a URL that has nothing else but a slash at its end.
pub(crate) fn scheme_and_host(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.strip_suffix('/').unwrap_or(rest);
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_port = |port: &str| is_number(port) && port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_valid = is_name_or_address(name) && port.is_none_or(is_port);
    (matches!(scheme, "http" | "https") && is_valid).then_some((scheme, host))
}

fn is_name_or_address(text: &str) -> bool {
    if let Some(address) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let is_of_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_of_label);
    text.len() <= HOST_BYTES_MAX && text.split('.').all(is_label)
}
