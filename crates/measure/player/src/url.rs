//! URLs of videos and their servers. References in manifests are resolved as in RFC 3986 section 5.
//!
//! Refused: schemes other than http and https, credentials, and hosts and paths with bytes that are not allowed in a request line.
//! Manifests are not trusted, so nothing from them reaches a request without these checks.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use escape::percent;

/// More than any server accepts in a request line.
const URL_BYTES_MAX: usize = 8 << 10;

/// An absolute http or https URL without fragment. Its path begins with a slash and has no dot segments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    is_tls: bool,
    /// Shared, because a manifest has thousands of URLs on one server.
    host: Arc<str>,
    port: u16,
    path: String,
    query: Option<String>,
}

/// Why a URL cannot be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Neither `http://` nor `https://`.
    #[error("it does not begin with https:// or http://")]
    Scheme,
    /// No host, or one with a byte that no host contains.
    #[error("it has no usable host")]
    Host,
    /// Not a number from 1 to 65535.
    #[error("its port is not a number from 1 to 65535")]
    Port,
    /// `user:password@`: this client does not support it.
    #[error("it has a user name, which this client cannot send")]
    Credentials,
    /// A space or a control character.
    #[error("it has a space or a control character; write those as %20 and so on")]
    Character,
    /// Longer than 8 KiB.
    #[error("it is longer than 8 KiB")]
    Long,
}

/// A parsed reference (RFC 3986 appendix B). The fragment is already removed: it never leaves the client.
struct Parts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn parse(text: &'a str) -> Result<Self, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::Long);
        }
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(UrlError::Character);
        }
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        let (text, query) = match text.split_once('?') {
            Some((before, query)) => (before, Some(query)),
            None => (text, None),
        };
        let (scheme, text) = match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
            _ => (None, text),
        };
        let Some(rest) = text.strip_prefix("//") else {
            return Ok(Self { scheme, authority: None, path: text, query });
        };
        let end = rest.find('/').unwrap_or(rest.len());
        Ok(Self { scheme, authority: Some(&rest[..end]), path: &rest[end..], query })
    }
}

/// According to RFC 3986 section 3.1.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let reference = Parts::parse(text)?;
        let is_tls = is_tls(reference.scheme.ok_or(UrlError::Scheme)?)?;
        Self::of(is_tls, &reference)
    }
}

fn is_tls(scheme: &str) -> Result<bool, UrlError> {
    match scheme {
        _ if scheme.eq_ignore_ascii_case("https") => Ok(true),
        _ if scheme.eq_ignore_ascii_case("http") => Ok(false),
        _ => Err(UrlError::Scheme),
    }
}

/// Host and port of an authority (RFC 3986 section 3.2).
fn host_and_port(authority: &str, is_tls: bool) -> Result<(String, u16), UrlError> {
    if authority.contains('@') {
        return Err(UrlError::Credentials);
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (authority, ""),
    };
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_usable = match literal {
        Some(literal) => literal.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(is_unreserved),
    };
    if !is_usable {
        return Err(UrlError::Host);
    }
    let port = match port {
        "" if is_tls => 443,
        "" => 80,
        port => port.parse().ok().filter(|port| *port > 0).ok_or(UrlError::Port)?,
    };
    Ok((host.to_ascii_lowercase(), port))
}

/// RFC 3986 section 2.3: unreserved characters. Host names have no others.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

impl Url {
    fn of(is_tls: bool, reference: &Parts<'_>) -> Result<Self, UrlError> {
        let (host, port) = host_and_port(reference.authority.unwrap_or(""), is_tls)?;
        let path = without_dot_segments(&percent::encode_non_ascii(reference.path));
        let query = reference.query.map(percent::encode_non_ascii);
        Self { is_tls, host: host.into(), port, path, query }.unless_long()
    }

    /// Merging paths and encoding bytes beyond ASCII, which takes three each, can make a result longer than its inputs.
    pub(crate) fn unless_long(self) -> Result<Self, UrlError> {
        if self.text_bytes() > URL_BYTES_MAX { Err(UrlError::Long) } else { Ok(self) }
    }

    /// The memory of path and query.
    pub(crate) fn text_bytes(&self) -> usize {
        self.path.len() + self.query.as_ref().map_or(0, String::len)
    }

