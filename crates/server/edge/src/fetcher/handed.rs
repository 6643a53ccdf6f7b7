//! Responses that answer a question about an object, until the viewers who asked claim them.
//!
//! One that is still arriving holds a connection to the origin and its slot. So few of those wait, and none waits for long: its viewer may have
//! left.

use super::Helper;
use super::passing::AT_ONCE_MAX;
use super::receiving::Ready;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::{Instant, interval};

/// How long a response waits for its viewer.
const HANDED_OVER: Duration = Duration::from_secs(10);

/// How often those whose viewers have left are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The most that wait.
const HANDED_MAX: usize = 256;

/// The most of those that hold a slot: viewers who leave can't take more of the origin's slots than viewers who are being answered.
const ARRIVING_MAX: usize = AT_ONCE_MAX;

/// The waiting responses, by the numbers of their askers.
pub(super) struct Handed<T = Ready>(Mutex<HashMap<u64, Waiting<T>>>);

struct Waiting<T> {
    response: T,
    is_arriving: bool,
    until: Instant,
}

impl<T> Default for Handed<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Handed<T> {
    /// Keeps a response for `asker`. Returns those that wait no longer: the oldest ones, if there are too many.
    fn put(&self, asker: u64, response: T, is_arriving: bool, now: Instant) -> Vec<T> {
        let mut handed = self.lock();
        let mut gone: Vec<T> = handed.remove(&asker).map(|one| one.response).into_iter().collect();
        if is_arriving && handed.values().filter(|one| one.is_arriving).count() >= ARRIVING_MAX {
            gone.extend(remove_oldest(&mut handed, |one| one.is_arriving));
        }
        if handed.len() >= HANDED_MAX {
            gone.extend(remove_oldest(&mut handed, |_| true));
        }
        handed.insert(asker, Waiting { response, is_arriving, until: now + HANDED_OVER });
        gone
    }

    /// Removes those that have waited for too long.
    fn expire(&self, now: Instant) -> Vec<T> {
        let mut handed = self.lock();
        let late = handed.iter().filter(|(_, one)| one.until <= now).map(|(asker, _)| *asker);
        let late: Vec<u64> = late.collect();
        late.iter().filter_map(|asker| handed.remove(asker)).map(|one| one.response).collect()
    }

    /// The response for `asker`, once.
    pub(super) fn take(&self, asker: u64) -> Option<T> {
        self.lock().remove(&asker).map(|one| one.response)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Waiting<T>>> {
        self.0.lock().expect("no holder of this lock can panic")
    }
}

fn remove_oldest<T>(
    handed: &mut HashMap<u64, Waiting<T>>,
    is_meant: impl Fn(&Waiting<T>) -> bool,
) -> Option<T> {
    let meant = handed.iter().filter(|(_, one)| is_meant(one));
    let oldest = meant.min_by_key(|(_, one)| one.until).map(|(asker, _)| *asker)?;
    handed.remove(&oldest).map(|one| one.response)
}

impl Helper {
    /// Keeps a response for the viewer who asked.
    pub(super) fn hand(&self, asker: u64, ready: Ready) {
        let is_arriving = ready.is_arriving();
        let gone = self.handed.put(asker, ready, is_arriving, Instant::now());
        gone.into_iter().for_each(|ready| self.give_up(ready));
    }

    /// Every second: gives up the responses whose viewers have not claimed them.
    pub(super) async fn sweep_handed(self: Arc<Self>) {
        let mut ticks = interval(SWEEP_EVERY);
        loop {
            let gone = self.handed.expire(ticks.tick().await);
            gone.into_iter().for_each(|ready| self.give_up(ready));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_waits_for_its_viewer_for_a_bounded_time() {
        let (handed, start) = (Handed::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(handed.put(1, "a", true, at(0)).is_empty());
        assert!(handed.put(2, "b", false, at(5)).is_empty());
        assert!(handed.expire(at(9)).is_empty());
        assert_eq!(handed.expire(at(10)), ["a"], "although no other one came");
        assert_eq!((handed.take(1), handed.take(2), handed.take(2)), (None, Some("b"), None));
        assert!(handed.put(3, "c", true, at(20)).is_empty());
        assert_eq!(handed.put(3, "d", true, at(21)), ["c"], "the viewer asked again");
        assert_eq!(handed.expire(at(60)), ["d"]);
    }

    #[test]
    fn those_that_hold_slots_are_few_and_the_oldest_goes_first() {
        let (handed, now) = (Handed::default(), Instant::now());
        let at = |number: usize| now + Duration::from_millis(number as u64);
        let mut gone = Vec::new();
        for number in 0..HANDED_MAX + 10 {
            // Every other one holds a slot.
            gone.extend(handed.put(number as u64, number, number % 2 == 0, at(number)));
            let held = handed.lock();
            let arriving = held.values().filter(|one| one.is_arriving).count();
            assert!(held.len() <= HANDED_MAX && arriving <= ARRIVING_MAX);
        }
        let expected: Vec<usize> = (0..gone.len()).map(|number| 2 * number).collect();
        assert_eq!(gone, expected);
        assert_eq!(gone.len() + handed.lock().len(), HANDED_MAX + 10, "each is there or given up");
    }
}
