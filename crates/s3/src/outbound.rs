//! Clients of what is not the fleet's own.

use std::path::Path;
use std::sync::Arc;

use reqwest::{Client, ClientBuilder};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Where systems keep the certificates that they trust: Debian, Fedora.
const TRUSTED: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Most bytes of that file: Debian's has 220 kB.
const TRUSTED_BYTES_MAX: u32 = 8 << 20;

/// A client of HTTP and HTTPS that follows no redirects. It trusts the certificates in the file `trusted`, or those that the system trusts.
///
/// # Errors
/// If the file cannot be read.
pub fn outbound(trusted: Option<&str>) -> Result<ClientBuilder, String> {
    let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(trusted)?)
        .with_no_client_auth();
    let client = Client::builder().use_preconfigured_tls(tls);
    Ok(client.redirect(reqwest::redirect::Policy::none()))
}

/// None is no error: then HTTPS is refused, and says so.
fn roots(named: Option<&str>) -> Result<RootCertStore, String> {
    let usual = || TRUSTED.into_iter().find(|path| Path::new(path).exists());
    let mut roots = RootCertStore::empty();
    let Some(path) = named.or_else(usual) else { return Ok(roots) };
    let pem = smallfile::read(Path::new(path), TRUSTED_BYTES_MAX)
        .map_err(|error| format!("cannot read {path}: {error}"))?;
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    Ok(roots)
}
