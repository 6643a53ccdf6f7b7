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
        let fault = |text: &String| Some((text.clone(), text.parse::<AddressBlock>().err()?));
        match self.from.iter().find_map(fault) {
            None => Ok(()),
            Some((text, PrefixFault::BitsBehind(address, bits))) => {
                Err(ConfigError::PrefixGoesOn { text, meant: format!("{address}/{bits}") })
            }
            Some((text, PrefixFault::Malformed)) => {
                let wanted = "addresses or prefixes, such as \"192.0.2.7\" or \"10.0.0.0/8\"";
                Err(ConfigError::not_of_kind("proxy_protocol.from", text, wanted))
            }
        }
    }

    /// Their addresses. They have passed [`crate::Config::check`].
    pub fn prefixes(&self) -> Prefixes {
        let parse = |text: &String| text.parse::<AddressBlock>();
        self.from.iter().map(|text| parse(text).expect("checked with the configuration")).collect()
    }
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
            config.check().map_err(|error| error.to_string())
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
