//! A client of gateways: HTTP over mutual TLS, with a limit on every wait and on every answer.

use std::error::Error;
use std::time::Duration;

use data_encoding::HEXLOWER_PERMISSIVE;
use fleet_protocol::{Digest, Signed};
use identity::{Credentials, client_config, joining_config};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use rustls::ClientConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The connect timeout, which includes the TLS handshake: as long as a heartbeat may take, so that no shorter limit ends the handshake each time. It
/// also leaves time for a second retransmission of a lost SYN, which Linux sends after 3 s.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The largest answer: a snapshot of a large fleet has tens of megabytes.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// The largest JSON answer: a cluster's list of titles to hold.
const JSON_BYTES_MAX: usize = 128 << 20;

/// The header with a snapshot's signature.
const SIGNATURE: &str = "fullbore-signature";

/// A client of gateways. Its connections stay open.
#[derive(Clone, Debug)]
pub(crate) struct Gateway(Client);

/// Why a request to a gateway failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    /// The gateway refused it.
    #[error("{text}")]
    Refused {
        /// The reason, as a word.
        reason: String,
        /// The reason, as a sentence.
        text: String,
    },
    /// The gateway could not be reached, or its answer cannot be used.
    #[error("{0}")]
    Failed(String),
}

/// The body of a refusal.
#[derive(serde::Deserialize)]
struct RefusalBody {
    error: String,
    reason: String,
}

impl From<reqwest::Error> for Trouble {
    fn from(error: reqwest::Error) -> Self {
        Self::Failed(words(&error))
    }
}

impl From<rustls::Error> for Trouble {
    fn from(error: rustls::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The innermost cause, which is the one that an operator can do something about.
fn words(error: &reqwest::Error) -> String {
    let mut inner: &dyn Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    let text = inner.to_string();
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let advice = [
        (
            "InvalidContentType",
            "it does not speak HTTPS there: use the gateway's port for nodes, 8702 unless its --machines says otherwise",
        ),
        (
            "OtherFleet",
            "this is not a gateway of the fleet that the invitation names: compare the gateway's address and the token",
        ),
        ("UnknownIssuer", "it is a gateway of another fleet"),
        ("BadSignature", "it is a gateway of another fleet"),
        ("Expired", "its certificate has expired by this box's clock: check the clock"),
        ("NotValidYet", "its certificate is not valid yet by this box's clock: check the clock"),
    ];
    let known = advice.into_iter().find(|(word, _)| text.contains(word));
    known.map_or(text, |(_, advice)| advice.to_owned())
}

impl Gateway {
    /// For a box that knows only its fleet's fingerprint.
    pub(crate) fn for_joining(fingerprint: Digest) -> Result<Self, Trouble> {
        Self::with(joining_config(fingerprint)?)
    }

    /// For a node.
    pub(crate) fn for_node(credentials: &Credentials) -> Result<Self, Trouble> {
        Self::with(client_config(credentials)?)
    }

    fn with(tls: ClientConfig) -> Result<Self, Trouble> {
        let client = Client::builder()
            .use_preconfigured_tls(tls)
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_MAX)
            .pool_max_idle_per_host(2)
            .build()?;
        Ok(Self(client))
    }

    fn path(address: &str, what: &str) -> String {
        format!("{}/machine/v1/{what}", address.trim_end_matches('/'))
    }

    /// Sends JSON, and reads a JSON answer.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        address: &str,
        what: &str,
        body: &impl Serialize,
        time_max: Duration,
    ) -> Result<T, Trouble> {
        let request = self.0.post(Self::path(address, what)).json(body);
        json(send(request, time_max).await?).await
    }

    /// Sends JSON, and ignores the body of the answer.
    pub(crate) async fn put(
        &self,
        address: &str,
        what: &str,
        body: Vec<u8>,
        time_max: Duration,
    ) -> Result<(), Trouble> {
        let request = self.0.put(Self::path(address, what)).body(body);
        send(request, time_max).await.map(drop)
    }

    /// Reads JSON.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        address: &str,
        what: &str,
        time_max: Duration,
    ) -> Result<T, Trouble> {
        json(send(self.0.get(Self::path(address, what)), time_max).await?).await
    }

    /// Reads a title's document.
    pub(crate) async fn document(
        &self,
        address: &str,
        digest: &Digest,
        time_max: Duration,
    ) -> Result<Vec<u8>, Trouble> {
        let request = self.0.get(Self::path(address, &format!("document/{digest}")));
        read(send(request, time_max).await?, ANSWER_BYTES_MAX).await
    }

    /// Reads the newest snapshot. The caller checks its signature.
    pub(crate) async fn snapshot(
        &self,
        address: &str,
        time_max: Duration,
    ) -> Result<Signed, Trouble> {
        let response = send(self.0.get(Self::path(address, "snapshot")), time_max).await?;
        let signature = response.headers().get(SIGNATURE).and_then(|text| text.to_str().ok());
        let signature = signature
            .and_then(|text| HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok())
            .ok_or_else(|| Trouble::Failed("its snapshot has no signature".to_owned()))?;
        let bytes = read(response, ANSWER_BYTES_MAX).await?;
        Ok(Signed { bytes, signature })
    }
}

async fn send(request: RequestBuilder, time_max: Duration) -> Result<Response, Trouble> {
    let response = request.timeout(time_max).send().await?;
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status();
    let told = read(response, 64 << 10).await?;
    match serde_json::from_slice::<RefusalBody>(&told) {
        Ok(RefusalBody { error, reason }) => Err(Trouble::Refused { reason, text: error }),
        Err(_) => Err(Trouble::Failed(format!("it answered {status}"))),
    }
}

async fn json<T: DeserializeOwned>(response: Response) -> Result<T, Trouble> {
    let bytes = read(response, JSON_BYTES_MAX).await?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Trouble::Failed(format!("cannot read its answer: {error}")))
}

async fn read(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > bytes_max {
            return Err(Trouble::Failed(format!("its answer has more than {bytes_max} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
