//! `page_embedders`: the sites that may show the player in a frame.

use super::{Config, ConfigError, within};
use crate::host_name::is_host_name;

/// Bounds on the setting: its sites are part of a header field of each player, and nginx and Apache allow eight KiB for a line.
const EMBEDDERS_MAX: usize = 100;
const EMBEDDER_BYTES_MAX: usize = 64;

impl Config {
    pub(crate) fn check_embedders(&self) -> Result<(), ConfigError> {
        let sites = &self.page_embedders;
        within("the number of page_embedders", sites.len(), 0..=EMBEDDERS_MAX, "up to 100")?;
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
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let host = host.strip_prefix("*.").unwrap_or(host);
    matches!(scheme, "http" | "https")
        && text.len() <= EMBEDDER_BYTES_MAX
        && is_host_name(host)
        && port.is_none_or(is_port)
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
        let long = format!("https://{}.example", "a".repeat(60));
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
            "https://a:x",
            "https://[::1]",
            "data://a",
            "'self'",
            &long,
        ] {
            let error = check(&["https://a", bad]).unwrap_err();
            assert!(error.contains("page_embedders") && error.contains("https://blog"), "{error}");
        }
        assert!(check(&vec!["https://a"; 101]).is_err());
    }
}
