//! `Cache-Control`, `Content-Type` and further headers of files, by path.

use super::{ConfigError, Http, within};
use edge::rules::{PathPattern, PatternFault};
use fullbore_http::{Cors, FieldFault, FieldLines, is_token};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// More rules than people write. Each file that is opened is matched against all of them.
const RULES_MAX: usize = 100;
/// Bounds on `http.cors_headers`, which the answer to every preflight lists.
const CORS_HEADERS_MAX: usize = 50;
const CORS_HEADER_BYTES_MAX: usize = 64;

/// Headers for the responses with some files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderRule {
    /// Pattern of the files' paths from the library's root, where `*` matches anything, including several folders.
    pub path: String,
    /// Their `Cache-Control`; if unset, the default for all files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<String>,
    /// Their `Content-Type`; if unset, the one of their extension, or on an edge the origin's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Further headers, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
}

impl HeaderRule {
    /// Its further headers, for a server that answers with `cors`.
    pub fn lines(&self, cors: Cors) -> Result<FieldLines, FieldFault> {
        let fields = self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        FieldLines::new(fields, cors)
    }

    fn check(&self, cors: Cors) -> Result<(), HeaderFault> {
        PathPattern::new(&self.path).map_err(HeaderFault::Path)?;
        if let Some(value) = self.cache_control.as_ref().filter(|value| !is_cache_control(value)) {
            return Err(HeaderFault::CacheControl(value.clone()));
        }
        if let Some(value) = self.content_type.as_ref().filter(|value| !is_content_type(value)) {
            return Err(HeaderFault::ContentType(value.clone()));
        }
        self.lines(cors).map(drop).map_err(HeaderFault::Field)
    }
}

impl Http {
    /// The pages of other origins that may read files.
    pub fn cors_of_files(&self) -> Cors {
        if self.cors { Cors::AnyOrigin } else { Cors::SameOrigin }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let value = &self.cache_control;
        if !is_cache_control(value) {
            let wanted = "visible ASCII, such as \"no-cache\"";
            return Err(ConfigError::not_of_kind("http.cache_control", value, wanted));
        }
        within("the number of http.headers", self.headers.len(), 0..=RULES_MAX, "up to 100")?;
        within(
            "the number of http.cors_headers",
            self.cors_headers.len(),
            0..=CORS_HEADERS_MAX,
            "up to 50",
        )?;
        let is_name = |name: &str| name.len() <= CORS_HEADER_BYTES_MAX && is_token(name);
        if let Some(name) = self.cors_headers.iter().find(|name| !is_name(name)) {
            let wanted = "names of headers, such as \"Authorization\"";
            return Err(ConfigError::not_of_kind("http.cors_headers", name, wanted));
        }
        let cors = self.cors_of_files();
        let numbered = (1..).zip(&self.headers);
        let mut faults = numbered.filter_map(|(number, rule)| {
            let fault = rule.check(cors).err()?;
            Some(ConfigError::Headers { number, path: rule.path.clone(), fault })
        });
        faults.next().map_or(Ok(()), Err)
    }
}

fn is_cache_control(value: &str) -> bool {
    !value.trim().is_empty() && is_printable(value)
}

/// A type and a subtype (RFC 9110 section 8.3.1), with or without parameters.
fn is_content_type(value: &str) -> bool {
    let (kind, parameters) = value.split_once(';').unwrap_or((value, ""));
    let is_kind = |(kind, subtype)| is_token(kind) && is_token(subtype);
    kind.trim_end().split_once('/').is_some_and(is_kind) && is_printable(parameters)
}

/// Visible ASCII and spaces.
fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

/// The fault of a rule about headers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// Its path.
    #[error("path: {0}")]
    Path(PatternFault),
    /// Its `cache_control` is invalid; this is the text.
    #[error("cache_control has {0:?}; write visible ASCII, such as \"max-age=60\"")]
    CacheControl(String),
    /// Its `content_type` is invalid; this is the text.
    #[error("content_type has {0:?}; write a media type, such as \"video/mp2t\"")]
    ContentType(String),
    /// One of its `fields`.
    #[error("fields: {0}")]
    Field(FieldFault),
}

#[cfg(test)]
mod tests {
    use crate::{Config, ConfigError};

