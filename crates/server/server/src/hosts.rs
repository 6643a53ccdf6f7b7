//! Finds the library for a request, by its host.

use config::{Config, HOST_BYTES_MAX};
use std::collections::HashMap;

/// The hosts with a library of their own, in lower case, and its index among the libraries.
pub(crate) struct Hosts {
    by_name: HashMap<Box<[u8]>, usize>,
    /// The library of all other hosts, if they have one.
    of_others: Option<usize>,
}

impl Hosts {
    /// The library of `config` comes first, if there is one; those of the sites follow.
    pub(crate) fn new(config: &Config) -> Self {
        let of_others = !config.library.is_empty();
        let mut by_name = HashMap::new();
        for (index, site) in (usize::from(of_others)..).zip(&config.sites) {
            let hosts = site.hosts.iter().map(|host| host.to_ascii_lowercase().into_bytes());
            by_name.extend(hosts.map(|host| (host.into(), index)));
        }
        Self { by_name, of_others: of_others.then_some(0) }
    }

    /// The library of a request for `host`, as written in the request's head.
    pub(crate) fn library_of(&self, host: Option<&[u8]>) -> Option<usize> {
        if self.by_name.is_empty() {
            return self.of_others;
        }
        let mut lower = [0; HOST_BYTES_MAX];
        let own = name_of(host.unwrap_or_default());
        let own = lower.get_mut(..own.len()).and_then(|lower| {
            lower.copy_from_slice(own);
            lower.make_ascii_lowercase();
            self.by_name.get(&*lower).copied()
        });
        own.or(self.of_others)
    }
}

/// The name in a Host header without its port and the final dot of the DNS root. An IPv6 address stays as it is.
fn name_of(host: &[u8]) -> &[u8] {
    let name = host.split(|byte| *byte == b':').next().unwrap_or_default();
    name.strip_suffix(b".").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::HostedSite;

    fn hosts(library: bool) -> Hosts {
        let site = |hosts: &[&str]| HostedSite {
            hosts: hosts.iter().map(|host| (*host).into()).collect(),
            library: vec!["/x".into()],
        };
        let library = if library { vec!["/default".into()] } else { Vec::new() };
        let sites = vec![site(&["a.example", "WWW.a.example"]), site(&["192.0.2.7"])];
        Hosts::new(&Config { library, sites, ..Config::default() })
    }

    #[test]
    fn a_host_is_known_however_it_is_written() {
        let (with, without) = (hosts(true), hosts(false));
        for (host, index) in [
            ("a.example", Some(0)),
            ("A.EXAMPLE", Some(0)),
            ("a.example.", Some(0)),
            ("a.example:8443", Some(0)),
            ("a.Example.:443", Some(0)),
            ("a.example:", Some(0)),
            ("www.a.example", Some(0)),
            ("192.0.2.7:8443", Some(1)),
            ("b.example", None),
            ("xa.example", None),
            ("a.example.org", None),
            ("a.example..", None),
            (".a.example", None),
            ("a%2eexample", None),
            ("[::1]:443", None),
            ("", None),
            (":443", None),
            (&"a".repeat(5000), None),
        ] {
            assert_eq!(without.library_of(Some(host.as_bytes())), index, "{host}");
            let among = Some(index.map_or(0, |index| index + 1));
            assert_eq!(with.library_of(Some(host.as_bytes())), among, "{host}");
        }
        assert_eq!((with.library_of(None), without.library_of(None)), (Some(0), None));
    }

    #[test]
    fn without_sites_every_host_has_the_library() {
        let hosts = Hosts::new(&Config { library: vec!["/x".into()], ..Config::default() });
        assert_eq!(hosts.library_of(Some(b"a.example")), Some(0));
        assert_eq!(hosts.library_of(None), Some(0));
    }
}
