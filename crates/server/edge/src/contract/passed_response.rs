//! A response for one viewer, as the helper reports it.

use super::{BLOCK_BYTES, OBJECT_BYTES_MAX, Trouble};
use crate::http_cache::{Fields, is_of_connection};
use serde::{Deserialize, Serialize};

/// The length of the file of a response that grows for one viewer. It is a ring: the byte at an offset has its place at the offset's remainder, and
/// takes it from one that the viewer has ([`super::EdgeAsk::Taken`]). It is much longer than what the helper has not announced yet and what the
/// server has not reported, together, so neither waits for the other.
pub const RING_BYTES: u64 = 4 << 20;

/// A response for one viewer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The length of one that comes through a ring, if the origin says that. Its `Content-Length` has it, too.
    #[serde(default)]
    pub length: Option<u64>,
}

impl PassedResponse {
    /// Whether it arrives in a file that grows, or that is a ring.
    pub fn is_growing(&self) -> bool {
        self.size.is_none() && !self.is_complete
    }

    /// Whether its file is a ring.
    pub fn is_ring(&self) -> bool {
        self.is_growing() && !self.is_stored
    }

    /// The same while it grows: it is `length` long, if that is known.
    pub(crate) fn through_ring(mut self, length: Option<u64>) -> Self {
        self.fields.remove(|name| name.eq_ignore_ascii_case("content-length"));
        if let Some(length) = length {
            self.fields.push("Content-Length", length.to_string());
        }
        Self { size: None, is_complete: false, length, ..self }
    }

    /// Whether all of it is there, and is at most a block.
    pub fn is_short(&self) -> bool {
        self.is_complete && self.size.is_some_and(|size| size <= BLOCK_BYTES)
    }

    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.size.is_some_and(|size| size > OBJECT_BYTES_MAX) {
            return Err("a response of more than 16 TiB");
        }
        let is_named = |length: u64| {
            let named = self.fields.first("content-length");
            self.is_ring() && named.is_some_and(|named| named == length.to_string())
        };
        if self.length.is_some_and(|length| !is_named(length)) {
            return Err("a length that its header doesn't have");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_that_of_the_header_and_only_of_a_response_through_a_ring() {
        let page = PassedResponse {
            object: 1,
            status: 200,
            fields: Fields::of(&[("content-length", "8"), ("A", "b")]),
            size: Some(7),
            is_complete: true,
            ..PassedResponse::default()
        };
        let long = page.clone().through_ring(Some(7));
        assert!(long.is_ring() && long.check() == Ok(()), "{long:?}");
        assert_eq!(long.fields.all("Content-Length").collect::<Vec<_>>(), ["7"]);
        let endless = page.clone().through_ring(None);
        assert!(endless.is_ring() && endless.check() == Ok(()));
        assert!(!endless.fields.has("content-length"));
        for wrong in [
            PassedResponse { length: Some(8), ..long.clone() },
            PassedResponse { is_stored: true, ..long.clone() },
            PassedResponse { length: Some(7), ..endless },
            PassedResponse { length: Some(8), ..page },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
