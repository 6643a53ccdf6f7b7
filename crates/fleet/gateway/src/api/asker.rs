//! Authentication of the operator's API: by token, or else by the connection's client certificate.
//!
//! A browser sends a certificate with requests from any page, just as it sends cookies. So requests from pages of other sites can't use it.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use identity::{Guest, OperatorCertificate};

use super::ApiError;
use super::operation::Needed;
use crate::desired::Operator;
use crate::gateway::Gateway;

/// The credentials of a request.
pub(super) struct Asker {
    authorization: Option<String>,
    certificate: Option<Arc<OperatorCertificate>>,
    /// Whether a page of another site caused it.
    is_of_other_site: bool,
}

impl<S: Sync> FromRequestParts<S> for Asker {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let guest = parts.extensions.get::<ConnectInfo<Guest>>();
        Ok(Self {
            authorization: text_of(parts, AUTHORIZATION.as_str()).map(str::to_owned),
            certificate: guest.and_then(|ConnectInfo(guest)| guest.operator.clone()),
            is_of_other_site: is_of_other_site(parts),
        })
    }
}

fn text_of<'p>(parts: &'p Parts, name: &str) -> Option<&'p str> {
    parts.headers.get(name).and_then(|value| value.to_str().ok())
}

/// Checks Fetch Metadata, which browsers send over TLS, and the origin, which older browsers send with requests that change something.
fn is_of_other_site(parts: &Parts) -> bool {
    let of_target = parts.uri.authority().map(Authority::as_str);
    let own = of_target.or_else(|| text_of(parts, HOST.as_str()));
    let is_own = |origin: &str| origin.strip_prefix("https://") == own;
    let is_same = |site: &str| matches!(site, "same-origin" | "none");
    text_of(parts, "sec-fetch-site").is_some_and(|site| !is_same(site))
        || parts.headers.contains_key(ORIGIN)
            && !text_of(parts, ORIGIN.as_str()).is_some_and(is_own)
}

impl Asker {
    /// The operator, if their role is sufficient. A token takes precedence over a certificate.
    pub(super) fn operator(&self, gateway: &Gateway, needed: Needed) -> Result<Operator, ApiError> {
        let operator = match (&self.authorization, &self.certificate) {
            (Some(value), _) => {
                let token = value.strip_prefix("Bearer ").ok_or(ApiError::NoToken)?;
                gateway.operator(token.trim()).ok_or(ApiError::NoToken)?
            }
            (None, Some(certificate)) => self.of_certificate(gateway, certificate)?,
            (None, None) => return Err(ApiError::NoToken),
        };
        if needed.allows(&operator.role) {
            return Ok(operator);
        }
        let (id, needed) = (&operator.id, needed.as_str());
        Err(ApiError::Forbidden(format!("{id} may not do this: it needs the role {needed}")))
    }

    fn of_certificate(
        &self,
        gateway: &Gateway,
        certificate: &OperatorCertificate,
    ) -> Result<Operator, ApiError> {
        if self.is_of_other_site {
            return Err(ApiError::Forbidden(
                "a page of another site may not use an operator's certificate".to_owned(),
            ));
        }
        let name = &certificate.operator;
        if certificate.has_expired() {
            return Err(ApiError::NoOperator(format!("the certificate of {name} has expired")));
        }
        gateway.operator_named(name).ok_or_else(|| {
            ApiError::NoOperator(format!(
                "the certificate is of {name}, who is not an operator of this fleet (any more): an admin can add one"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn is_of_other(target: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::get(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        is_of_other_site(&request.body(()).expect("a request").into_parts().0)
    }

    #[test]
    fn a_page_of_another_site_is_known() {
        let host = ("host", "gw.example:8701");
        assert!(!is_of_other("/", &[host]), "not a browser");
        for (name, value, other) in [
            ("sec-fetch-site", "same-origin", false),
            ("sec-fetch-site", "none", false),
            ("sec-fetch-site", "same-site", true),
            ("sec-fetch-site", "cross-site", true),
            ("origin", "https://gw.example:8701", false),
            ("origin", "https://gw.example", true),
            ("origin", "http://gw.example:8701", true),
            ("origin", "https://evil.example", true),
            ("origin", "null", true),
        ] {
            assert_eq!(is_of_other("/", &[host, (name, value)]), other, "{name}: {value}");
        }
        let origin = [("origin", "https://gw.example:8701")];
        assert!(!is_of_other("https://gw.example:8701/", &origin), "HTTP/2");
        assert!(is_of_other("/", &origin), "no host");
    }
}
