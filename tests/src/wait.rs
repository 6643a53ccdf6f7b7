//! Waits for conditions.

use std::time::{Duration, Instant};

/// Time limit for anything that a healthy server does at once. Long, because the machine may be busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Polls until there is a value.
///
/// # Panics
/// After [`PATIENCE`], naming `what` it waited for.
pub fn eventually<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, ask)
}

/// Polls until `holds` is true.
///
/// # Panics
/// As [`eventually`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}

/// As [`eventually`], with the caller's time limit.
///
/// # Panics
/// After `patience`.
pub fn within<T>(patience: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {patience:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
