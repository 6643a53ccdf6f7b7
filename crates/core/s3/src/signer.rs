//! Signed URLs (AWS Signature Version 4). A signed URL works for anyone for a quarter of an hour, so none is ever logged.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::Url;
use rusty_s3::{Bucket, Credentials, Map, Method};

use crate::S3Error;
use crate::address::{Address, is_amazons};
use crate::credentials::credentials;

/// How long a signed URL is valid: longer than any request takes, and than clocks usually differ.
const SIGNED_FOR: Duration = Duration::from_secs(900);

/// A folder in a bucket, and the credentials.
pub struct S3Signer {
    bucket: Bucket,
    prefix: String,
    credentials: RwLock<Option<Arc<Credentials>>>,
}

/// Credentials that end, such as those of a machine's role.
pub struct TemporaryCredentials {
    /// The access key's identifier.
    pub key: String,
    /// The secret.
    pub secret: String,
    /// The session's token.
    pub token: String,
    /// When they end (RFC 3339).
    pub expiration: String,
}

/// A variable of the environment, unless it is empty.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The URL of the bucket at `address`. Does not read credentials.
///
/// # Errors
/// If it is not the address of a bucket.
pub fn bucket_url(address: &str) -> Result<Url, S3Error> {
    Ok(Address::parse(address, environment)?.bucket.base_url().clone())
}

impl S3Signer {
    /// Opens the folder at `address`; [`S3Bucket::open`](crate::S3Bucket::open) describes the form.
    ///
    /// # Errors
    /// If the address is invalid, or the credentials cannot be read.
    pub fn open(address: &str) -> Result<Self, S3Error> {
        Self::open_with(address, environment)
    }

    pub(crate) fn open_with(
        address: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, S3Error> {
        let Address { bucket, prefix } = Address::parse(address, &variable)?;
        let credentials = credentials(&variable)
            .map_err(|why| S3Error::Refused(format!("{address}: no credentials: {why}")))?;
        Ok(Self { bucket, prefix, credentials: RwLock::new(credentials.map(Arc::new)) })
    }

    /// Signs later requests with `temporary` credentials. Returns how long they are valid; if that can't be read, nothing has changed.
    pub fn adopt(&self, temporary: TemporaryCredentials) -> Option<Duration> {
        let TemporaryCredentials { key, secret, token, expiration } = temporary;
        let expiration: Timestamp = expiration.parse().ok()?;
        let left = u64::try_from(expiration.as_second() - Timestamp::now().as_second());
        let adopted = Arc::new(Credentials::new_with_token(key, secret, token));
        *self.credentials.write().expect("no holder of this lock can panic") = Some(adopted);
        Some(Duration::from_secs(left.unwrap_or(0)))
    }

    fn credentials(&self) -> Option<Arc<Credentials>> {
        self.credentials.read().expect("no holder of this lock can panic").clone()
    }

    /// The signed URL to read the object `key`. `None` if the name is invalid.
    pub fn get(&self, key: &str) -> Option<Url> {
        self.sign(Method::Get, key, &[], &[])
    }

    /// The signed URL of a request. `query` is sorted by name. `headers` are sent with it, in lower case and sorted.
    pub(crate) fn sign(
        &self,
        method: Method,
        key: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Option<Url> {
        let object = format!("{}{key}", self.prefix);
        // Joining these to the bucket's URL would resolve them, or lead to another host.
        let is_odd =
            object.starts_with('/') || object.split('/').any(|part| matches!(part, "." | ".."));
        let url = self.bucket.object_url(&object).ok().filter(|_| !is_odd && !key.is_empty())?;
        Some(self.signed(method, url, query, headers))
    }

    /// The URL of a request about the bucket itself.
    pub(crate) fn sign_bucket(&self, query: &[(&str, &str)]) -> Url {
        self.signed(Method::Get, self.bucket.base_url().clone(), query, &[])
    }

    fn signed(
        &self,
        method: Method,
        mut url: Url,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Url {
        let map = |pairs: &[(&str, &str)]| {
            let mut map = Map::new();
            pairs
                .iter()
                .for_each(|(name, value)| map.insert((*name).to_owned(), (*value).to_owned()));
            map
        };
        let (query, headers) = (map(query), map(headers));
        let Some(who) = self.credentials() else {
            if !query.is_empty() {
                url.query_pairs_mut().extend_pairs(query.iter());
            }
            return url;
        };
        rusty_s3::signing::sign(
            &Timestamp::now(),
            method,
            url,
            who.key(),
            who.secret(),
            who.token(),
            self.bucket.region(),
            SIGNED_FOR.as_secs(),
            query.iter(),
            headers.iter(),
        )
    }

    /// The object's name for messages.
    pub(crate) fn name(&self, key: &str) -> String {
        format!("s3://{}/{}{key}", self.bucket.name(), self.prefix)
    }

    /// The object's full name in the bucket.
    pub(crate) fn object(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// The region that requests are signed for.
    pub fn region(&self) -> &str {
        self.bucket.region()
    }

    /// Whether requests are signed at all.
    pub fn has_credentials(&self) -> bool {
        self.credentials().is_some()
    }

    /// Whether the bucket is at Amazon.
    pub fn is_amazons(&self) -> bool {
        is_amazons(self.bucket.base_url().host_str().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_bucket() {
        let signer = S3Signer::open_with("s3://films/hd?endpoint=http://127.0.0.1:1", |_| None);
        let signer = signer.expect("an address");
        assert_eq!(
            signer.get("a//b c").expect("a name").as_str(),
            "http://127.0.0.1:1/films/hd/a//b%20c"
        );
        for odd in ["", "../x", "a/../../x", "a/./b", "."] {
            assert!(signer.get(odd).is_none(), "{odd}");
        }
        let top =
            S3Signer::open_with("s3://films?endpoint=http://127.0.0.1:1", |_| None).expect("one");
        assert!(top.get("/x").is_none() && top.get("//evil/x").is_none());
    }

    #[test]
    fn temporary_credentials_sign_later_requests_and_say_how_long() {
        let signer = S3Signer::open_with("s3://films?endpoint=http://127.0.0.1:1", |_| None)
            .expect("an address");
        let of = |expiration: &str| TemporaryCredentials {
            key: "ASIA1".into(),
            secret: "s".into(),
            token: "t".into(),
            expiration: expiration.into(),
        };
        assert_eq!(signer.adopt(of("tomorrow")), None);
        assert!(!signer.has_credentials() && signer.get("a").expect("a name").query().is_none());
        assert_eq!(signer.adopt(of("2020-12-28T23:10:09Z")), Some(Duration::ZERO));
        assert!(signer.adopt(of("2120-12-28T23:10:09Z")) > Some(Duration::from_secs(3600)));
        let signed = signer.get("a").expect("a name").to_string();
        assert!(signed.contains("ASIA1") && signed.contains("X-Amz-Security-Token=t"), "{signed}");
    }
}
