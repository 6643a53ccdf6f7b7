//! Requests to a bucket.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_LENGTH, ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH, RANGE};
use reqwest::{Client, Response, StatusCode};
use rusty_s3::Method;
use tokio::time::timeout;

use crate::put::{OnlyIf, PutTerms};
use crate::signer::environment;
use crate::{S3Error, S3Refusal, S3Signer};
use outbound::with_causes;

/// A connection without data for this long is dead.
const SILENT_MAX: Duration = Duration::from_secs(20);

/// A link slower than this is of no use for films.
const SENT_PER_SECOND_MIN: u64 = 64 << 10;

/// Pauses before the second try and the third.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// A folder in a bucket.
pub struct S3Bucket {
    pub(crate) http: Client,
    pub(crate) signer: S3Signer,
    /// Whether to use features of newer versions of S3: checksums, and conditional puts. Turned off once the store refuses them.
    takes_extras: AtomicBool,
}

/// A request that may be sent several times.
#[derive(Default)]
pub(crate) struct Ask<'a> {
    pub(crate) key: &'a str,
    /// Sorted by name.
    pub(crate) query: Vec<(&'static str, &'a str)>,
    /// S3's own headers, which must be signed: `x-amz-...`, sorted by name.
    pub(crate) signed: Vec<(&'static str, String)>,
    pub(crate) headers: Vec<(HeaderName, String)>,
    pub(crate) body: Bytes,
}

impl<'a> Ask<'a> {
    pub(crate) fn of(key: &'a str) -> Self {
        Self { key, ..Self::default() }
    }
}

/// The metadata of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Object {
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 given when it was written ([`PutTerms::sha256`]).
    pub sha256: Option<String>,
}

impl S3Bucket {
    /// Opens the folder at `address`: `s3://BUCKET[/PREFIX][?endpoint=URL][&region=REGION]`. Missing parts come from the environment, as
    /// with other clients: `AWS_ENDPOINT_URL`, `AWS_REGION`; credentials from `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and
    /// `AWS_SESSION_TOKEN`, or else from the profile `AWS_PROFILE` of the file `AWS_SHARED_CREDENTIALS_FILE` (`~/.aws/credentials`). Sends
    /// no request yet.
    ///
    /// # Errors
    /// If the address is invalid, or the credentials cannot be read.
    pub fn open(address: &str) -> Result<Self, S3Error> {
        Self::open_with(address, environment)
    }

    /// Like [`open`](Self::open), with other variables than the environment's.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_with(
        address: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, S3Error> {
        let file = variable("SSL_CERT_FILE");
        let signer = S3Signer::open_with(address, variable)?;
        let refused = |why: String| S3Error::Refused(format!("{address}: {why}"));
        let http = outbound::client(file.as_deref()).map_err(refused)?;
        let http = http.connect_timeout(SILENT_MAX).build();
        let http = http.map_err(|error| refused(with_causes(&error)))?;
        Ok(Self { http, signer, takes_extras: AtomicBool::new(true) })
    }

    /// Reads the whole object `key`.
    ///
    /// # Errors
    /// If it is absent, larger than `bytes_max`, or cannot be read.
    pub async fn get(&self, key: &str, bytes_max: usize) -> Result<Bytes, S3Error> {
        self.read(&Ask::of(key), bytes_max).await.map(|(bytes, _)| bytes)
    }

