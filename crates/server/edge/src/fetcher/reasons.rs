//! Why something was not kept, or is no longer: the latest reason for each of the latest paths, for `fullbore edge why`.

use crate::inquiry::RecentReason;
use crate::store::common_form;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// The most paths. Viewers may invent some, and so displace others.
const PATHS_MAX: usize = 4096;

/// The most bytes of paths and reasons.
const BYTES_MAX: usize = 2 << 20;

/// The longest reason. Some hold a path.
const CHARACTERS_MAX: usize = 500;

/// The latest reasons.
#[derive(Default)]
pub(super) struct RecentReasons(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    by_path: HashMap<String, Reason>,
    /// The paths in the order of their notes, each with the number of the note. Of a path that was noted again, the last one counts.
    order: VecDeque<(u64, String)>,
    last: u64,
    bytes: usize,
}

struct Reason {
    number: u64,
    why: String,
    at: Instant,
}

impl RecentReasons {
    /// Notes the reason for a path. Its spellings have one.
    pub(super) fn note(&self, path: &str, why: &str, at: Instant) {
        let (path, why) = (common_form(path), why.chars().take(CHARACTERS_MAX).collect());
        let mut noted = self.lock();
        noted.last += 1;
        let number = noted.last;
        noted.bytes += 2 * path.len() + CHARACTERS_MAX;
        noted.by_path.insert(path.clone().into_owned(), Reason { number, why, at });
        noted.order.push_back((number, path.into_owned()));
        while noted.order.len() > PATHS_MAX || noted.bytes > BYTES_MAX {
            let Some((number, path)) = noted.order.pop_front() else { return };
            noted.bytes -= 2 * path.len() + CHARACTERS_MAX;
            if noted.by_path.get(&path).is_some_and(|reason| reason.number == number) {
                noted.by_path.remove(&path);
            }
        }
    }

    /// The latest reason for a path.
    pub(super) fn find(&self, path: &str, now: Instant) -> Option<RecentReason> {
        let noted = self.lock();
        let Reason { why, at, .. } = noted.by_path.get(&*common_form(path))?;
        let seconds_ago = now.saturating_duration_since(*at).as_secs();
        Some(RecentReason { why: why.clone(), seconds_ago })
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().expect("no holder of this lock can panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_latest_reasons_of_the_latest_paths_are_known() {
        let (reasons, start) = (RecentReasons::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let why = |path: &str| reasons.find(path, at(9)).map(|one| (one.why, one.seconds_ago));
        assert_eq!(why("/a"), None);
        reasons.note("/a", "no-store", at(1));
        reasons.note("/a", "evicted", at(7));
        assert_eq!(why("/a"), Some(("evicted".into(), 2)));
        reasons.note("/e%CC%81", "private", at(9));
        assert_eq!(why("/%C3%A9"), Some(("private".into(), 0)), "the same name");
        for number in 0..PATHS_MAX - 1 {
            reasons.note("/b", &format!("{number}"), at(9));
        }
        assert_eq!((why("/a"), why("/b").is_some()), (None, true));
        let long = format!("/{}", "x".repeat(40_000));
        for number in 0..PATHS_MAX {
            reasons.note(&format!("{long}{number}"), &long, at(9));
            let noted = reasons.lock();
            assert!(noted.bytes <= BYTES_MAX && noted.by_path.len() <= noted.order.len());
        }
        assert_eq!(why("/b"), None);
        (0..PATHS_MAX).for_each(|_| reasons.note("/a", "again", at(9)));
        let noted = reasons.lock();
        assert!(noted.by_path.len() == 1 && noted.bytes <= BYTES_MAX);
    }
}
