//! One order, from its start to a certificate, and the meaning of its failures.

use crate::challenges::{Challenged, Challenges};
use crate::hook::TxtRecord;
use crate::http_client::{AcmeHttp, LastAnswer};
use crate::{AcmeKeyType, AcmeOptions, AcmeProof, AcmeTrouble, chain};
use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error,
    Identifier, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName};
use std::time::Duration;
use zeroize::Zeroizing;

/// How long the authority may take to check challenges, and then to issue; it is polled at growing intervals.
const PATIENCE: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(180));

/// Why there is no certificate.
#[derive(Debug)]
pub(crate) enum NotObtained {
    /// An error of the authority, or of the connection to it.
    Authority(Error),
    /// Another error, with its message.
    Told(AcmeTrouble, String),
}

impl From<Error> for NotObtained {
    fn from(error: Error) -> Self {
        Self::Authority(error)
    }
}

impl NotObtained {
    /// The kind of trouble, and the message for the operator. `last` is the authority's last answer.
    pub(crate) fn judge(&self, last: LastAnswer) -> (AcmeTrouble, String) {
        match self {
            Self::Told(why, said) => (*why, said.clone()),
            Self::Authority(Error::Api(problem)) if kind(problem) == "externalAccountRequired" => {
                let said = format!(
                    "{}; set tls.acme.eab_key_id and tls.acme.eab_key_file to the values that it gives its customers",
                    words(problem)
                );
                (AcmeTrouble::Account, said)
            }
            Self::Authority(Error::Api(problem)) => (meaning(problem), words(problem)),
            Self::Authority(Error::Timeout(_)) => {
                (AcmeTrouble::Unreachable, "the authority does not finish the order".into())
            }
            Self::Authority(error) if last.status >= 500 => (
                AcmeTrouble::Unreachable,
                format!("the authority answered {} ({error})", last.status),
            ),
            Self::Authority(error) if last.status == 429 => {
                (AcmeTrouble::RateLimited, format!("the authority answered 429 ({error})"))
            }
            Self::Authority(Error::Other(error)) => {
                (AcmeTrouble::Unreachable, format!("cannot reach the authority: {error}"))
            }
            Self::Authority(error @ (Error::Crypto | Error::KeyRejected)) => {
                (AcmeTrouble::Account, format!("cannot use the account's key: {error}"))
            }
            Self::Authority(error) => {
                (AcmeTrouble::Malformed, format!("the authority's answer is invalid: {error}"))
            }
        }
    }
}

/// The type of a problem without its prefix (RFC 8555 section 6.7).
fn kind(problem: &Problem) -> &str {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(kind)
}

fn meaning(problem: &Problem) -> AcmeTrouble {
    match kind(problem) {
        "rateLimited" => AcmeTrouble::RateLimited,
        "serverInternal" => AcmeTrouble::Unreachable,
        "badNonce" | "malformed" | "orderNotReady" | "alreadyReplaced" => AcmeTrouble::Malformed,
        "accountDoesNotExist"
        | "externalAccountRequired"
        | "invalidContact"
        | "unsupportedContact"
        | "userActionRequired" => AcmeTrouble::Account,
        _ if problem.status.is_some_and(|status| status >= 500) => AcmeTrouble::Unreachable,
        _ => AcmeTrouble::Rejected,
    }
}

fn words(problem: &Problem) -> String {
    let said = problem.to_string();
    format!("the authority says: {}", said.strip_prefix("API error: ").unwrap_or(&said))
}

/// A chain, PEM, and its key.
pub(crate) struct Obtained {
    pub(crate) chain: String,
    pub(crate) key: Zeroizing<String>,
    /// The error if the hook failed to remove a record from DNS.
    pub(crate) left: Option<NotObtained>,
    /// A message for the operator about the chain.
    pub(crate) said: Option<String>,
}

/// Orders a certificate for all configured names. `replaces` identifies the one that it replaces.
///
/// # Errors
/// Why there is none.
pub(crate) async fn obtain(
    account: &Account,
    options: &AcmeOptions,
    http: &AcmeHttp,
    challenges: &Challenges,
    replaces: Option<CertificateIdentifier<'static>>,
) -> Result<Obtained, NotObtained> {
    let names: Vec<_> = options.domains.iter().cloned().map(Identifier::Dns).collect();
    let mut wanted = NewOrder::new(&names);
    if let Some(replaced) = replaces {
        wanted = wanted.replaces(replaced);
    }
    let mut order = account.new_order(&wanted).await?;
    let mut presented = Vec::new();
    let authorized = authorize(&mut order, options, challenges, &mut presented).await;
    let mut left = None;
    for challenged in &presented {
        left = challenges.withdraw(challenged).await.err().or(left);
    }
    authorized?;
    let (key, request) = request(&options.domains, options.key_type).map_err(|error| {
        let said = format!("cannot make a certificate request: {error}");
        NotObtained::Told(AcmeTrouble::Rejected, said)
    })?;
    order.finalize_csr(&request).await?;
    let first = order.poll_certificate(&PATIENCE).await?;
    let (chain, said) = chain::choose(first, account, http, options).await;
    Ok(Obtained { chain, key, left, said })
}

/// A new key, and the request for its certificate, DER.
fn request(
    names: &[String],
    kind: AcmeKeyType,
) -> Result<(Zeroizing<String>, Vec<u8>), rcgen::Error> {
    let key = kind.generate()?;
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name = DistinguishedName::new();
    let request = parameters.serialize_request(&key)?;
    Ok((Zeroizing::new(key.serialize_pem()), request.der().to_vec()))
}