    /// Reads the whole object `key`, with its entity tag if it has one, for [`OnlyIf::Tag`]; `None` if it does not exist.
    ///
    /// # Errors
    /// If it is larger than `bytes_max`, or cannot be read.
    pub async fn get_tagged(
        &self,
        key: &str,
        bytes_max: usize,
    ) -> Result<Option<(Bytes, Option<String>)>, S3Error> {
        match self.read(&Ask::of(key), bytes_max).await {
            Err(S3Error::Absent(_)) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Reads `length` bytes of the object `key` from `first` on; fewer if it ends before.
    ///
    /// # Errors
    /// If it is absent, ends before `first`, or cannot be read.
    pub async fn get_range(&self, key: &str, first: u64, length: usize) -> Result<Bytes, S3Error> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let last = first + length as u64 - 1;
        let headers = vec![(RANGE, format!("bytes={first}-{last}"))];
        let ask = Ask { headers, ..Ask::of(key) };
        self.read(&ask, length).await.map(|(bytes, _)| bytes)
    }

    /// The metadata of the object `key`; `None` if it does not exist.
    ///
    /// # Errors
    /// If S3 does not return it.
    pub async fn look(&self, key: &str) -> Result<Option<S3Object>, S3Error> {
        let response = match self.ask(Method::Head, &Ask::of(key)).await {
            Err(S3Error::Absent(_)) => return Ok(None),
            response => response?,
        };
        let length = text(&response, CONTENT_LENGTH).and_then(|value| value.parse().ok());
        let bytes = length.ok_or_else(|| self.unavailable(key, "it does not say its size"))?;
        let sha256 = text(&response, HeaderName::from_static(SHA256_META));
        Ok(Some(S3Object { bytes, sha256 }))
    }

    /// The length of the object `key`; `None` if it does not exist.
    ///
    /// # Errors
    /// If S3 does not return it.
    pub async fn size(&self, key: &str) -> Result<Option<u64>, S3Error> {
        Ok(self.look(key).await?.map(|object| object.bytes))
    }

    /// Writes the object `key`, replacing an existing one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn put(&self, key: &str, bytes: Bytes) -> Result<(), S3Error> {
        self.put_with(key, bytes, &PutTerms::default()).await
    }

    /// Writes the object `key` with these `terms`. A store that reports that it does not support checksums or conditions gets the bytes
    /// without them.
    ///
    /// # Errors
    /// If it cannot be written; [`S3Error::Changed`] if the terms' condition does not hold.
    pub async fn put_with(&self, key: &str, bytes: Bytes, terms: &PutTerms) -> Result<(), S3Error> {
        let has_extras = self.takes_extras.load(Ordering::Relaxed);
        match self.put_once(key, bytes.clone(), terms, has_extras).await {
            Err(S3Error::Unsupported(_)) if has_extras => {
                self.takes_extras.store(false, Ordering::Relaxed);
                self.put_once(key, bytes, terms, false).await
            }
            done => done,
        }
    }

    async fn put_once(
        &self,
        key: &str,
        body: Bytes,
        terms: &PutTerms,
        has_extras: bool,
    ) -> Result<(), S3Error> {
        let mut headers = terms.headers();
        match &terms.only_if {
            OnlyIf::Absent if has_extras => headers.push((IF_NONE_MATCH, "*".to_owned())),
            OnlyIf::Tag(tag) if has_extras => headers.push((IF_MATCH, tag.clone())),
            _ => {}
        }
        let ask = Ask { signed: terms.signed(has_extras), headers, body, ..Ask::of(key) };
        self.ask(Method::Put, &ask).await.map(|_| ())
    }

