//! What viewers watched on one node in one minute, as the node tells its gateways.
//!
//! A report never changes: a node closes one a minute, and sends it to each gateway until that gateway has taken it. It is bounded: the titles that
//! the node's server counts by name, at most [`REPORT_TITLES_MAX`], and one sum of the rest. A minute in which nobody watched has no report.

use serde::{Deserialize, Serialize};

use crate::heartbeat::check_boot;
use crate::title::check_path;
use crate::{Name, OutOfBounds};

/// Most titles in one report. A server names 256 at a time, and they change within a minute.
pub const REPORT_TITLES_MAX: usize = 1000;

/// Longest time of one report.
const SECONDS_MAX: u32 = 3600;

/// So much no node sends in an hour: 18 Tb/s. Sums of reports stay far below 2^64.
const BYTES_MAX: u64 = 1 << 53;

/// An answer to a viewer has at least so many bytes: a status line and some header lines. So starts are bounded by bytes.
const ANSWER_BYTES_MIN: u64 = 100;

/// How often something was started, and bytes sent of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchCount {
    /// Answers that began with the first byte of a track or a film. Players open a track for picture and one for sound, and others as they change
    /// quality, so a viewer counts a few times.
    pub starts: u64,
    /// Bytes that viewers took.
    pub bytes: u64,
}

/// A title that was watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedTitle {
    /// Its path.
    pub path: String,
    /// As in [`WatchCount`].
    pub starts: u64,
    /// As in [`WatchCount`].
    pub bytes: u64,
}

/// What viewers watched on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchReport {
    /// The version of this form: 1.
    pub version: u32,
    /// Who sends it: the name in its certificate, or it is refused.
    pub node: Name,
    /// Drawn anew at each start of the agent.
    pub boot: String,
    /// Rises with each report of a boot; a gateway takes none that is not newer than the last.
    pub number: u64,
    /// The time that it is about.
    pub seconds: u32,
    /// What was watched by title, sorted by path, nothing twice.
    pub titles: Vec<WatchedTitle>,
    /// All else that viewers took.
    pub rest: WatchCount,
}

impl WatchCount {
    /// Adds another one, as far as numbers go.
    pub fn add(&mut self, other: Self) {
        self.starts = self.starts.saturating_add(other.starts);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Nothing was watched.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Itself, with no more starts than its bytes can be.
    pub fn bounded(self) -> Self {
        Self { starts: self.starts.min(self.bytes / ANSWER_BYTES_MIN), ..self }
    }
}

impl WatchedTitle {
    /// What was watched of it.
    pub fn count(&self) -> WatchCount {
        WatchCount { starts: self.starts, bytes: self.bytes }
    }
}

impl WatchReport {
    /// All that was watched.
    pub fn sum(&self) -> WatchCount {
        let mut sum = self.rest;
        self.titles.iter().for_each(|title| sum.add(title.count()));
        sum
    }

    /// Checks what serde does not.
    ///
    /// # Errors
    /// The field that is out of its bounds.
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
