//! Maps the request-target to a path in the library (RFC 9112 section 3.2, RFC 3986 sections 2.1 and 3.3).
//!
//! A [`LibraryPath`] can only be made here, and is safe to open beneath the library: it is relative and percent-decoded
//! exactly once, and no segment is empty, begins with a dot, or contains a slash or control byte. The opener ensures
//! that links do not lead out of the library (openat2).
//!
//! Two differences between paths don't count, here or anywhere behind: several slashes are one, and Unicode's composed and decomposed names are one
//! name (`library_path.rs`). They are removed before anything looks at the path, so access rules, tokens, header rules and caches see one path where
//! the library has one file. Nothing else is normalised: a path with dot segments is refused, because no client that follows the library's own links
//! sends one.

use escape::percent;

use crate::library_path::LibraryPath;

use crate::{Method, Reject};

/// The resource that the request-target names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A file of the library.
    File(LibraryPath),
    /// A directory of the library: the target ended with `/`. The root is the empty path.
    Directory(LibraryPath),
    /// A page of the server itself, under `/-/`: the rest of the path, empty for `/-/` and `/-`. A library file with such a path is never served.
    Reserved(LibraryPath),
    /// A path that must not be opened; answered like a missing file.
    Refused(PathEscape),
    /// The server as a whole: `OPTIONS *`.
    Server,
}

impl Resource {
    /// The same file or directory without the first `count` segments of its path. `None` if it has fewer, or is neither.
    pub fn below(&self, count: usize) -> Option<Self> {
        let (Self::File(path) | Self::Directory(path)) = self else { return None };
        let is_directory = matches!(self, Self::Directory(_));
        let rest = path.below(count)?;
        // A file's path has a last segment.
        (is_directory || !rest.as_bytes().is_empty()).then(|| classify(rest, is_directory))
    }
}

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathEscape {
    /// A `.` or `..` segment, plain or percent-encoded.
    DotSegment,
    /// A `/` written as `%2F`: no file name contains one.
    EncodedSlash,
    /// NUL or another control byte, percent-encoded.
    ControlByte,
    /// A name that begins with a dot: hidden files are not served. `.well-known` (RFC 8615) is, at the top.
    HiddenName,
}

impl PathEscape {
    /// Every reason, for registering counters.
    pub const ALL: [Self; 4] =
        [Self::DotSegment, Self::EncodedSlash, Self::ControlByte, Self::HiddenName];

    /// The reason as a counter label, in snake case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DotSegment => "dot_segment",
            Self::EncodedSlash => "encoded_slash",
            Self::ControlByte => "control_byte",
            Self::HiddenName => "hidden_name",
        }
    }
}

/// A parsed request-target.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target<'t> {
    pub(crate) resource: Resource,
    /// The authority of an absolute-form target.
    pub(crate) authority: Option<&'t str>,
    /// Without the `?`.
    pub(crate) query: Option<&'t str>,
}

/// The first segment of the server's own paths.
const RESERVED_SEGMENT: &[u8] = b"-";

/// Parses `text`. Only origin-form, absolute-form and, for OPTIONS, asterisk-form are accepted.
pub(crate) fn parse_target(method: Method, text: &str) -> Result<Target<'_>, Reject> {
    if text == "*" && method == Method::Options {
        return Ok(Target { resource: Resource::Server, authority: None, query: None });
    }
    if text.contains('#') {
        return Err(Reject::BadTarget); // A fragment is never sent (RFC 9110 section 7.1).
    }
    let (authority, origin_form) = split_authority(text)?;
    let (path, query) = match origin_form.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (origin_form, None),
    };
    Ok(Target { resource: resource(path)?, authority, query })
}

/// The authority of a target in absolute form, and its path and query. In origin form it has no authority.
pub(crate) fn split_authority(text: &str) -> Result<(Option<&str>, &str), Reject> {
    if text.starts_with('/') { Ok((None, text)) } else { split_absolute(text) }
}

/// `http://authority/path?query` as (authority, path?query). The scheme need not match the connection's, because a gateway in front may have ended
/// TLS.
fn split_absolute(text: &str) -> Result<(Option<&str>, &str), Reject> {
    let (scheme, rest) = text.split_once("://").ok_or(Reject::BadTarget)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(Reject::BadTarget);
    }
    let authority_bytes = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, origin_form) = rest.split_at(authority_bytes);
    // RFC 9110 section 4.2.1: an http URI with an empty host is invalid.
    if authority.is_empty() || !is_host(authority.as_bytes()) {
        return Err(Reject::BadHost);
    }
    Ok((Some(authority), origin_form))
}

