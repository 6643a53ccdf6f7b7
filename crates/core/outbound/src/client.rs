//! HTTP clients for servers outside the fleet.

use std::path::Path;
use std::sync::Arc;

use reqwest::{Client, ClientBuilder};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The files with the CA certificates that systems trust: Debian, Fedora.
const TRUSTED: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// The most bytes of that file: Debian's has 220 kB.
const TRUSTED_BYTES_MAX: u32 = 8 << 20;

/// A client for HTTP and HTTPS that does not follow redirects. It trusts the CA certificates in the file `trusted`, or the system's.
///
/// # Errors
/// If the file cannot be read.
pub fn client(trusted: Option<&str>) -> Result<ClientBuilder, String> {
    let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(trusted)?)
        .with_no_client_auth();
    let client = Client::builder().use_preconfigured_tls(tls);
    Ok(client.redirect(reqwest::redirect::Policy::none()))
}

/// An empty store is not an error: then HTTPS fails, with a message that says so.
fn roots(named: Option<&str>) -> Result<RootCertStore, String> {
    let usual = || TRUSTED.into_iter().find(|path| Path::new(path).exists());
    let mut roots = RootCertStore::empty();
    let Some(path) = named.or_else(usual) else { return Ok(roots) };
    let pem = files::read(Path::new(path), TRUSTED_BYTES_MAX)
        .map_err(|error| format!("cannot read {path}: {error}"))?;
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    Ok(roots)
}
