//! What a live stream is made of: indexes, which change all the time, and media, which don't. They differ in how long a response counts if the
//! origin doesn't say. An origin may hold requests for either until there is an answer.

use std::time::Duration;

/// How long an index counts if the origin doesn't say: players reload one as often as it may change, about once per segment, and segments have two to
/// six seconds. A player is thus at most this far behind, and one request a second is all that the origin has of any number of viewers.
pub const INDEX_FRESH: Duration = Duration::from_secs(1);

/// How long media without any lifetime count: as long as films.
pub(super) const MEDIA_FRESH: Duration = Duration::from_secs(10);

/// How long the last index is served while the origin doesn't answer, if it was changing: a restart goes unnoticed. After that, an error is better:
/// with it, players try another pathway or tell their viewers, and with an index that stands still, they wait or play the end again.
const INDEX_STALE: Duration = Duration::from_secs(10);

/// An index that hasn't changed for so long is no longer one of a live stream, or it is a multivariant playlist. Live ones change after one and a
/// half target durations at the latest (RFC 8216 section 6.2.2), which are shorter than a minute.
const SETTLED_AFTER: Duration = Duration::from_secs(300);

/// How long a 404 or 410 without any directive counts. Players ask for the next segment of a live title before it exists, and ask again after half a
/// second or more: then it must not be a 404 because another viewer was too early. Four requests a second for each path are nothing to an origin.
pub const ABSENT: Duration = Duration::from_millis(250);

/// The parameter of a blocking playlist reload (draft-pantos-hls-rfc8216bis section 6.2.5.2): the origin holds the request until its playlist has
/// this segment.
const RELOAD: &str = "_HLS_msn";

/// A request for an index or media that the origin hasn't begun to answer after this time counts as held until there is an answer, as for a part that
/// a playlist announces (`EXT-X-PRELOAD-HINT`). Most origins answer sooner if they have it, and parts are made every 200 ms or more rarely.
pub(crate) const HELD_AFTER: Duration = Duration::from_millis(100);

/// Whether a request for `path`, which may have a query, is a blocking playlist reload.
pub fn is_blocking_reload(path: &str) -> bool {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|parameter| parameter.split('=').next() == Some(RELOAD))
}

/// What a response is to a player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseKind {
    /// A playlist (RFC 8216), or a manifest (ISO/IEC 23009-1, Smooth Streaming).
    Index,
    /// A segment, a part of one, or a film.
    Media,
    /// Anything else.
    Other,
}

const INDEX_TYPES: [&str; 6] = [
    "application/vnd.apple.mpegurl",
    "application/x-mpegurl",
    "audio/mpegurl",
    "audio/x-mpegurl",
    "application/dash+xml",
    "application/vnd.ms-sstr+xml",
];

const INDEX_NAMES: [&str; 3] = ["m3u8", "m3u", "mpd"];

const MEDIA_NAMES: [&str; 11] =
    ["ts", "m2ts", "mp4", "m4s", "m4v", "m4a", "cmfv", "cmfa", "cmft", "aac", "webm"];

impl ResponseKind {
    /// Of the response at `path` with this media type. Either is enough, because many origins send playlists as plain text.
    pub fn of(path: &str, content_type: Option<&str>) -> Self {
        let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
        let media_type = media_type.trim().to_ascii_lowercase();
        let path = path.split('?').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
        if INDEX_TYPES.contains(&media_type.as_str()) || INDEX_NAMES.contains(&ending.as_str()) {
            Self::Index
        } else if media_type.starts_with("video/")
            || media_type.starts_with("audio/")
            || MEDIA_NAMES.contains(&ending.as_str())
        {
            Self::Media
        } else {
            Self::Other
        }
    }

    /// How long it may be served while the origin doesn't answer, unless the origin says. `unchanged` is the time from its last change to the answer,
    /// if the origin names both.
    pub(crate) fn stale(self, unchanged: Option<Duration>, otherwise: Duration) -> Duration {
        match self {
            Self::Index if unchanged.is_none_or(|time| time < SETTLED_AFTER) => INDEX_STALE,
            _ => otherwise,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_and_media_are_known_by_type_or_name() {
        for (path, content_type, kind) in [
            ("/a/live.m3u8", None, ResponseKind::Index),
            ("/a/live.M3U8?_HLS_msn=5", Some("text/plain"), ResponseKind::Index),
            ("/a/live", Some("Application/VND.apple.mpegURL; charset=utf-8"), ResponseKind::Index),
            ("/a.mpd", Some("application/octet-stream"), ResponseKind::Index),
            ("/audio", Some("audio/mpegurl"), ResponseKind::Index),
            ("/a/1.m4s", None, ResponseKind::Media),
            ("/a/1", Some("video/mp2t"), ResponseKind::Media),
            ("/a.m3u8/page", Some("text/html"), ResponseKind::Other),
            ("/page?a=.m3u8", None, ResponseKind::Other),
            ("/", None, ResponseKind::Other),
        ] {
            assert_eq!(ResponseKind::of(path, content_type), kind, "{path} {content_type:?}");
        }
    }

    #[test]
    fn a_blocking_reload_is_known_by_its_query() {
        for path in ["/a.m3u8?_HLS_msn=5", "/a?x=1&_HLS_msn=5&_HLS_part=0", "/a?_HLS_msn"] {
            assert!(is_blocking_reload(path), "{path}");
        }
        for path in
            ["/a.m3u8", "/_HLS_msn=5", "/a?_HLS_skip=YES", "/a?x_HLS_msn=5", "/a?x=_HLS_msn"]
        {
            assert!(!is_blocking_reload(path), "{path}");
        }
    }

    #[test]
    fn an_index_that_was_changing_is_served_stale_for_seconds_only() {
        let day = Duration::from_secs(24 * 3600);
        let stale = |kind: ResponseKind, unchanged| kind.stale(unchanged, day);
        assert_eq!(stale(ResponseKind::Index, None), INDEX_STALE);
        assert_eq!(stale(ResponseKind::Index, Some(Duration::from_secs(2))), INDEX_STALE);
        assert_eq!(stale(ResponseKind::Index, Some(SETTLED_AFTER)), day);
        assert_eq!(stale(ResponseKind::Media, None), day);
    }
}
