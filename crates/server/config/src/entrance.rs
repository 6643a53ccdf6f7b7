//! Which addresses may connect, and which proxies are trusted to announce a client's address.

use super::ConfigError;
use net::{AddressBlock, PrefixFault, Prefixes};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Proxies that announce their clients' addresses (PROXY protocol, version 2).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProxyProtocol {
    /// Their addresses, as prefixes. Each connection from there must start with a header; on other connections, none is read.
    pub from: Vec<String>,
}

impl ProxyProtocol {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        check_prefixes("proxy_protocol.from", &self.from)
    }

    /// Their addresses. They have passed [`crate::Config::check`].
    pub fn prefixes(&self) -> Prefixes {
        prefixes(&self.from)
    }
}

/// Checks a setting's addresses and prefixes.
pub(crate) fn check_prefixes(setting: &'static str, texts: &[String]) -> Result<(), ConfigError> {
    let fault = |text: &String| Some((text.clone(), text.parse::<AddressBlock>().err()?));
    match texts.iter().find_map(fault) {
        None => Ok(()),
        Some((text, PrefixFault::BitsBehind(address, bits))) => {
            Err(ConfigError::PrefixGoesOn { setting, text, meant: format!("{address}/{bits}") })
        }
        Some((text, PrefixFault::Malformed)) => {
            let wanted = "addresses or prefixes, such as \"192.0.2.7\" or \"10.0.0.0/8\"";
            Err(ConfigError::not_of_kind(setting, text, wanted))
        }
    }
}

/// The addresses of a setting that has passed [`check_prefixes`].
pub(crate) fn prefixes(texts: &[String]) -> Prefixes {
    let parse = |text: &String| text.parse::<AddressBlock>();
    texts.iter().map(|text| parse(text).expect("checked with the configuration")).collect()
}

/// Addresses that may connect, and that may not: files with a prefix per line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessConfig {
    /// If there are any, only these may connect.
    pub allow: Vec<PathBuf>,
    /// Addresses that may not connect, even if allowed.
    pub deny: Vec<PathBuf>,
}

impl AccessConfig {
    /// All the files.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.allow.iter().chain(&self.deny)
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn proxies_are_addresses_or_prefixes() {
        let check = |text: &str| {
            let mut config = Config::default();
            config.proxy_protocol.from = vec!["10.0.0.0/8".into(), text.into()];
            let said = config.check().map_err(|error| error.to_string());
            let mut config = Config::default();
            config.edge.purge_from = vec![text.into()];
            let of_purges = config.check().map_err(|error| error.to_string());
            let same =
                said.clone().map_err(|said| said.replace("proxy_protocol.from", "edge.purge_from"));
            assert_eq!(of_purges, same);
            said
        };
        for text in ["192.0.2.7", "0.0.0.0/0", "2001:db8::/32", "::1"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for text in ["", "localhost", "10.0.0.0/33", "10.0.0.0-10.0.0.9"] {
            assert!(check(text).unwrap_err().contains("proxy_protocol.from"), "{text}");
        }
        let said = check("10.1.0.0/8").unwrap_err();
        assert!(said.contains("10.1.0.0/8") && said.contains("write \"10.0.0.0/8\""), "{said}");
    }
}
