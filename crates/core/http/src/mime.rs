//! Media types by file name, for the files of a video library.

/// Extensions in lower case and their types; registered at IANA unless noted.
const TYPES: &[(&str, &str)] = &[
    // CMAF and MP4 (RFC 4337; ISO/IEC 23000-19; 3GPP TS 26.244 for segments).
    ("m4s", "video/iso.segment"),
    ("mp4", "video/mp4"),
    ("m4v", "video/mp4"),
    ("m4a", "audio/mp4"),
    ("cmfv", "video/mp4"),
    ("cmfa", "audio/mp4"),
    ("cmft", "application/mp4"),
    // Manifests (RFC 8216 section 4; ISO/IEC 23009-1).
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("mpd", "application/dash+xml"),
    // Other video.
    ("ts", "video/mp2t"),
    ("webm", "video/webm"),
    ("mkv", "video/matroska"),
    ("mka", "audio/matroska"),
    ("mov", "video/quicktime"),
    ("ogv", "video/ogg"),
    ("avi", "video/x-msvideo"), // Not registered; in common use.
    // Audio.
    ("mp3", "audio/mpeg"),
    ("aac", "audio/aac"),
    ("ac3", "audio/ac3"),
    ("ec3", "audio/eac3"),
    ("flac", "audio/flac"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("wav", "audio/wav"), // Not registered; in common use.
    // Captions and text.
    ("vtt", "text/vtt; charset=utf-8"),
    ("srt", "application/x-subrip"), // Not registered; in common use.
    ("ttml", "application/ttml+xml"),
    ("txt", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("xml", "application/xml"),
    ("pdf", "application/pdf"),
    // Pictures.
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("png", "image/png"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("svg", "image/svg+xml"),
    ("ico", "image/vnd.microsoft.icon"),
    // Pages.
    ("html", "text/html; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"), // RFC 9239
    ("mjs", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("wasm", "application/wasm"),
    ("woff2", "font/woff2"),
];

/// The type of unknown bytes (RFC 2046 section 4.5.1). HLS keys (`.key`) have it on purpose.
const UNKNOWN: &str = "application/octet-stream";

/// The media type for a file of this name or path, by its extension in any case.
pub fn content_type(path: &[u8]) -> &'static str {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let Some(dot) = name.iter().rposition(|&byte| byte == b'.') else { return UNKNOWN };
    let extension = &name[dot + 1..];
    TYPES
        .iter()
        .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(extension))
        .map_or(UNKNOWN, |(_, content_type)| content_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_go_by_the_last_extension_in_any_case() {
        for (path, expected) in [
            ("a/b/seg-1.m4s", "video/iso.segment"),
            ("A.MP4", "video/mp4"),
            ("x.tar.m3u8", "application/vnd.apple.mpegurl"),
            ("manifest.mpd", "application/dash+xml"),
            ("a.mp4/b", UNKNOWN),
            ("mp4", UNKNOWN),
            ("a.", UNKNOWN),
            ("a.key", UNKNOWN),
            ("", UNKNOWN),
            (".css", "text/css; charset=utf-8"),
        ] {
            assert_eq!(content_type(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn each_extension_is_lower_case_and_listed_once() {
        for (index, (extension, _)) in TYPES.iter().enumerate() {
            assert_eq!(*extension, extension.to_ascii_lowercase());
            assert!(TYPES[..index].iter().all(|(earlier, _)| earlier != extension), "{extension}");
        }
    }
}
