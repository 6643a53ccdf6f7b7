//! A client of the operator's API, for the command line.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tls::client::Trust;

/// Response timeout. Replaying a day of decisions takes longest.
const PATIENCE: Duration = Duration::from_secs(600);

/// A token file has 64 hex digits and a line end.
const TOKEN_BYTES_MAX: u32 = 1024;

/// A client of a gateway.
pub struct ApiClient {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
}

/// An operator's credentials, and the authority that they trust.
#[derive(Clone, Debug, Default)]
pub struct OperatorAccess {
    /// The file with their token.
    pub token_file: Option<PathBuf>,
    /// The files with their certificate and its key. Without a token, they authenticate the operator.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The file with the authority of the gateway's certificate; without it, the system's authorities are trusted.
    pub authority: Option<PathBuf>,
}

/// Why a request failed, as a sentence for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The address or the credentials cannot be used.
    #[error("{0}")]
    Usage(String),
    /// The gateway cannot be reached, or refused the request.
    #[error("{0}")]
    Failed(String),
}

impl ApiClient {
    /// A client of the gateway with the admin listener at `url`.
    ///
    /// # Errors
    /// If the address or the credentials cannot be used.
    pub fn new(url: &str, access: &OperatorAccess) -> Result<Self, ClientError> {
        let url = url.trim_end_matches('/').to_owned();
        let is_tls = url.starts_with("https://");
        if !is_tls && !url.starts_with("http://") {
            return Err(ClientError::Usage(format!(
                "{url:?} is not the address of a gateway's admin listener, such as http://127.0.0.1:8701"
            )));
        }
        if !is_tls && (access.certificate.is_some() || access.authority.is_some()) {
            return Err(ClientError::Usage(format!(
                "client certificates need TLS, and {url} is plain HTTP: use an address that begins with https://"
            )));
        }
        let token = access.token_file.as_deref().map(read_token).transpose()?;
        let http = if is_tls { over_tls(access)? } else { plain_http().map_err(broken)? };
        Ok(Self { http, url, token })
    }

    /// Sends a GET and returns the answer.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Value, ClientError> {
        self.ask(self.http.get(format!("{}{path}", self.url)).query(query)).await
    }

    /// Sends a POST and returns the answer.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.ask(self.http.post(format!("{}{path}", self.url)).json(body)).await
    }

    /// Sends a PUT and returns the answer.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.ask(self.http.put(format!("{}{path}", self.url)).json(body)).await
    }

    async fn ask(&self, request: reqwest::RequestBuilder) -> Result<Value, ClientError> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let sent = request.send().await;
        let answer = sent.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
        let value: Option<Value> = serde_json::from_slice(&body).ok();
        if status.is_success() {
            let no_json = || {
                ClientError::Failed(format!(
                    "{} did not answer in JSON: is it a gateway's admin listener?",
                    self.url
                ))
            };
            return value.ok_or_else(no_json);
        }
        let said = value.as_ref().and_then(|value| value["error"].as_str());
        Err(ClientError::Failed(match said {
            Some(said) => said.to_owned(),
            None => format!("{} answered {status}: {}", self.url, words_of(&body)),
        }))
    }

    fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        // The innermost error is the cause; the outer ones repeat the address.
        let mut reason: &dyn std::error::Error = error;
        while let Some(source) = reason.source() {
            reason = source;
        }
        let reason = reason.to_string();
        let advice = match &reason {
            text if text.contains("UnknownIssuer") => {
                "its certificate is of an authority that you do not trust: name that with --ca"
            }
            text if text.contains("InvalidContentType") => {
                "it does not speak HTTPS there: begin its address with http://"
            }
            _ => "name its admin listener with --admin",
        };
        ClientError::Failed(format!(
            "cannot reach the gateway at {}: {reason} ({advice})",
            self.url
        ))
    }
}

/// Longest line of another server's answer that is shown.
const LINE_CHARS_MAX: usize = 200;

/// The text of an answer that is not from the operator's API: its first line if it is text, otherwise a question.
fn words_of(body: &[u8]) -> String {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default().trim();
    let is_words = !line.is_empty() && !line.starts_with(['<', '{']);
    if !is_words {
        return "is it a gateway's admin listener? Name that with --admin".to_owned();
    }
    line.chars().filter(|one| !one.is_control()).take(LINE_CHARS_MAX).collect()
}

fn broken(error: reqwest::Error) -> ClientError {
    ClientError::Failed(error.to_string())
}

fn read_token(file: &Path) -> Result<String, ClientError> {
    let token = files::read_text(file, TOKEN_BYTES_MAX).map_err(|error| {
        let file = file.display();
        ClientError::Usage(format!(
            "cannot read an operator's token from {file}: {error} (name its file with --token-file, or the gateway's folder with --state)"
        ))
    })?;
    let token = token.trim().to_owned();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ClientError::Usage(format!("{} contains no token", file.display())));
    }
    Ok(token)
}

/// An HTTPS client for an admin listener.
fn over_tls(access: &OperatorAccess) -> Result<reqwest::Client, ClientError> {
    let trust = access.authority.clone().map_or(Trust::System, Trust::File);
    let config = tls::client_config(&trust, access.certificate.as_ref());
    let config = config.map_err(|error| ClientError::Usage(error.to_string()))?;
    over(config).map_err(broken)
}

fn over(tls: rustls::ClientConfig) -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().use_preconfigured_tls(tls).timeout(PATIENCE).no_proxy().build()
}

/// A plain HTTP client for an admin listener on loopback. It trusts no certificates, but the library requires a TLS configuration anyway.
///
/// # Errors
/// If it cannot be created.
pub fn plain_http() -> reqwest::Result<reqwest::Client> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for them")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    over(tls)
}
