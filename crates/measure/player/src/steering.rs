//! Content steering: the answers of a steering server, and the requests to it.
//!
//! HLS (second edition of RFC 8216, section 7) and DASH (ETSI TS 103 998) share the answer's form, a JSON object, and differ in the names
//! of the query's parameters. An answer lists the pathways to prefer, and may derive new pathways from known ones. It is not trusted: its
//! size is bounded, unknown members are ignored, and an answer that breaks a rule is refused as a whole, so a player keeps what it knew
//! before.

use crate::presentation::Format;
use crate::url::Url;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// When to ask again if the answer does not say (section 7.2), or if there was none.
pub const TTL_DEFAULT: Duration = Duration::from_secs(300);

/// A thousand times larger than a normal answer.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The longest time before a player asks again, whatever the answer says: a day.
const TTL_MAX: Duration = Duration::from_secs(86_400);

/// More pathways than any title has.
const PRIORITY_MAX: usize = 64;
const CLONES_MAX: usize = 16;

/// More parameters or URIs than a clone needs: one URI for each rendition.
const MEMBERS_MAX: usize = 256;

/// A steering server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Time until the next request.
    pub ttl: Duration,
    /// The URL of that request; `None` for the same one.
    pub reload: Option<Url>,
    /// Pathways, best first. Pathways that are not named must not be used.
    pub priority: Vec<String>,
    /// New pathways.
    pub clones: Vec<PathwayClone>,
}

/// A new pathway with the same content as a known one, at other URLs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathwayClone {
    /// The known pathway.
    pub base_id: String,
    /// The new pathway.
    pub id: String,
    /// The host that replaces the known one's.
    pub host: Option<String>,
    /// Parameters for the query of each URL, by name.
    pub params: Vec<(String, String)>,
    /// URIs of media playlists, by the stable id of their variant (HLS).
    pub variants: BTreeMap<String, String>,
    /// URIs of media playlists, by the stable id of their rendition (HLS).
    pub renditions: BTreeMap<String, String>,
}

/// Why an answer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SteeringError {
    /// Longer than 1 MiB.
    #[error("the steering server's answer is longer than 1 MiB")]
    Long,
    /// Not a JSON object with members of the right types.
    #[error("the steering server's answer is not a steering manifest")]
    Malformed,
    /// A version other than 1.
    #[error("the steering server's answer has a version other than 1")]
    Version,
    /// No pathway, the same one twice, or an empty name.
    #[error("the steering server's answer names no pathway, or one twice")]
    Priority,
    /// The address for the next request cannot be requested.
    #[error("the steering server's answer has a RELOAD-URI that cannot be requested")]
    Reload,
    /// A clone of itself or of a later clone, or with too many members.
    #[error("the steering server's answer has a pathway clone that cannot be made")]
    Clone,
}

impl SteeringError {
    /// A short name, for counters.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Long => "long",
            Self::Malformed => "malformed",
            Self::Version => "version",
            Self::Priority => "priority",
            Self::Reload => "reload",
            Self::Clone => "clone",
        }
    }
}

/// The answer as written in JSON.
#[derive(Deserialize)]
struct Written {
    #[serde(rename = "VERSION")]
    version: u64,
    #[serde(rename = "TTL")]
    ttl: Option<f64>,
    #[serde(rename = "RELOAD-URI")]
    reload: Option<String>,
    #[serde(rename = "PATHWAY-PRIORITY")]
    priority: Vec<String>,
    #[serde(rename = "PATHWAY-CLONES", default)]
    clones: Vec<WrittenClone>,
}

#[derive(Deserialize)]
struct WrittenClone {
    #[serde(rename = "BASE-ID")]
    base_id: String,
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "URI-REPLACEMENT")]
    replacement: Replacement,
}

#[derive(Deserialize)]
struct Replacement {
    #[serde(rename = "HOST")]
    host: Option<String>,
    #[serde(rename = "PARAMS", default)]
    params: BTreeMap<String, String>,
    #[serde(rename = "PER-VARIANT-URIS", default)]
    variants: BTreeMap<String, String>,
    #[serde(rename = "PER-RENDITION-URIS", default)]
    renditions: BTreeMap<String, String>,
}

