//! New tokens.

use coset::cbor::Value;

use super::CatNetwork;
use super::claims::{VERSION, label};

/// The paths that a new token is for, percent-encoded and without a slash at either end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatScope<'a> {
    /// The whole library.
    All,
    /// Everything below this folder.
    Folder(&'a str),
    /// This file.
    File(&'a str),
}

/// The access that a new token gives.
#[derive(Clone, Copy, Debug)]
pub struct CatGrant<'a> {
    /// The paths.
    pub scope: CatScope<'a>,
    /// When it is issued, in seconds since 1970.
    pub issued_unix_seconds: u64,
    /// When it ends, in seconds since 1970.
    pub expires_unix_seconds: u64,
    /// When it begins; at once if not set.
    pub not_before_unix_seconds: Option<u64>,
    /// The networks that may use it; empty for all.
    pub networks: &'a [CatNetwork],
    /// The methods that it allows; empty for all.
    pub methods: &'a [String],
    /// Who issues it.
    pub issuer: Option<&'a str>,
}

impl CatGrant<'_> {
    /// The claims, in CBOR, in the order of their numbers.
    pub(super) fn payload(&self) -> Vec<u8> {
        let mut claims: Vec<(i128, Value)> = Vec::new();
        if let Some(issuer) = self.issuer {
            claims.push((label::ISSUER, issuer.into()));
        }
        claims.push((label::EXPIRES, self.expires_unix_seconds.into()));
        if let Some(begins) = self.not_before_unix_seconds {
            claims.push((label::NOT_BEFORE, begins.into()));
        }
        claims.push((label::ISSUED_AT, self.issued_unix_seconds.into()));
        claims.push((label::VERSION, VERSION.into()));
        if !self.networks.is_empty() {
            let networks = self.networks.iter().map(|network| network.to_value()).collect();
            claims.push((label::NETWORKS, Value::Array(networks)));
        }
        if let Some(uri) = uri(self.scope) {
            claims.push((label::URI, uri));
        }
        if !self.methods.is_empty() {
            let methods = self.methods.iter().map(|method| method.as_str().into()).collect();
            claims.push((label::METHODS, Value::Array(methods)));
        }
        let numbered = |(label, value)| {
            let label = i64::try_from(label).expect("claims have small numbers");
            (label.into(), value)
        };
        let claims = Value::Map(claims.into_iter().map(numbered).collect());
        let mut payload = Vec::new();
        coset::cbor::into_writer(&claims, &mut payload).expect("writing to a Vec cannot fail");
        payload
    }
}

/// The claim `catu` for paths; none for all of them. The numbers are those of `uri.rs`: path, then prefix or exact.
fn uri(scope: CatScope<'_>) -> Option<Value> {
    let (comparison, path) = match scope {
        CatScope::All => return None,
        CatScope::Folder(path) => (1, format!("/{path}/")),
        CatScope::File(path) => (0, format!("/{path}")),
    };
    Some(Value::Map(vec![(3.into(), Value::Map(vec![(comparison.into(), path.into())]))]))
}
