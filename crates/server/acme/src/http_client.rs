//! Connects the ACME client to its authority, with the HTTP client that this program already uses.

use crate::chain::{ChainAnswer, alternates};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LINK, RETRY_AFTER};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// The timeout for each attempt to connect.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The timeout for a whole answer. Authorities answer within a second or two, and announce it if something takes longer.
const ANSWER_MAX: Duration = Duration::from_secs(45);

/// The longest answer. A chain has a few KB.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Data of the authority's last answer besides its body.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastAnswer {
    pub(crate) status: u16,
    /// The seconds to wait.
    pub(crate) retry_after: Option<u64>,
}

/// A client of one authority.
#[derive(Clone)]
pub(crate) struct AcmeHttp {
    client: Client,
    last: Arc<Mutex<LastAnswer>>,
    last_chain: Arc<Mutex<Option<ChainAnswer>>>,
}

impl AcmeHttp {
    /// Trusts the CA certificates in the file `roots`, or the system's.
    ///
    /// # Errors
    /// If that file cannot be read.
    pub(crate) fn new(directory: &str, roots: Option<&Path>) -> Result<Self, String> {
        let roots = roots.map(|path| path.to_str().ok_or("tls.acme.roots is not valid UTF-8"));
        let client = outbound::client(roots.transpose()?)?
            .https_only(directory.starts_with("https:"))
            .connect_timeout(CONNECT_MAX)
            .timeout(ANSWER_MAX)
            .no_proxy()
            .build()
            .map_err(|error| outbound::with_causes(&error))?;
        Ok(Self { client, last: Arc::default(), last_chain: Arc::default() })
    }

    /// The data of the last answer; empty if there was none since the last call.
    pub(crate) fn take_last(&self) -> LastAnswer {
        std::mem::take(&mut *self.last.lock().expect("no holder of this lock can panic"))
    }

    fn note(&self, last: LastAnswer) {
        *self.last.lock().expect("no holder of this lock can panic") = last;
    }

    /// The last chain from the authority, once.
    pub(crate) fn take_chain(&self) -> Option<ChainAnswer> {
        self.last_chain.lock().expect("no holder of this lock can panic").take()
    }

    fn note_chain(&self, answer: ChainAnswer) {
        *self.last_chain.lock().expect("no holder of this lock can panic") = Some(answer);
    }

    async fn ask(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        self.note(LastAnswer::default());
        let (parts, body) = request.into_parts();
        let Ok(body) = body.collect().await;
        let request = Request::from_parts(parts, body.to_bytes());
        let request = reqwest::Request::try_from(request).map_err(other)?;
        let mut answer = self.client.execute(request).await.map_err(other)?;
        self.note(LastAnswer {
            status: answer.status().as_u16(),
            retry_after: retry_after(answer.headers(), SystemTime::now()),
        });
        let mut response = Response::new(());
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(other)? {
            if text.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(Error::Str("an answer of a reasonable length"));
            }
            text.extend_from_slice(&chunk);
        }
        if is_chain(answer.headers()) && answer.status().is_success() {
            let chain = String::from_utf8_lossy(&text).into_owned();
            self.note_chain(ChainAnswer { chain, alternates: alternates_of(&answer) });
        }
        Ok(BytesResponse { parts: response.into_parts().0, body: Box::new(Bytes::from(text)) })
    }
}

impl HttpClient for AcmeHttp {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(self.clone().ask(request))
    }
}

/// Whether an answer is a chain of certificates (RFC 8555 section 9.1).
fn is_chain(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/pem-certificate-chain"))
}

/// The URLs of other chains for the same certificate.
fn alternates_of(answer: &reqwest::Response) -> Vec<String> {
    let links = answer.headers().get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    let addresses = links.flat_map(alternates);
    addresses.filter_map(|address| Some(answer.url().join(address).ok()?.into())).collect()
}

fn other(error: reqwest::Error) -> Error {
    Error::Other(outbound::with_causes(&error).into())
}

/// Seconds until the time in `Retry-After` (RFC 9110 section 10.2.3).
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(seconds);
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default().as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_to_wait_is_said_in_seconds_or_as_a_date() {
        let of = |value: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            retry_after(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777))
        };
        assert_eq!(of("120"), Some(120));
        assert_eq!(of("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60));
        assert_eq!(of("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        assert_eq!((of("soon"), of("-1"), of("")), (None, None, None));
    }
}
