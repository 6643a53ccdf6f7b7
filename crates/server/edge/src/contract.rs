//! The messages between the server and its helper: one JSON message per packet.
//!
//! Paths are as in a request to the origin: percent-encoded, with a leading slash, and with the query where that travels. Blocks are numbered
//! from 0.

mod ahead_hint;
mod asked_at;
mod passed_response;

pub use ahead_hint::{AHEAD_BYTES_MAX, AheadHint, AnnouncedObject};
pub use asked_at::AskedAt;
pub(crate) use passed_response::check_head;
pub use passed_response::{PassedResponse, RING_BYTES};

use crate::http_cache::{Fields, ForwardStatus, is_of_connection};
use crate::inquiry::{Findings, Inquiry};
use crate::purge::{Purge, Purged};
use crate::store::Damage;
use helper_process::packets::PACKET_BYTES_MAX;
use passed_response::is_name;
use serde::{Deserialize, Serialize};

/// The block size. The server's disk layer uses the same number (`disk::ARRIVAL_BYTES`).
pub const BLOCK_BYTES: u64 = 1 << 20;

/// The largest object: 16 TiB. The server keeps two bits in memory for each of its blocks.
pub const OBJECT_BYTES_MAX: u64 = 1 << 44;

/// Responses that are no objects have numbers from here on, objects below.
pub const RESPONSES_FROM: u64 = 1 << 63;

/// The longest path, encoded. Three times 16 KiB, twice the length that requests have by default. JSON may double it, and it still fits into a
/// message.
pub const PATH_BYTES_MAX: usize = 48 << 10;

/// The longest request that fits into a message, in JSON.
pub const REQUEST_BYTES_MAX: usize = PACKET_BYTES_MAX - (1 << 10);

/// The least space on the cache's disk for responses that are not stored, in addition to the cache.
const PASSED_BYTES_MIN: u64 = 256 << 20;

/// The space on the cache's disk for responses that are not stored, in addition to the cache: an eighth of it. They may take this much while they
/// arrive, and as much again until viewers have received them.
pub fn passed_bytes_max(cache_bytes: u64) -> u64 {
    PASSED_BYTES_MIN.max(cache_bytes / 8)
}

/// The longest header value that is forwarded.
const VALUE_BYTES_MAX: usize = 512;

/// The last second of the year 9999. No date of HTTP is later.
const UNIX_SECONDS_MAX: u64 = 253_402_300_799;

/// A day.
const REFUSED_MS_MAX: u64 = 24 * 3600 * 1000;

/// Requests of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EdgeAsk {
    /// Describe the object at `path`. The viewer wants the byte at `offset` first. The answer is an [`EdgeTold::Object`] or an
    /// [`EdgeTold::Refused`].
    Open {
        /// The object's path.
        path: String,
        /// The first byte that the viewer wants.
        offset: u64,
        /// Identifies the viewer who asked first. If there is no object but another response, it is kept for its [`EdgeAsk::Pass`].
        asker: u64,
        /// That viewer's request.
        request: Box<ForwardedRequest>,
    },
    /// Fetch blocks of an object. The answers are any number of [`EdgeTold::There`] and [`EdgeTold::Failed`].
    Bring {
        /// The object's number.
        object: u64,
        /// The first block.
        first: u64,
        /// The block after the last one.
        end: u64,
    },
    /// These objects are in use by viewers.
    Used {
        /// The objects' numbers.
        objects: Vec<u64>,
    },
    /// Answer one viewer's request with a stored response, or with the origin's. The answer is an [`EdgeTold::Passed`] or an
    /// [`EdgeTold::NotPassed`].
    Pass {
        /// The path.
        path: String,
        /// Identifies the viewer's request.
        ticket: u64,
        /// As in [`EdgeAsk::Open`].
        asker: u64,
        /// When the viewer made it. What the origin has answered meanwhile is as new to it as an answer to its own request.
        since: AskedAt,
        /// The request.
        request: Box<ForwardedRequest>,
    },
    /// The viewer of an [`EdgeAsk::Pass`] needs no more of its response. The helper stops working on it, unless others share it or it will be
    /// stored. If it has not answered yet, it does so with an [`EdgeTold::Stopped`].
    Left {
        /// Identifies the viewer's request.
        ticket: u64,
    },
    /// The viewer of an [`EdgeAsk::Pass`] has this many bytes of a response that comes through a ring ([`RING_BYTES`]).
    Taken {
        /// Identifies the viewer's request.
        ticket: u64,
        /// The bytes, from the beginning.
        bytes: u64,
    },
    /// A viewer may request other things next. There is no answer.
    Ahead(Box<AheadHint>),
    /// Purge stored responses. The answer is an [`EdgeTold::Purged`], after an [`EdgeTold::Ended`] or an [`EdgeTold::Stale`] for each object.
    Purge {
        /// Identifies the purge.
        ticket: u64,
        /// The purge.
        purge: Purge,
    },
    /// Say what is kept. The answer is an [`EdgeTold::Found`].
    Inquire {
        /// Identifies the question.
        ticket: u64,
        /// The question.
        inquiry: Inquiry,
    },
}

