//! Times out a viewer that takes nothing.
//!
//! TCP asks for more only when most of its bytes are sent, and a slow viewer may need longer for that than the timeout. So the viewer's
//! acknowledgements count instead. While a connection waits it gives TCP nothing, so fewer unacknowledged bytes than before mean that the viewer took
//! some. Asking the kernel costs a system call; most waits are over before the first check.

use crate::end::End;
use std::time::{Duration, Instant};

/// When the first check is due: a guess, longer than most waits. Bytes taken before it do not count, so the viewer has that much longer.
const FIRST_LOOK_MAX: Duration = Duration::from_secs(1);

/// A wait for a viewer to take bytes.
pub(crate) struct Stall {
    /// How long the viewer may take nothing.
    timeout: Duration,
    look_at: Instant,
    /// How many bytes were unacknowledged at the last check.
    unacknowledged_bytes: Option<usize>,
}

impl Stall {
    /// Begins a wait.
    pub(crate) fn begin(now: Instant, timeout: Duration) -> Self {
        let look_at = now + FIRST_LOOK_MAX.min(timeout / 8);
        Self { timeout, look_at, unacknowledged_bytes: None }
    }

    /// When to call [`Self::look`].
    pub(crate) fn look_at(&self) -> Instant {
        self.look_at
    }

    /// Checks how many bytes are unacknowledged, if it is time to.
    ///
    /// # Errors
    /// [`End::SendTimeout`] if the viewer took none for too long.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        unacknowledged_bytes: impl FnOnce() -> usize,
    ) -> Result<(), End> {
        if now < self.look_at {
            return Ok(());
        }
        let left = unacknowledged_bytes();
        if self.unacknowledged_bytes.is_some_and(|before| left >= before) {
            return Err(End::SendTimeout);
        }
        self.unacknowledged_bytes = Some(left);
        self.look_at = now + self.timeout;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// Waits for a viewer with these counts of unacknowledged bytes at the checks. Returns the last result, and when it came.
    fn wait(left: &[usize]) -> (Result<(), End>, Duration) {
        let start = Instant::now();
        let mut stall = Stall::begin(start, TIMEOUT);
        let (mut result, mut now) = (Ok(()), start);
        for bytes in left {
            now = stall.look_at();
            result = stall.look(now, || *bytes);
        }
        (result, now - start)
    }

    #[test]
    fn a_viewer_that_takes_nothing_is_given_up_when_patience_is_over() {
        assert_eq!(wait(&[5000]), (Ok(()), FIRST_LOOK_MAX));
        assert_eq!(wait(&[5000, 5000]), (Err(End::SendTimeout), FIRST_LOOK_MAX + TIMEOUT));
        let after_some = wait(&[5000, 4000, 4000]);
        assert_eq!(after_some, (Err(End::SendTimeout), FIRST_LOOK_MAX + 2 * TIMEOUT));
    }

    #[test]
    fn a_viewer_that_takes_one_byte_in_time_stays() {
        let left: Vec<usize> = (0..1000).rev().collect();
        assert_eq!(wait(&left).0, Ok(()));
    }

    #[test]
    fn the_kernel_is_not_asked_before_it_is_time() {
        let start = Instant::now();
        let mut stall = Stall::begin(start, TIMEOUT);
        let early = stall.look(start, || unreachable!("it is not time yet"));
        assert_eq!(early, Ok(()));
    }
}
