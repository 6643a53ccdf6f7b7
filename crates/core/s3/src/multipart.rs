//! Objects that are sent in parts: they are not visible before the last request, and parts that have arrived are kept for the next attempt.

use bytes::Bytes;
use escape::xml::escape_attribute;
use reqwest::Response;
use reqwest::header::ETAG;
use rusty_s3::Method;

use crate::client::{Ask, body, text};
use crate::put::PutTerms;
use crate::xml::{element, elements};
use crate::{S3Bucket, S3Error};

/// The most parts of an object, a limit of S3.
pub const PARTS_MAX: u16 = 10_000;

/// A list of 1,000 parts has some 300 kB.
const LIST_BYTES_MAX: usize = 4 << 20;

/// A part that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Part {
    /// Its number, from 1 on.
    pub number: u16,
    /// Its length.
    pub bytes: u64,
    /// The tag needed to assemble the object.
    pub tag: String,
}

impl S3Bucket {
    /// Uploads of the object `key` that are neither finished nor aborted, the newest last.
    ///
    /// # Errors
    /// If S3 does not list them; [`S3Error::Unsupported`] from stores that keep no list.
    pub async fn uploads(&self, key: &str) -> Result<Vec<String>, S3Error> {
        let object = self.signer.object(key);
        let query = vec![("prefix", object.as_str()), ("uploads", "")];
        let response = self.ask(Method::Get, &Ask { query, ..Ask::default() }).await?;
        let list = self.list(key, response).await?;
        let ours = elements(&list, "Upload").into_iter();
        let ours = ours.filter(|upload| element(upload, "Key").as_ref() == Some(&object));
        Ok(ours.filter_map(|upload| element(upload, "UploadId")).collect())
    }

    /// Begins to send the object `key` in parts. Returns the upload's ID.
    ///
    /// # Errors
    /// If S3 refuses.
    pub async fn begin_upload(&self, key: &str, terms: &PutTerms) -> Result<String, S3Error> {
        let query = vec![("uploads", "")];
        let signed = terms.signed(false);
        let ask = Ask { query, signed, headers: terms.headers(), ..Ask::of(key) };
        let response = self.ask(Method::Post, &ask).await?;
        let begun = self.list(key, response).await?;
        element(&begun, "UploadId")
            .ok_or_else(|| self.unavailable(key, "S3 gives no ID for an upload in parts"))
    }

    /// The parts of an upload that have arrived.
    ///
    /// # Errors
    /// [`S3Error::Absent`] if the upload no longer exists.
    pub async fn parts(&self, key: &str, upload: &str) -> Result<Vec<S3Part>, S3Error> {
        let (mut parts, mut after) = (Vec::new(), "0".to_owned());
        loop {
            let query = vec![("part-number-marker", after.as_str()), ("uploadId", upload)];
            let response = self.ask(Method::Get, &Ask { query, ..Ask::of(key) }).await?;
            let list = self.list(key, response).await?;
            // A part without a tag cannot be put into the object.
            parts.extend(elements(&list, "Part").into_iter().filter_map(part));
            let next = element(&list, "NextPartNumberMarker");
            let is_cut = element(&list, "IsTruncated").as_deref() == Some("true");
            match next.filter(|next| is_cut && *next != after) {
                Some(next) => after = next,
                None => return Ok(parts),
            }
        }
    }

    /// Sends a part, replacing one with the same number.
    ///
    /// # Errors
    /// [`S3Error::Absent`] if the upload no longer exists.
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
        let tag = tag.ok_or_else(|| self.unavailable(key, "S3 gives no ETag for a part"))?;
        Ok(S3Part { number, bytes, tag })
    }

    /// Assembles the object: from now on it is visible.
    ///
    /// # Errors
    /// [`S3Error::Absent`] if the upload no longer exists, or one of its parts has been replaced.
    pub async fn finish_upload(
        &self,
        key: &str,
        upload: &str,
        parts: &[S3Part],
    ) -> Result<(), S3Error> {
        let part = |part: &S3Part| {
            let (number, tag) = (part.number, escape_attribute(&part.tag));
            format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")
        };
        let list: String = parts.iter().map(part).collect();
        let list = format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>");
        let query = vec![("uploadId", upload)];
        let ask = Ask { query, body: Bytes::from(list), ..Ask::of(key) };
        let response = self.ask(Method::Post, &ask).await?;
        // Assembling takes a while, so S3 sends 200 first, and the result afterwards.
        let said = self.list(key, response).await?;
        match element(&said, "Code").filter(|_| said.contains("<Error>")) {
            Some(code) => Err(self.unavailable(key, &format!("S3 could not assemble it: {code}"))),
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
