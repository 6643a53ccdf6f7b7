//! Anonymises the names of sessions.
//!
//! A name is replaced by the start of its HMAC under a key that changes every day (UTC). The first key is random; each day's key is the
//! hash of the key before, which is then forgotten. So all workers that start with one salt agree without communicating. Tomorrow it is impossible
//! to tell whether a name is one from today, even with all of this process's memory.

use aws_lc_rs::{digest, error::Unspecified, hmac, rand};

const DAY_SECONDS: u64 = 86_400;

/// The most days to catch up one by one; if the clock was set further ahead, the keys continue from there.
const DAYS_MAX: u64 = 4000;

/// The key of a day.
#[derive(Clone)]
pub struct Salt {
    day: u64,
    secret: [u8; 32],
    key: hmac::Key,
}

impl Salt {
    /// A random salt for the day of `unix_seconds`.
    ///
    /// # Errors
    /// If the system returns no random numbers.
    pub fn random(unix_seconds: u64) -> Result<Self, Unspecified> {
        let mut secret = [0; 32];
        rand::fill(&mut secret)?;
        Ok(Self::of(secret, unix_seconds / DAY_SECONDS))
    }

    fn of(secret: [u8; 32], day: u64) -> Self {
        Self { day, secret, key: hmac::Key::new(hmac::HMAC_SHA256, &secret) }
    }

    /// The number that stands for the session `name` on the day of `unix_seconds`. If the clock goes back, the later day stays.
    pub fn session(&mut self, name: &[u8], unix_seconds: u64) -> u64 {
        let day = unix_seconds / DAY_SECONDS;
        if day > self.day {
            let days = (day - self.day).min(DAYS_MAX);
            let secret = (0..days).fold(self.secret, |secret, _| next(&secret));
            *self = Self::of(secret, day);
        }
        let tag = hmac::sign(&self.key, name);
        let start = tag.as_ref().first_chunk().expect("SHA-256 has 32 bytes");
        u64::from_be_bytes(*start)
    }
}

fn next(secret: &[u8; 32]) -> [u8; 32] {
    let hash = digest::digest(&digest::SHA256, secret);
    *hash.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 20_000 * DAY_SECONDS + DAY_SECONDS / 2;

    #[test]
    fn workers_agree_all_day_and_from_one_day_to_the_next() {
        let mut one = Salt::random(NOON).unwrap();
        let mut two = one.clone();
        assert_eq!(one.session(b"a", NOON), two.session(b"a", NOON + 3600));
        assert_ne!(one.session(b"a", NOON), one.session(b"b", NOON));
        let tomorrow = NOON + DAY_SECONDS;
        let early = one.session(b"a", tomorrow);
        // `two` skips three days, `one` hashes a name on each of them.
        one.session(b"a", tomorrow + DAY_SECONDS);
        let third = tomorrow + 2 * DAY_SECONDS;
        assert_eq!(one.session(b"a", third), two.session(b"a", third));
        assert_ne!(early, one.session(b"a", third));
    }

    #[test]
    fn a_day_that_is_over_does_not_come_back() {
        let mut salt = Salt::random(NOON).unwrap();
        let today = salt.session(b"a", NOON);
        let tomorrow = salt.session(b"a", NOON + DAY_SECONDS);
        assert_ne!(today, tomorrow);
        assert_eq!(salt.session(b"a", NOON), tomorrow);
    }

    #[test]
    fn two_processes_have_nothing_in_common() {
        let (mut one, mut two) = (Salt::random(NOON).unwrap(), Salt::random(NOON).unwrap());
        assert_ne!(one.session(b"a", NOON), two.session(b"a", NOON));
    }
}
