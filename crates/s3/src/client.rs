//! Requests to a bucket.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::RANGE;
use reqwest::{Client, Method, Response, StatusCode};
use rusty_s3::{Bucket, Credentials, S3Action};

use crate::address::{Address, credentials};
use crate::{S3Error, outbound, with_causes};

/// How long a signed address works: longer than any try takes, and than clocks usually differ.
const SIGNED_FOR: Duration = Duration::from_secs(900);

/// No bytes for so long: the connection is dead.
const SILENT_MAX: Duration = Duration::from_secs(20);

/// Pauses before the second try and the third.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// A folder in a bucket.
pub struct S3Bucket {
    http: Client,
    bucket: Bucket,
    prefix: String,
    credentials: Option<Credentials>,
}

/// What is asked of an object.
#[derive(Clone)]
enum Task {
    Get { first: u64, last: Option<u64> },
    Head,
    Put(Bytes),
    Delete,
}

impl S3Bucket {
    /// The folder that `address` names: `s3://BUCKET[/PREFIX][?endpoint=URL][&region=REGION]`. What it does not say comes from the environment,
    /// as with other clients: `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`.
    /// Nothing is asked of the server yet.
    ///
    /// # Errors
    /// If it is not such an address.
    pub fn open(address: &str) -> Result<Self, S3Error> {
        Self::open_with(address, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// As [`open`](Self::open), with other variables than the environment's.
    ///
    /// # Errors
    /// If it is not such an address.
    pub fn open_with(
        address: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, S3Error> {
        let credentials = credentials(&variable);
        let Address { bucket, prefix } = Address::parse(address, &variable)?;
        let file = variable("SSL_CERT_FILE");
        let refused = |why: String| S3Error::Refused(format!("{address}: {why}"));
        let http = outbound(file.as_deref()).map_err(refused)?;
        let http = http.connect_timeout(SILENT_MAX).read_timeout(SILENT_MAX).build();
        let http = http.map_err(|error| refused(with_causes(&error)))?;
        Ok(Self { http, bucket, prefix, credentials })
    }

    /// All of the object `key`.
    ///
    /// # Errors
    /// If it is absent, larger than `bytes_max`, or cannot be read.
    pub async fn get(&self, key: &str, bytes_max: usize) -> Result<Bytes, S3Error> {
        self.read(key, Task::Get { first: 0, last: None }, bytes_max).await
    }

    /// `length` bytes of the object `key` from `first` on; fewer where it ends.
    ///
    /// # Errors
    /// If it is absent, ends before `first`, or cannot be read.
    pub async fn get_range(&self, key: &str, first: u64, length: usize) -> Result<Bytes, S3Error> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let last = Some(first + length as u64 - 1);
        self.read(key, Task::Get { first, last }, length).await
    }

    /// How many bytes the object `key` has; `None` if it is not there.
    ///
    /// # Errors
    /// If S3 does not say.
    pub async fn size(&self, key: &str) -> Result<Option<u64>, S3Error> {
        match self.ask(key, &Task::Head).await {
            Ok(response) => {
                let length = response.headers().get("content-length");
                let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
                length.map(Some).ok_or_else(|| self.unavailable(key, "it does not say its size"))
            }
            Err(S3Error::Absent(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the object `key`, in place of the one that is there.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn put(&self, key: &str, bytes: Bytes) -> Result<(), S3Error> {
        self.ask(key, &Task::Put(bytes)).await.map(|_| ())
    }

    /// Removes the object `key`. Some servers say so if there is none ([`S3Error::Absent`]), others do not.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub async fn delete(&self, key: &str) -> Result<(), S3Error> {
        self.ask(key, &Task::Delete).await.map(|_| ())
    }

    /// Reads an answer to its end. A connection that breaks in the middle is a reason to try again.
    async fn read(&self, key: &str, task: Task, bytes_max: usize) -> Result<Bytes, S3Error> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let response = self.ask(key, &task).await?;
            let error = match body(response, bytes_max).await {
                Ok(Some(bytes)) => return Ok(bytes),
                Ok(None) => {
                    let text = format!("{}: it has more than {bytes_max} bytes", self.name(key));
                    return Err(S3Error::TooLarge(text));
                }
                Err(error) => self.unavailable(key, &with_causes(&error)),
            };
            let Some(pause) = pauses.next() else { return Err(error) };
            tokio::time::sleep(pause).await;
        }
    }

    /// Asks until there is an answer to work with, three times at most.
    async fn ask(&self, key: &str, task: &Task) -> Result<Response, S3Error> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let error = match self.once(key, task).await {
                Ok(response) => return Ok(response),
                Err(error @ S3Error::Unavailable(_)) => error,
                Err(error) => return Err(error),
            };
            let Some(pause) = pauses.next() else { return Err(error) };
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(&self, key: &str, task: &Task) -> Result<Response, S3Error> {
        let object = format!("{}{key}", self.prefix);
        let (bucket, credentials) = (&self.bucket, self.credentials.as_ref());
        let (method, url) = match task {
            Task::Get { .. } => {
                (Method::GET, bucket.get_object(credentials, &object).sign(SIGNED_FOR))
            }
            Task::Head => (Method::HEAD, bucket.head_object(credentials, &object).sign(SIGNED_FOR)),
            Task::Put(_) => (Method::PUT, bucket.put_object(credentials, &object).sign(SIGNED_FOR)),
            Task::Delete => {
                (Method::DELETE, bucket.delete_object(credentials, &object).sign(SIGNED_FOR))
            }
        };
        let mut request = self.http.request(method, url);
        match task {
            Task::Get { first, last: Some(last) } => {
                request = request.header(RANGE, format!("bytes={first}-{last}"));
            }
            Task::Put(bytes) => request = request.body(bytes.clone()),
            _ => {}
        }
        let response = request.send().await;
        // Without its address: that carries the signature, which is as good as the key for a quarter of an hour.
        let response =
            response.map_err(|error| self.unavailable(key, &with_causes(&error.without_url())))?;
        self.judge(key, task, response).await
    }

    async fn judge(&self, key: &str, task: &Task, response: Response) -> Result<Response, S3Error> {
        let status = response.status();
        let is_part = matches!(task, Task::Get { last: Some(_), .. });
        if is_part && status == StatusCode::OK {
            return Err(S3Error::Refused(format!(
                "{}: the server sends all of it, not the part that was asked for",
                self.name(key)
            )));
        }
        if status.is_success() {
            return Ok(response);
        }
        let why = match body(response, 4096).await {
            Ok(Some(text)) => told(&String::from_utf8_lossy(&text)),
            _ => String::new(),
        };
        let text = format!("{}: S3 answers {status}{why}", self.name(key));
        Err(match status {
            StatusCode::NOT_FOUND => S3Error::Absent(text),
            StatusCode::TOO_MANY_REQUESTS => S3Error::Unavailable(text),
            _ if status.is_server_error() => S3Error::Unavailable(text),
            _ => S3Error::Refused(text),
        })
    }

    fn name(&self, key: &str) -> String {
        format!("s3://{}/{}{key}", self.bucket.name(), self.prefix)
    }

    fn unavailable(&self, key: &str, why: &str) -> S3Error {
        S3Error::Unavailable(format!("{}: {why}", self.name(key)))
    }
}

/// The body, or `None` if it is larger than `bytes_max`.
async fn body(mut response: Response, bytes_max: usize) -> Result<Option<Bytes>, reqwest::Error> {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(reqwest::Error::without_url)? {
        if bytes.len() + chunk.len() > bytes_max {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes.freeze()))
}

/// What S3 says of an error, from its XML: `<Code>` and `<Message>`.
fn told(xml: &str) -> String {
    let element = |name: &str| {
        let after = xml.split_once(&format!("<{name}>"))?.1;
        after.split_once("</").map(|(text, _)| text)
    };
    let told = [element("Code"), element("Message")].into_iter().flatten();
    told.map(|text| format!(", {}", text.replace(char::is_control, " "))).collect()
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn what_s3_says_is_told() {
        let xml = "<?xml?><Error><Code>NoSuchKey</Code><Message>There\nis none.</Message></Error>";
        assert_eq!(told(xml), ", NoSuchKey, There is none.");
        assert_eq!(told("<html>"), "");
    }
}
