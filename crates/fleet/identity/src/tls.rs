//! TLS between machines: only version 1.3, since both sides are ours, and without session tickets. A resumed session would skip the certificate's
//! check, and machines keep their connections open anyway. Guests use other programs, so they get 1.2 as well.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fleet_protocol::{Digest, Name};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, Error, RootCertStore, ServerConfig, version};
use tls::danger::verifier;

use crate::trust::{GatewaysByFingerprint, GatewaysOf};
use crate::{Authority, AuthorityError, Credentials, OperatorAuthority, now_unix_seconds};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// A gateway's TLS for machines. Its certificate renews itself.
pub struct GatewayTls {
    authority: Arc<Authority>,
    gateway: Name,
    hosts: Vec<String>,
    lifetime: Duration,
    current: Mutex<Current>,
}

struct Current {
    certified: Arc<CertifiedKey>,
    renew_unix_seconds: u64,
}

impl Debug for GatewayTls {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "GatewayTls({}, {:?})", self.gateway, self.authority)
    }
}

impl GatewayTls {
    /// Issues a certificate for the gateway. A new one follows after two thirds of each `lifetime`.
    ///
    /// # Errors
    /// If one of its hosts is invalid.
    pub fn new(
        authority: Arc<Authority>,
        gateway: Name,
        hosts: Vec<String>,
        lifetime: Duration,
    ) -> Result<Self, AuthorityError> {
        let current = current(&authority, &gateway, &hosts, lifetime)?;
        Ok(Self { authority, gateway, hosts, lifetime, current: Mutex::new(current) })
    }

    /// The configuration for an [`Acceptor`](crate::Acceptor). A client without a certificate is accepted, but can only join; a client with one
    /// from another authority, or one that is not a node's, is refused.
    ///
    /// # Errors
    /// If the authority's certificate cannot be used.
    pub fn server_config(self: Arc<Self>) -> Result<Arc<ServerConfig>, AuthorityError> {
        let making = |error: &dyn std::error::Error| AuthorityError::Making(error.to_string());
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.certificate().clone()).map_err(|error| making(&error))?;
        let nodes = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .allow_unauthenticated()
            .build()
            .map_err(|error| making(&error))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|error| making(&error))?
            .with_client_cert_verifier(nodes)
            .with_cert_resolver(self);
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn certified(&self) -> Arc<CertifiedKey> {
        let mut own = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if now_unix_seconds() >= own.renew_unix_seconds {
            // If this fails, the old one still has a third of its lifetime.
            if let Ok(new) = current(&self.authority, &self.gateway, &self.hosts, self.lifetime) {
                *own = new;
            }
        }
        Arc::clone(&own.certified)
    }
}

fn current(
    authority: &Authority,
    gateway: &Name,
    hosts: &[String],
    lifetime: Duration,
) -> Result<Current, AuthorityError> {
    let now = now_unix_seconds();
    let pair = authority.sign_gateway(gateway, hosts, lifetime, now)?;
    let certified = CertifiedKey::from_der(pair.chain, pair.key, &provider())
        .map_err(|error| AuthorityError::Making(error.to_string()))?;
    let renew_unix_seconds = now + lifetime.as_secs() * 2 / 3;
    Ok(Current { certified: Arc::new(certified), renew_unix_seconds })
}

impl ResolvesServerCert for GatewayTls {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certified())
    }
}

/// A gateway's TLS for guests, with certificates that browsers trust. A client certificate from `operators` identifies an operator; any other one
/// is refused. Without `operators`, no client certificate is requested.
///
/// # Errors
/// If the operators' authority cannot be used.
pub fn guest_config(
    certificates: Arc<dyn ResolvesServerCert>,
    operators: Option<&OperatorAuthority>,
) -> Result<Arc<ServerConfig>, Error> {
    let config =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let mut config = match operators {
        None => config.with_no_client_auth().with_cert_resolver(certificates),
        Some(operators) => {
            let roots = Arc::new(operators.roots.clone());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
                .allow_unauthenticated()
                .build()
                .map_err(|error| Error::General(error.to_string()))?;
            let mut config =
                config.with_client_cert_verifier(verifier).with_cert_resolver(certificates);
            // Resumed sessions would skip the check of the certificate.
            config.send_tls13_tickets = 0;
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A node's TLS towards gateways: it trusts only its fleet's authority, and uses its own certificate.
///
/// # Errors
/// If the certificate and the key do not match.
pub fn client_config(credentials: &Credentials) -> Result<ClientConfig, Error> {
    let rule = GatewaysOf::new(credentials.authority(), &provider())?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier(rule, &provider()))
        .with_client_auth_cert(
            vec![credentials.certificate_der().clone()],
            credentials.key_der(),
        )?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// A machine's TLS towards gateways before it has joined: it trusts the authority with this fingerprint, and has no certificate.
///
/// # Errors
/// None with this provider.
pub fn joining_config(fingerprint: Digest) -> Result<ClientConfig, Error> {
    let rule = GatewaysByFingerprint { fingerprint, provider: provider() };
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier(rule, &provider()))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
