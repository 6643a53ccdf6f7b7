//! `page_embedders`: the sites that may show the player in a frame.

use super::{Config, ConfigError, within};

/// The most bytes of all sites, which are part of a header field of each player: a proxy such as nginx allows four KiB for all fields of a response.
const BYTES_MAX: usize = 2 << 10;

impl Config {
    pub(crate) fn check_embedders(&self) -> Result<(), ConfigError> {
        let sites = &self.page_embedders;
        let bytes = sites.iter().map(|site| site.len() + 1).sum();
        within("the length of page_embedders", bytes, 0..=BYTES_MAX, "up to 2048 bytes")?;
        match sites.iter().find(|site| !is_site(site)) {
            None => Ok(()),
            Some(site) => {
                let wanted = "sites without a path, such as \"https://blog.example\" or \"https://*.example\"";
                Err(ConfigError::not_of_kind("page_embedders", site, wanted))
            }
        }
    }
}

/// Whether `text` is a host source of a Content-Security-Policy (level 3, section 2.3.1) with a scheme and without a path.
fn is_site(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let (host, port) = match rest.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (rest, None),
    };
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_port = |port: &str| is_number(port) && port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_of_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_of_label);
    let mut labels = host.strip_prefix("*.").unwrap_or(host).split('.');
    matches!(scheme, "http" | "https") && labels.all(is_label) && port.is_none_or(is_port)
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn an_embedder_is_a_scheme_and_a_host_and_adds_no_directive() {
        let check = |sites: &[&str]| {
            let page_embedders = sites.iter().map(|site| (*site).to_owned()).collect();
            let config = Config { page_embedders, ..Config::default() };
            config.check_embedders().map_err(|error| error.to_string())
        };
        let good = ["https://blog.example", "http://a:8080", "https://*.uni.example"];
        assert_eq!(check(&good), Ok(()));
        for bad in [
            "",
            "*",
            "blog.example",
            "https://",
            "https://*",
            "https://a/b",
            "https://a b",
            "https://a; script-src *",
            "https://a\nb",
            "https://a:0",
            "https://a:+80",
            "https://a..b",
            "https://a_b",
            "https://a:x",
            "https://[::1]",
            "data://a",
            "'self'",
        ] {
            let error = check(&["https://a", bad]).unwrap_err();
            assert!(error.contains("page_embedders") && error.contains("https://blog"), "{error}");
        }
        assert!(check(&vec!["https://a"; 204]).is_ok() && check(&vec!["https://a"; 205]).is_err());
    }
}
