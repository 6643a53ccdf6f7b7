//! The host names that the admin listener accepts.
//!
//! With "DNS rebinding", a page of another site can reach a listener on its reader's own machine: once the page is loaded, its
//! name is pointed at this machine's address, and the browser takes both for one site. Such a request is recognised by its
//! Host, which is still the other site's name. An address cannot be rebound, so the listener answers requests for an
//! address, and those for the names of this machine.

use fullbore_http::{Field, Request};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The accepted names, in lower case.
#[derive(Debug)]
pub struct AdminHosts(Vec<String>);

impl AdminHosts {
    /// `localhost`, this machine's own name, and the names that the operator configured.
    pub fn new(given: &[String]) -> Self {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let names = ["localhost", own.trim()].into_iter().chain(given.iter().map(String::as_str));
        Self(names.filter(|name| !name.is_empty()).map(plain).collect())
    }

    /// Whether a request may be answered. A request without a Host does not come from a browser.
    pub fn answer_to(&self, request: &Request) -> bool {
        let host = request.field(Field::Host).unwrap_or_default();
        std::str::from_utf8(host).is_ok_and(|host| self.know(host))
    }

    fn know(&self, host: &str) -> bool {
        if let Some(rest) = host.strip_prefix('[') {
            let address = rest.split_once(']').map_or("", |(address, _)| address);
            return address.parse::<Ipv6Addr>().is_ok();
        }
        let name = host.split_once(':').map_or(host, |(name, _)| name);
        name.is_empty() || name.parse::<Ipv4Addr>().is_ok() || self.0.contains(&plain(name))
    }
}

/// The name in lower case, without the final dot of the DNS root.
fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_known_names_are_answered_to_and_nothing_else() {
        let hosts = AdminHosts(vec!["localhost".into(), "video-1.example.org".into()]);
        for host in [
            "",
            "127.0.0.1",
            "127.0.0.1:9443",
            "192.0.2.7:80",
            "[::1]",
            "[2001:db8::1]:9443",
            "localhost",
            "LOCALHOST:9443",
            "localhost.",
            "Video-1.example.org.:9443",
        ] {
            assert!(hosts.know(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.1",
            "0x7f000001",
            "[::1",
            "[evil]",
            "video-1.example",
            "xlocalhost",
        ] {
            assert!(!hosts.know(host), "{host}");
        }
    }

    #[test]
    fn the_machines_own_name_is_known() {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert!(AdminHosts::new(&[]).know(&format!("{}:9443", own.trim())));
    }
}