/// A viewer's request, as far as it travels to the origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedRequest {
    /// The method.
    pub method: String,
    /// The header fields, without those that concern only the viewer's connection.
    pub fields: Fields,
    /// The body, in base64.
    pub body: String,
}

impl ForwardedRequest {
    /// A plain GET.
    pub fn get() -> Self {
        Self { method: "GET".into(), ..Self::default() }
    }

    /// Its bytes of memory, roughly, without its path.
    pub fn bytes(&self) -> usize {
        self.fields.bytes() + self.body.len()
    }

    /// The same with a body.
    #[must_use]
    pub fn with_body(self, body: &[u8]) -> Self {
        Self { body: data_encoding::BASE64.encode(body), ..self }
    }

    /// The body's bytes.
    pub(crate) fn body(&self) -> Option<Vec<u8>> {
        data_encoding::BASE64.decode(self.body.as_bytes()).ok()
    }
}

/// Messages of the helper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EdgeTold {
    /// A helper has started. Requests to an earlier one are forgotten.
    Began,
    /// A helper cannot start, and exits. Another one is started, but nothing answers until then.
    CannotBegin {
        /// Why, for the operator.
        said: String,
    },
    /// The object at a path. The packet carries the descriptor of its file.
    Object(Described),
    /// Nothing can be served at a path. If the reason is that the object must not be kept, the server may request it with
    /// [`EdgeAsk::Pass`].
    Refused {
        /// The path.
        path: String,
        /// The reason.
        why: Trouble,
        /// How long this remains valid, in milliseconds.
        for_ms: u64,
        /// Details for the operator.
        said: String,
    },
    /// Blocks are available.
    There {
        /// The object's number.
        object: u64,
        /// The first block.
        first: u64,
        /// The block after the last one.
        end: u64,
        /// The number of their bytes that were fetched now; the rest was there before.
        fetched_bytes: u64,
    },
    /// Blocks could not be fetched.
    Failed {
        /// The object's number.
        object: u64,
        /// The first block.
        first: u64,
        /// The block after the last one.
        end: u64,
        /// The reason.
        why: Trouble,
        /// Details for the operator.
        said: String,
    },
    /// An object is no longer available: it was evicted, or the origin has another version.
    Ended {
        /// The object's number.
        object: u64,
        /// The reason.
        why: Trouble,
    },
    /// There is no object at a path, but a response of another kind, which the server may request with [`EdgeAsk::Pass`].
    NoObject {
        /// The path.
        path: String,
        /// How long this remains valid, in milliseconds.
        for_ms: u64,
        /// The response, if all who wait for this answer may have it, apart from the viewer who asked. The packet carries the descriptor of its file,
        /// unless it is empty.
        shared: Option<Box<PassedResponse>>,
        /// How long ago the origin sent it, in milliseconds: viewers who have made their requests since then do not get it. Zero if it is fresh.
        except_ms: u64,
    },
    /// Everything known of a path is invalid, because the origin has carried out a request that may have changed it.
    Invalid {
        /// The path.
        path: String,
        /// The number of the object there, if there is one: some workers may know only that.
        object: Option<u64>,
    },
    /// An object has to be revalidated before it is served again, unless the origin cannot be reached and allows that.
    Stale {
        /// The object's number.
        object: u64,
    },
    /// A purge is done: nothing that it covers is served from the cache to later requests, not even after a restart.
    Purged {
        /// Identifies the purge.
        ticket: u64,
        /// What it has found.
        purged: Purged,
    },
    /// A response for one viewer. The packet carries the descriptor of its file, unless it is empty.
    Passed {
        /// Identifies the viewer's request.
        ticket: u64,
        /// The response.
        response: Box<PassedResponse>,
    },
    /// More has arrived of a response whose length is not known. Some of it may have been reported before, in any order.
    Grown {
        /// The number of its file.
        object: u64,
        /// The number of its bytes so far.
        bytes: u64,
        /// Whether that is all of it.
        is_whole: bool,
    },
    /// The origin holds the question about a path until there is an answer, as for live media. It waits outside of the places of other questions.
    Held {
        /// The path.
        path: String,
    },
    /// The same for one viewer's request.
    PassHeld {
        /// Identifies the viewer's request.
        ticket: u64,
    },
    /// The viewer of an [`EdgeAsk::Pass`] has left, and the helper works on its request no longer.
    Stopped {
        /// Identifies the viewer's request.
        ticket: u64,
    },
    /// An object for one viewer could not be fetched.
    NotPassed {
        /// Identifies the viewer's request.
        ticket: u64,
        /// The reason.
        why: Trouble,
        /// Details for the operator.
        said: String,
    },
    /// The answer to an operator's question.
    Found {
        /// Identifies the question.
        ticket: u64,
        /// The findings.
        findings: Box<Findings>,
    },
    /// A response that an earlier helper has stored can't be used, and is removed.
    Dropped {
        /// The reason.
        why: Damage,
    },
    /// An origin has been asked.
    Asked(OriginAsked),
    /// What became of the bytes that were fetched ahead since the last such message.
    Ahead {
        /// Bytes that were fetched.
        fetched: u64,
        /// Bytes that viewers have taken.
        used: u64,
        /// Bytes that were removed, or that no viewer has taken in time.
        wasted: u64,
        /// Whether nothing more is fetched ahead, because too much was wasted.
        is_paused: bool,
    },
    /// A request to the origin failed, and is retried.
    TriedAgain {
        /// The reason of the failure.
        why: Trouble,
    },
}

