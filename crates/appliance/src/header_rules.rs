//! Which `Cache-Control` and which further headers a file's responses have. The rules are made ready once for each worker, and a file's is found
//! when it is asked for first: each later response only copies bytes.

use crate::config::{HeaderRule, Http};
use crate::path_pattern::PathPattern;
use disk::File;
use http::{Cors, FieldLines};

/// All rules, in the order in which they count.
pub(crate) struct HeaderRules(Box<[ReadyRule]>);

/// One rule.
pub(crate) struct ReadyRule {
    path: PathPattern,
    cache_control: Option<String>,
    fields: FieldLines,
}

impl HeaderRules {
    /// The rules of a configuration that has passed [`crate::Config::check`].
    pub(crate) fn of(http: &Http) -> Self {
        let cors = http.cors_of_files();
        Self(http.headers.iter().map(|rule| ReadyRule::of(rule, cors)).collect())
    }

    /// The rule for `file`, which is at `path` in the library. A file is at one path as long as it is open.
    pub(crate) fn for_file(&self, file: &File, path: &[u8]) -> Option<&ReadyRule> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(usize::from(file.note(|| self.first_for(path))))
    }

    /// The place of the first rule that matches; the number of rules if none does.
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
            fields: rule.lines(cors).expect("checked with the configuration"),
        }
    }

    /// The files' `Cache-Control`, if it is not as all others'.
    pub(crate) fn cache_control(&self) -> Option<&str> {
        self.cache_control.as_deref()
    }

    /// Their further headers.
    pub(crate) fn fields(&self) -> &FieldLines {
        &self.fields
    }
}
