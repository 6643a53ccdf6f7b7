//! `page_url`: the scheme and the host of the pages' addresses, for a server behind a proxy that ends TLS.

use super::{Config, ConfigError};
use crate::host_name::scheme_and_host;

impl Config {
    pub(crate) fn check_page_url(&self) -> Result<(), ConfigError> {
        match self.page_url.as_ref().filter(|url| scheme_and_host(url).is_none()) {
            None => Ok(()),
            Some(url) => {
                let wanted = "the scheme and the host that viewers use, without a path, such as \"https://tv.example.org\"";
                Err(ConfigError::not_of_kind("page_url", url, wanted))
            }
        }
    }

    /// The scheme of `page_url`, and its host with the port, if it has one. It has passed [`Config::check`].
    pub fn page_scheme_and_host(&self) -> Option<(&str, &str)> {
        scheme_and_host(self.page_url.as_deref()?)
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn a_page_url_is_a_scheme_and_a_host() {
        let check = |url: &str| {
            let config = Config { page_url: Some(url.into()), ..Config::default() };
            let parts = config.page_scheme_and_host();
            let parts = parts.map(|(scheme, host)| (scheme.to_owned(), host.to_owned()));
            config.check_page_url().map(|()| parts.unwrap()).map_err(|error| error.to_string())
        };
        for (url, scheme, host) in [
            ("https://tv.example.org", "https", "tv.example.org"),
            ("https://tv.example.org/", "https", "tv.example.org"),
            ("http://box-1:8080", "http", "box-1:8080"),
            ("https://192.0.2.1:65535", "https", "192.0.2.1:65535"),
            ("https://[2001:db8::1]", "https", "[2001:db8::1]"),
            ("https://[2001:db8::1]:8443/", "https", "[2001:db8::1]:8443"),
        ] {
            assert_eq!(check(url), Ok((scheme.into(), host.into())), "{url}");
        }
        let long = format!("https://{}", "a".repeat(254));
        for bad in [
            "",
            "tv.example.org",
            "https://",
            "https:///",
            "ftp://tv.example.org",
            "HTTPS://tv.example.org",
            "https://tv.example.org/films",
            "https://tv.example.org//",
            "https://tv.example.org?a",
            "https://tv.example.org#a",
            "https://me@tv.example.org",
            "https://me:secret@tv.example.org",
            "https://tv.example.org:0",
            "https://tv.example.org:",
            "https://tv.example.org:+80",
            "https://tv.example.org:65536",
            "https://tv..example.org",
            "https://2001:db8::1",
            "https://[192.0.2.1]",
            "https://[::1]x",
            "https://tv.example.org\r\nA: b",
            "https://tv.example.org\"><script>",
            &long,
        ] {
            let error = check(bad).unwrap_err();
            let is_clear =
                error.contains("page_url has") && error.contains("https://tv.example.org\"");
            assert!(is_clear, "{bad}: {error}");
        }
    }
}
