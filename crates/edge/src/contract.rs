//! What the server and its helper say to each other: one message of JSON in each packet.
//!
//! Paths are as in a request to the origin: percent-encoded, with a slash in front, without a query. Blocks are numbered from 0.

use serde::{Deserialize, Serialize};

/// The size of a block. The server's disk layer has the same number (`disk::ARRIVAL_BYTES`).
pub const BLOCK_BYTES: u64 = 1 << 20;

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
}

/// The helper tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EdgeTold {
    /// A helper begins. What an earlier one was asked is forgotten.
    Began,
    /// What is at a path. The packet carries the descriptor of the object's file.
    Object(Described),
    /// Nothing can be served at a path.
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
    /// The origin's `Cache-Control`; visible ASCII.
    pub cache_control: Option<String>,
    /// How long it may be served before the origin is asked again, in milliseconds.
    pub fresh_ms: u64,
    /// How old the origin's word on it is, in milliseconds.
    pub age_ms: u64,
    /// Whether it is served only because the origin cannot be asked.
    pub is_stale: bool,
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

    /// Whether another try may succeed at once.
    pub(crate) fn may_pass(self) -> bool {
        matches!(self, Self::Unreachable)
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
}
