//! The addresses of origins: web servers, or S3 buckets. Credentials are no part of them.

use escape::percent;
use reqwest::Url;
use std::net::IpAddr;

/// The most origins of one edge. If all of them are silent, a viewer waits for one after the other.
pub const ORIGINS_MAX: usize = 8;

/// The address of an origin: a scheme, a host, and a path prefix. For a bucket, the second field is its own address, `s3://BUCKET/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginAddress(pub(crate) Url, pub(crate) Option<String>);

impl OriginAddress {
    /// Parses an address such as `https://origin.example/films` or `s3://films/hd`. Does not read credentials.
    ///
    /// # Errors
    /// Why it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let shown = without_secrets(text);
        let wrong = |why: &str| {
            let why = why.replace(text, &shown);
            format!(
                "{shown:?} is not the address of an origin: {why}; write one such as https://origin.example/films or s3://films/hd"
            )
        };
        if text.starts_with("s3://") {
            let url = s3::bucket_url(text).map_err(|error| wrong(&error.to_string()))?;
            return Ok(Self(url, Some(text.to_owned())));
        }
        let mut url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("only http and https are supported"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(
                "it must not contain a user name or a password: set user and password_file of this origin, as in [[edge.origin]]",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it must not contain a query or a fragment"));
        }
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&base);
        Ok(Self(url, None))
    }

    /// Whether it is a bucket.
    pub(crate) fn is_bucket(&self) -> bool {
        self.1.is_some()
    }

    /// Whether it is reached over TLS.
    pub(crate) fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// The port to connect to.
    pub(crate) fn port(&self) -> u16 {
        self.0.port_or_known_default().expect("http and https have one")
    }

    /// Whether its host is a name, which has to be resolved.
    pub(crate) fn is_named(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default();
        host.trim_matches(['[', ']']).parse::<IpAddr>().is_err()
    }

    /// The URL of `path`, which is [`escaped`], perhaps with a query.
    pub(crate) fn of(&self, path: &str) -> Option<Url> {
        let mut url = self.0.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(a, b)| (a, Some(b)));
        let whole = format!("{}{path}", self.0.path().trim_end_matches('/'));
        url.set_path(&whole);
        url.set_query(query);
        // Never another path than the requested one: an object kept under a name must come from there.
        (url.path() == whole).then_some(url)
    }
}

impl std::fmt::Display for OriginAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.1 {
            Some(bucket) => bucket.fmt(f),
            None => self.0.fmt(f),
        }
    }
}

/// Turns a decoded request path into the path of a request to the origin: with a leading slash, and percent-encoded. Different paths stay
/// different.
pub fn escaped(path: &[u8]) -> String {
    format!("/{}", percent::encode_path(path))
}

/// The name of the object at `path`, which is [`escaped`]. Names of objects are text.
pub(crate) fn key_of(path: &str) -> Option<String> {
    let path = path.split('?').next()?;
    String::from_utf8(percent::decode(path.strip_prefix('/')?.as_bytes())?).ok()
}

/// An address as it may be shown: without a user name and a password, and without a query, which may contain a token.
fn without_secrets(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let (hidden, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("...@", rest));
    match rest.split_once('?') {
        Some((rest, _)) if scheme != "s3://" => format!("{scheme}{hidden}{rest}?..."),
        _ => format!("{scheme}{hidden}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_in_an_address_is_not_shown() {
        for (text, shown) in [
            ("http://us:pw@h/x", "http://...@h/x"),
            ("http://us:p/w@h/x", "http://...@h/x"),
            ("us:pw@h/x", "...@h/x"),
            ("https://h/x?token=pw", "https://h/x?..."),
            ("https://us:pw@h:port/", "https://...@h:port/"),
            ("s3://us:pw@films?port=1", "s3://...@films?port=1"),
        ] {
            let said = OriginAddress::parse(text).unwrap_err();
            assert!(said.contains(&format!("{shown:?}")), "{said}");
            assert!(!said.contains("us:") && !said.contains("pw"), "{said}");
        }
    }

    #[test]
    fn a_bucket_is_an_origin_whose_objects_have_the_paths_as_names() {
        let text = "s3://films/hd?endpoint=http://127.0.0.1:1";
        assert_eq!(OriginAddress::parse(text).unwrap().to_string(), text);
        for text in ["s3://", "s3://films?port=1"] {
            assert!(OriginAddress::parse(text).is_err(), "{text}");
        }
        for key in ["a/b c?d#e%2f", "ö", ""] {
            assert_eq!(key_of(&escaped(key.as_bytes())).as_deref(), Some(key));
        }
        assert_eq!(key_of(&escaped(b"a\xff")), None, "no text");
        assert_eq!((key_of("/a%2"), key_of("/a%zz"), key_of("a")), (None, None, None));
    }

    #[test]
    fn different_paths_stay_different_when_they_are_escaped() {
        assert_eq!(escaped(b"a/b c?d#e%2f\xff"), "/a/b%20c%3Fd%23e%252f%FF");
        assert_eq!(escaped(b".well-known/x~"), "/.well-known/x~");
    }
}
