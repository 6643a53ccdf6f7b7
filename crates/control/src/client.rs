//! A client of the operator's API, for commands.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

/// How long a gateway may take for an answer. Replaying a day of decisions takes longest.
const PATIENCE: Duration = Duration::from_secs(600);

/// A token file has 64 digits and the end of its line.
const TOKEN_BYTES_MAX: u32 = 1024;

/// Asks a gateway.
pub struct ApiClient {
    http: reqwest::Client,
    url: String,
    token: String,
}

/// Why there is no answer, as a sentence for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// What the operator gave cannot be used.
    Usage(String),
    /// The gateway cannot be reached, or said no.
    Failed(String),
}

impl Display for ClientError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ClientError {}

impl ApiClient {
    /// A client of the gateway whose admin listener is at `url`, with the token in `token_file`.
    ///
    /// # Errors
    /// If either cannot be used.
    pub fn new(url: &str, token_file: &Path) -> Result<Self, ClientError> {
        let usage = |text: String| Err(ClientError::Usage(text));
        let url = url.trim_end_matches('/').to_owned();
        if !url.starts_with("http://") {
            return usage(format!(
                "{url:?} is not the address of a gateway's admin listener, such as http://127.0.0.1:8701"
            ));
        }
        let token = match smallfile::read_text(token_file, TOKEN_BYTES_MAX) {
            Ok(token) => token.trim().to_owned(),
            Err(error) => {
                let file = token_file.display();
                return usage(format!(
                    "cannot read an operator's token from {file}: {error} (name its file with --token-file)"
                ));
            }
        };
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return usage(format!("{} holds no token", token_file.display()));
        }
        let http = plain_http().map_err(|error| ClientError::Failed(error.to_string()))?;
        Ok(Self { http, url, token })
    }

    /// The answer to a GET.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Value, ClientError> {
        self.ask(self.http.get(format!("{}{path}", self.url)).query(query)).await
    }

    /// The answer to a POST.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.ask(self.http.post(format!("{}{path}", self.url)).json(body)).await
    }

    /// The answer to a PUT.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.ask(self.http.put(format!("{}{path}", self.url)).json(body)).await
    }

    async fn ask(&self, request: reqwest::RequestBuilder) -> Result<Value, ClientError> {
        let sent = request.bearer_auth(&self.token).send().await;
        let answer = sent.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
        let value: Option<Value> = serde_json::from_slice(&body).ok();
        if status.is_success() {
            let no_json = || {
                ClientError::Failed(format!(
                    "{} answered without JSON: is it a gateway's admin listener?",
                    self.url
                ))
            };
            return value.ok_or_else(no_json);
        }
        let said = value.as_ref().and_then(|value| value["error"].as_str());
        Err(ClientError::Failed(match said {
            Some(said) => said.to_owned(),
            None => format!("{} answered {status}", self.url),
        }))
    }

    fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        // The innermost reason says what happened; the others repeat the address.
        let mut reason: &dyn std::error::Error = error;
        while let Some(source) = reason.source() {
            reason = source;
        }
        ClientError::Failed(format!(
            "cannot reach the gateway at {}: {reason} (name its admin listener with --admin)",
            self.url
        ))
    }
}

/// What speaks HTTP to an admin listener. It is plain HTTP on loopback, so it trusts no certificates; the library wants a configuration all the same.
///
/// # Errors
/// If it cannot be made.
pub fn plain_http() -> reqwest::Result<reqwest::Client> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for them")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().use_preconfigured_tls(tls).timeout(PATIENCE).no_proxy().build()
}
