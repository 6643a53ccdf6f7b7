//! Objects that are sent in parts: nobody sees them before the last request, and parts that have arrived stay for the next attempt.

use bytes::Bytes;
use reqwest::Response;
use reqwest::header::ETAG;
use rusty_s3::Method;

use crate::client::{Ask, body, text};
use crate::put::PutTerms;
use crate::xml::{element, elements, escaped};
use crate::{S3Bucket, S3Error};

/// Most parts of an object, as S3 bounds it.
pub const PARTS_MAX: u16 = 10_000;

/// A list of 1,000 parts has some 300 kB.
const LIST_BYTES_MAX: usize = 4 << 20;

/// A part that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Part {
    /// From 1 on.
    pub number: u16,
    /// How long it is.
    pub bytes: u64,
    /// What the object is put together by.
    pub tag: String,
}

impl S3Bucket {
    /// Attempts to send the object `key` that are neither finished nor given up, the newest last.
    ///
    /// # Errors
    /// If S3 does not say; [`S3Error::Unsupported`] by stores that keep no list.
    pub async fn uploads(&self, key: &str) -> Result<Vec<String>, S3Error> {
        let object = self.signer.object(key);
        let query = vec![("prefix", object.as_str()), ("uploads", "")];
        let response = self.ask(Method::Get, &Ask { query, ..Ask::default() }).await?;
        let list = self.list(key, response).await?;
        let ours = elements(&list, "Upload").into_iter();
        let ours = ours.filter(|upload| element(upload, "Key").as_ref() == Some(&object));
        Ok(ours.filter_map(|upload| element(upload, "UploadId")).collect())
    }

    /// Begins to send the object `key` in parts. Returns the attempt's name.
    ///
    /// # Errors
    /// If S3 does not take it.
    pub async fn begin_upload(&self, key: &str, terms: &PutTerms) -> Result<String, S3Error> {
        let query = vec![("uploads", "")];
        let signed = terms.signed(false);
        let ask = Ask { query, signed, headers: terms.headers(), ..Ask::of(key) };
        let response = self.ask(Method::Post, &ask).await?;
        let begun = self.list(key, response).await?;
        element(&begun, "UploadId")
            .ok_or_else(|| self.unavailable(key, "S3 does not say how to send it in parts"))
    }

    /// The parts of an attempt that have arrived.
    ///
    /// # Errors
    /// [`S3Error::Absent`] if there is no such attempt any more.
    pub async fn parts(&self, key: &str, upload: &str) -> Result<Vec<S3Part>, S3Error> {
        let (mut parts, mut after) = (Vec::new(), "0".to_owned());
        loop {
            let query = vec![("part-number-marker", after.as_str()), ("uploadId", upload)];
            let response = self.ask(Method::Get, &Ask { query, ..Ask::of(key) }).await?;
            let list = self.list(key, response).await?;
            // One without a tag cannot be put into the object.
            parts.extend(elements(&list, "Part").into_iter().filter_map(part));
            let next = element(&list, "NextPartNumberMarker");
            let is_cut = element(&list, "IsTruncated").as_deref() == Some("true");
            match next.filter(|next| is_cut && *next != after) {
                Some(next) => after = next,
                None => return Ok(parts),
            }
        }
    }

    /// Sends a part, in place of the one that has its number.
    ///
    /// # Errors
    /// [`S3Error::Absent`] if there is no such attempt any more.
    pub async fn put_part(
        &self,
        key: &str,
        upload: &str,
        number: u16,
        body: Bytes,
    ) -> Result<S3Part, S3Error> {
        let (bytes, digits) = (body.len() as u64, number.to_string());
        let query = vec![("partNumber", digits.as_str()), ("uploadId", upload)];
        let response = self.ask(Method::Put, &Ask { query, body, ..Ask::of(key) }).await?;
        let tag = text(&response, ETAG);
        let tag = tag.ok_or_else(|| self.unavailable(key, "S3 gives a part no ETag"))?;
        Ok(S3Part { number, bytes, tag })
    }

    /// Puts the object together: from now on everybody sees it.
    ///
    /// # Errors
    /// [`S3Error::Absent`] if there is no such attempt any more, or a part of it is another one by now.
    pub async fn finish_upload(
        &self,
        key: &str,
        upload: &str,
        parts: &[S3Part],
    ) -> Result<(), S3Error> {
        let part = |part: &S3Part| {
            let (number, tag) = (part.number, escaped(&part.tag));
            format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")
        };
        let list: String = parts.iter().map(part).collect();
        let list = format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>");
        let query = vec![("uploadId", upload)];
        let ask = Ask { query, body: Bytes::from(list), ..Ask::of(key) };
        let response = self.ask(Method::Post, &ask).await?;
        // Putting together takes a while, so S3 says 200 first, and whether it worked afterwards.
        let said = self.list(key, response).await?;
        match element(&said, "Code").filter(|_| said.contains("<Error>")) {
            Some(code) => {
                Err(self.unavailable(key, &format!("S3 could not put it together: {code}")))
            }
            None => Ok(()),
        }
    }

    async fn list(&self, key: &str, response: Response) -> Result<String, S3Error> {
        match body(response, LIST_BYTES_MAX).await {
            Ok(Some(text)) => Ok(String::from_utf8_lossy(&text).into_owned()),
            Ok(None) => Err(self.unavailable(key, "S3 sends an endless list")),
            Err(why) => Err(self.unavailable(key, &why)),
        }
    }
}

fn part(xml: &str) -> Option<S3Part> {
    Some(S3Part {
        number: element(xml, "PartNumber")?.parse().ok()?,
        bytes: element(xml, "Size")?.parse().ok()?,
        tag: element(xml, "ETag")?,
    })
}