/// The end of a request to an origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginAsked {
    /// The origin's place in the order of preference, from 0.
    pub origin: usize,
    /// Whether it has answered, with anything but an error of its own.
    pub has_answered: bool,
    /// Whether it is passed over from now on, because it has failed several times in a row. An only origin never is.
    pub is_passed_over: bool,
}

impl EdgeTold {
    /// The message to send if this one can't be: a viewer may wait for it.
    pub(crate) fn instead(self, why: Trouble, said: String) -> Option<Self> {
        match self {
            Self::Object(Described { path, .. }) | Self::NoObject { path, .. } => {
                Some(Self::Refused { path, why, for_ms: 1000, said })
            }
            Self::Passed { ticket, .. } => Some(Self::NotPassed { ticket, why, said }),
            _ => None,
        }
    }

    /// Checks the values that the server relies on. The helper parses data from strangers, so the server trusts nothing else in its
    /// messages.
    ///
    /// # Errors
    /// The value that is out of bounds.
    pub fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Object(described) => described.check(),
            Self::Grown { bytes, .. } if *bytes > OBJECT_BYTES_MAX => {
                Err("a response of more than 16 TiB")
            }
            Self::Passed { response, .. } => response.check(),
            Self::NoObject { shared: Some(shared), .. } if !shared.is_short() => {
                Err("a response that is too long to be shared")
            }
            Self::Refused { path, .. }
            | Self::NoObject { path, .. }
            | Self::Held { path }
            | Self::Invalid { path, .. }
                if !is_path(path) =>
            {
                Err("an invalid path")
            }
            Self::Refused { for_ms, .. } | Self::NoObject { for_ms, .. }
                if *for_ms > REFUSED_MS_MAX =>
            {
                Err("a refusal for longer than a day")
            }
            Self::NoObject { shared: Some(shared), .. } => shared.check(),
            _ => Ok(()),
        }
    }
}

