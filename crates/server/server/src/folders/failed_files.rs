//! The files of a library that could not be opened or read because of their disk, for `/status.json`.
//!
//! The list is bounded in two ways: a file leaves it [`KEPT`] after its last failure, and the file that failed longest ago leaves it when
//! there are more than [`FILES_MAX`]. The total only grows.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The most files listed: a path has up to 4 KiB, and `/status.json` lists the files of every library.
const FILES_MAX: usize = 64;

/// How long a file is listed after its last failure: readers look every few seconds, and people within minutes.
const KEPT: Duration = Duration::from_secs(300);

/// The files that failed lately.
#[derive(Debug, Default)]
pub(super) struct FailedFiles {
    failures_total: u64,
    files: HashMap<PathBuf, Failures>,
}

/// The failures of one file.
#[derive(Debug)]
struct Failures {
    count: u64,
    last: Instant,
    last_since_1970: Duration,
}

impl FailedFiles {
    /// Records a failure of `file` at `now`, which is `since_1970` by the wall clock. A file of unknown path is only counted.
    pub(super) fn note(&mut self, file: Option<PathBuf>, now: Instant, since_1970: Duration) {
        self.failures_total += 1;
        let Some(file) = file else { return };
        self.expire(now);
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&file) {
            let oldest = self.files.iter().min_by_key(|(_, failures)| failures.last);
            let oldest = oldest.map(|(path, _)| path.clone());
            oldest.and_then(|path| self.files.remove(&path));
        }
        let first = Failures { count: 0, last: now, last_since_1970: since_1970 };
        let failures = self.files.entry(file).or_insert(first);
        failures.count += 1;
        (failures.last, failures.last_since_1970) = (now, since_1970);
    }

    /// Failures since the start.
    pub(super) fn failures_total(&self) -> u64 {
        self.failures_total
    }

    /// The list as JSON. `last_unix_ms` identifies a file's last failure, also across restarts of the server; `age_seconds` is independent of
    /// the wall clock.
    pub(super) fn json(&mut self, now: Instant) -> Vec<Value> {
        self.expire(now);
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_by_key(|(path, failures)| (std::cmp::Reverse(failures.last), *path));
        let files = files.into_iter().map(|(path, failures)| {
            json!({
                "file": path.to_string_lossy(),
                "failures": failures.count,
                "last_unix_ms": u64::try_from(failures.last_since_1970.as_millis()).unwrap_or(u64::MAX),
                "age_seconds": now.saturating_duration_since(failures.last).as_secs_f64(),
            })
        });
        files.collect()
    }

    fn expire(&mut self, now: Instant) {
        self.files.retain(|_, failures| now.saturating_duration_since(failures.last) < KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(failed: &mut FailedFiles, now: Instant) -> Vec<String> {
        let files = failed.json(now).into_iter();
        files.map(|file| file["file"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_file_is_listed_with_its_last_failure_and_leaves_the_list_in_time() {
        let mut failed = FailedFiles::default();
        let begun = Instant::now();
        let mut note = |file: &str, seconds: u64| {
            let after = Duration::from_secs(seconds);
            failed.note(Some(file.into()), begun + after, Duration::from_secs(1000) + after);
        };
        note("/d0/film/a.mp4", 0);
        note("/d0/film/a.mp4", 10);
        note("/d0/film/b.mp4", 20);
        let now = begun + Duration::from_secs(25);
        assert_eq!(names(&mut failed, now), ["/d0/film/b.mp4", "/d0/film/a.mp4"]);
        let first = &failed.json(now)[1];
        assert_eq!(
            (first["failures"].as_u64(), first["last_unix_ms"].as_u64()),
            (Some(2), Some(1_010_000))
        );
        assert_eq!(first["age_seconds"], 15.0);
        let later = begun + Duration::from_secs(10) + KEPT;
        assert_eq!(names(&mut failed, later), ["/d0/film/b.mp4"]);
        assert!(names(&mut failed, later + KEPT).is_empty());
        assert_eq!(failed.failures_total(), 3);
    }

    #[test]
    fn of_more_files_than_fit_the_last_ones_are_listed_and_all_are_counted() {
        let mut failed = FailedFiles::default();
        let begun = Instant::now();
        let count = FILES_MAX + 10;
        for (number, seconds) in (0..count).zip(0..) {
            let at = begun + Duration::from_secs(seconds);
            failed.note(Some(format!("/d0/{number}.ts").into()), at, Duration::ZERO);
        }
        failed.note(None, begun, Duration::ZERO);
        let now = begun + Duration::from_secs(count as u64);
        let listed = names(&mut failed, now);
        assert_eq!((listed.len(), &*listed[0]), (FILES_MAX, &*format!("/d0/{}.ts", count - 1)));
        assert!(!listed.contains(&"/d0/9.ts".to_owned()));
        assert_eq!(failed.failures_total(), count as u64 + 1);
    }
}
