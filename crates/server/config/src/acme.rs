//! Certificates by ACME: the names, the authority, and the proof of control.

use super::{Config, ConfigError, Tls};
use acme::{AcmeExternalAccount, AcmeKeyType, AcmeOptions};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::{PathBuf, absolute};

/// The authority that most servers use.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Let's Encrypt's own limit on the names of one certificate.
const DOMAINS_MAX: usize = 100;

/// A certificate from an ACME server (RFC 8555).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcmeConfig {
    /// The names that viewers use, all in one certificate.
    pub domains: Vec<String>,
    /// A mail address for the authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// The authority's directory.
    #[serde(default = "lets_encrypt")]
    pub directory: String,
    /// The certificates of a private authority's roots, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<PathBuf>,
    /// The name of a key that the authority gives its customers, to bind a new account to (RFC 8555 section 7.3.4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eab_key_id: Option<String>,
    /// A file with that key, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eab_key_file: Option<PathBuf>,
    /// The type of the certificate's key.
    #[serde(default)]
    pub key_type: AcmeKeyType,
    /// The common name of the preferred root of the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_chain: Option<String>,
    /// How control of the names is proved, unless in DNS.
    #[serde(default)]
    pub challenge: AcmeChallenge,
    /// The listener for the authority's checks over HTTP; the authority always connects to port 80 of the domain.
    #[serde(default = "port_80")]
    pub listen: SocketAddr,
    /// Redirect all other requests to that listener to HTTPS.
    #[serde(default)]
    pub redirect_http: bool,
    /// A program that creates DNS records. With one, control of the names is proved in DNS, and not over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_hook: Option<PathBuf>,
}

/// How the server proves to an authority that it controls a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcmeChallenge {
    /// Over HTTP, on a port of its own.
    #[default]
    #[serde(rename = "http-01")]
    Http,
    /// Over TLS, on the viewers' port (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    Tls,
}

fn lets_encrypt() -> String {
    LETS_ENCRYPT.into()
}

fn port_80() -> SocketAddr {
    SocketAddr::from(([0u16; 8], 80))
}

impl AcmeConfig {
    pub(crate) fn check(&self, tls: &Tls, listen: SocketAddr) -> Result<(), ConfigError> {
        if !tls.enabled {
            return Err(ConfigError::AcmeWithoutTls);
        }
        if !tls.certificates.is_empty() {
            return Err(ConfigError::AcmeWithCertificates);
        }
        self.check_domains()?;
        if self.dns_hook.is_some() && self.challenge == AcmeChallenge::Tls {
            let wanted = "nothing, because dns_hook proves the names in DNS; or leave dns_hook out";
            return Err(ConfigError::not_of_kind("tls.acme.challenge", "tls-alpn-01", wanted));
        }
        if let Some(contact) = self.contact.as_ref().filter(|contact| !is_mail(contact)) {
            let wanted = "an address of mail, such as \"admin@example.org\", or leave it out";
            return Err(ConfigError::not_of_kind("tls.acme.contact", contact, wanted));
        }
        if self.eab_key_id.is_some() != self.eab_key_file.is_some() {
            let (named, missing) = match self.eab_key_id {
                Some(_) => ("tls.acme.eab_key_id", "eab_key_file, a file with the key, as well"),
                None => ("tls.acme.eab_key_file", "eab_key_id, the key's name, as well"),
            };
            return Err(ConfigError::not_of_kind(named, "alone", missing));
        }
        if !is_directory(&self.directory) {
            let wanted = "the https:// address of an ACME directory, such as \
                          \"https://acme-v02.api.letsencrypt.org/directory\"";
            return Err(ConfigError::not_of_kind("tls.acme.directory", &self.directory, wanted));
        }
        if self.listen.port() == 0 || self.listen.port() == listen.port() {
            let wanted = "an address with a port of its own, such as \"[::]:80\"";
            return Err(ConfigError::not_of_kind("tls.acme.listen", self.listen, wanted));
        }
        if self.redirect_http && listen.port() == 0 {
            let wanted =
                "false, or give the server a port to send viewers to: listen = \"[::]:443\"";
            return Err(ConfigError::not_of_kind("tls.acme.redirect_http", true, wanted));
        }
        Ok(())
    }

