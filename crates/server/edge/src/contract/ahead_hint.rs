//! What the server tells the helper of viewers' next requests.

use super::OBJECT_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::ops::Range;

/// The most bytes of one object that are fetched ahead: as far as the server reads ahead for a viewer.
pub const AHEAD_BYTES_MAX: u64 = 8 << 20;

/// What a viewer may request next. It is fetched while no viewer waits, as far as such fetches have been worth it lately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AheadHint {
    /// The viewer's address; for IPv6, its network.
    pub client: IpAddr,
    /// The path that it has requested.
    pub path: String,
    /// What its player has announced.
    pub announced: Vec<AnnouncedObject>,
    /// How many segments after that path, by a playlist that names it, are fetched.
    pub segments: u8,
    /// How many segments after that path, by the number in its name, are fetched if no playlist names it.
    #[serde(default)]
    pub numbered: u8,
    /// The share of the bytes, in percent, that may be fetched for nothing.
    pub waste_percent_max: u8,
}

/// An object that a player has announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnouncedObject {
    /// Its path.
    pub path: String,
    /// The first byte that will be requested.
    pub first: u64,
    /// The byte after the last one, if that is known.
    pub end: Option<u64>,
}

impl AnnouncedObject {
    /// Whether it may be a part of the object.
    pub fn is_part(&self) -> bool {
        self.first > 0 || self.end.is_some()
    }

    /// The bytes that are fetched ahead, if any object has them.
    pub fn bytes(&self) -> Option<Range<u64>> {
        let end = self.end.unwrap_or(OBJECT_BYTES_MAX).min(OBJECT_BYTES_MAX);
        let end = end.min(self.first.saturating_add(AHEAD_BYTES_MAX));
        (self.first < end).then_some(self.first..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_that_an_object_can_have_are_fetched_ahead() {
        let bytes = |first, end| AnnouncedObject { path: "/a".into(), first, end }.bytes();
        assert_eq!(bytes(0, None), Some(0..AHEAD_BYTES_MAX));
        assert_eq!(bytes(5, Some(9)), Some(5..9));
        assert_eq!(bytes(5, Some(u64::MAX)), Some(5..5 + AHEAD_BYTES_MAX));
        assert_eq!(bytes(OBJECT_BYTES_MAX - 1, None), Some(OBJECT_BYTES_MAX - 1..OBJECT_BYTES_MAX));
        for (first, end) in [(OBJECT_BYTES_MAX, None), (u64::MAX, None), (9, Some(9)), (9, Some(5))]
        {
            assert_eq!(bytes(first, end), None, "{first} {end:?}");
        }
    }
}
