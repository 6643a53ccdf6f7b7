//! How long a connection waits for a viewer that takes nothing.
//!
//! TCP asks for more when most of what it has is sent, and a slow viewer may need longer for that than it may take nothing. So what counts is
//! what the viewer acknowledges. While a connection waits it gives TCP nothing, so fewer unacknowledged bytes than before mean that the viewer
//! took some. Asking the kernel costs a system call; most waits are over before the first look.

use crate::end::End;
use std::time::{Duration, Instant};

/// When it is looked first: a guess, longer than most waits. What the viewer takes before that does not count, so it has that much longer.
const FIRST_LOOK_MAX: Duration = Duration::from_secs(1);

/// A wait for a viewer to take bytes.
pub(crate) struct Stall {
    /// How long the viewer may take nothing.
    patience: Duration,
    look_at: Instant,
    /// How many bytes were unacknowledged at the last look.
    unacknowledged_bytes: Option<usize>,
}

impl Stall {
    /// The wait begins.
    pub(crate) fn begin(now: Instant, patience: Duration) -> Self {
        let look_at = now + FIRST_LOOK_MAX.min(patience / 8);
        Self { patience, look_at, unacknowledged_bytes: None }
    }

    /// When to call [`Self::look`].
    pub(crate) fn look_at(&self) -> Instant {
        self.look_at
    }

    /// Looks how many bytes are unacknowledged, if it is time to.
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
        self.look_at = now + self.patience;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Waits for a viewer who has left so many bytes unacknowledged at each look. Returns how the last one came out, and when it was.
    fn wait(left: &[usize]) -> (Result<(), End>, Duration) {
        let start = Instant::now();
        let mut stall = Stall::begin(start, PATIENCE);
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
        assert_eq!(wait(&[5000, 5000]), (Err(End::SendTimeout), FIRST_LOOK_MAX + PATIENCE));
        let after_some = wait(&[5000, 4000, 4000]);
        assert_eq!(after_some, (Err(End::SendTimeout), FIRST_LOOK_MAX + 2 * PATIENCE));
    }

    #[test]
    fn a_viewer_that_takes_one_byte_in_time_stays() {
        let left: Vec<usize> = (0..1000).rev().collect();
        assert_eq!(wait(&left).0, Ok(()));
    }

    #[test]
    fn the_kernel_is_not_asked_before_it_is_time() {
        let start = Instant::now();
        let mut stall = Stall::begin(start, PATIENCE);
        let early = stall.look(start, || unreachable!("it is not time yet"));
        assert_eq!(early, Ok(()));
    }
}
