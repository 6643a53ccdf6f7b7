//! Addresses of titles on nodes.

use std::path::Path;

use catalog::encode_path;
use fleet_protocol::{SnapshotNode, SteeringPolicy};

/// Longest token that is passed on.
const TOKEN_BYTES_MAX: usize = 256;

/// Whether a token can be put into an address: it has only the characters of `token`'s format, and a bounded length. Nodes check its permissions.
pub(crate) fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=TOKEN_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

/// The URL of `folder`, a decoded path in the library, on a node, with a trailing slash. The path is the same on all nodes, so a clone only needs
/// another host.
pub(crate) fn folder(
    policy: &SteeringPolicy,
    node: &SnapshotNode,
    token: Option<&str>,
    folder: &str,
) -> String {
    let folder = encode_path(Path::new(folder));
    let path = match token {
        Some(token) => token::url_path(token, &folder),
        None => format!("/{folder}"),
    };
    let port = if has_default_port(policy) { String::new() } else { format!(":{}", policy.port) };
    format!("{}://{}{port}{path}/", policy.scheme, host(node))
}

/// The node's host in URL syntax: IPv6 addresses in brackets.
pub(crate) fn host(node: &SnapshotNode) -> String {
    if node.host.contains(':') && !node.host.starts_with('[') {
        format!("[{}]", node.host)
    } else {
        node.host.clone()
    }
}

/// Whether the port is the scheme's default, which addresses omit.
pub(crate) fn has_default_port(policy: &SteeringPolicy) -> bool {
    matches!((policy.scheme.as_str(), policy.port), ("https", 443) | ("http", 80))
}

/// The folder of a title's document, as a decoded path in the library.
pub(crate) fn folder_of(title: &str, document: &str) -> String {
    match document.rsplit_once('/') {
        Some((folder, _)) => format!("{title}/{folder}"),
        None => title.to_owned(),
    }
}
