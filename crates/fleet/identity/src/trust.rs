//! A node's trust: gateways of its own fleet only.
//!
//! A gateway's address may change, or be that of a load balancer. Its certificate identifies it as a gateway: the fleet's authority signed it, for
//! serving machines, with the name [`GATEWAY`]. So the dialled address is not compared.

use std::sync::Arc;

use fleet_protocol::Digest;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, Error, OtherError, RootCertStore};
use tls::danger::{CertificateRule, Shown};

/// A name in the certificates of all gateways. `.internal` is reserved for private use, so no public host has it.
pub(crate) const GATEWAY: &str = "gateway.fullbore.internal";

/// Trusts gateways with certificates from a given authority.
#[derive(Debug)]
pub(crate) struct GatewaysOf {
    authority: Arc<WebPkiServerVerifier>,
}

impl GatewaysOf {
    pub(crate) fn new(
        authority: &CertificateDer<'_>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let authority = builder.build().map_err(|error| Error::General(error.to_string()))?;
        Ok(Self { authority })
    }
}

/// Like [`GatewaysOf`], for a machine that knows the authority only by the fingerprint in its invitation. The gateway sends the authority's
/// certificate along.
#[derive(Debug)]
pub(crate) struct GatewaysByFingerprint {
    pub(crate) fingerprint: Digest,
    pub(crate) provider: Arc<CryptoProvider>,
}

/// The gateway does not belong to the fleet in the invitation.
#[derive(Debug, thiserror::Error)]
#[error("this is not a gateway of the fleet that the invitation names")]
struct OtherFleet;

fn gateway_name() -> ServerName<'static> {
    ServerName::try_from(GATEWAY).expect("it is a name")
}

impl CertificateRule for GatewaysOf {
    fn check(&self, shown: &Shown<'_>) -> Result<ServerCertVerified, Error> {
        let Shown { end_entity, intermediates, ocsp, now } = *shown;
        let name = gateway_name();
        self.authority.verify_server_cert(end_entity, intermediates, &name, ocsp, now)
    }
}

impl CertificateRule for GatewaysByFingerprint {
    fn check(&self, shown: &Shown<'_>) -> Result<ServerCertVerified, Error> {
        let is_ours = |sent: &&CertificateDer<'_>| Digest::of(sent) == self.fingerprint;
        let authority = shown.intermediates.iter().find(is_ours).ok_or_else(|| {
            let other = OtherError(Arc::new(OtherFleet));
            Error::InvalidCertificate(CertificateError::Other(other))
        })?;
        GatewaysOf::new(authority, &self.provider)?.check(shown)
    }
}
