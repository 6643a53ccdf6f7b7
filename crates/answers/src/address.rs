//! Addresses of titles on nodes.

use std::path::Path;

use catalog::encode_path;
use fleet::{SnapshotNode, SteeringPolicy};

/// The longest token that is passed on.
const TOKEN_BYTES_MAX: usize = 256;

/// A token that can stand in any address: the characters of `token`'s form, and a bounded number of them. Nodes check what it allows.
pub(crate) fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=TOKEN_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

/// Where `folder`, a decoded path in the library, begins on a node, with a slash at its end. The same path on all nodes, so that clones need another
/// host and nothing else.
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

/// The node's host as URLs write it: IPv6 addresses in brackets.
pub(crate) fn host(node: &SnapshotNode) -> String {
    if node.host.contains(':') && !node.host.starts_with('[') {
        format!("[{}]", node.host)
    } else {
        node.host.clone()
    }
}

/// Whether addresses leave the port out.
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
