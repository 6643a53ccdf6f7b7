//! Names of nodes, sites, clusters, racks, regions, gateways and operators.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A DNS label (RFC 1123, section 2.1): 1 to 63 lower-case letters, digits and hyphens, without a hyphen at either end. So it can be part of a host
/// name, an identifier of a pathway, a key in the store or a file name, and needs no quoting in any of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// The text cannot be a [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to 63 lower-case letters, digits and hyphens, and no hyphen at either end")]
pub struct BadName;

const BYTES_MAX: usize = 63;

impl Name {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let is_label =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = (1..=BYTES_MAX).contains(&text.len()) && text.bytes().all(is_label);
        let ends_well = !text.starts_with('-') && !text.ends_with('-');
        if fits && ends_well { Ok(Self(text.to_owned())) } else { Err(BadName) }
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn a_name_is_a_label_of_dns() {
        for good in ["a", "node-1", "7", &"x".repeat(63)] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", "ü", "a b", &"x".repeat(64)] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
            assert!(serde_json::from_str::<Name>(&format!("\"{bad}\"")).is_err(), "{bad}");
        }
    }
}
