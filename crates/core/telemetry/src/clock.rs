//! The current time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since 1970. A clock before 1970 counts as 1970.
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
