//! What the server and its helper say to each other: one message of JSON in each packet.
//!
//! Paths are as in a request to the origin: percent-encoded, with a slash in front, without a query. Blocks are numbered from 0.

use serde::{Deserialize, Serialize};

/// The size of a block. The server's disk layer has the same number (`disk::ARRIVAL_BYTES`).
pub const BLOCK_BYTES: u64 = 1 << 20;

/// The largest object: 16 TiB. The server has two bits in memory for each of its blocks.
pub const OBJECT_BYTES_MAX: u64 = 1 << 44;

/// The longest value of a header line that is passed on.
const VALUE_BYTES_MAX: usize = 512;

/// The last second of the year 9999. No date of HTTP is later.
const UNIX_SECONDS_MAX: u64 = 253_402_300_799;

/// A day.
const REFUSED_MS_MAX: u64 = 24 * 3600 * 1000;

/// The server asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EdgeAsk {
    /// What is at `path`? The viewer wants the byte at `offset` first. The answer is an [`EdgeTold::Object`] or an [`EdgeTold::Refused`].
    Open {
        /// Where it is.
        path: String,
        /// The first byte that is wanted.
        offset: u64,
    },
    /// Bring blocks of an object. The answers are any number of [`EdgeTold::There`] and [`EdgeTold::Failed`].
    Bring {
        /// Which object.
        object: u64,
        /// The first block.
        first: u64,
        /// The block after the last one.
        end: u64,
    },
    /// Viewers use these objects.
    Used {
        /// Which objects.
        objects: Vec<u64>,
    },
    /// Fetch what is at `path` for one viewer, and keep nothing of it. The answer is an [`EdgeTold::Passed`] or an [`EdgeTold::NotPassed`].
    Pass {
        /// Where it is.
        path: String,
        /// Names the viewer's question.
        ticket: u64,
    },
}

/// The helper tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EdgeTold {
    /// A helper begins. What an earlier one was asked is forgotten.
    Began,
    /// A helper cannot begin, and ends. Another one is started, but nobody answers until it begins.
    CannotBegin {
        /// Why, for the operator.
        said: String,
    },
    /// What is at a path. The packet carries the descriptor of the object's file.
    Object(Described),
    /// Nothing can be served at a path. If that is because it must not be kept, the server may ask for it with [`EdgeAsk::Pass`].
    Refused {
        /// Where.
        path: String,
        /// Why.
        why: Trouble,
        /// For how long that stays so, in milliseconds.
        for_ms: u64,
        /// What happened, for the operator.
        said: String,
    },
    /// Blocks are there.
    There {
        /// Of which object.
        object: u64,
        /// The first block.
        first: u64,
        /// The block after the last one.
        end: u64,
        /// How many bytes of them were fetched for that; the rest was there before.
        fetched_bytes: u64,
    },
    /// Blocks do not come.
    Failed {
        /// Of which object.
        object: u64,
        /// The first block.
        first: u64,
        /// The block after the last one.
        end: u64,
        /// Why.
        why: Trouble,
        /// What happened, for the operator.
        said: String,
    },
    /// An object is at no path any more: it was evicted, or the origin has another version.
    Ended {
        /// Which object.
        object: u64,
        /// Why.
        why: Trouble,
    },
    /// What one viewer asked for, whole. The packet carries the descriptor of a file that has no name any more.
    Passed {
        /// The viewer's question.
        ticket: u64,
        /// What it is.
        described: Described,
    },
    /// One viewer gets nothing.
    NotPassed {
        /// The viewer's question.
        ticket: u64,
        /// Why.
        why: Trouble,
        /// What happened, for the operator.
        said: String,
    },
    /// A request to the origin failed, and is made again.
    TriedAgain {
        /// Why it failed.
        why: Trouble,
    },
}

impl EdgeTold {
    /// Whether the server may believe it. The helper reads what strangers send, so the server relies on nothing else that it says.
    ///
    /// # Errors
    /// What is out of bounds.
    pub fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Object(described) | Self::Passed { described, .. } => described.check(),
            Self::Refused { path, .. } if !is_path(path) => Err("an invalid path"),
            Self::Refused { for_ms, .. } if *for_ms > REFUSED_MS_MAX => {
                Err("a refusal for longer than a day")
            }
            _ => Ok(()),
        }
    }
}

/// An object, as viewers get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Where it is.
    pub path: String,
    /// Its number; another version has another one.
    pub object: u64,
    /// Its length in bytes.
    pub size: u64,
    /// Its strong entity tag, with quotes.
    pub etag: String,
    /// Its media type; visible ASCII.
    pub content_type: Option<String>,
    /// When the origin says that it was modified last, in seconds since 1970.
    pub modified: Option<u64>,
    /// Whether the origin sent it at least a second after that, so that the date names one version (RFC 9110 section 8.8.2.2).
    pub is_date_strong: bool,
    /// The origin's `Cache-Control`; visible ASCII.
    pub cache_control: Option<String>,
    /// How long it may be served before the origin is asked again, in milliseconds.
    pub fresh_ms: u64,
    /// For how long after that it may be served if nobody can ask the origin, in milliseconds.
    pub stale_ms: u64,
    /// How old the origin's word on it is, in milliseconds.
    pub age_ms: u64,
    /// Whether it is served only because the origin cannot be asked.
    pub is_stale: bool,
}