impl Answer {
    /// Reads the answer from the URL `asked`.
    ///
    /// # Errors
    /// If it breaks a rule of the standard or is larger than an answer may be.
    pub fn parse(asked: &Url, bytes: &[u8]) -> Result<Self, SteeringError> {
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(SteeringError::Long);
        }
        let written: Written =
            serde_json::from_slice(bytes).map_err(|_| SteeringError::Malformed)?;
        if written.version != 1 {
            return Err(SteeringError::Version);
        }
        check_priority(&written.priority)?;
        let reload = written.reload.map(|uri| asked.resolve(&uri)).transpose();
        let clones = written.clones.into_iter().map(PathwayClone::from).collect::<Vec<_>>();
        check_clones(&clones)?;
        Ok(Self {
            ttl: ttl(written.ttl)?,
            reload: reload.map_err(|_| SteeringError::Reload)?,
            priority: written.priority,
            clones,
        })
    }
}

/// At least a second, so that no answer makes a player ask without pause.
fn ttl(seconds: Option<f64>) -> Result<Duration, SteeringError> {
    let Some(seconds) = seconds else { return Ok(TTL_DEFAULT) };
    let ttl = Duration::try_from_secs_f64(seconds).map_err(|_| SteeringError::Malformed)?;
    Ok(ttl.clamp(Duration::from_secs(1), TTL_MAX))
}

fn check_priority(priority: &[String]) -> Result<(), SteeringError> {
    let distinct: BTreeSet<_> = priority.iter().collect();
    let is_right = (1..=PRIORITY_MAX).contains(&priority.len())
        && distinct.len() == priority.len()
        && priority.iter().all(|id| !id.is_empty());
    if is_right { Ok(()) } else { Err(SteeringError::Priority) }
}

/// A clone's base is a pathway of the manifest or an earlier clone, so no chain of clones leads back to itself.
fn check_clones(clones: &[PathwayClone]) -> Result<(), SteeringError> {
    let is_right = |(index, clone): (usize, &PathwayClone)| {
        let is_later = clones[index..].iter().any(|later| later.id == clone.base_id);
        let is_twice = clones[..index].iter().any(|earlier| earlier.id == clone.id);
        !is_later && !is_twice && clone.is_bounded()
    };
    let are_right = clones.len() <= CLONES_MAX && clones.iter().enumerate().all(is_right);
    if are_right { Ok(()) } else { Err(SteeringError::Clone) }
}

impl From<WrittenClone> for PathwayClone {
    fn from(written: WrittenClone) -> Self {
        let Replacement { host, params, variants, renditions } = written.replacement;
        Self {
            base_id: written.base_id,
            id: written.id,
            host,
            params: params.into_iter().filter(|(name, _)| !name.is_empty()).collect(),
            variants,
            renditions,
        }
    }
}

impl PathwayClone {
    fn is_bounded(&self) -> bool {
        let members = [self.params.len(), self.variants.len(), self.renditions.len()];
        !self.id.is_empty() && members.iter().all(|count| *count <= MEMBERS_MAX)
    }
}

