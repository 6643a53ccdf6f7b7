//! Reports of what viewers watched on one node in one minute, for its gateways.
//!
//! A report is immutable: a node completes one per minute, and sends it to each gateway until that gateway has accepted it. It is bounded: the
//! titles that the node's server counts by name, at most [`REPORT_TITLES_MAX`], and one sum for the rest. A minute without viewers has no report.

use serde::{Deserialize, Serialize};

use crate::heartbeat::check_boot;
use crate::title::check_path;
use crate::{Name, OutOfBounds};

/// Most titles in one report. A server names 256 at a time, and they may change within a minute.
pub const REPORT_TITLES_MAX: usize = 1000;

/// Longest time of one report.
const SECONDS_MAX: u32 = 3600;

/// More than any node sends in an hour: 18 Tb/s. Sums of reports stay far below 2^64.
const BYTES_MAX: u64 = 1 << 53;

/// A lower bound on the bytes of an answer to a viewer: a status line and some header lines. So the bytes bound the number of starts.
const ANSWER_BYTES_MIN: u64 = 100;

/// Number of starts, and bytes sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchCount {
    /// Answers that began with the first byte of a track or a film. Players open one track for picture and one for sound, and others when they
    /// change quality, so a viewer counts a few times.
    pub starts: u64,
    /// Bytes sent to viewers.
    pub bytes: u64,
}

/// A title with its counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedTitle {
    /// Its path.
    pub path: String,
    /// See [`WatchCount`].
    pub starts: u64,
    /// See [`WatchCount`].
    pub bytes: u64,
}

/// A report of what viewers watched on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchReport {
    /// The version of this document: 1.
    pub version: u32,
    /// The sender. A name other than the one in its certificate is refused.
    pub node: Name,
    /// Drawn at each start of the agent.
    pub boot: String,
    /// Rises with each report of a boot; a gateway accepts none that is not newer than the last.
    pub number: u64,
    /// The time that it covers.
    pub seconds: u32,
    /// Counts by title, sorted by path, without duplicates.
    pub titles: Vec<WatchedTitle>,
    /// Counts of everything else.
    pub rest: WatchCount,
}

impl WatchCount {
    /// Adds another count, saturating.
    pub fn add(&mut self, other: Self) {
        self.starts = self.starts.saturating_add(other.starts);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Whether nothing was watched.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// The same count, with no more starts than its bytes allow.
    pub fn bounded(self) -> Self {
        Self { starts: self.starts.min(self.bytes / ANSWER_BYTES_MIN), ..self }
    }
}

impl WatchedTitle {
    /// Its counts.
    pub fn count(&self) -> WatchCount {
        WatchCount { starts: self.starts, bytes: self.bytes }
    }
}

impl WatchReport {
    /// The total.
    pub fn sum(&self) -> WatchCount {
        let mut sum = self.rest;
        self.titles.iter().for_each(|title| sum.add(title.count()));
        sum
    }

    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        let wrong = |text| Err(OutOfBounds(text));
        if self.version != 1 {
            return wrong("version is not 1: gateway and node are of different releases");
        }
        check_boot(&self.boot)?;
        if !(1..=SECONDS_MAX).contains(&self.seconds) {
            return wrong("seconds is not 1 to 3600");
        }
        if self.titles.len() > REPORT_TITLES_MAX {
            return wrong("there are more than 1000 titles");
        }
        if !self.titles.is_sorted_by(|one, next| one.path < next.path) {
            return wrong("titles are not sorted by path, or one is there twice");
        }
        if self.sum().bytes > BYTES_MAX {
            return wrong("there are more bytes than any node sends in an hour");
        }
        self.titles.iter().try_for_each(|title| check_path(&title.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(path: &str, bytes: u64) -> WatchedTitle {
        WatchedTitle { path: path.to_owned(), starts: 1, bytes }
    }

    fn report() -> WatchReport {
        WatchReport {
            version: 1,
            node: "n1".parse().expect("a name"),
            boot: "b1".to_owned(),
            number: 1,
            seconds: 60,
            titles: vec![title("films/a", 1000), title("films/b", 2000)],
            rest: WatchCount { starts: 1, bytes: 500 },
        }
    }

    #[test]
    fn a_report_reads_what_it_writes_and_sums_up() {
        let report = report();
        assert_eq!(report.check(), Ok(()));
        assert_eq!(report.sum(), WatchCount { starts: 3, bytes: 3500 });
        let sent = serde_json::to_vec(&report).expect("JSON");
        assert_eq!(serde_json::from_slice::<WatchReport>(&sent).expect("the same"), report);
    }

    #[test]
    fn a_report_that_cannot_be_is_refused() {
        let broken: [fn(&mut WatchReport); 8] = [
            |one| one.version = 2,
            |one| one.boot = "../x".into(),
            |one| one.seconds = 0,
            |one| one.seconds = 3601,
            |one| one.titles.reverse(),
            |one| one.titles[1].path = "films/a".into(),
            |one| one.titles[0].path = "../a".into(),
            |one| (one.titles[0].bytes, one.rest.bytes) = (u64::MAX, u64::MAX),
        ];
        for (number, break_it) in broken.iter().enumerate() {
            let mut one = report();
            break_it(&mut one);
            assert!(one.check().is_err(), "{number}");
        }
        let mut many = report();
        many.titles = (0..=REPORT_TITLES_MAX).map(|at| title(&format!("t{at:04}"), 1)).collect();
        assert!(many.check().is_err());
    }

    #[test]
    fn starts_are_bounded_by_bytes() {
        let lie = WatchCount { starts: u64::MAX, bytes: 1000 };
        assert_eq!(lie.bounded(), WatchCount { starts: 10, bytes: 1000 });
    }
}
