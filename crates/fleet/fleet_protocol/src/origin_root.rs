//! Origins: the libraries that titles are copied from, and the ones that a node accepts.

use std::str::FromStr;

/// Longest address.
const BYTES_MAX: usize = 1000;

/// The address of a library that nodes copy titles from: `file:///FOLDER`, `s3://BUCKET/PREFIX` or `https://HOST/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginRoot {
    text: String,
    kind: OriginKind,
}

/// The kind of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginKind {
    /// A folder on the node's machine.
    Folder,
    /// An S3 bucket.
    Bucket,
    /// A web server, over HTTP or HTTPS.
    Web,
}

/// A text that is not an address of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an origin is file:///FOLDER, s3://BUCKET/PREFIX or https://HOST/PATH")]
pub struct BadOrigin;

impl FromStr for OriginRoot {
    type Err = BadOrigin;

    fn from_str(text: &str) -> Result<Self, BadOrigin> {
        let (scheme, rest) = text.split_once("://").ok_or(BadOrigin)?;
        let is_plain = text.len() <= BYTES_MAX && !text.chars().any(char::is_control);
        // A web server would resolve dot segments before the lookup, and in a folder they would lead out of it.
        let is_direct = !rest.split('/').any(|step| matches!(step, "." | ".."));
        // A trailing slash is ignored, except for the root folder.
        let trimmed = if rest == "/" { rest } else { rest.trim_end_matches('/') };
        let kind = match scheme {
            "file" if trimmed.starts_with('/') => OriginKind::Folder,
            "s3" if !trimmed.is_empty() => OriginKind::Bucket,
            "http" | "https" if is_web(rest) => OriginKind::Web,
            _ => return Err(BadOrigin),
        };
        if !(is_plain && is_direct) {
            return Err(BadOrigin);
        }
        Ok(Self { text: format!("{scheme}://{trimmed}"), kind })
    }
}

/// Whether it is `HOST[:PORT][/PATH]` without any other part of a URL, and without encoded dots and slashes, which a web server would resolve.
fn is_web(rest: &str) -> bool {
    let host = rest.split('/').next().unwrap_or_default();
    let name = host.split(':').next().unwrap_or_default();
    let lower = rest.to_ascii_lowercase();
    let is_open = !["%2e", "%2f", "%5c"].iter().any(|hidden| lower.contains(hidden));
    let is_simple = rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"@?#\\".contains(&byte));
    !name.is_empty() && is_open && is_simple
}

impl OriginRoot {
    /// Its kind.
    pub fn kind(&self) -> OriginKind {
        self.kind
    }

    /// Its text, without a trailing slash.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a node with the configured origins `allowed` copies titles from here: from one of them or from below one. Without a configuration,
    /// it accepts any folder, and any bucket at the server that its own environment names, but no server named in the address: publishers must not
    /// be able to direct nodes to machines unknown to the nodes' operators.
    pub fn is_allowed(&self, allowed: &[Self]) -> bool {
        let (place, server) = self.parts();
        match (allowed, self.kind) {
            ([], OriginKind::Web) => false,
            ([], _) => server.is_empty(),
            (allowed, _) => allowed.iter().any(|one| {
                let (above, its_server) = one.parts();
                server == its_server && is_below(place, above)
            }),
        }
    }

    /// The place, and the rest: a bucket's `?endpoint=URL&region=REGION` selects the server.
    fn parts(&self) -> (&str, &str) {
        match self.text.find('?') {
            Some(at) if self.kind == OriginKind::Bucket => self.text.split_at(at),
            _ => (&self.text, ""),
        }
    }
}

/// Whether `place` is equal to `above`, or below it.
fn is_below(place: &str, above: &str) -> bool {
    let rest = place.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || above.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(text: &str) -> OriginRoot {
        text.parse().unwrap_or_else(|_| panic!("{text}"))
    }

    #[test]
    fn an_origin_is_a_folder_a_bucket_or_a_web_server() {
        for (text, kind) in [
            ("file:///srv/library", OriginKind::Folder),
            ("file:///srv/a?b", OriginKind::Folder),
            ("file:///", OriginKind::Folder),
            ("s3://films/hd?endpoint=https://s3.example&region=eu", OriginKind::Bucket),
            ("https://origin.example", OriginKind::Web),
            ("http://[2001:db8::1]:8080/a%20b", OriginKind::Web),
        ] {
            assert_eq!(root(text).kind(), kind, "{text}");
            assert_eq!(root(text).as_str(), text);
        }
        assert_eq!(root("https://a/b/").as_str(), "https://a/b");
        let long = format!("https://a/{}", "b".repeat(BYTES_MAX));
        let bad = [
            "",
            "a",
            "/srv",
            "file://srv",
            "ftp://a",
            "s3://",
            "https://",
            "https:///a",
            "https://:1/a",
            "https://u@a/b",
            "https://a/b?c",
            "https://a/b#c",
            "https://a b",
            "https://a\\b",
            "https://a/../b",
            "https://a/%2e%2E/b",
            "https://a/..%2Fb",
            "https://a/b%5c",
            "file:////",
            "s3:////",
            "file:///a/./b",
            "file:///a\nb",
            &long,
        ];
        for text in bad {
            assert_eq!(text.parse::<OriginRoot>(), Err(BadOrigin), "{text}");
        }
    }

    #[test]
    fn a_node_takes_titles_only_from_where_it_was_told_to() {
        assert!(root("file:///srv").is_allowed(&[]) && root("s3://a").is_allowed(&[]));
        assert!(root("file:///srv/a?b").is_allowed(&[]), "a folder's name");
        for text in
            ["http://127.0.0.1", "s3://a?endpoint=http://127.0.0.1", "s3://a?region=x.evil/"]
        {
            assert!(!root(text).is_allowed(&[]), "{text}");
        }
        let endpoint = "?endpoint=https://s3.example";
        let at_server = format!("s3://at{endpoint}");
        let allowed = ["https://a.example/films", "file:///", "s3://films", &at_server].map(root);
        for (text, is_allowed) in [
            ("https://a.example/films", true),
            ("https://a.example/films/", true),
            ("https://a.example/films/hd", true),
            ("https://a.example/filmsets", false),
            ("https://a.example", false),
            ("http://a.example/films", false),
            ("https://a.example:1/films", false),
            ("https://a.example.evil/films", false),
            ("file:///srv", true),
            ("s3://films/hd", true),
            ("s3://filmsets", false),
            ("s3://films?endpoint=http://169.254.169.254", false),
            ("s3://films/hd?endpoint=http://169.254.169.254", false),
            ("s3://films/hd?region=x.evil/", false),
            (&format!("s3://at/hd{endpoint}"), true),
            (&format!("{at_server}&endpoint=http://10.0.0.1"), false),
            (&format!("{at_server}/&endpoint=http://10.0.0.1"), false),
            ("s3://at", false),
        ] {
            assert_eq!(root(text).is_allowed(&allowed), is_allowed, "{text}");
        }
    }
}
