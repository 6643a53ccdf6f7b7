//! A response for one viewer, as the helper reports it.

use super::{BLOCK_BYTES, OBJECT_BYTES_MAX, Trouble};
use crate::http_cache::{Fields, is_of_connection};
use serde::{Deserialize, Serialize};

/// A response for one viewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedResponse {
    /// The number of its file.
    pub object: u64,
    /// The status code.
    pub status: u16,
    /// The header fields, without those that concern only the origin's connection.
    pub fields: Fields,
    /// The length of its body, and of its file; none for a response to HEAD, or if the origin doesn't say how long it is.
    pub size: Option<u64>,
    /// Its age in milliseconds, if it was stored.
    pub age_ms: Option<u64>,
    /// Whether its file is complete. Otherwise its blocks arrive as those of an object ([`super::EdgeTold::There`]), or it grows
    /// ([`super::EdgeTold::Grown`]) if it has no size yet.
    pub is_complete: bool,
    /// Whether it was stored before.
    pub is_hit: bool,
    /// Whether its file is part of the cache, or will be once it is complete.
    pub is_stored: bool,
    /// What the origin's failure is counted as, if it is one.
    pub failure: Option<Trouble>,
}

impl PassedResponse {
    /// Whether it arrives, and only its end shows how long it is.
    pub fn is_growing(&self) -> bool {
        self.size.is_none() && !self.is_complete
    }

    /// Whether all of it is there, and is at most a block.
    pub fn is_short(&self) -> bool {
        self.is_complete && self.size.is_some_and(|size| size <= BLOCK_BYTES)
    }

    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.size.is_some_and(|size| size > OBJECT_BYTES_MAX) {
            return Err("a response of more than 16 TiB");
        }
        check_head(self.status, &self.fields)
    }
}

/// Checks the status and the fields of a response.
///
/// # Errors
/// What could not be sent to a viewer.
pub(crate) fn check_head(status: u16, fields: &Fields) -> Result<(), &'static str> {
    let is_value = |value: &str| {
        let is_ok = |one: char| one == '\t' || (!one.is_control() && u32::from(one) <= 0xff);
        value.chars().all(|one| is_ok(one) || ('\u{80}'..='\u{9f}').contains(&one))
    };
    if !(200..=999).contains(&status) {
        Err("a status that is none")
    } else if !fields.0.iter().all(|(name, value)| is_name(name) && is_value(value)) {
        Err("a header line that could end a head")
    } else if fields.0.iter().any(|(name, _)| is_of_connection(name)) {
        Err("a header line about a connection")
    } else if !has_one_length(fields) {
        Err("a length that is none, or several")
    } else {
        Ok(())
    }
}

/// Whether a text can be the name of a field (RFC 9110 section 5.1).
pub(super) fn is_name(name: &str) -> bool {
    let is_ok = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_ok)
}

/// Whether fields have at most one `Content-Length`, which is a number: another one could move the end of a response.
fn has_one_length(fields: &Fields) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut lengths = fields.all("content-length");
    lengths.next().is_none_or(is_number) && lengths.next().is_none()
}
