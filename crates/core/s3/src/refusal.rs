//! Refusals of S3, and what to do about them.

use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::header::{DATE, HeaderMap};
use reqwest::{Response, StatusCode};

use crate::client::body;
use crate::xml::element;
use crate::{S3Error, S3Signer};

/// S3 errors have a few hundred bytes.
const BODY_BYTES_MAX: usize = 16 << 10;

/// S3 refuses requests whose time differs by 15 minutes; a clock that is off by a third of that is worth a warning.
const CLOCK_SECONDS_MAX: u64 = 300;

/// A refusal of S3.
pub struct S3Refusal {
    status: StatusCode,
    code: String,
    message: String,
    /// The region of the bucket, if S3 returns it.
    region: Option<String>,
    /// By how much this machine's clock is ahead of S3's.
    ahead_seconds: i64,
}

impl S3Refusal {
    /// Reads a refusal.
    pub async fn read(response: Response) -> Self {
        let (status, header) = (response.status(), response.headers().clone());
        let text = match body(response, BODY_BYTES_MAX).await {
            Ok(Some(text)) => String::from_utf8_lossy(&text).into_owned(),
            _ => String::new(),
        };
        Self::of(status, &header, &text)
    }

    fn of(status: StatusCode, header: &HeaderMap, xml: &str) -> Self {
        let said = |name: &str| element(xml, name).map(|text| text.replace(char::is_control, " "));
        let named = header.get("x-amz-bucket-region").and_then(|value| value.to_str().ok());
        let region = said("Region").or_else(|| named.map(str::to_owned));
        let is_plain = |text: &String| {
            text.len() <= 40
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        Self {
            status,
            code: said("Code").unwrap_or_default(),
            message: said("Message").unwrap_or_default(),
            region: region.filter(is_plain),
            ahead_seconds: ahead_seconds(header).unwrap_or(0),
        }
    }

    /// Converts it to an error, for a request for `name` signed by `signer`.
    pub(crate) fn error(&self, name: &str, signer: &S3Signer) -> S3Error {
        let text = format!("{name}: {}", self.words(signer));
        match self.code.as_str() {
            "NoSuchBucket" | "QuotaExceeded" => return S3Error::Refused(text),
            "NoSuchUpload" | "InvalidPart" => return S3Error::Absent(text),
            // A body that came too slowly is a 400, and a conflict with another writer a 409.
            "RequestTimeout" | "ConditionalRequestConflict" | "OperationAborted" => {
                return S3Error::Unavailable(text);
            }
            _ => {}
        }
        match self.status.as_u16() {
            404 => S3Error::Absent(text),
            412 => S3Error::Changed(text),
            501 => S3Error::Unsupported(text),
            507 => S3Error::Refused(text),
            429 | 500..=599 => S3Error::Unavailable(text),
            _ => S3Error::Refused(text),
        }
    }

    /// Whether it applies to all objects: the bucket, the credentials, the region or the clock is wrong.
    pub fn is_about_all(&self, signer: &S3Signer) -> bool {
        let codes = [
            "NoSuchBucket",
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "ExpiredToken",
            "InvalidToken",
        ];
        let is_elsewhere = self.region.as_ref().is_some_and(|region| region != signer.region());
        let is_refused = matches!(self.status.as_u16(), 301 | 307 | 400 | 403);
        let is_off = self.ahead_seconds.unsigned_abs() > CLOCK_SECONDS_MAX;
        codes.contains(&self.code.as_str()) || is_refused && (is_elsewhere || is_off)
    }

    /// The refusal, and what to do next.
    pub fn words(&self, signer: &S3Signer) -> String {
        let said = [&self.code, &self.message].into_iter().filter(|text| !text.is_empty());
        let said: String = said.map(|text| format!(", {text}")).collect();
        let advice = self.advice(signer).map(|text| format!(" ({text})")).unwrap_or_default();
        format!("S3 answers {}{said}{advice}", self.status)
    }

    fn advice(&self, signer: &S3Signer) -> Option<String> {
        let (status, code) = (self.status.as_u16(), self.code.as_str());
        let is_refused = matches!(status, 400 | 401 | 403);
        let off_seconds = self.ahead_seconds.unsigned_abs();
        if code == "RequestTimeTooSkewed" || is_refused && off_seconds > CLOCK_SECONDS_MAX {
            let way = if self.ahead_seconds < 0 { "behind" } else { "ahead of" };
            return Some(format!(
                "this machine's clock is {off_seconds} s {way} the store's: set it, and try again"
            ));
        }
        let elsewhere = self.region.as_ref().filter(|region| *region != signer.region());
        if let Some(region) = elsewhere.filter(|_| matches!(status, 301 | 307 | 400 | 403)) {
            return Some(format!(
                "the bucket is in the region {region}: set AWS_REGION={region}, or append ?region={region} to the address"
            ));
        }
        let advice = match (status, code) {
            (_, "NoSuchBucket") => "make the bucket, or correct its name",
            (507, _) | (_, "QuotaExceeded") => {
                "the store is full: make room or raise its quota, and try again"
            }
            (_, "ExpiredToken") => "these credentials have expired: get new ones",
            (_, "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken") => {
                "correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile in ~/.aws/credentials"
            }
            (401 | 403, _) if !signer.has_credentials() => {
                "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them to ~/.aws/credentials"
            }
            (401 | 403, _) => {
                "let these credentials list the bucket and read and write there: s3:ListBucket, s3:GetObject, s3:PutObject"
            }
            (301 | 307, _) => "the bucket is in another region: set AWS_REGION",
            _ => return None,
        };
        Some(advice.to_owned())
    }
}

fn ahead_seconds(header: &HeaderMap) -> Option<i64> {
    let theirs = httpdate::parse_http_date(header.get(DATE)?.to_str().ok()?).ok()?;
    let seconds = |time: SystemTime| Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs() as i64);
    Some(seconds(SystemTime::now())? - seconds(theirs)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn refused(status: u16, ahead_seconds: i64, xml: &str) -> S3Error {
        let is_set = |name: &str| name.starts_with("AWS_") && !name.contains("ENDPOINT");
        let variable = |name: &str| is_set(name).then(|| name.to_owned());
        let signer = S3Signer::open_with("s3://films", variable);
        let mut header = HeaderMap::new();
        let now = SystemTime::now() - Duration::from_secs(ahead_seconds as u64);
        header.insert(DATE, httpdate::fmt_http_date(now).parse().expect("a date"));
        let status = StatusCode::from_u16(status).expect("a status");
        S3Refusal::of(status, &header, xml).error("s3://films/a", &signer.expect("a signer"))
    }

    fn xml(code: &str, more: &str) -> String {
        format!("<?xml?><Error><Code>{code}</Code><Message>So\nit is.</Message>{more}</Error>")
    }

    #[test]
    fn what_s3_says_is_told_with_what_to_do() {
        let table = [
            (403, xml("AccessDenied", ""), "let these credentials list the bucket"),
            (403, String::new(), "let these credentials list the bucket"),
            (404, xml("NoSuchBucket", ""), "make the bucket"),
            (403, xml("SignatureDoesNotMatch", ""), "correct AWS_ACCESS_KEY_ID"),
            (400, xml("ExpiredToken", ""), "get new ones"),
            (403, xml("RequestTimeTooSkewed", ""), "clock is "),
            (
                400,
                xml("AuthorizationHeaderMalformed", "<Region>eu-west-3</Region>"),
                "AWS_REGION=eu-west-3",
            ),
            (301, xml("PermanentRedirect", ""), "another region"),
            (507, xml("XMinioStorageFull", ""), "the store is full"),
            (403, xml("QuotaExceeded", ""), "the store is full"),
        ];
        for (status, xml, advice) in table {
            let error = refused(status, 0, &xml);
            let is_final = matches!(&error, S3Error::Refused(text) if text.contains(advice));
            assert!(is_final && !error.to_string().contains('\n'), "{error}");
        }
        let skewed = refused(403, 4000, &xml("AccessDenied", "")).to_string();
        assert!(skewed.contains("s ahead of the store's: set it"), "{skewed}");
    }

    #[test]
    fn what_may_pass_is_told_apart_from_what_stays() {
        assert!(matches!(refused(503, 0, &xml("SlowDown", "")), S3Error::Unavailable(_)));
        assert!(matches!(refused(404, 0, &xml("NoSuchKey", "")), S3Error::Absent(_)));
        assert!(matches!(refused(404, 0, &xml("NoSuchUpload", "")), S3Error::Absent(_)));
        let busy = refused(409, 0, &xml("ConditionalRequestConflict", ""));
        assert!(matches!(busy, S3Error::Unavailable(_)));
        assert!(matches!(refused(412, 0, &xml("PreconditionFailed", "")), S3Error::Changed(_)));
        assert!(matches!(refused(501, 0, &xml("NotImplemented", "")), S3Error::Unsupported(_)));
        assert!(refused(404, 0, "<html>").to_string().ends_with("S3 answers 404 Not Found"));
    }
}
