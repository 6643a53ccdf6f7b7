//! The URLs of the server for people to open, the best one first.
//!
//! A server that listens on every address has many URLs. On a machine with a screen `localhost` comes first, because the person who started the
//! server sits there. Without a screen that person uses another machine, so an address that other machines can reach comes first.

use config::Config;
use config::Route;
use std::net::{IpAddr, SocketAddr};

/// The addresses of a server that listens on all of them.
pub(super) fn addresses(config: &Config) -> Vec<IpAddr> {
    if config.route == Route::Bypass {
        return config.bypass.addresses.clone();
    }
    let is_for_v4_only = config.listen.is_ipv4();
    let reachable = machine::reachable_addresses().into_iter();
    let mut hosts: Vec<_> = reachable.filter(|ip| ip.is_ipv4() || !is_for_v4_only).collect();
    let localhost = IpAddr::from([127, 0, 0, 1]);
    hosts.insert(if has_screen() { 0 } else { hosts.len() }, localhost);
    hosts
}

/// Whether a person may sit at this machine: X or Wayland runs for the user who started the server.
fn has_screen() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// One URL if the server listens on one address, else one for each of `addresses`; at least one.
pub(super) fn of(listen: SocketAddr, tls: bool, addresses: &[IpAddr]) -> Vec<String> {
    let scheme = if tls { "https" } else { "http" };
    let url = |ip: &IpAddr| match ip {
        ip if ip.is_loopback() && listen.ip().is_unspecified() => {
            format!("{scheme}://localhost:{}", listen.port())
        }
        ip => format!("{scheme}://{}", SocketAddr::new(*ip, listen.port())),
    };
    if listen.ip().is_unspecified() && !addresses.is_empty() {
        addresses.iter().map(url).collect()
    } else {
        vec![url(&listen.ip())]
    }
}

/// The same URL with `host`, at the port of the given one.
pub(super) fn with_host(url: &str, host: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    // An IPv6 address without a port ends with a bracket.
    let port = rest.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
    match (scheme, port.unwrap_or_default()) {
        (_, "") | ("https", "443") | ("http", "80") => format!("{scheme}://{host}/"),
        (_, port) => format!("{scheme}://{host}:{port}/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_port_of_the_server() {
        let with = |url: &str| with_host(url, "a.example");
        assert_eq!(with("https://[::1]:8443"), "https://a.example:8443/");
        assert_eq!(with("https://localhost:443"), "https://a.example/");
        assert_eq!(with("http://192.0.2.1:80"), "http://a.example/");
        assert_eq!(with("http://192.0.2.1:443"), "http://a.example:443/");
        assert_eq!(with("https://tv.example.org"), "https://a.example/");
        assert_eq!(with("https://[2001:db8::1]"), "https://a.example/");
    }

    fn urls(listen: &str, addresses: &[&str]) -> Vec<String> {
        let addresses: Vec<_> = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
        of(listen.parse().unwrap(), true, &addresses)
    }

    #[test]
    fn a_server_on_one_address_has_one_url() {
        assert_eq!(urls("127.0.0.1:8443", &["192.0.2.1"]), ["https://127.0.0.1:8443"]);
        assert_eq!(urls("[2001:db8::1]:443", &["192.0.2.1"]), ["https://[2001:db8::1]:443"]);
    }

    #[test]
    fn a_server_on_every_address_has_a_url_for_each() {
        let expected =
            ["https://192.0.2.1:8443", "https://[2001:db8::1]:8443", "https://localhost:8443"];
        assert_eq!(urls("[::]:8443", &["192.0.2.1", "2001:db8::1", "127.0.0.1"]), expected);
    }
}
