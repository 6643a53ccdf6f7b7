//! The operator's rules for some paths (`edge.rules`): which part of a query and which headers travel and count, and how long responses are kept.
//!
//! The server and its helper have the same rules. The server makes keys and requests by them, and the helper decides about responses. The first rule
//! whose pattern matches a path holds, and no other.

mod edge_rule;
mod edge_rule_fault;
mod handed;
mod path_pattern;
mod path_settings;

pub use edge_rule::{
    AuthorizationUse, EdgeRule, ParameterName, QueryNames, QueryUse, is_same_header,
};
pub use edge_rule_fault::EdgeRuleFault;
pub use handed::{RULES_BYTES_MAX, hand_on, handed_on, text_bytes};
pub use path_pattern::{PathPattern, PatternFault};
pub use path_settings::{PathSettings, is_of_server};

use escape::{percent, unicode};

/// More rules than people write. Each request is matched against all of them.
pub const RULES_MAX: usize = 100;

/// All rules, in the order of their priority.
#[derive(Clone, Debug, Default)]
pub struct PathRules {
    rules: Box<[(PathPattern, PathSettings)]>,
    /// For paths without a rule.
    others: PathSettings,
}

impl PathRules {
    /// Rules that have passed [`EdgeRule::check`]. Where they don't say, cookies travel if that is so elsewhere.
    pub fn new(rules: &[EdgeRule], sends_cookies: bool) -> Self {
        let ready = |(number, rule): (usize, &EdgeRule)| {
            let path = PathPattern::new(&rule.path).expect("checked with the configuration");
            (path, PathSettings::of(rule, number, sends_cookies))
        };
        let others = PathSettings::without_rule(sends_cookies);
        Self { rules: (1..).zip(rules).map(ready).collect(), others }
    }

    /// The settings for a path, which is decoded, composed, and without its first slash.
    pub fn at(&self, path: &[u8]) -> &PathSettings {
        match self.rules.is_empty() {
            true => &self.others,
            false => self.find(&[b"/", path].concat()),
        }
    }

    /// The settings for a path as in [`crate::contract`].
    pub(crate) fn at_stored(&self, path: &str) -> &PathSettings {
        match self.rules.is_empty() {
            true => &self.others,
            false => self.find(&decoded(path)),
        }
    }

    fn find(&self, path: &[u8]) -> &PathSettings {
        let rule = self.rules.iter().find(|(pattern, _)| pattern.matches(path));
        rule.map_or(&self.others, |(_, settings)| settings)
    }

    /// Under which path and query a response to requests for `path`, which an origin names, is stored.
    pub(crate) fn stored_under(&self, path: &str) -> String {
        let Some((names, query)) = path.split_once('?') else { return path.to_owned() };
        let kept = self.at_stored(names).query_sent_on(query.as_bytes());
        match String::from_utf8_lossy(&kept) {
            kept if kept.is_empty() => names.to_owned(),
            kept => format!("{names}?{kept}"),
        }
    }
}

/// A path as in [`crate::contract`] in the form that patterns match: decoded, composed, and without its query.
pub(crate) fn decoded(path: &str) -> Vec<u8> {
    let names = path.split_once('?').map_or(path, |(names, _)| names).as_bytes();
    let names = percent::decode(names).unwrap_or_else(|| names.to_vec());
    unicode::composed(&names).into_owned()
}

#[cfg(test)]
mod tests;