    /// Resolves `reference`, found in the document at this URL (RFC 3986 section 5.2.2).
    ///
    /// # Errors
    /// If the result is not a URL that this client can request.
    pub fn resolve(&self, reference: &str) -> Result<Self, UrlError> {
        let reference = Parts::parse(reference.trim())?;
        let is_tls = reference.scheme.map_or(Ok(self.is_tls), is_tls)?;
        if reference.scheme.is_some() || reference.authority.is_some() {
            return Self::of(is_tls, &reference);
        }
        let mut url = self.clone();
        if !reference.path.is_empty() {
            let path = percent::encode_non_ascii(reference.path);
            url.path = without_dot_segments(&if path.starts_with('/') {
                path
            } else {
                // "Merge paths": everything up to the last slash stays.
                let folder = self.path.rfind('/').map_or("/", |end| &self.path[..=end]);
                format!("{folder}{path}")
            });
        }
        if !reference.path.is_empty() || reference.query.is_some() {
            url.query = reference.query.map(percent::encode_non_ascii);
        }
        url.unless_long()
    }

    /// The same URL on another host. The port stays: HLS players replace only the host of a pathway's clone.
    ///
    /// # Errors
    /// If `host` is not a host, or has a port.
    pub fn with_host(&self, host: &str) -> Result<Self, UrlError> {
        if host.ends_with(':') || Self::has_port(host) {
            return Err(UrlError::Host);
        }
        let (host, _) = host_and_port(host, self.is_tls)?;
        Ok(Self { host: host.into(), ..self.clone() })
    }

    /// The same URL on another host, and on another port if `host` has one.
    ///
    /// # Errors
    /// If `host` is not a host, or its port is invalid.
    pub fn with_host_or_port(&self, host: &str) -> Result<Self, UrlError> {
        if !Self::has_port(host) || host.ends_with(':') {
            return self.with_host(host);
        }
        let (host, port) = host_and_port(host, self.is_tls)?;
        Ok(Self { host: host.into(), port, ..self.clone() })
    }

    fn has_port(authority: &str) -> bool {
        authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'))
    }

    /// The same URL with a parameter in its query, percent-encoded. It replaces a parameter of the same name.
    pub fn with_query_parameter(&self, name: &str, value: &str) -> Self {
        let name = percent::encode(name);
        let others = self.query.iter().flat_map(|query| query.split('&')).filter(|parameter| {
            !parameter.is_empty() && parameter.split('=').next() != Some(name.as_str())
        });
        let mut query = String::new();
        for parameter in others {
            query.push_str(parameter);
            query.push('&');
        }
        query.push_str(&name);
        query.push('=');
        query.push_str(&percent::encode(value));
        Self { query: Some(query), ..self.clone() }
    }

    /// Returns true for https.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The host's name or address; an IPv6 address has no brackets.
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port, or the scheme's default if the URL names none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port for the Host field (RFC 9110 section 7.2), without the scheme's default port.
    pub fn authority(&self) -> String {
        match (self.is_tls, self.port) {
            (true, 443) | (false, 80) => self.host.to_string(),
            _ => format!("{}:{}", self.host, self.port),
        }
    }

    /// Path and query for the request line.
    pub fn path_and_query(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }

    /// The path without query, percent-encoded.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns true if `other` is on the same server: scheme, host and port.
    pub fn is_same_origin(&self, other: &Self) -> bool {
        (self.is_tls, &self.host, self.port) == (other.is_tls, &other.host, other.port)
    }

    /// The file below `directory` that this URL names if `directory` is served as `/`. `None` if it cannot be below it.
    pub fn file_below(&self, directory: &Path) -> Option<PathBuf> {
        use std::os::unix::ffi::OsStringExt;
        let decoded = percent::decode(self.path.trim_start_matches('/').as_bytes());
        // No file has a zero byte in its name.
        let decoded = decoded.filter(|bytes| !bytes.contains(&0))?;
        let relative = PathBuf::from(std::ffi::OsString::from_vec(decoded));
        let is_below = relative.components().all(|part| matches!(part, Component::Normal(_)));
        (is_below && relative.components().next().is_some()).then(|| directory.join(relative))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path_and_query())
    }
}