/// Returns true if a Host value or an authority contains only what `uri-host [":" port]` allows (RFC 9110 section 7.2); userinfo is not allowed (RFC
/// 9110 section 4.2.4). May be empty.
pub(crate) fn is_host(value: &[u8]) -> bool {
    let (host, port) = match value.iter().rposition(|&byte| byte == b':') {
        Some(colon) if !value.ends_with(b"]") => (&value[..colon], &value[colon + 1..]),
        _ => (value, &[][..]),
    };
    let host_ok = match host {
        [b'[', address @ .., b']'] => {
            address.iter().all(|&byte| is_name_byte(byte) || byte == b':')
        }
        name => name.iter().all(|&byte| is_name_byte(byte)),
    };
    host_ok && port.iter().all(u8::is_ascii_digit)
}

/// unreserved, pct-encoded and sub-delims (RFC 3986 sections 2 and 3.2.2).
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte)
}

/// The resource of an origin-form path; an empty one (`http://host`) is the root.
fn resource(path: &str) -> Result<Resource, Reject> {
    // As long as most paths are, which have one slash in front, so that they are allocated once.
    let mut decoded = Vec::with_capacity(path.len().saturating_sub(1));
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        if !decoded.is_empty() {
            decoded.push(b'/');
        }
        let start = decoded.len();
        percent::decode_into(segment.as_bytes(), &mut decoded).ok_or(Reject::BadTarget)?;
        if let Some(escape) = escape_of(&decoded[start..], start == 0) {
            return Ok(Resource::Refused(escape));
        }
    }
    let is_directory = decoded.is_empty() || path.ends_with('/');
    Ok(classify(LibraryPath::decoded(decoded), is_directory))
}

fn classify(path: LibraryPath, is_directory: bool) -> Resource {
    let is_reserved = path.as_bytes().split(|byte| *byte == b'/').next() == Some(RESERVED_SEGMENT);
    match path.below(1).filter(|_| is_reserved) {
        Some(rest) => Resource::Reserved(rest),
        None if is_directory => Resource::Directory(path),
        None => Resource::File(path),
    }
}

/// The name at the top of a site under which clients look for well-known files (RFC 8615 section 3).
const WELL_KNOWN: &[u8] = b".well-known";