    /// Removes the object `key`. If there is none, some servers report that ([`S3Error::Absent`]), others do not.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub async fn delete(&self, key: &str) -> Result<(), S3Error> {
        self.ask(Method::Delete, &Ask::of(key)).await.map(|_| ())
    }

    /// Reads an answer to its end. A connection that breaks in the middle is a reason to retry.
    async fn read(
        &self,
        ask: &Ask<'_>,
        bytes_max: usize,
    ) -> Result<(Bytes, Option<String>), S3Error> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let response = self.ask(Method::Get, ask).await?;
            let tag = text(&response, ETAG);
            let error = match body(response, bytes_max).await {
                Ok(Some(bytes)) => return Ok((bytes, tag)),
                Ok(None) => {
                    let name = self.signer.name(ask.key);
                    let text = format!("{name}: it has more than {bytes_max} bytes");
                    return Err(S3Error::TooLarge(text));
                }
                Err(why) => self.unavailable(ask.key, &why),
            };
            let Some(pause) = pauses.next() else { return Err(error) };
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends a request until there is a usable answer, three times at most.
    pub(crate) async fn ask(&self, method: Method, ask: &Ask<'_>) -> Result<Response, S3Error> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let error = match self.once(method, ask).await {
                Ok(response) => return Ok(response),
                Err(error @ S3Error::Unavailable(_)) => error,
                Err(error) => return Err(error),
            };
            let Some(pause) = pauses.next() else { return Err(error) };
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(&self, method: Method, ask: &Ask<'_>) -> Result<Response, S3Error> {
        let signed: Vec<_> =
            ask.signed.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let url = match ask.key {
            "" => Some(self.signer.sign_bucket(&ask.query)),
            key => self.signer.sign(method, key, &ask.query, &signed),
        };
        let url = url.ok_or_else(|| {
            S3Error::Refused(format!("{}: no object can have that name", self.signer.name(ask.key)))
        })?;
        let verb = match method {
            Method::Get => reqwest::Method::GET,
            Method::Head => reqwest::Method::HEAD,
            Method::Put => reqwest::Method::PUT,
            Method::Post => reqwest::Method::POST,
            Method::Delete => reqwest::Method::DELETE,
        };
        let mut request = self.http.request(verb, url);
        for (name, value) in signed {
            request = request.header(name, value);
        }
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        if matches!(method, Method::Put | Method::Post) {
            request = request.body(ask.body.clone());
        }
        let patience = Duration::from_secs(ask.body.len() as u64 / SENT_PER_SECOND_MIN);
        let response = timeout(SILENT_MAX + patience, request.send()).await;
        let response = response.map_err(|_| self.unavailable(ask.key, "no answer in time"))?;
        // Without its URL: that contains the signature, which is as good as the key for a quarter of an hour.
        let response = response
            .map_err(|error| self.unavailable(ask.key, &with_causes(&error.without_url())))?;
        self.judge(ask, response).await
    }

    async fn judge(&self, ask: &Ask<'_>, response: Response) -> Result<Response, S3Error> {
        let status = response.status();
        let is_part = ask.headers.iter().any(|(name, _)| name == RANGE);
        if is_part && status == StatusCode::OK {
            return Err(S3Error::Refused(format!(
                "{}: the server sends all of it, not the requested part",
                self.signer.name(ask.key)
            )));
        }
        if status.is_success() {
            return Ok(response);
        }
        let refusal = S3Refusal::read(response).await;
        Err(refusal.error(&self.signer.name(ask.key), &self.signer))
    }

    pub(crate) fn unavailable(&self, key: &str, why: &str) -> S3Error {
        S3Error::Unavailable(format!("{}: {why}", self.signer.name(key)))
    }
}

/// The metadata field with an object's SHA-256, in hexadecimal digits.
pub(crate) const SHA256_META: &str = "x-amz-meta-sha256";

/// A header field of an answer.
pub(crate) fn text(response: &Response, name: HeaderName) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// The body, or `None` if it is larger than `bytes_max`.
pub(crate) async fn body(
    mut response: Response,
    bytes_max: usize,
) -> Result<Option<Bytes>, String> {
    let mut bytes = BytesMut::new();
    loop {
        let chunk = timeout(SILENT_MAX, response.chunk()).await;
        let chunk = chunk.map_err(|_| "it stopped sending".to_owned())?;
        let chunk = chunk.map_err(|error| with_causes(&error.without_url()))?;
        let Some(chunk) = chunk else { return Ok(Some(bytes.freeze())) };
        if bytes.len() + chunk.len() > bytes_max {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
}

#[cfg(test)]
#[path = "../tests/s3_server/mod.rs"]
#[allow(dead_code, reason = "the tests in tests/ use the rest")]
mod s3_server;

#[cfg(test)]
mod tests {
    use super::s3_server::S3Server;
    use super::*;
    use std::net::TcpListener;

    #[tokio::test]
    async fn a_server_that_wants_the_bucket_in_its_host_name_takes_signed_requests() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its own address");
        let domain = format!("s3.example:{}", address.port());
        let server = S3Server::start_at(listener, folder.path(), Some(&domain)).await;
        let place = |style| format!("s3://films/hd?endpoint=http://{domain}{style}");
        let open = |address: &str| S3Bucket::open_with(address, |name| server.variable(name));
        let mut bucket = open(&place("&addressing_style=virtual")).expect("an address");
        // The name is in no DNS.
        let http = outbound::client(None).expect("a client").no_proxy();
        let http = http.resolve("films.s3.example", address);
        bucket.http = http.build().expect("a client");
        bucket.put("a b", Bytes::from_static(b"film")).await.expect("written");
        assert_eq!(std::fs::read(folder.path().join("films/hd/a b")).expect("there"), b"film");
        assert_eq!(bucket.get("a b", 10).await, Ok(Bytes::from_static(b"film")));
    }
}