    fn check(text: &str) -> Result<(), ConfigError> {
        let malformed = |why| ConfigError::Malformed { file: "it".into(), why: Box::new(why) };
        toml::from_str(text).map_err(malformed).and_then(|config: Config| config.check())
    }

    /// The error for an invalid configuration.
    fn error_text(text: &str) -> String {
        check(text).unwrap_err().to_string()
    }

    #[test]
    fn rules_are_read_and_survive_being_written() {
        let text = "[[http.headers]]\npath = \"*.mpd\"\ncache_control = \"max-age=2\"\n\
            [[http.headers]]\npath = \"*.tod\"\ncontent_type = \"text/x-a; charset=utf-8\"\n\
            [[http.headers]]\npath = \"/films/*\"\nfields = { \"X-Robots-Tag\" = \"noindex\" }\n";
        check(text).unwrap();
        let config: Config = toml::from_str(text).unwrap();
        assert_eq!(config.http.headers.len(), 3);
        let written = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&written).unwrap(), config);
    }

    #[test]
    fn each_fault_names_the_rule_the_key_and_what_to_write() {
        let good = "[[http.headers]]\npath = \"*.mpd\"\n";
        for (bad, key, advice) in [
            ("path = \"films/*\"", "path", "\"/films/*\""),
            ("path = \"/a\"\ncache_control = \"a\\nb\"", "cache_control", "max-age=60"),
            ("path = \"/a\"\ncache_control = \"\"", "cache_control", "max-age=60"),
            ("path = \"/a\"\ncontent_type = \"video\"", "content_type", "\"video/mp2t\""),
            ("path = \"/a\"\ncontent_type = \"a/b\\r\\nc\"", "content_type", "\"video/mp2t\""),
            ("path = \"/a\"\ncontent_type = \"\"", "content_type", "\"video/mp2t\""),
            ("path = \"/a\"\nfields = { \"a b\" = \"c\" }", "fields", "\"X-Robots-Tag\""),
            ("path = \"/a\"\nfields = { Connection = \"close\" }", "fields", "leave it out"),
            ("path = \"/a\"\nfields = { X = \"a\\r\\nb\" }", "fields", "\"noindex\""),
        ] {
            let said = error_text(&format!("{good}[[http.headers]]\n{bad}\n"));
            let named = said.starts_with("http.headers, rule 2, for \"") && said.contains(key);
            assert!(named && said.contains(advice) && !said.contains('\n'), "{said}");
        }
        let said = error_text("[[http.headers]]\npath = \"/a\"\ncache-control = \"x\"\n");
        assert!(said.contains("cache-control"), "{said}");
        assert!(error_text("[[http.headers]]\ncache_control = \"x\"\n").contains("path"));
        assert!(error_text(&good.repeat(101)).contains("up to 100"));
        check(&good.repeat(100)).unwrap();
    }

    #[test]
    fn headers_that_other_origins_may_send_are_names_of_headers() {
        check("[http]\ncors_headers = [\"Authorization\", \"X-Player\"]\n").unwrap();
        for bad in ["", "*, X", "a b", "a\\r\\nb", &"x".repeat(65)] {
            let said = error_text(&format!("[http]\ncors_headers = [\"{bad}\"]\n"));
            assert!(said.contains("http.cors_headers") && said.contains("Authorization"), "{said}");
        }
        let many = vec!["\"X\""; 51].join(", ");
        assert!(error_text(&format!("[http]\ncors_headers = [{many}]\n")).contains("up to 50"));
    }

    #[test]
    fn cache_control_of_all_files_says_something() {
        for empty in ["", " "] {
            let said = error_text(&format!("[http]\ncache_control = {empty:?}\n"));
            let expected = "; write visible ASCII, such as \"no-cache\"";
            assert_eq!(said, format!("http.cache_control has {empty:?}{expected}"));
        }
        check("[http]\ncache_control = \"max-age=60, public\"\n").unwrap();
    }

    #[test]
    fn what_cors_says_may_be_said_instead_of_it() {
        let rule = "[[http.headers]]\npath = \"*\"\n\
            fields = { Access-Control-Allow-Origin = \"https://a.example\" }\n";
        assert!(error_text(rule).contains("http.cors = false"));
        check(&format!("[http]\ncors = false\n{rule}")).unwrap();
    }
}