/// Why `segment`, which is not empty, is refused.
pub(crate) fn escape_of(segment: &[u8], is_first: bool) -> Option<PathEscape> {
    match segment {
        b"." | b".." => Some(PathEscape::DotSegment),
        _ if segment.contains(&b'/') => Some(PathEscape::EncodedSlash),
        _ if segment.iter().any(u8::is_ascii_control) => Some(PathEscape::ControlByte),
        WELL_KNOWN if is_first => None,
        [b'.', ..] => Some(PathEscape::HiddenName),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> LibraryPath {
        LibraryPath::decoded(text.as_bytes().to_vec())
    }

    fn resource_of(target: &str) -> Result<Resource, Reject> {
        parse_target(Method::Get, target).map(|target| target.resource)
    }

    #[test]
    fn files_and_directories_are_told_apart_by_the_last_slash() {
        assert_eq!(resource_of("/a/b.mp4"), Ok(Resource::File(path("a/b.mp4"))));
        assert_eq!(resource_of("/a/"), Ok(Resource::Directory(path("a"))));
        assert_eq!(resource_of("/"), Ok(Resource::Directory(path(""))));
        assert_eq!(resource_of("/.well-known/x"), Ok(Resource::File(path(".well-known/x"))));
        assert_eq!(resource_of("/a/b..mp4"), Ok(Resource::File(path("a/b..mp4"))));
    }

    #[test]
    fn names_are_percent_decoded_once() {
        assert_eq!(resource_of("/a%20b+c%25.mp4"), Ok(Resource::File(path("a b+c%.mp4"))));
        assert_eq!(resource_of("/%252e%252e/x"), Ok(Resource::File(path("%2e%2e/x"))));
        assert_eq!(resource_of("/caf\u{e9}%C3%A9"), Ok(Resource::File(path("caf\u{e9}\u{e9}"))));
        assert_eq!(resource_of("/%ff"), Ok(Resource::File(LibraryPath::decoded(vec![0xff]))));
    }

    #[test]
    fn paths_that_could_escape_are_refused() {
        let table = [
            (
                PathEscape::DotSegment,
                &["/..", "/../x", "/a/../b", "/%2e%2E/x", "/a/.%2e", "/./a", "/%2e", "/a/../"][..],
            ),
            (PathEscape::EncodedSlash, &["/a%2fb", "/%2F", "/..%2fx", "/%2f..%2f"]),
            (PathEscape::ControlByte, &["/a%00.mp4", "/%0a", "/%7f", "/%1f"]),
            (
                PathEscape::HiddenName,
                &[
                    "/.hidden",
                    "/...",
                    "/a/.b/c",
                    "/%2ea",
                    "/.ingest-x/",
                    "/a/.well-known/x",
                    "/.well-knowns",
                ],
            ),
        ];
        for (escape, targets) in table {
            for target in targets {
                assert_eq!(resource_of(target), Ok(Resource::Refused(escape)), "{target}");
            }
        }
    }

    #[test]
    fn several_slashes_are_one() {
        for (target, same) in [
            ("//", "/"),
            ("///", "/"),
            ("//x", "/x"),
            ("/a//b", "/a/b"),
            ("//a///b////c.mp4", "/a/b/c.mp4"),
            ("/a//", "/a/"),
            ("//-//status.json", "/-/status.json"),
            ("/-//", "/-/"),
            ("//.well-known/x", "/.well-known/x"),
            ("/a//../b", "/a/../b"),
            ("/a//.b", "/a/.b"),
            ("http://h//a", "/a"),
        ] {
            assert_eq!(resource_of(target), resource_of(same), "{target}");
        }
        assert_eq!(resource_of("//-"), Ok(Resource::Reserved(path(""))));
        assert_eq!(resource_of("//a"), Ok(Resource::File(path("a"))), "not the host a");
    }

    #[test]
    fn canonically_equivalent_targets_name_one_resource() {
        let name = |target: &str| match resource_of(target) {
            Ok(Resource::File(path)) => path.as_bytes().to_vec(),
            other => panic!("{target}: {other:?}"),
        };
        let composed = name("/priv%C3%A9/x.mp4");
        assert_eq!(composed, "priv\u{e9}/x.mp4".as_bytes());
        for target in ["/prive%CC%81/x.mp4", "/prive\u{301}/x.mp4", "//prive%cc%81//x.mp4"] {
            assert_eq!(name(target), composed, "{target}");
        }
        assert_eq!(name("/prive%CC%81/%FF"), b"priv\xc3\xa9/\xff");
    }

    #[test]
    fn broken_targets_are_bad() {
        for target in
            ["/%", "/%1", "/%zz", "/%1g", "/a#b", "a", "*", "host:443", "ftp://host/", "://", "?a"]
        {
            assert_eq!(resource_of(target), Err(Reject::BadTarget), "{target}");
        }
    }

    #[test]
    fn what_is_under_the_reserved_segment_is_the_servers() {
        assert_eq!(resource_of("/-/status.json"), Ok(Resource::Reserved(path("status.json"))));
        assert_eq!(resource_of("/%2D/a/"), Ok(Resource::Reserved(path("a"))));
        assert_eq!(resource_of("/-"), Ok(Resource::Reserved(path(""))));
        assert_eq!(resource_of("/-/"), Ok(Resource::Reserved(path(""))));
        assert_eq!(resource_of("/-/../a"), Ok(Resource::Refused(PathEscape::DotSegment)));
        assert_eq!(resource_of("/-a"), Ok(Resource::File(path("-a"))));
        assert_eq!(resource_of("/a/-/b"), Ok(Resource::File(path("a/-/b"))));
    }

    #[test]
    fn what_is_below_some_segments_is_what_the_rest_names() {
        let below = |target: &str, count| resource_of(target).unwrap().below(count);
        assert_eq!(below("/t/x/a/b.mp4", 2), Some(Resource::File(path("a/b.mp4"))));
        assert_eq!(below("/t/x/a/", 2), Some(Resource::Directory(path("a"))));
        assert_eq!(below("/t/x/", 2), Some(Resource::Directory(path(""))));
        assert_eq!(below("/t/x/-/status.json", 2), Some(Resource::Reserved(path("status.json"))));
        assert_eq!(below("/a", 0), Some(Resource::File(path("a"))));
        for (target, count) in [("/t/x", 2), ("/t", 2), ("/t/", 2), ("/-/t/x", 1), ("/a/../b", 1)] {
            assert_eq!(below(target, count), None, "{target}");
        }
    }

    #[test]
    fn absolute_form_is_taken_apart() {
        let whole = parse_target(Method::Get, "HTTP://tv.example:8443/a?b?c");
        let expected = Target {
            resource: Resource::File(path("a")),
            authority: Some("tv.example:8443"),
            query: Some("b?c"),
        };
        assert_eq!(whole, Ok(expected));
        for target in ["https://[::1]", "https://host?", "http://host/"] {
            assert_eq!(resource_of(target), Ok(Resource::Directory(path(""))), "{target}");
        }
        for target in
            ["http://", "http:///x", "http://user@host/", "http://ho st/", "http://host:8x/"]
        {
            assert_eq!(resource_of(target), Err(Reject::BadHost), "{target}");
        }
    }

    #[test]
    fn the_asterisk_is_for_options_only() {
        let target = parse_target(Method::Options, "*").map(|target| target.resource);
        assert_eq!(target, Ok(Resource::Server));
        assert_eq!(parse_target(Method::Head, "*"), Err(Reject::BadTarget));
    }

    #[test]
    fn hosts_are_names_or_addresses_with_an_optional_port() {
        for host in ["", "a", "a.b:1", "127.0.0.1", "[::1]", "[fe80::1%25eth0]:443", "x:"] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in
            ["a b", "a/b", "a@b", "a:b", "a,b\r", "[::1", "::1", "a?b", "\u{e9}", "[]x:1", "a:1:2"]
        {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }
}
