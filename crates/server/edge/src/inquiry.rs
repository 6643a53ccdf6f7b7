//! Operators' questions: what is kept at a URL, until when, and why nothing is.

use crate::rules::EdgeRule;
use serde::{Deserialize, Serialize};

/// The most characters of a setting that are shown.
const SETTING_CHARACTERS_MAX: usize = 200;

/// An operator's question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inquiry {
    /// The responses kept of one URL, or why there are none.
    Why {
        /// The URL's path and query, as in [`crate::contract`].
        url: String,
    },
    /// The kept responses by path: one page.
    List {
        /// The beginning of the paths.
        prefix: String,
        /// The last path of the page before.
        after: Option<String>,
    },
}

/// The answer. It fits into a message: pages are short, and long texts are cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// The kept responses, by path and its spellings.
    pub paths: Vec<KeptPath>,
    /// Whether there are more paths after the last one.
    pub has_more: bool,
    /// Why nothing is kept, or why something else was not, if that is still known.
    pub reason: Option<RecentReason>,
    /// Whether all responses have been found that were stored before a restart.
    pub are_all_found: bool,
    /// The rule that holds for the path of one URL.
    #[serde(default)]
    pub rule: Option<HoldingRule>,
}

/// The rule that holds for a path (`edge.rules`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldingRule {
    /// Its number, counted from 1.
    pub number: usize,
    /// Its pattern.
    pub path: String,
    /// Its settings, as in a configuration.
    pub settings: Vec<String>,
}

impl HoldingRule {
    /// The rule with this number. Long settings are cut.
    pub fn of(number: usize, rule: &EdgeRule) -> Self {
        let cut = |text: String| text.chars().take(SETTING_CHARACTERS_MAX).collect();
        let mut all = serde_json::to_value(rule).unwrap_or_default();
        let settings = all.as_object_mut().map(std::mem::take).unwrap_or_default();
        let settings = settings.into_iter().filter(|(name, _)| name != "path");
        let settings = settings.map(|(name, value)| cut(format!("{name} = {value}"))).collect();
        Self { number, path: rule.path.clone(), settings }
    }
}

/// The responses kept at one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPath {
    /// The path with its query.
    pub path: String,
    /// The film, or each variant of the response.
    pub copies: Vec<KeptCopy>,
}

/// A film, or a variant of a response that is stored whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptCopy {
    /// Whether it is a film: kept in blocks.
    pub is_film: bool,
    /// The status.
    pub status: u16,
    /// The length.
    pub bytes: u64,
    /// How much of that is in the cache.
    pub present_bytes: u64,
    /// The entity tag, or else the date of the last change.
    pub version: Option<String>,
    /// The origin's `Cache-Control`, or the header for CDNs that counts in its place, with its name.
    #[serde(default)]
    pub cache_control: Option<String>,
    /// Its age.
    pub age_seconds: u64,
    /// For how long it is still fresh.
    pub fresh_seconds: u64,
    /// For how long it may still be used while the origin can't be reached, the time above included.
    pub usable_seconds: u64,
    /// Whether the origin has to confirm it before it is used, even if that can't be reached.
    pub has_to_be_confirmed: bool,
    /// Surrogate keys.
    pub tags: Vec<String>,
    /// The number of tags that are left out here.
    pub tags_left_out: u64,
    /// The request fields that have selected it, by `Vary`.
    pub selected_by: Vec<(String, Option<String>)>,
    /// When a viewer has last got some of it, if that was since the helper started.
    pub used_seconds_ago: Option<u64>,
    /// The origin that has sent it, or of a film the one that has last sent some of it or confirmed it; if there are several, and since the helper
    /// started.
    #[serde(default)]
    pub origin: Option<String>,
    /// How it came here, if it was fetched before a viewer requested it, and since the helper started.
    #[serde(default)]
    pub ahead: Option<FetchedAhead>,
}

/// Something that was fetched ahead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchedAhead {
    /// `cmcd` if a player has announced it, `playlist` if it follows in a playlist, `number` if it follows by its number.
    pub source: String,
    /// When.
    pub seconds_ago: u64,
    /// Whether a viewer has taken some of it.
    pub is_used: bool,
}

/// What happened the last time that something at a path was not kept, or was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentReason {
    /// In words.
    pub why: String,
    /// When.
    pub seconds_ago: u64,
}