/// Answers each challenge, and waits until the authority has checked the answers. Presented answers are noted, however this ends.
async fn authorize(
    order: &mut Order,
    options: &AcmeOptions,
    challenges: &Challenges,
    presented: &mut Vec<Challenged>,
) -> Result<(), NotObtained> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => {}
            AuthorizationStatus::Pending => {
                answer(authorization, options, challenges, presented).await?;
            }
            status => {
                let name = authorization.identifier().to_string();
                let said = format!("{name}: the authority's order begins as {status:?}");
                return Err(NotObtained::Told(AcmeTrouble::Rejected, said));
            }
        }
    }
    let ready = order.poll_ready(&PATIENCE).await;
    if matches!(ready, Ok(OrderStatus::Ready)) {
        return Ok(());
    }
    match (why_rejected(order).await, ready) {
        (Some(said), _) => Err(NotObtained::Told(AcmeTrouble::Rejected, said)),
        (None, Err(error)) => Err(error.into()),
        (None, Ok(_)) => {
            let said = "the authority rejects the order, and does not say why".into();
            Err(NotObtained::Told(AcmeTrouble::Rejected, said))
        }
    }
}

async fn answer(
    mut authorization: AuthorizationHandle<'_>,
    options: &AcmeOptions,
    challenges: &Challenges,
    presented: &mut Vec<Challenged>,
) -> Result<(), NotObtained> {
    let shown = authorization.identifier().to_string();
    // The hook only ever gets names that the operator has configured.
    let name = match authorization.identifier().identifier {
        Identifier::Dns(name) if options.domains.contains(&shown) => name.clone(),
        _ => {
            let said = format!("the authority asks about {shown}, which was not ordered");
            return Err(NotObtained::Told(AcmeTrouble::Malformed, said));
        }
    };
    let (kind, means) = challenges.kind();
    let Some(mut challenge) = authorization.challenge(kind.clone()) else {
        let said = format!("{shown}: the authority does not accept {means} as a proof");
        return Err(NotObtained::Told(AcmeTrouble::Rejected, said));
    };
    let proof = challenge.key_authorization();
    let challenged = match kind {
        ChallengeType::Dns01 => Challenged::Dns(TxtRecord {
            domain: shown,
            name: format!("_acme-challenge.{name}"),
            value: proof.dns_value(),
        }),
        ChallengeType::TlsAlpn01 => {
            let digest = proof.digest().as_ref().try_into().expect("SHA-256 has 32 bytes");
            Challenged::Tls(AcmeProof { name, digest })
        }
        _ => Challenged::Http { token: challenge.token.clone(), answer: proof.as_str().to_owned() },
    };
    let done = challenges.present(&challenged).await;
    // Even if that failed: a partial record may be there.
    presented.push(challenged);
    done?;
    Ok(challenge.set_ready().await?)
}

/// The first name whose challenge has failed, and the reason.
async fn why_rejected(order: &mut Order) -> Option<String> {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            return None;
        }
        let name = authorization.identifier().to_string();
        let problem =
            authorization.challenges.iter().find_map(|challenge| challenge.error.as_ref());
        if let Some(problem) = problem {
            return Some(format!("{name}: {}", words(problem)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str, status: u16) -> NotObtained {
        let text = format!(
            r#"{{"type":"urn:ietf:params:acme:error:{kind}","detail":"because","status":{status}}}"#
        );
        Error::Api(serde_json::from_str(&text).unwrap()).into()
    }

    #[test]
    fn each_failure_has_its_kind() {
        let last = |status| LastAnswer { status, retry_after: None };
        for (kind, status, meant) in [
            ("rateLimited", 429, AcmeTrouble::RateLimited),
            ("serverInternal", 500, AcmeTrouble::Unreachable),
            ("unheardOf", 503, AcmeTrouble::Unreachable),
            ("unauthorized", 403, AcmeTrouble::Rejected),
            ("dns", 400, AcmeTrouble::Rejected),
            ("rejectedIdentifier", 400, AcmeTrouble::Rejected),
            ("accountDoesNotExist", 400, AcmeTrouble::Account),
            ("badNonce", 400, AcmeTrouble::Malformed),
        ] {
            let (why, said) = problem(kind, status).judge(last(status));
            assert_eq!(why, meant, "{kind}");
            assert!(said.contains("because") && said.contains(kind), "{said}");
        }
        let trouble = |error: Error, status| NotObtained::from(error).judge(last(status)).0;
        let no_json = || Error::Json(serde_json::from_str::<u8>("<html>").unwrap_err());
        assert_eq!(trouble(no_json(), 200), AcmeTrouble::Malformed);
        assert_eq!(trouble(no_json(), 502), AcmeTrouble::Unreachable);
        assert_eq!(trouble(no_json(), 429), AcmeTrouble::RateLimited);
        assert_eq!(trouble(Error::Str("nonce"), 200), AcmeTrouble::Malformed);
        assert_eq!(trouble(Error::Timeout(None), 200), AcmeTrouble::Unreachable);
        assert_eq!(trouble(Error::Other("connection refused".into()), 0), AcmeTrouble::Unreachable);
        assert_eq!(trouble(Error::KeyRejected, 0), AcmeTrouble::Account);
    }
}
