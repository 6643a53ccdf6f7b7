//! A worker's report about one request.

use crate::{Cmcd, ObjectType, ViewerGroup};

/// Bytes of a path: longer ones are cut where a segment ends.
const PATH_BYTES_MAX: usize = 256;

/// One request's report. It owns its text, which is short.
#[derive(Clone, Debug, PartialEq)]
pub struct QoeReport {
    /// The time in microseconds since a start that all reports share: fine enough to order the reports of two workers.
    pub at_us: u64,
    /// The number that stands for the session ([`crate::Salt`]).
    pub session: u64,
    /// The number that stands for the viewer's address, or for its IPv6 network of 64 bits.
    pub viewer: u64,
    /// The path of the file that was served.
    pub path: Box<str>,
    /// The object's type.
    pub object: ObjectType,
    /// The object was needed urgently, to start or resume playback.
    pub startup: bool,
    /// The buffer ran dry since the last request.
    pub starved: bool,
    /// The object's playing time.
    pub duration_ms: Option<u32>,
    /// Its bit rate.
    pub bitrate_kbps: Option<u32>,
    /// The highest bit rate that the player may choose.
    pub top_kbps: Option<u32>,
    /// How much is buffered.
    pub buffer_ms: Option<u32>,
    /// The time from the request to play until playback began.
    pub start_delay_ms: Option<u32>,
    /// How long the last stall was.
    pub starved_ms: Option<u32>,
}

/// The part of one response that a session received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When the response ended, as in [`QoeReport::at_us`].
    pub at_us: u64,
    /// As in [`QoeReport::session`].
    pub session: u64,
    /// As in [`QoeReport::viewer`].
    pub viewer: u64,
    /// The groups that the viewer is counted in; known if the request began a session.
    pub group: Option<ViewerGroup>,
    /// Bytes that the viewer received.
    pub bytes: u64,
}

impl QoeReport {
    /// The report for a request for `path` with this `cmcd`, in the session that `session` stands for. Set its viewer as well.
    pub fn new(at_us: u64, session: u64, path: &[u8], cmcd: &Cmcd<'_>) -> Self {
        Self {
            at_us,
            session,
            viewer: 0,
            path: short(path),
            object: cmcd.object.unwrap_or_else(|| object_by_name(path)),
            startup: cmcd.startup,
            starved: cmcd.starved,
            duration_ms: cmcd.duration_ms,
            bitrate_kbps: cmcd.bitrate_kbps,
            top_kbps: cmcd.top_kbps,
            buffer_ms: cmcd.buffer_ms,
            start_delay_ms: cmcd.start_delay_ms,
            starved_ms: cmcd.starved_ms,
        }
    }

    /// The time in milliseconds.
    pub(crate) fn at_ms(&self) -> u64 {
        self.at_us / 1000
    }
}

/// The type by file name, for players that do not state it.
fn object_by_name(path: &[u8]) -> ObjectType {
    if catalog::is_manifest(path) {
        return ObjectType::Manifest;
    }
    let extension = path.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    match extension.to_ascii_lowercase().as_slice() {
        b"vtt" | b"key" | b"jpg" | b"jpeg" | b"png" | b"webp" | b"json" => ObjectType::Other,
        _ => ObjectType::Video,
    }
}

fn short(path: &[u8]) -> Box<str> {
    let mut path = path;
    while path.len() > PATH_BYTES_MAX {
        let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        path = &path[..end];
    }
    String::from_utf8_lossy(path).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_told_by_its_name_where_the_player_does_not_say() {
        let object = |path: &str, object| {
            QoeReport::new(0, 1, path.as_bytes(), &Cmcd { object, ..Cmcd::default() }).object
        };
        assert_eq!(object("a/master.M3U8", None), ObjectType::Manifest);
        assert_eq!(object("a/x.mpd", None), ObjectType::Manifest);
        assert_eq!(object("a/x.m4s", None), ObjectType::Video);
        assert_eq!(object("a/x.vtt", None), ObjectType::Other);
        assert_eq!(object("a/x.m4s", Some(ObjectType::Audio)), ObjectType::Audio);
    }

    #[test]
    fn a_long_path_is_cut_between_segments() {
        let path = format!("{}/{}/x.mp4", "a".repeat(100), "b".repeat(200));
        assert_eq!(&*short(path.as_bytes()), "a".repeat(100));
        assert_eq!(&*short("c".repeat(300).as_bytes()), "");
        assert_eq!(&*short(b"d/\xff"), "d/\u{fffd}");
    }
}
