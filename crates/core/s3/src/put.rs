//! The options of an object that is written.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER_PERMISSIVE;
use reqwest::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};

use crate::client::SHA256_META;

/// The conditions for writing an object, and its metadata.
#[derive(Clone, Debug, Default)]
pub struct PutTerms {
    /// Its media type.
    pub content_type: Option<&'static str>,
    /// Its `Cache-Control`.
    pub cache_control: Option<&'static str>,
    /// Its SHA-256, in hexadecimal digits. S3 stores it with the object ([`S3Object`](crate::S3Object)), and refuses other bytes.
    pub sha256: Option<String>,
    /// The condition on an existing object.
    pub only_if: OnlyIf,
}

/// The condition on an existing object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnlyIf {
    /// None.
    #[default]
    Always,
    /// Only if there is no object.
    Absent,
    /// Only if the object has this entity tag.
    Tag(String),
}

impl PutTerms {
    /// Headers that must be signed, sorted.
    pub(crate) fn signed(&self, has_checksum: bool) -> Vec<(&'static str, String)> {
        let Some(sha256) = &self.sha256 else { return Vec::new() };
        let sum = HEXLOWER_PERMISSIVE.decode(sha256.as_bytes()).ok().filter(|_| has_checksum);
        let checksum = sum.map(|sum| ("x-amz-checksum-sha256", STANDARD.encode(sum)));
        checksum.into_iter().chain([(SHA256_META, sha256.clone())]).collect()
    }

    /// Other headers, except the condition.
    pub(crate) fn headers(&self) -> Vec<(HeaderName, String)> {
        let both = [(CONTENT_TYPE, self.content_type), (CACHE_CONTROL, self.cache_control)];
        both.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_sent_in_both_forms() {
        let terms = PutTerms { sha256: Some("00ff10".to_owned()), ..PutTerms::default() };
        let both =
            [("x-amz-checksum-sha256", "AP8Q".to_owned()), (SHA256_META, "00ff10".to_owned())];
        assert_eq!(terms.signed(true), both);
        assert_eq!(terms.signed(false), both[1..]);
        assert!(PutTerms::default().signed(true).is_empty());
        for sha256 in ["0", "0x"] {
            let terms = PutTerms { sha256: Some(sha256.to_owned()), ..PutTerms::default() };
            assert_eq!(terms.signed(true), [(SHA256_META, sha256.to_owned())]);
        }
    }
}