/// The URL to ask: the server's address with the player's own data, namely its current pathway (in quotes, as both standards require) and
/// that pathway's rate.
pub fn request(server: &Url, format: Format, pathway: &str, bits_per_second: Option<u64>) -> Url {
    let (name, rate) = match format {
        Format::Hls => ("_HLS_pathway", "_HLS_throughput"),
        Format::Dash => ("_DASH_pathway", "_DASH_throughput"),
    };
    let url = server.with_query_parameter(name, &format!("\"{pathway}\""));
    match bits_per_second {
        Some(bits_per_second) => url.with_query_parameter(rate, &bits_per_second.to_string()),
        None => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: &str = "https://steer.example/s?session=1";

    fn parse(text: &str) -> Result<Answer, SteeringError> {
        Answer::parse(&ASKED.parse().expect("a URL"), text.as_bytes())
    }

    #[test]
    fn an_answer_is_read_with_its_clones() {
        let answer = parse(
            r#"{"VERSION":1,"TTL":30,"RELOAD-URI":"t?session=2","PATHWAY-PRIORITY":["c","a"],
            "PATHWAY-CLONES":[{"BASE-ID":"a","ID":"c","URI-REPLACEMENT":{"HOST":"c.example",
            "PARAMS":{"token":"1 2","a":"b","":"x"},"PER-VARIANT-URIS":{"v1":"https://x.example/v1.m3u8"}}}],"new":[{}]}"#,
        )
        .expect("an answer");
        assert_eq!(answer.ttl, Duration::from_secs(30));
        let reload = answer.reload.map(|url| url.to_string());
        assert_eq!(reload.as_deref(), Some("https://steer.example/t?session=2"));
        assert_eq!(answer.priority, ["c", "a"]);
        let [clone] = &answer.clones[..] else { panic!("one clone") };
        assert_eq!((clone.base_id.as_str(), clone.id.as_str()), ("a", "c"));
        assert_eq!(clone.host.as_deref(), Some("c.example"));
        assert_eq!(clone.params, [("a".into(), "b".into()), ("token".into(), "1 2".into())]);
        assert_eq!(clone.variants["v1"], "https://x.example/v1.m3u8");
    }

    #[test]
    fn an_answer_that_says_little_has_defaults() {
        let answer = parse(r#"{"VERSION":1,"PATHWAY-PRIORITY":["a"]}"#).expect("an answer");
        assert_eq!((answer.ttl, answer.reload), (TTL_DEFAULT, None));
        for (ttl, seconds) in [("0", 1), ("1e9", 86_400), ("12.0", 12)] {
            let text = format!(r#"{{"VERSION":1,"TTL":{ttl},"PATHWAY-PRIORITY":["a"]}}"#);
            assert_eq!(parse(&text).map(|answer| answer.ttl), Ok(Duration::from_secs(seconds)));
        }
    }

    #[test]
    fn an_answer_that_breaks_a_rule_is_refused() {
        let clones = |clones: &str| {
            format!(r#"{{"VERSION":1,"PATHWAY-PRIORITY":["a"],"PATHWAY-CLONES":[{clones}]}}"#)
        };
        let clone = |base: &str, id: &str| {
            format!(r#"{{"BASE-ID":"{base}","ID":"{id}","URI-REPLACEMENT":{{"HOST":"h"}}}}"#)
        };
        for (text, error) in [
            ("".into(), SteeringError::Malformed),
            ("[]".into(), SteeringError::Malformed),
            (r#"{"VERSION":1}"#.into(), SteeringError::Malformed),
            (r#"{"VERSION":1,"TTL":-1,"PATHWAY-PRIORITY":["a"]}"#.into(), SteeringError::Malformed),
            (r#"{"VERSION":2,"PATHWAY-PRIORITY":["a"]}"#.into(), SteeringError::Version),
            (r#"{"VERSION":1,"PATHWAY-PRIORITY":[]}"#.into(), SteeringError::Priority),
            (r#"{"VERSION":1,"PATHWAY-PRIORITY":["a","a"]}"#.into(), SteeringError::Priority),
            (
                r#"{"VERSION":1,"PATHWAY-PRIORITY":["a"],"RELOAD-URI":"ftp://x"}"#.into(),
                SteeringError::Reload,
            ),
            (clones(&clone("b", "b")), SteeringError::Clone),
            (clones(&format!("{},{}", clone("c", "b"), clone("a", "c"))), SteeringError::Clone),
            (clones(&format!("{},{}", clone("a", "b"), clone("a", "b"))), SteeringError::Clone),
            (clones(&vec![clone("a", "b"); 17].join(",")), SteeringError::Clone),
            (" ".repeat(ANSWER_BYTES_MAX + 1), SteeringError::Long),
            (r#"{"VERSION":1,"x":"#.to_owned() + &"[".repeat(100_000), SteeringError::Malformed),
        ] {
            let said = &text[..text.len().min(90)];
            assert_eq!(parse(&text), Err(error), "{said}");
        }
        assert!(parse(&clones(&format!("{},{}", clone("a", "b"), clone("b", "c")))).is_ok());
    }

    #[test]
    fn a_request_tells_the_pathway_and_its_throughput() {
        let server = ASKED.parse().expect("a URL");
        assert_eq!(
            request(&server, Format::Hls, "CDN A", Some(5_140_000)).to_string(),
            "https://steer.example/s?session=1&_HLS_pathway=%22CDN%20A%22&_HLS_throughput=5140000"
        );
        assert_eq!(
            request(&server, Format::Dash, "b", None).to_string(),
            "https://steer.example/s?session=1&_DASH_pathway=%22b%22"
        );
    }
}
