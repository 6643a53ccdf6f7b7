//! Purges: stored responses that are dropped, or revalidated, before their time.

use crate::contract::is_path;
use crate::http_cache::Tags;
use crate::store::common_form;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most tags of one purge.
const TAGS_MAX: usize = 256;

/// The most bytes of a purge's URL, prefix, or tags together.
const BYTES_MAX: usize = 24 << 10;

/// An operator's request to drop stored responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purge {
    /// Which responses.
    pub scope: PurgeScope,
    /// Keeps them, but has each revalidated before its next use. They are used stale only where the origin allows that
    /// (`stale-while-revalidate`, `stale-if-error`). Otherwise they are removed, and their space is given back.
    pub is_soft: bool,
}

/// The responses of a purge. Each is purged with all its blocks and variants, and under all spellings of its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PurgeScope {
    /// Those at one path, with its query, as in [`crate::contract`].
    Url(String),
    /// Those whose path and query begin like this.
    Prefix(String),
    /// Those with at least one of these surrogate keys ([`crate::http_cache::Tags`]).
    Tags(Vec<String>),
}

/// What a purge has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purged {
    /// Films: responses that are kept in blocks.
    pub films: u64,
    /// Responses that are stored whole. Each variant counts.
    pub responses: u64,
}

/// A purge that was carried out, as it is shown to operators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeRecord {
    /// When it was done, in seconds since 1970.
    pub at_unix_seconds: u64,
    /// The address of a `PURGE` request, or the process of a command.
    pub by: String,
    /// [`PurgeScope::as_str`].
    pub kind: String,
    /// Whether the responses were kept, and marked as stale.
    pub is_soft: bool,
    /// The URL or the prefix, without its query, or the tags.
    pub what: String,
    /// What it found.
    pub purged: Purged,
}

impl fmt::Display for Purged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = |count: u64| if count == 1 { "" } else { "s" };
        let Self { films, responses } = *self;
        write!(f, "{films} film{}, ", ending(films))?;
        write!(f, "{responses} other response{}", ending(responses))
    }
}

impl PurgeScope {
    /// Its label in metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Url(_) => "url",
            Self::Prefix(_) => "prefix",
            Self::Tags(_) => "tag",
        }
    }

    /// The same with its URL or prefix in the form that all spellings share.
    pub(crate) fn in_common_form(&self) -> Self {
        match self {
            Self::Url(url) => Self::Url(common_form(url).into_owned()),
            Self::Prefix(prefix) => Self::Prefix(common_form(prefix).into_owned()),
            Self::Tags(tags) => Self::Tags(tags.clone()),
        }
    }

    /// Whether it covers a response. Both are in common form.
    pub(crate) fn covers(&self, path: &str, tags: &Tags) -> bool {
        match self {
            Self::Url(url) => url == path,
            Self::Prefix(prefix) => path.starts_with(prefix.as_str()),
            Self::Tags(names) => names.iter().any(|name| tags.has(name)),
        }
    }

    /// Its bytes of memory, roughly.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Url(text) | Self::Prefix(text) => text.len(),
            Self::Tags(names) => names.iter().map(|name| name.len() + 24).sum(),
        }
    }

    /// Checks that it can match something, and fits into a message.
    ///
    /// # Errors
    /// The mistake, for the operator.
    pub fn check(&self) -> Result<(), &'static str> {
        let is_path = |path: &str| is_path(path) && path.len() <= BYTES_MAX;
        match self {
            Self::Url(path) | Self::Prefix(path) if !is_path(path) => {
                Err("write a URL, or a path that begins with a slash, of at most 24 KiB")
            }
            Self::Tags(tags) if tags.is_empty() || tags.iter().any(String::is_empty) => {
                Err("name at least one tag")
            }
            Self::Tags(tags)
                if tags.len() > TAGS_MAX
                    || tags.iter().map(String::len).sum::<usize>() > BYTES_MAX =>
            {
                Err("name at most 256 tags, of at most 24 KiB together")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_names_something_and_is_bounded() {
        let tags = |tags: &[&str]| PurgeScope::Tags(tags.iter().map(|tag| (*tag).into()).collect());
        for good in [PurgeScope::Url("/a?b".into()), PurgeScope::Prefix("/".into()), tags(&["a"])] {
            assert_eq!(good.check(), Ok(()));
        }
        for bad in [
            PurgeScope::Url("a".into()),
            PurgeScope::Url("/a b".into()),
            PurgeScope::Prefix(String::new()),
            PurgeScope::Prefix("/".repeat(BYTES_MAX + 1)),
            tags(&[]),
            tags(&["a", ""]),
            tags(&["a"; TAGS_MAX + 1]),
            tags(&["x".repeat(BYTES_MAX + 1).as_str()]),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