/// An object, as viewers get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Its path.
    pub path: String,
    /// Its number; each version has its own.
    pub object: u64,
    /// Its length in bytes.
    pub size: u64,
    /// Its strong entity tag, with quotes.
    pub etag: String,
    /// Its media type; visible ASCII.
    pub content_type: Option<String>,
    /// When it was last modified, according to the origin, in seconds since 1970.
    pub modified: Option<u64>,
    /// Whether the origin sent it at least a second after that, so that the date identifies one version (RFC 9110 section 8.8.2.2).
    pub is_date_strong: bool,
    /// The origin's `Cache-Control`; visible ASCII.
    pub cache_control: Option<String>,
    /// How long it may be served before it must be revalidated, in milliseconds.
    pub fresh_ms: u64,
    /// How much longer it may be served if the origin cannot be reached, in milliseconds.
    pub stale_ms: u64,
    /// How much longer it may be served while it is being revalidated, in milliseconds.
    #[serde(default)]
    pub revalidating_ms: u64,
    /// The age of the origin's answer about it, in milliseconds.
    pub age_ms: u64,
    /// Whether it is served only because the origin cannot be reached.
    pub is_stale: bool,
    /// How long its time has been over, in milliseconds.
    pub expired_ms: u64,
    /// The origin's answer to the question about it, unless the helper knew the answer.
    pub origin: Option<ForwardStatus>,
    /// Whether that answer has made a new object.
    pub is_new: bool,
    /// Blocks that were fetched ahead and are available: the one with the viewer's first byte, and the one after the last.
    #[serde(default)]
    pub present: Option<(u64, u64)>,
    /// The origin's further header fields.
    #[serde(default)]
    pub fields: Fields,
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
        } else if !values.all(|value| is_plain(value))
            || !self.fields.0.iter().all(|(name, value)| is_name(name) && is_plain(value))
        {
            Err("a header line that is not plain text")
        } else if self.fields.has("content-length")
            || self.fields.0.iter().any(|(name, _)| is_of_connection(name))
        {
            Err("a header line about a connection, or about the length")
        } else if self.modified.is_some_and(|modified| modified > UNIX_SECONDS_MAX) {
            Err("a date after the year 9999")
        } else {
            Ok(())
        }
    }
}

