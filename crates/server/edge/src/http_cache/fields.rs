//! Header fields, in order. Values hold Latin-1: each character is one byte of the message.

use serde::{Deserialize, Serialize};

/// The header fields of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(pub Vec<(String, String)>);

/// The text of a field's bytes.
pub fn latin1_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

impl Fields {
    /// Fields from names and values.
    pub fn of(fields: &[(&str, &str)]) -> Self {
        Self(fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    /// Adds a field.
    pub fn push(&mut self, name: &str, value: impl Into<String>) {
        self.0.push((name.to_owned(), value.into()));
    }

    /// The values of all lines of this name.
    pub fn all<'a>(&'a self, wanted: &'a str) -> impl Iterator<Item = &'a str> {
        let is_it = move |field: &&(String, String)| field.0.eq_ignore_ascii_case(wanted);
        self.0.iter().filter(is_it).map(|(_, value)| value.as_str())
    }

    /// The first value of this name.
    pub fn first(&self, wanted: &str) -> Option<&str> {
        let is_it = |field: &&(String, String)| field.0.eq_ignore_ascii_case(wanted);
        self.0.iter().find(is_it).map(|(_, value)| value.as_str())
    }

    /// All lines of this name as one list (RFC 9110 section 5.3).
    pub fn joined(&self, wanted: &str) -> Option<String> {
        let lines: Vec<_> = self.all(wanted).collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    }

    /// Whether there is a field of this name.
    pub fn has(&self, wanted: &str) -> bool {
        self.first(wanted).is_some()
    }

    /// Whether a field of a request proves to the origin who the viewer is, other than a cookie.
    pub fn has_credentials(&self) -> bool {
        self.0.iter().any(|(name, _)| super::is_credential(name))
    }

    /// Whether a request may tell the origin who its viewer is.
    pub fn is_personal(&self) -> bool {
        self.has_credentials() || self.has("cookie")
    }

    /// The elements of all lists of this name, trimmed, without empty ones. Not for values with quoted commas.
    pub fn elements<'a>(&'a self, wanted: &'a str) -> impl Iterator<Item = &'a str> {
        let parts = self.all(wanted).flat_map(|value| value.split(',')).map(str::trim);
        parts.filter(|element| !element.is_empty())
    }

    /// Removes the fields for which `is_out` holds.
    pub fn remove(&mut self, is_out: impl Fn(&str) -> bool) {
        self.0.retain(|(name, _)| !is_out(name));
    }

    /// A date as seconds since 1970, if there is one and it is valid. Only the first line counts.
    pub fn date(&self, name: &str) -> Option<u64> {
        super::unix_seconds(self.first(name)?)
    }

    /// Bytes of memory, roughly.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len() + 64).sum()
    }
}
