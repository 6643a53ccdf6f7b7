//! Requests to the members of etcd: which member to ask, timeouts, and the meaning of failures.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outbound::with_causes;
use reqwest::{Client, Response};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::address::Address;
use super::wire::{Login, Refusal};
use crate::StoreError;

/// A member that does not accept a connection within this time counts as down. Members are near gateways.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// Longest wait for a read: etcd elects a new leader within about a second (its election timeout), and reads wait for that.
const READ_MAX: Duration = Duration::from_secs(2);

/// Longest wait for a change: etcd itself times out after 7 s (5 s and twice its election timeout), and reports it.
const CHANGE_MAX: Duration = Duration::from_secs(9);

/// Largest response: a page of values of 1 MiB, in base64.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Largest file that the address may name.
const FILE_BYTES_MAX: u32 = 1 << 20;

/// gRPC's codes for failures worth retrying later: `DEADLINE_EXCEEDED` and `UNAVAILABLE` (no leader).
const LATER: [i64; 2] = [4, 14];

/// gRPC's code for a caller who has to log in (again).
const UNAUTHENTICATED: i64 = 16;

/// gRPC's code for an invalid request. etcd also uses it for logins: for unknown tokens, and for tokens from before its users or roles changed,
/// which a JSON web token outlives ([`OF_LOGINS`]).
const INVALID_ARGUMENT: i64 = 3;

/// Parts of etcd's messages for these (rpctypes, `ErrGRPCInvalidAuthToken` of 3.3, `ErrGRPCAuthOldRevision`). The second also occurs for a new
/// login, if a user is changed while it is under way.
const OF_LOGINS: [&str; 2] = ["token", "revision of auth store is old"];

/// Most times that a request is sent, each time with a new login.
const LOGINS_MAX: usize = 3;

/// Retry policy of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It may be sent to one member after another.
    Read,
    /// It is sent again only if it cannot have arrived.
    Change,
}

/// A failed request.
pub(super) enum Failed {
    /// No member was reached, or none could do it: nothing was changed.
    NotDone(String),
    /// It was sent, and no member confirmed whether it was done.
    Unknown(String),
    /// etcd rejected it.
    Refused(String),
}

/// The members of an etcd.
pub(super) struct Members {
    client: Client,
    endpoints: Vec<String>,
    /// Index of the member that answered last.
    good: AtomicUsize,
    login: Option<Value>,
    token: Mutex<Option<String>>,
}

impl Members {
    pub(super) fn new(address: &Address) -> Result<Self, StoreError> {
        let login = match (&address.user, &address.password_file) {
            (Some(user), Some(file)) => {
                let password =
                    files::read_text(file, 4096).map_err(|error| unreadable(file, &error))?;
                Some(json!({ "name": user, "password": password.trim_end_matches('\n') }))
            }
            _ => None,
        };
        let client = Client::builder()
            .use_preconfigured_tls(tls(address)?)
            .connect_timeout(CONNECT_MAX)
            .redirect(reqwest::redirect::Policy::none())
            // Members are contacted directly, ignoring any proxy in the environment.
            .no_proxy();
        let client = client.build().map_err(|error| StoreError::NotUsable(with_causes(&error)))?;
        let (good, token) = (AtomicUsize::new(0), Mutex::new(None));
        Ok(Self { client, endpoints: address.endpoints.clone(), good, login, token })
    }