    fn check_domains(&self) -> Result<(), ConfigError> {
        let not =
            |value: &str, wanted| Err(ConfigError::not_of_kind("tls.acme.domains", value, wanted));
        if self.domains.is_empty() || self.domains.len() > DOMAINS_MAX {
            let wanted = "1 to 100 names, such as domains = [\"video.example.org\"]";
            return not(&self.domains.join(", "), wanted);
        }
        for domain in &self.domains {
            let name = domain.strip_prefix("*.");
            if !is_domain(name.unwrap_or(domain)) {
                let wanted = "names in DNS, without scheme and port, such as \"video.example.org\"";
                return not(domain, wanted);
            }
            if name.is_some() && self.dns_hook.is_none() {
                let wanted = "each name by itself, or prove the wildcard in DNS with a program: \
                              dns_hook = \"/etc/fullbore/dns-hook\"";
                return not(domain, wanted);
            }
        }
        Ok(())
    }

    /// The helper's options, for a server with this configuration.
    pub fn options(&self, config: &Config) -> AcmeOptions {
        AcmeOptions {
            domains: self.domains.iter().map(|domain| domain.to_ascii_lowercase()).collect(),
            contact: self.contact.clone(),
            directory: self.directory.clone(),
            roots: self.roots.clone(),
            external_account: self.external_account(),
            key_type: self.key_type,
            preferred_chain: self.preferred_chain.clone(),
            listen: self.listen,
            has_listener: false,
            https_port: self.redirect_http.then_some(config.listen.port()),
            // A name without a folder would be searched in PATH.
            by_tls: self.challenge == AcmeChallenge::Tls,
            dns_hook: self.dns_hook.as_ref().map(|hook| absolute(hook).unwrap_or(hook.clone())),
            state: config.state.clone(),
            is_confined: config.sandbox && self.dns_hook.is_none(),
        }
    }
}

impl AcmeConfig {
    fn external_account(&self) -> Option<AcmeExternalAccount> {
        let (key_id, key_file) = (self.eab_key_id.clone()?, self.eab_key_file.clone()?);
        Some(AcmeExternalAccount { key_id, key_file })
    }
}

/// Accepts names with a dot in them: no authority certifies a bare name, and this configuration has no way to certify an address.
fn is_domain(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_inside)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253
        && name.contains('.')
        && name.split('.').all(is_label)
        && name.parse::<IpAddr>().is_err()
}

fn is_mail(text: &str) -> bool {
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    let (name, host) = text.split_once('@').unwrap_or_default();
    is_visible && !name.is_empty() && !name.contains([':', ',', '?']) && is_domain(host)
}

