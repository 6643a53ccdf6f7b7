//! `Cache-Control`, `Content-Type` and further headers for files, by rule. The rules are prepared once per worker, and a file's rule is looked
//! up at its first request: each later response only copies bytes.

use config::{HeaderRule, Http};
use disk::File;
use edge::rules::PathPattern;
use fullbore_http::{Cors, FieldLines};

/// All rules, in the order of their priority.
pub(crate) struct HeaderRules(Box<[ReadyRule]>);

/// One rule.
pub(crate) struct ReadyRule {
    path: PathPattern,
    cache_control: Option<String>,
    content_type: Option<String>,
    fields: FieldLines,
}

impl HeaderRules {
    /// The rules of a configuration that has passed [`config::Config::check`].
    pub(crate) fn of(http: &Http) -> Self {
        let cors = http.cors_of_files();
        Self(http.headers.iter().map(|rule| ReadyRule::of(rule, cors)).collect())
    }

    /// The rule for `file`, which is at `path` in the library. A file keeps its path as long as it is open.
    pub(crate) fn for_file(&self, file: &File, path: &[u8]) -> Option<&ReadyRule> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(usize::from(file.note(|| self.first_for(path))))
    }

    /// The rule for a response at `path` that is no file of a library.
    pub(crate) fn for_path(&self, path: &[u8]) -> Option<&ReadyRule> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(usize::from(self.first_for(path)))
    }

    /// The index of the first rule that matches; the number of rules if none does.
    fn first_for(&self, path: &[u8]) -> u16 {
        let path = [b"/", path].concat();
        let place = self.0.iter().position(|rule| rule.path.matches(&path));
        place.unwrap_or(self.0.len()) as u16
    }
}

impl ReadyRule {
    fn of(rule: &HeaderRule, cors: Cors) -> Self {
        Self {
            path: PathPattern::new(&rule.path).expect("checked with the configuration"),
            cache_control: rule.cache_control.clone(),
            content_type: rule.content_type.clone(),
            fields: rule.lines(cors).expect("checked with the configuration"),
        }
    }

    /// The files' `Cache-Control`, if it differs from the default.
    pub(crate) fn cache_control(&self) -> Option<&str> {
        self.cache_control.as_deref()
    }

    /// The files' media type, if it differs from that of their extension.
    pub(crate) fn content_type(&self) -> Option<&str> {
        self.content_type.as_deref()
    }

    /// Their further headers.
    pub(crate) fn fields(&self) -> &FieldLines {
        &self.fields
    }
}
