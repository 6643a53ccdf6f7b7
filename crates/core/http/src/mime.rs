//! Media types by file name, for the files of a video library.

/// Extensions in lower case and their types; registered at IANA unless noted.
const TYPES: &[(&str, &str)] = &[
    // CMAF and MP4 (RFC 4337; ISO/IEC 23000-19; 3GPP TS 26.244 for segments).
    ("m4s", "video/iso.segment"),
    ("mp4", "video/mp4"),
    ("m4v", "video/mp4"),
    ("m4a", "audio/mp4"),
    ("m4b", "audio/mp4"), // Audio books.
    ("m4r", "audio/mp4"), // Ringtones.
    ("cmfv", "video/mp4"),
    ("cmfa", "audio/mp4"),
    ("cmft", "application/mp4"),
    ("f4v", "video/mp4"),
    ("3gp", "video/3gpp"),
    ("3g2", "video/3gpp2"),
    // Manifests (RFC 8216 section 4; ISO/IEC 23009-1).
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("mpd", "application/dash+xml"),
    ("m3u", "audio/x-mpegurl"), // Not registered; in common use.
    // MPEG streams from television, cameras and discs (RFC 3555 section 4).
    ("ts", "video/mp2t"),
    ("m2ts", "video/mp2t"),
    ("mts", "video/mp2t"),
    ("m2t", "video/mp2t"),
    ("mpg", "video/mpeg"),
    ("mpeg", "video/mpeg"),
    ("mpe", "video/mpeg"),
    ("m1v", "video/mpeg"),
    ("m2v", "video/mpeg"),
    ("vob", "video/mpeg"),
    // Other video.
    ("webm", "video/webm"),
    ("mkv", "video/matroska"),
    ("mk3d", "video/matroska-3d"),
    ("mka", "audio/matroska"),
    ("mks", "application/x-matroska"), // Not registered: subtitles alone.
    ("mov", "video/quicktime"),
    ("qt", "video/quicktime"),
    ("ogv", "video/ogg"),
    ("ogm", "video/ogg"), // Ogg with codecs of others.
    ("ogx", "application/ogg"),
    ("avi", "video/x-msvideo"), // Not registered, like the next five; all in common use.
    ("divx", "video/x-msvideo"), // AVI.
    ("flv", "video/x-flv"),
    ("wmv", "video/x-ms-wmv"),
    ("asf", "video/x-ms-asf"),
    ("wtv", "video/x-wtv"),
    ("mxf", "application/mxf"),
    ("rm", "application/vnd.rn-realmedia"),
    ("rmvb", "application/vnd.rn-realmedia-vbr"), // Not registered; in common use.
    ("dv", "video/dv"),
    ("mj2", "video/mj2"), // Motion JPEG 2000 (RFC 3745).
    ("mjp2", "video/mj2"),
    ("ivf", "video/x-ivf"), // Not registered, like the next two: GStreamer's and ffmpeg's names.
    ("nut", "video/x-nut"),
    ("y4m", "video/x-yuv4mpeg"),
    // Audio.
    ("mp3", "audio/mpeg"),
    ("mp2", "audio/mpeg"),
    ("mpga", "audio/mpeg"),
    ("aac", "audio/aac"),
    ("adts", "audio/aac"),
    ("ac3", "audio/ac3"),
    ("ec3", "audio/eac3"),
    ("eac3", "audio/eac3"),
    ("ac4", "audio/ac4"),
    ("dts", "audio/vnd.dts"),
    ("dtshd", "audio/vnd.dts.hd"),
    ("thd", "audio/vnd.dolby.mlp"),
    ("mlp", "audio/vnd.dolby.mlp"),
    ("flac", "audio/flac"),
    ("ogg", "audio/ogg"),
    ("oga", "audio/ogg"),
    ("spx", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("weba", "audio/webm"),
    ("amr", "audio/amr"),
    ("awb", "audio/amr-wb"),
    ("au", "audio/basic"),
    ("wav", "audio/wav"), // Not registered, like the rest of these; all in common use.
    ("wma", "audio/x-ms-wma"),
    ("aif", "audio/aiff"),
    ("aiff", "audio/aiff"),
    ("caf", "audio/x-caf"),
    ("ape", "audio/x-ape"),
    ("wv", "audio/x-wavpack"),
    ("tta", "audio/x-tta"),
    // Captions and text.
    ("vtt", "text/vtt; charset=utf-8"),
    ("srt", "application/x-subrip"), // Not registered; in common use.
    ("ass", "text/x-ssa"), // Not registered; in common use. The file may have any charset.
    ("ssa", "text/x-ssa"),
    ("scc", "text/x-scc"), // Not registered; in common use.
    ("ttml", "application/ttml+xml"),
    ("dfxp", "application/ttml+xml"),
    ("itt", "application/ttml+xml"),
    ("lrc", "text/plain; charset=utf-8"),
    ("nfo", "text/plain; charset=utf-8"),
    ("txt", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("xml", "application/xml"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    // Pictures.
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("png", "image/png"),
    ("apng", "image/apng"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("heic", "image/heic"),
    ("jxl", "image/jxl"),
    ("bmp", "image/bmp"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("svg", "image/svg+xml"),
    ("webmanifest", "application/manifest+json"),
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
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("ttf", "font/ttf"),
    ("otf", "font/otf"),
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
            ("BDMV/STREAM/00001.m2ts", "video/mp2t"),
            ("00001.MTS", "video/mp2t"),
            ("old.mpg", "video/mpeg"),
            ("VIDEO_TS/VTS_01_1.VOB", "video/mpeg"),
            ("phone.3gp", "video/3gpp"),
            ("web.flv", "video/x-flv"),
            ("desk.wmv", "video/x-ms-wmv"),
            ("old.OGM", "video/ogg"),
            ("old.divx", "video/x-msvideo"),
            ("raw.ivf", "video/x-ivf"),
            ("any.nut", "video/x-nut"),
            ("cinema.mj2", "video/mj2"),
            ("song.oga", "audio/ogg"),
            ("book.m4b", "audio/mp4"),
            ("signs.ass", "text/x-ssa"),
            ("disc.dts", "audio/vnd.dts"),
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