pub(crate) fn is_path(path: &str) -> bool {
    path.len() <= PATH_BYTES_MAX
        && path.starts_with('/')
        && path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether an entity tag is strong, with its quotes (RFC 9110 section 8.8.3).
pub(crate) fn is_strong_tag(etag: &str) -> bool {
    let inner = etag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    is_plain(etag) && inner.is_some_and(|inner| !inner.contains(['"', ' ']))
}

/// Whether a header may have this value: short, visible ASCII.
pub(crate) fn is_plain(value: &str) -> bool {
    value.len() <= VALUE_BYTES_MAX && value.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

/// Why something cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Trouble {
    /// The origin has nothing there, or denies access to it.
    NotFound,
    /// The origin cannot be reached, the connection broke, or the answer is an error.
    Unreachable,
    /// The origin took too long.
    TimedOut,
    /// The origin's answer contradicts itself or the request.
    Wrong,
    /// The origin redirects to another address, which is not followed.
    Redirected,
    /// The origin's answer must not be kept for others.
    Uncacheable,
    /// The origin has another version now.
    Changed,
    /// The object was evicted.
    Evicted,
    /// The object was purged.
    Purged,
    /// The object is larger than the cache.
    TooLarge,
    /// The cache has no room: its disk is full, or all of it is in use by viewers.
    Full,
    /// The cache's disk failed.
    Disk,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::NotFound,
        Self::Unreachable,
        Self::TimedOut,
        Self::Wrong,
        Self::Redirected,
        Self::Uncacheable,
        Self::Changed,
        Self::Evicted,
        Self::Purged,
        Self::TooLarge,
        Self::Full,
        Self::Disk,
    ];

    /// Its number: its index in [`Self::ALL`].
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Its label in metrics.
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
            Self::Purged => "edge_purged",
            Self::TooLarge => "edge_too_large",
            Self::Full => "edge_full",
            Self::Disk => "edge_disk",
        }
    }

    /// Whether the origin has failed: it has not answered, or not what was asked. Everything else is its answer, or the cache's trouble.
    pub(crate) fn is_failure(self) -> bool {
        matches!(self, Self::Unreachable | Self::TimedOut | Self::Wrong)
    }

    /// How often to ask the origin before the viewer gets an error. Three times if it cannot be reached or breaks off: an origin that fails
    /// one request in a hundred then fails one viewer in a million. Twice if its answers are wrong: there may be several servers behind one
    /// address, one of which is broken.
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
            present: None,
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
            revalidating_ms: u64::MAX,
            age_ms: u64::MAX,
            is_stale: false,
            expired_ms: u64::MAX,
            origin: None,
            is_new: false,
            fields: Fields::default(),
        };
        let check = |described: Described| EdgeTold::Object(described).check();
        assert_eq!(check(good.clone()), Ok(()));
        let header = Some("a\r\nSet-Cookie: b=c".to_owned());
        for bad in [
            Described { path: "a".into(), ..good.clone() },
            Described { path: "/a b".into(), ..good.clone() },
            Described { path: format!("/{}", "a".repeat(PATH_BYTES_MAX)), ..good.clone() },
            Described { size: OBJECT_BYTES_MAX + 1, ..good.clone() },
            Described { etag: "W/\"v1\"".into(), ..good.clone() },
            Described { etag: "\"".into(), ..good.clone() },
            Described { content_type: header.clone(), ..good.clone() },
            Described { cache_control: header, ..good.clone() },
            Described { cache_control: Some("a".repeat(513)), ..good.clone() },
            Described { modified: Some(u64::MAX), ..good.clone() },
            Described { fields: Fields::of(&[("Content-Length", "1")]), ..good.clone() },
            Described { fields: Fields::of(&[("Connection", "close")]), ..good.clone() },
            Described { fields: Fields::of(&[("Connection: close, a", "b")]), ..good.clone() },
        ] {
            assert!(check(bad.clone()).is_err(), "{bad:?}");
        }
        let refused = |path: &str, for_ms| {
            let (path, said) = (path.to_owned(), String::new());
            EdgeTold::Refused { path, why: Trouble::Full, for_ms, said }.check()
        };
        assert_eq!(refused("/a", 1000), Ok(()));
        assert!(refused("/a", u64::MAX).is_err() && refused("a", 1).is_err());
    }

    #[test]
    fn what_the_helper_says_of_a_response_is_believed_only_within_bounds() {
        let response = |fields: &[(&str, &str)]| {
            let response = PassedResponse {
                object: 1,
                status: 200,
                fields: Fields::of(fields),
                size: Some(1),
                is_complete: true,
                ..PassedResponse::default()
            };
            EdgeTold::Passed { ticket: 1, response: Box::new(response) }.check()
        };
        assert_eq!(response(&[("A", "b\tc\u{fc}\u{85}")]), Ok(()));
        for bad in [("A", "b\r\nC: d"), ("A", "\u{100}"), ("A:", "b"), ("", "b")] {
            assert!(response(&[bad]).is_err(), "{bad:?}");
        }
        assert_eq!(response(&[("Content-Length", "1")]), Ok(()), "as the response to HEAD has");
        for bad in [
            ("transfer-encoding", "chunked"),
            ("Connection", "close"),
            ("Trailer", "a"),
            ("Content-Length", "1, 2"),
            ("Content-Length", "+1"),
        ] {
            assert!(response(&[bad]).is_err(), "{bad:?} could split responses");
        }
        let lengths = [("Content-Length", "1"), ("content-length", "1")];
        assert!(response(&lengths).is_err(), "two lengths");
        let grown = |bytes| EdgeTold::Grown { object: 1 << 63, bytes, is_whole: false }.check();
        assert!(grown(OBJECT_BYTES_MAX).is_ok() && grown(OBJECT_BYTES_MAX + 1).is_err());
    }
}