impl Described {
    fn check(&self) -> Result<(), &'static str> {
        let mut values = [&self.content_type, &self.cache_control].into_iter().flatten();
        if !is_path(&self.path) {
            Err("an invalid path")
        } else if self.size > OBJECT_BYTES_MAX {
            Err("an object of more than 16 TiB")
        } else if !is_strong_tag(&self.etag) {
            Err("an entity tag that is not strong")
        } else if !values.all(|value| is_plain(value)) {
            Err("a header line that is not plain text")
        } else if self.modified.is_some_and(|modified| modified > UNIX_SECONDS_MAX) {
            Err("a date after the year 9999")
        } else {
            Ok(())
        }
    }
}

fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether an entity tag is strong, with its quotes (RFC 9110 section 8.8.3).
pub(crate) fn is_strong_tag(etag: &str) -> bool {
    let inner = etag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    is_plain(etag) && inner.is_some_and(|inner| !inner.contains(['"', ' ']))
}

/// Whether a header line may have this value: short and visible ASCII.
pub(crate) fn is_plain(value: &str) -> bool {
    value.len() <= VALUE_BYTES_MAX && value.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

/// Why something cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Trouble {
    /// The origin has nothing there, or shows it to nobody.
    NotFound,
    /// The origin cannot be connected to, the connection broke, or it answers with an error.
    Unreachable,
    /// The origin took too long.
    TimedOut,
    /// The origin's answer contradicts itself or the question.
    Wrong,
    /// The origin points to another address, which is not followed.
    Redirected,
    /// The origin's answer must not be kept for others.
    Uncacheable,
    /// The origin has another version now.
    Changed,
    /// The object was evicted.
    Evicted,
    /// The object is larger than the cache.
    TooLarge,
    /// The cache has no room: its disk is full, or all of it is being watched.
    Full,
    /// The cache's disk failed.
    Disk,
}

impl Trouble {
    /// Every one.
    pub const ALL: [Self; 11] = [
        Self::NotFound,
        Self::Unreachable,
        Self::TimedOut,
        Self::Wrong,
        Self::Redirected,
        Self::Uncacheable,
        Self::Changed,
        Self::Evicted,
        Self::TooLarge,
        Self::Full,
        Self::Disk,
    ];

    /// Its number: its place in [`Self::ALL`].
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The label under which it is counted.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "origin_not_found",
            Self::Unreachable => "origin_unreachable",
            Self::TimedOut => "origin_timed_out",
            Self::Wrong => "origin_wrong",
            Self::Redirected => "origin_redirected",
            Self::Uncacheable => "origin_uncacheable",
            Self::Changed => "origin_changed",
            Self::Evicted => "edge_evicted",
            Self::TooLarge => "edge_too_large",
            Self::Full => "edge_full",
            Self::Disk => "edge_disk",
        }
    }

    /// How often the origin is asked at most, before the viewer is told. One that cannot be reached or breaks off: an origin of which one request
    /// in a hundred fails then fails one viewer in a million. One that says nonsense may be several behind one address, of which one is broken.
    pub(crate) fn tries(self) -> u32 {
        match self {
            Self::Unreachable => 3,
            Self::TimedOut | Self::Wrong | Self::Redirected => 2,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_has_a_label_and_a_number_of_its_own() {
        let labels: std::collections::BTreeSet<_> =
            Trouble::ALL.iter().map(|one| one.as_str()).collect();
        assert_eq!(labels.len(), Trouble::ALL.len());
        let numbers = Trouble::ALL.map(|one| usize::from(one.number()));
        assert!(numbers.into_iter().eq(0..Trouble::ALL.len()));
    }

    #[test]
    fn what_the_helper_says_of_an_object_is_believed_only_within_bounds() {
        let good = Described {
            path: "/a%20b".into(),
            object: 1,
            size: OBJECT_BYTES_MAX,
            etag: "\"v1\"".into(),
            content_type: Some("video/mp4".into()),
            modified: Some(UNIX_SECONDS_MAX),
            is_date_strong: true,
            cache_control: Some("max-age=60, public".into()),
            fresh_ms: u64::MAX,
            stale_ms: u64::MAX,
            age_ms: u64::MAX,
            is_stale: false,
        };
        let check = |described: Described| EdgeTold::Object(described).check();
        assert_eq!(check(good.clone()), Ok(()));
        let header = Some("a\r\nSet-Cookie: b=c".to_owned());
        for bad in [
            Described { path: "a".into(), ..good.clone() },
            Described { path: "/a b".into(), ..good.clone() },
            Described { size: OBJECT_BYTES_MAX + 1, ..good.clone() },
            Described { etag: "W/\"v1\"".into(), ..good.clone() },
            Described { etag: "\"".into(), ..good.clone() },
            Described { content_type: header.clone(), ..good.clone() },
            Described { cache_control: header, ..good.clone() },
            Described { cache_control: Some("a".repeat(513)), ..good.clone() },
            Described { modified: Some(u64::MAX), ..good.clone() },
        ] {
            assert!(check(bad.clone()).is_err(), "{bad:?}");
            assert!(EdgeTold::Passed { ticket: 1, described: bad }.check().is_err());
        }
        let refused = |path: &str, for_ms| {
            let (path, said) = (path.to_owned(), String::new());
            EdgeTold::Refused { path, why: Trouble::Full, for_ms, said }.check()
        };
        assert_eq!(refused("/a", 1000), Ok(()));
        assert!(refused("/a", u64::MAX).is_err() && refused("a", 1).is_err());
    }
}
