//! Host names with libraries of their own.

use super::{Config, ConfigError, folders};
use crate::host_name::is_host_name;
use catalog::FoldersError;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The longest name in DNS (RFC 1035 section 2.3.4), without the dot at its end.
pub const HOST_BYTES_MAX: usize = 253;

/// The longest part of one.
const LABEL_BYTES_MAX: usize = 63;

/// The most sites: each has a thread per folder, and another one if there are pages.
const SITES_MAX: usize = 256;

/// A library, and the host names by which viewers ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostedSite {
    /// The host names.
    pub hosts: Vec<String>,
    /// The library: one folder, or one for each disk.
    #[serde(deserialize_with = "folders::one_or_more")]
    pub library: Vec<PathBuf>,
}

/// An error in the sites.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SitesError {
    /// One of them is invalid.
    #[error("[[sites]], number {number}: {fault}")]
    Site {
        /// The site's number, counted from 1.
        number: usize,
        /// Its fault.
        fault: SiteFault,
    },
    /// There are too many, this number.
    #[error("there are {0} [[sites]]; there may be 1 to {SITES_MAX}")]
    TooMany(usize),
    /// A folder is in the libraries of two hosts.
    #[error("{}", describe_shared(.0))]
    Shared(FoldersError),
    /// Titles are pinned, but only sites have libraries.
    #[error(
        "memory.pins names titles of library, which is not set (the [[sites]] have no pins): set library, or leave the pins out"
    )]
    PinsWithoutLibrary,
}

/// The fault of a site.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SiteFault {
    /// It has no host.
    #[error("hosts is empty: name the hosts of this library, such as \"video.example.org\"")]
    NoHosts,
    /// One of its hosts is a pattern.
    #[error("hosts has {0:?}, and patterns are not possible: write each name")]
    Wildcard(String),
    /// One of its hosts has characters outside ASCII.
    #[error(
        "hosts has {0:?}: write it as it is in DNS, which browsers send, too (\"xn--...\"; `idn2 NAME` prints it)"
    )]
    NotAscii(String),
    /// One of its hosts ends with the dot of the DNS root.
    #[error(
        "hosts has {0:?}: write it without the dot at its end; requests with it are answered, too"
    )]
    FinalDot(String),
    /// One of its hosts is written with a scheme, a port or a path, or as an IPv6 address.
    #[error(
        "hosts has {0:?}: write the name alone, such as \"video.example.org\", without scheme, port and path"
    )]
    MoreThanName(String),
    /// One of its hosts cannot be in a request.
    #[error("hosts has {0:?}, which is not a host name: write one such as \"video.example.org\"")]
    NoName(String),
    /// One of its hosts is named twice, first in the site of this number.
    #[error("hosts has {0:?}, which is in number {1} already: write it in one of them")]
    Twice(String, usize),
    /// Its folders cannot be served together.
    #[error("{0}")]
    Folders(FoldersError),
}

/// The library's folders, and those of the sites, in this order.
pub(crate) fn folders(config: &Config) -> impl Iterator<Item = &PathBuf> {
    config.library.iter().chain(config.sites.iter().flat_map(|site| &site.library))
}

/// Checks everything that does not depend on the folders themselves.
pub(crate) fn check(config: &Config) -> Result<(), SitesError> {
    let sites = &config.sites;
    if sites.is_empty() {
        return Ok(());
    }
    if config.library.is_empty() && !config.memory.pins.is_empty() {
        return Err(SitesError::PinsWithoutLibrary);
    }
    if sites.len() > SITES_MAX {
        return Err(SitesError::TooMany(sites.len()));
    }
    let mut known = HashMap::new();
    for (number, site) in (1..).zip(sites) {
        let at = |fault| SitesError::Site { number, fault };
        if site.hosts.is_empty() {
            return Err(at(SiteFault::NoHosts));
        }
        for host in &site.hosts {
            check_host(host).map_err(at)?;
            if let Some(first) = known.insert(host.to_ascii_lowercase(), number) {
                return Err(at(SiteFault::Twice(host.clone(), first)));
            }
        }
    }
    Ok(())
}

fn check_host(host: &str) -> Result<(), SiteFault> {
    let is_label = |label: &str| !label.is_empty() && label.len() <= LABEL_BYTES_MAX;
    let fault = if !host.is_ascii() {
        SiteFault::NotAscii
    } else if host.contains('*') {
        SiteFault::Wildcard
    } else if host.contains([':', '/']) {
        SiteFault::MoreThanName
    } else if host.strip_suffix('.').is_some_and(is_host_name) {
        SiteFault::FinalDot
    } else if !is_host_name(host) || host.len() > HOST_BYTES_MAX || !host.split('.').all(is_label) {
        SiteFault::NoName
    } else {
        return Ok(());
    };
    Err(fault(host.to_owned()))
}

/// Checks that the folders of each library can be served together, and that no folder is in two libraries.
pub(crate) fn check_folders(config: &Config) -> Result<(), ConfigError> {
    catalog::check_folders(&config.library).map_err(ConfigError::Folders)?;
    for (number, site) in (1..).zip(&config.sites) {
        let at = |why| SitesError::Site { number, fault: SiteFault::Folders(why) };
        catalog::check_folders(&site.library).map_err(at).map_err(ConfigError::Sites)?;
    }
    let all: Vec<_> = folders(config).cloned().collect();
    catalog::check_folders(&all).map_err(SitesError::Shared).map_err(ConfigError::Sites)
}