/// RFC 3986 section 5.2.4, for paths that are absolute or become absolute.
fn without_dot_segments(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    for (index, segment) in segments.iter().enumerate() {
        let is_last = index + 1 == segments.len();
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn the_parts_of_a_url_are_told_apart() {
        let parsed = url("https://Example.org:8443/a/b.mp4?x=1#t=30");
        assert_eq!(parsed.host(), "example.org");
        assert_eq!(parsed.authority(), "example.org:8443");
        assert_eq!(parsed.path_and_query(), "/a/b.mp4?x=1");
        assert_eq!(url("http://host").to_string(), "http://host/");
        assert_eq!(url("https://host:443/").authority(), "host");
        assert_eq!(url("http://host:443/").authority(), "host:443");
        assert_eq!(url("https://[::1]:8443/").host(), "::1");
        assert_eq!(url("https://[::1]/").authority(), "[::1]");
        assert_eq!(url("http://127.0.0.1:80/é").path_and_query(), "/%C3%A9");
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused_with_the_reason() {
        for (text, error) in [
            ("example.org/a", UrlError::Scheme),
            ("ftp://example.org/a", UrlError::Scheme),
            ("https:///a", UrlError::Host),
            ("https://a b/", UrlError::Character),
            ("https://h/a\r\nHost: x", UrlError::Character),
            ("https://h/\u{7f}", UrlError::Character),
            ("https://h:0/", UrlError::Port),
            ("https://h:99999/", UrlError::Port),
            ("https://[::g]/", UrlError::Host),
            ("https://user@h/", UrlError::Credentials),
        ] {
            assert_eq!(text.parse::<Url>(), Err(error), "{text}");
        }
        assert_eq!(format!("https://h/{}", "a".repeat(9000)).parse::<Url>(), Err(UrlError::Long));
    }

    /// The hierarchical examples of RFC 3986 section 5.4.
    #[test]
    fn references_resolve_as_rfc_3986_says() {
        let base = url("http://a/b/c/d;p?q");
        for (reference, resolved) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            ("g#s", "http://a/b/c/g"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            (".g", "http://a/b/c/.g"),
            ("g..", "http://a/b/c/g.."),
            ("./g/.", "http://a/b/c/g/"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
            ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            ("https://h/x", "https://h/x"),
        ] {
            assert_eq!(base.resolve(reference).map(|url| url.to_string()), Ok(resolved.into()));
        }
        assert_eq!(base.resolve("file:///etc/passwd"), Err(UrlError::Scheme));
        assert_eq!(base.resolve("a\nb"), Err(UrlError::Character));
    }

    #[test]
    fn a_url_that_becomes_too_long_is_refused() {
        let base = url(&format!("http://h/{}/", "a".repeat(5000)));
        assert!(base.resolve(&"b".repeat(3000)).is_ok());
        assert_eq!(base.resolve(&"b".repeat(4000)), Err(UrlError::Long));
        assert_eq!(base.resolve(&"é".repeat(1000)), Err(UrlError::Long));
    }

    #[test]
    fn another_host_takes_the_place_of_the_first_and_the_port_stays() {
        let base = url("https://a:8443/film/1.mp4?x=1");
        let moved = |host: &str| base.with_host(host).map(|url| url.to_string());
        assert_eq!(moved("B.example"), Ok("https://b.example:8443/film/1.mp4?x=1".into()));
        assert_eq!(moved("[::1]"), Ok("https://[::1]:8443/film/1.mp4?x=1".into()));
        for host in ["", "b:80", "b:", "[::1]:80", "user@b", "b/c", "b c", "b\r\n"] {
            assert!(moved(host).is_err(), "{host}");
        }
    }

    #[test]
    fn a_query_parameter_is_added_or_replaced_and_encoded() {
        let with = |text: &str, name: &str, value: &str| {
            url(text).with_query_parameter(name, value).to_string()
        };
        assert_eq!(with("http://h/a", "CMCD", "bl=1,ot=v"), "http://h/a?CMCD=bl%3D1%2Cot%3Dv");
        assert_eq!(with("http://h/a?t=1&u", "p", "\"é\""), "http://h/a?t=1&u&p=%22%C3%A9%22");
        assert_eq!(with("http://h/a?p=1&q=2&p=3", "p", "4"), "http://h/a?q=2&p=4");
        assert_eq!(with("http://h/a?", "p", ""), "http://h/a?p=");
    }

    #[test]
    fn a_file_is_found_below_the_directory_or_not_at_all() {
        let root = Path::new("/library");
        let file = |text: &str| url(text).file_below(root);
        assert_eq!(file("http://h/a%20b/c.mp4?x"), Some(root.join("a b/c.mp4")));
        assert_eq!(file("http://h/%2e%2e/etc/passwd"), None);
        assert_eq!(file("http://h/a%2f..%2f..%2fetc"), None);
        assert_eq!(file("http://h/%2fetc/passwd"), None);
        assert_eq!(file("http://h/a%00"), None);
        assert_eq!(file("http://h/a%4"), None);
        assert_eq!(file("http://h/"), None);
    }
}
