//! TLS: certificates, versions, redirecting viewers to it, and encryption by network cards.

use super::{AcmeConfig, ConfigError, Nic, Route, within};
use delivery::LossLimits;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// TLS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// TLS on or off; off is plain HTTP.
    pub enabled: bool,
    /// Certificate chains and keys; the first is for clients that name no host or an unknown one. If empty, a self-signed one.
    pub certificates: Vec<Certificate>,
    /// The versions to offer.
    pub versions: Versions,
    /// Records of TLS 1.3 per key before rekeying.
    pub key_records_max: u64,
    /// For how many seconds browsers must use only HTTPS with this host (HSTS); 0 sends no such header.
    pub hsts_seconds: u64,
    /// The listener that redirects viewers of plain HTTP to HTTPS; none if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_listen: Option<SocketAddr>,
    /// The use of network cards that encrypt.
    pub nic: Nic,
    /// Retransmitted bytes, in percent, above which a viewer's next connection is not given to a card.
    pub nic_lost_bytes_percent: f64,
    /// The same for retransmitted segments.
    pub nic_lost_segments_percent: f64,
    /// A certificate that the server gets by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acme: Option<AcmeConfig>,
}

impl Default for Tls {
    fn default() -> Self {
        let LossLimits { bytes_percent, segments_percent } = LossLimits::default();
        Self {
            enabled: true,
            certificates: Vec::new(),
            versions: Versions::Both,
            // 2^24 of AES-GCM (RFC 8446 section 5.5 allows 2^24.5).
            key_records_max: 1 << 24,
            hsts_seconds: 0,
            redirect_listen: None,
            nic: Nic::Auto,
            nic_lost_bytes_percent: bytes_percent,
            nic_lost_segments_percent: segments_percent,
            acme: None,
        }
    }
}

/// One certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The chain, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// The versions of TLS to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Versions {
    /// 1.2 and 1.3.
    #[serde(rename = "both")]
    Both,
    /// 1.3 only.
    #[serde(rename = "1.3")]
    Tls13,
    /// 1.2 only.
    #[serde(rename = "1.2")]
    Tls12,
    /// 1.2 for connections that leave by a network card that can encrypt it, else 1.2 and 1.3.
    #[serde(rename = "card")]
    Card,
}

impl From<Versions> for tls::TlsVersions {
    fn from(versions: Versions) -> Self {
        match versions {
            Versions::Both => Self::Both,
            Versions::Tls13 => Self::Tls13,
            Versions::Tls12 => Self::Tls12,
            Versions::Card => Self::Card,
        }
    }
}

impl Tls {
    /// Checks the settings for a server at `listen`, on this route.
    pub(crate) fn check(&self, listen: SocketAddr, route: Route) -> Result<(), ConfigError> {
        let Self { key_records_max, hsts_seconds, .. } = *self;
        within("tls.key_records_max", key_records_max, 64..=1 << 24, "64 to 16777216")?;
        // Two years is longer than browsers' preload lists ask for.
        let allowed = "0 (off) to 63072000 (two years)";
        within("tls.hsts_seconds", hsts_seconds, 0..=63_072_000, allowed)?;
        self.acme.as_ref().map_or(Ok(()), |acme| acme.check(self, listen))?;
        if !self.enabled && !self.certificates.is_empty() {
            return Err(ConfigError::CertificatesWithoutTls);
        }
        let Some(redirect) = self.redirect_listen else { return Ok(()) };
        let not = |wanted| Err(ConfigError::not_of_kind("tls.redirect_listen", redirect, wanted));
        if !self.enabled {
            return not("left out while TLS is off: there is no HTTPS to send viewers to");
        }
        if self.acme.is_some() {
            return not(
                "left out: with [tls.acme], its own port does that, too (redirect_http = true)",
            );
        }
        if route == Route::Bypass {
            return not("left out on the bypass route, which has an address of its own");
        }
        if redirect.port() != 0 && redirect.port() == listen.port() {
            return not("an address with a port of its own, such as \"[::]:80\"");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::refusal;

    #[test]
    fn a_redirect_needs_a_port_of_its_own_and_https() {
        assert_eq!(refusal("[tls]\nredirect_listen = \"[::]:80\""), None);
        for (text, said) in [
            ("[tls]\nredirect_listen = \"[::]:8443\"", "such as \"[::]:80\""),
            ("[tls]\nenabled = false\nredirect_listen = \"[::]:80\"", "while TLS is off"),
            (
                "[tls]\nredirect_listen = \"[::]:80\"\n[tls.acme]\ndomains = [\"a.example\"]",
                "redirect_http = true",
            ),
            (
                "route = \"bypass\"\n[tls]\nredirect_listen = \"[::]:80\"\n\
                 [bypass]\ndevice = \"tap\"\ninterface = \"tap0\"\naddresses = [\"10.9.8.7\"]",
                "bypass",
            ),
        ] {
            let refused = refusal(text).unwrap_or_default();
            assert!(refused.contains(said) && refused.contains("tls.redirect_listen"), "{refused}");
        }
    }
}
