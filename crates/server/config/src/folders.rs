//! The library's folders in the configuration: one as a text, or several as a list.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;

/// A folder, or a list of folders.
pub(crate) fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "library must be a folder, or a list of folders")]
    enum OneOrMore {
        One(PathBuf),
        More(Vec<PathBuf>),
    }
    match OneOrMore::deserialize(from)? {
        OneOrMore::One(folder) => Ok(vec![folder]),
        OneOrMore::More(folders) if folders.is_empty() => {
            Err(D::Error::custom("library is an empty list: name at least one folder"))
        }
        OneOrMore::More(folders) => Ok(folders),
    }
}