/// The conflict between folders of different libraries, in words.
fn describe_shared(error: &FoldersError) -> String {
    let advice = "titles of one host could be fetched by the other's name: give each library folders of its own, \
                  or put hosts that share one into one of the [[sites]]";
    let path = |path: &Path| path.display().to_string();
    match error {
        FoldersError::TooMany(count) => {
            let most = catalog::FOLDERS_MAX;
            format!("library and the [[sites]] have {count} folders together; there may be {most}")
        }
        FoldersError::Twice(one, other) if one == other => {
            format!("the folder {} is in two libraries, so {advice}", path(one))
        }
        FoldersError::Twice(one, other) => {
            let (one, other) = (path(one), path(other));
            format!("the folders {one} and {other} of two libraries are the same, so {advice}")
        }
        FoldersError::Inside(inner, outer) => {
            let (inner, outer) = (path(inner), path(outer));
            format!("the folder {inner} of one library lies in {outer} of another one, so {advice}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::refusal;

    #[test]
    fn each_host_that_no_request_can_name_is_refused_with_what_to_write() {
        let of = |host: &str| {
            let text = format!("[[sites]]\nhosts = [\"ok.example\", {host:?}]\nlibrary = \"/a\"");
            refusal(&text)
        };
        for host in ["a", "A.Example", "a-1_b.example.org", "192.0.2.7", "xn--bcher-kva.example"] {
            assert_eq!(of(host), None, "{host}");
        }
        for (host, said) in [
            ("*.example", "patterns are not possible"),
            ("b\u{fc}cher.example", "idn2 NAME"),
            ("a.example.", "without the dot at its end"),
            ("a.example:8443", "without scheme, port and path"),
            ("https://a.example", "without scheme, port and path"),
            ("a.example/films", "without scheme, port and path"),
            ("::1", "without scheme, port and path"),
            ("", "is not a host name"),
            (".", "is not a host name"),
            ("a..example", "is not a host name"),
            (".example", "is not a host name"),
            ("a b.example", "is not a host name"),
            ("a@example", "is not a host name"),
            (&"a".repeat(64), "is not a host name"),
            (&format!("{}a", "a.".repeat(127)), "is not a host name"),
            ("OK.example", "which is in number 1 already"),
        ] {
            let told = of(host).unwrap_or_else(|| panic!("{host} is taken"));
            assert!(told.starts_with("[[sites]], number 1: hosts has "), "{told}");
            assert!(told.contains(said), "{host}: {told}");
        }
    }

    #[test]
    fn sites_that_cannot_be_are_refused() {
        let site = |host: &str| format!("[[sites]]\nhosts = [{host:?}]\nlibrary = \"/{host}\"\n");
        assert_eq!(refusal(&format!("{}{}", site("a"), site("b"))), None);
        let told = refusal(&format!("{}{}", site("a.example"), site("A.example"))).unwrap();
        assert!(told.starts_with("[[sites]], number 2: ") && told.contains("number 1"), "{told}");
        let told = refusal("[[sites]]\nhosts = []\nlibrary = \"/a\"").unwrap();
        assert!(told.contains("hosts is empty"), "{told}");
        let pins = format!("memory = {{ pins = [\"film\"] }}\n{}", site("a"));
        assert!(refusal(&pins).unwrap().contains("memory.pins"));
        assert_eq!(refusal(&format!("library = \"/c\"\n{pins}")), None);
        let many: String = (0..=SITES_MAX).map(|number| site(&format!("h{number}"))).collect();
        assert!(refusal(&many).unwrap().contains("257 [[sites]]"));
        for (text, said) in [
            ("[[sites]]\nhosts = [\"a\"]", "library"),
            ("[[sites]]\nlibrary = \"/a\"", "hosts"),
            ("[[sites]]\nhosts = [\"a\"]\nlibrary = []", "empty list"),
            ("[[sites]]\nhosts = [\"a\"]\nroot = \"/a\"", "root"),
        ] {
            let told = toml::from_str::<Config>(text).unwrap_err().to_string();
            assert!(told.contains(said), "{told}");
        }
    }

    #[test]
    fn no_folder_is_in_two_libraries() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        std::fs::create_dir_all(path("one/inner")).unwrap();
        std::fs::create_dir(path("two")).unwrap();
        let told = |library: &str, first: &str, second: &str| {
            let site = |host: &str, folder: &str| HostedSite {
                hosts: vec![host.into()],
                library: vec![path(folder)],
            };
            let library = Some(library).filter(|name| !name.is_empty()).map(path);
            let sites = vec![site("a", first), site("b", second)];
            let config =
                Config { library: library.into_iter().collect(), sites, ..Config::default() };
            config.check_folders().err().map(|error| error.to_string())
        };
        assert_eq!(told("", "one", "two"), None);
        for (library, first, second) in
            [("", "one", "one"), ("one", "one/inner", "two"), ("one/inner", "two", "one")]
        {
            let told = told(library, first, second).unwrap();
            assert!(told.contains("could be fetched by the other's name"), "{told}");
        }
    }
}
