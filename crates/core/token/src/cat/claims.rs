//! The claims of a token: what they allow, and which of them this server can keep.

use std::borrow::Cow;

use coset::cbor::Value;

use super::uri::UriRules;
use super::{CatFault, CatNetwork, CatRequest, cose, network};

/// Numbers of claims (RFC 8392 section 3.1, CTA-5007-B; the IANA's registry of CBOR Web Token claims).
pub(super) mod label {
    pub(in crate::cat) const ISSUER: i128 = 1;
    pub(in crate::cat) const SUBJECT: i128 = 2;
    pub(in crate::cat) const AUDIENCE: i128 = 3;
    pub(in crate::cat) const EXPIRES: i128 = 4;
    pub(in crate::cat) const NOT_BEFORE: i128 = 5;
    pub(in crate::cat) const ISSUED_AT: i128 = 6;
    pub(in crate::cat) const TOKEN_ID: i128 = 7;
    pub(in crate::cat) const REPLAY: i128 = 308;
    pub(in crate::cat) const VERSION: i128 = 310;
    pub(in crate::cat) const NETWORKS: i128 = 311;
    pub(in crate::cat) const URI: i128 = 312;
    pub(in crate::cat) const METHODS: i128 = 313;
}

/// The version of the standard's claims.
pub(super) const VERSION: u64 = 1;

/// More claims than the standard has.
const CLAIMS_MAX: usize = 64;

/// Texts of a list in a claim: more than there are methods, or audiences that one issuer serves.
const TEXTS_MAX: usize = 64;

/// Claims that are refused, with their names.
const REFUSED: [(i128, &str); 14] = [
    (8, "cnf (proof of possession)"),
    (282, "geohash (the viewer's place)"),
    (309, "catpor (random rejection)"),
    (314, "catalpn (protocols of TLS)"),
    (315, "cath (request headers)"),
    (316, "catgeoiso3166 (the viewer's country)"),
    (317, "catgeocoord (the viewer's place)"),
    (318, "catgeoalt (the viewer's altitude)"),
    (319, "cattpk (a public key of TLS)"),
    (320, "catifdata (data for catif)"),
    (321, "catdpop (proof of possession)"),
    (322, "catif (answers to refused requests)"),
    (323, "catr (renewal)"),
    (324, "cattprint (a fingerprint of TLS)"),
];

/// The claims of a genuine token.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(super) issuer: Option<String>,
    pub(super) audiences: Option<Vec<String>>,
    expires_unix_seconds: Option<u64>,
    not_before_unix_seconds: u64,
    networks: Option<Vec<CatNetwork>>,
    uri: Option<UriRules>,
    methods: Option<Vec<String>>,
}

impl Claims {
    /// Parses the payload of a token.
    pub(super) fn parse(payload: &[u8]) -> Result<Self, CatFault> {
        let Value::Map(entries) = cose::read(payload)? else {
            return Err(CatFault::Malformed("the claims are a map"));
        };
        if entries.len() > CLAIMS_MAX {
            return Err(CatFault::Malformed("it has more than 64 claims"));
        }
        let (mut claims, mut seen) = (Self::default(), Vec::with_capacity(entries.len()));
        for (label, value) in &entries {
            let Value::Integer(label) = label else {
                return Err(CatFault::unsupported("a claim whose name is no number"));
            };
            let label = i128::from(*label);
            if seen.contains(&label) {
                return Err(CatFault::Malformed("it has a claim twice"));
            }
            seen.push(label);
            claims.take(label, value)?;
        }
        Ok(claims)
    }

    fn take(&mut self, label: i128, value: &Value) -> Result<(), CatFault> {
        match label {
            label::ISSUER => self.issuer = Some(text(value)?.to_owned()),
            label::AUDIENCE => {
                self.audiences = Some(match value {
                    Value::Array(_) => texts(value)?,
                    one => vec![text(one)?.to_owned()],
                });
            }
            label::EXPIRES => self.expires_unix_seconds = Some(seconds(value, f64::floor)?),
            label::NOT_BEFORE => self.not_before_unix_seconds = seconds(value, f64::ceil)?,
            label::ISSUED_AT => drop(seconds(value, f64::floor)?),
            // These only describe the token.
            label::SUBJECT | label::TOKEN_ID => {}
            label::REPLAY if *value == Value::from(0) => {}
            label::REPLAY => return Err(CatFault::unsupported("catreplay (use once)")),
            label::VERSION if *value == Value::from(VERSION) => {}
            label::VERSION => return Err(CatFault::unsupported("another catv than 1")),
            label::NETWORKS => self.networks = Some(network::networks(value)?),
            label::URI => self.uri = Some(UriRules::parse(value)?),
            label::METHODS => self.methods = Some(texts(value)?),
            other => return Err(CatFault::Unsupported(name_of(other))),
        }
        Ok(())
    }

    /// Checks that the claims allow `request`. The issuer and the audience were checked with the signature.
    pub(crate) fn check(&self, request: &CatRequest<'_>) -> Result<(), CatFault> {
        let now = request.now_unix_seconds;
        if self.expires_unix_seconds.is_some_and(|end| now >= end) {
            return Err(CatFault::Expired);
        }
        if now < self.not_before_unix_seconds {
            return Err(CatFault::NotYet);
        }
        let is_method = |method: &String| method == request.method;
        let is_near = |network: &CatNetwork| network.contains(request.client);
        if self.methods.as_ref().is_some_and(|methods| !methods.iter().any(is_method)) {
            Err(CatFault::NotAllowed("catm"))
        } else if self.networks.as_ref().is_some_and(|networks| !networks.iter().any(is_near)) {
            Err(CatFault::NotAllowed("catnip"))
        } else if self.uri.as_ref().is_some_and(|uri| !uri.allow(request)) {
            Err(CatFault::NotAllowed("catu"))
        } else {
            Ok(())
        }
    }
}

fn name_of(label: i128) -> Cow<'static, str> {
    match REFUSED.iter().find(|(number, _)| *number == label) {
        Some((_, name)) => Cow::Borrowed(name),
        None => format!("a claim that it does not know ({label})").into(),
    }
}

/// A date: seconds since 1970, perhaps with a fraction (RFC 8392, section 2), which `round` makes whole.
fn seconds(value: &Value, round: impl Fn(f64) -> f64) -> Result<u64, CatFault> {
    match value {
        // A date before 1970 has passed, too.
        Value::Integer(seconds) => Ok(u64::try_from(i128::from(*seconds).max(0)).unwrap_or(0)),
        Value::Float(seconds) if seconds.is_finite() => Ok(round(*seconds) as u64),
        _ => Err(CatFault::Malformed("a date is a number of seconds")),
    }
}

fn text(value: &Value) -> Result<&str, CatFault> {
    value.as_text().ok_or(CatFault::Malformed("a claim is not the text that it has to be"))
}

fn texts(value: &Value) -> Result<Vec<String>, CatFault> {
    let Value::Array(texts) = value else {
        return Err(CatFault::Malformed("a claim is not the list that it has to be"));
    };
    if texts.len() > TEXTS_MAX {
        return Err(CatFault::Malformed("a claim's list has more than 64 texts"));
    }
    texts.iter().map(|one| text(one).map(str::to_owned)).collect()
}