/// Accepts usable directory URLs. Plain HTTP is accepted only on this machine: a proxy, or a test.
fn is_directory(text: &str) -> bool {
    let rest = text.strip_prefix("https://");
    let plain = text.strip_prefix("http://").filter(|rest| {
        let host = rest.split('/').next().unwrap_or_default();
        let address = host.parse::<SocketAddr>().map(|address| address.ip());
        address.or_else(|_| host.parse()).is_ok_and(|ip| ip.is_loopback())
    });
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    is_visible && rest.or(plain).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Certificate;

    fn read(text: &str) -> Config {
        toml::from_str(&format!("[tls.acme]\n{text}\n")).unwrap()
    }

    fn refusal(text: &str) -> String {
        read(text).check().expect_err(text).to_string()
    }

    #[test]
    fn names_are_all_it_takes() {
        let config = read("domains = [\"Video.example.org\", \"b.example\"]");
        config.check().unwrap();
        let acme = config.tls.acme.as_ref().unwrap();
        let options = acme.options(&config);
        assert_eq!(options.domains, ["video.example.org", "b.example"]);
        assert_eq!(options.directory, LETS_ENCRYPT);
        assert!(options.listen == port_80() && options.needs_port());
        assert_eq!(options.https_port, None);
        let hook = "domains = [\"*.example.org\"]\ndns_hook = \"/etc/hook\"";
        let config = read(hook);
        config.check().unwrap();
        assert!(!config.tls.acme.as_ref().unwrap().options(&config).needs_port());
        let by_tls = "domains = [\"a.example\"]\nchallenge = \"tls-alpn-01\"";
        let config = read(by_tls);
        config.check().unwrap();
        let options = config.tls.acme.as_ref().unwrap().options(&config);
        assert!(options.by_tls && !options.needs_port());
        let config = read(&format!("{by_tls}\nredirect_http = true"));
        assert!(config.tls.acme.as_ref().unwrap().options(&config).needs_port());
        let config = read(&format!("{hook}\nredirect_http = true"));
        let options = config.tls.acme.as_ref().unwrap().options(&config);
        assert!(options.needs_port() && options.https_port == Some(8443));
    }

    #[test]
    fn what_cannot_work_is_refused_with_an_example() {
        for (text, said) in [
            ("domains = []", "domains = [\"video.example.org\"]"),
            ("domains = [\"localhost\"]", "such as \"video.example.org\""),
            ("domains = [\"192.0.2.1\"]", "such as \"video.example.org\""),
            ("domains = [\"https://a.example\"]", "such as \"video.example.org\""),
            ("domains = [\"-a.example\"]", "such as \"video.example.org\""),
            ("domains = [\"a.*.example\"]", "such as \"video.example.org\""),
            ("domains = [\"*.example.org\"]", "dns_hook = \""),
            ("domains = [\"*.example.org\"]\nchallenge = \"tls-alpn-01\"", "dns_hook = \""),
            (
                "domains = [\"a.example\"]\nchallenge = \"tls-alpn-01\"\ndns_hook = \"/h\"",
                "leave dns_hook out",
            ),
            ("domains = [\"a.example\"]\ncontact = \"me\"", "admin@example.org"),
            ("domains = [\"a.example\"]\ncontact = \"mailto:me@a.example\"", "admin@example.org"),
            ("domains = [\"a.example\"]\ndirectory = \"acme.example\"", "such as \"https://"),
            (
                "domains = [\"a.example\"]\ndirectory = \"http://acme.example/d\"",
                "such as \"https://",
            ),
            ("domains = [\"a.example\"]\nlisten = \"[::]:8443\"", "such as \"[::]:80\""),
            ("domains = [\"a.example\"]\neab_key_id = \"k\"", "eab_key_file, a file"),
            ("domains = [\"a.example\"]\neab_key_file = \"k\"", "eab_key_id, the key"),
        ] {
            let refused = refusal(text);
            assert!(refused.contains(said) && refused.contains("tls.acme."), "{text}: {refused}");
        }
        read("domains = [\"a.example\"]\ndirectory = \"http://127.0.0.1:14000/dir\"")
            .check()
            .unwrap();
    }

    #[test]
    fn a_certificate_of_ones_own_and_one_by_acme_are_a_contradiction() {
        let mut config = read("domains = [\"a.example\"]");
        config.tls.certificates = vec![Certificate { cert: "c".into(), key: "k".into() }];
        let said = config.check().unwrap_err().to_string();
        assert!(said.contains("[tls.acme]") && said.contains("--cert"), "{said}");
        let mut config = read("domains = [\"a.example\"]");
        config.tls.enabled = false;
        assert!(config.check().unwrap_err().to_string().contains("TLS is off"));
    }

    #[test]
    fn every_setting_of_acme_is_in_the_manual() {
        let manual = include_str!("../../../../docs/serve.md");
        let all = AcmeConfig {
            contact: Some(String::new()),
            roots: Some(PathBuf::new()),
            eab_key_id: Some(String::new()),
            eab_key_file: Some(PathBuf::new()),
            preferred_chain: Some(String::new()),
            dns_hook: Some(PathBuf::new()),
            ..read("domains = [\"a.example\"]").tls.acme.unwrap()
        };
        for (key, _) in toml::Table::try_from(all).unwrap() {
            assert!(manual.contains(&format!("\n| `{key}` |")), "tls.acme.{key} is missing");
        }
    }
}