    /// Asks one member after another, starting with the one that answered last.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        kind: Kind,
    ) -> Result<T, Failed> {
        let first = self.good.load(Ordering::Relaxed);
        let mut failed = Failed::NotDone("the address names no member".to_owned());
        for turn in 0..self.endpoints.len() {
            let at = (first + turn) % self.endpoints.len();
            failed = match self.ask_member(&self.endpoints[at], path, body, kind).await {
                Ok(answer) => {
                    self.good.store(at, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(failed @ Failed::NotDone(_)) => failed,
                Err(failed @ Failed::Unknown(_)) if kind == Kind::Read => failed,
                Err(failed) => return Err(failed),
            };
        }
        Err(failed)
    }

    /// Asks one member, and logs in if required.
    async fn ask_member<T: DeserializeOwned>(
        &self,
        endpoint: &str,
        path: &str,
        body: &Value,
        kind: Kind,
    ) -> Result<T, Failed> {
        let token = || self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if self.login.is_some() && token().is_none() {
            self.log_in(endpoint).await?;
        }
        let mut logins = 0;
        loop {
            let refusal = match self.send(endpoint, path, body, kind, token()).await? {
                Ok(answer) => return Ok(answer),
                Err(refusal) => refusal,
            };
            logins += 1;
            if self.login.is_none() || !refusal.is_of_login() || logins == LOGINS_MAX {
                return Err(refusal.into_failed(endpoint, kind));
            }
            // A rejected request was not carried out, so even a change may be sent again.
            self.log_in(endpoint).await?;
        }
    }

    async fn log_in(&self, endpoint: &str) -> Result<(), Failed> {
        let Some(login) = &self.login else { return Ok(()) };
        let answer = self.send::<Login>(endpoint, "/v3/auth/authenticate", login, Kind::Read, None);
        let login = answer.await?.map_err(|refusal| refusal.into_failed(endpoint, Kind::Read))?;
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(login.token);
        Ok(())
    }

    async fn send<T: DeserializeOwned>(
        &self,
        endpoint: &str,
        path: &str,
        body: &Value,
        kind: Kind,
        token: Option<String>,
    ) -> Result<Result<T, Refusal>, Failed> {
        let wait = if kind == Kind::Read { READ_MAX } else { CHANGE_MAX };
        let mut request = self.client.post(format!("{endpoint}{path}")).json(body).timeout(wait);
        if let Some(token) = token {
            request = request.header("Authorization", token);
        }
        let response = request.send().await.map_err(|error| {
            // Without a connection, nothing was sent.
            let is_before = error.is_connect();
            let text = format!("{endpoint}: {}", with_causes(&error.without_url()));
            if is_before { Failed::NotDone(text) } else { Failed::Unknown(text) }
        })?;
        let is_good = response.status().is_success();
        let bytes =
            whole(response).await.map_err(|text| Failed::Unknown(format!("{endpoint}: {text}")))?;
        if is_good {
            // Only the first value counts: a stream sends one per line.
            let mut values = serde_json::Deserializer::from_slice(&bytes).into_iter();
            return match values.next() {
                Some(Ok(value)) => Ok(Ok(value)),
                _ => Err(Failed::Unknown(format!("{endpoint}: its answer is not etcd's"))),
            };
        }
        let refusal = serde_json::from_slice(&bytes).unwrap_or_else(|_| Refusal {
            error: "it is not etcd, or an etcd older than 3.4".to_owned(),
            ..Refusal::default()
        });
        Ok(Err(refusal))
    }
}

impl Refusal {
    /// Whether a new login may help.
    fn is_of_login(&self) -> bool {
        let text = if self.error.is_empty() { &self.message } else { &self.error };
        self.code == UNAUTHENTICATED
            || (self.code == INVALID_ARGUMENT && OF_LOGINS.iter().any(|says| text.contains(says)))
    }

    /// Converts the refusal for a request of this kind.
    fn into_failed(self, endpoint: &str, kind: Kind) -> Failed {
        let Self { error, message, code } = self;
        let text = format!("{endpoint}: {}", if error.is_empty() { message } else { error });
        match kind {
            Kind::Read if LATER.contains(&code) => Failed::NotDone(text),
            Kind::Change if LATER.contains(&code) => Failed::Unknown(text),
            _ => Failed::Refused(text),
        }
    }
}

/// Reads the entire response body.
async fn whole(mut response: Response) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(|error| with_causes(&error.without_url()))?
    {
        if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err("its answer has no end".to_owned());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn unreadable(file: &Path, why: &dyn std::fmt::Display) -> StoreError {
    StoreError::NotUsable(format!("cannot read {}: {why}", file.display()))
}

/// TLS towards members: it trusts only `ca=`, not the system's authorities.
fn tls(address: &Address) -> Result<ClientConfig, StoreError> {
    let wrong = |error: rustls::Error| StoreError::NotUsable(format!("TLS towards etcd: {error}"));
    let certificates = |file: &Path| {
        let pem = files::read(file, FILE_BYTES_MAX).map_err(|error| unreadable(file, &error))?;
        CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unreadable(file, &error))
    };
    let mut roots = RootCertStore::empty();
    for certificate in address.ca.as_deref().map(certificates).transpose()?.into_iter().flatten() {
        roots.add(certificate).map_err(wrong)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .with_root_certificates(roots);
    let (Some(certificate), Some(file)) = (&address.certificate, &address.key) else {
        return Ok(builder.with_no_client_auth());
    };
    let pem = files::read(file, FILE_BYTES_MAX).map_err(|error| unreadable(file, &error))?;
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| unreadable(file, &error))?;
    builder.with_client_auth_cert(certificates(certificate)?, key).map_err(wrong)
}
