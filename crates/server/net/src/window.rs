//! How many bytes to read at once: as many as TCP has recently taken.

/// The unit of windows: a whole TLS record, so that windows end where records end.
pub const STEP_BYTES: usize = 16 << 10;

/// How much a connection reads at once. The window grows while TCP takes all of it, and shrinks to what TCP took when it did not. Bytes that TCP does
/// not take would have to be held or made again.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    steps: u16,
    steps_max: u16,
}

impl Window {
    /// Four steps: about what a socket's send buffer holds at first.
    const STEPS_FIRST: u16 = 4;
    /// A window grows by this many steps, or by half if that is more.
    const STEPS_GROWN: u16 = 4;

    /// A window that starts small and never exceeds `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        let steps_max = u16::try_from(bytes_max / STEP_BYTES).unwrap_or(u16::MAX).max(1);
        Self { steps: Self::STEPS_FIRST.min(steps_max), steps_max }
    }

    /// Bytes to read next.
    pub fn bytes(&self) -> usize {
        usize::from(self.steps) * STEP_BYTES
    }

    /// Records that TCP took the whole window at once.
    pub fn taken_whole(&mut self) {
        self.steps = (self.steps + Self::STEPS_GROWN.max(self.steps / 2)).min(self.steps_max);
    }

    /// Records that TCP took only `bytes` of it at first.
    pub fn taken_in_part(&mut self, bytes: usize) {
        let steps = u16::try_from(bytes.div_ceil(STEP_BYTES)).unwrap_or(u16::MAX);
        self.steps = steps.clamp(1, self.steps_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_its_bound_while_everything_is_taken() {
        let mut window = Window::new(512 << 10);
        assert_eq!(window.bytes(), 64 << 10);
        for _ in 0..5 {
            window.taken_whole();
        }
        assert_eq!(window.bytes(), 512 << 10);
        window.taken_whole();
        assert_eq!(window.bytes(), 512 << 10);
    }

    #[test]
    fn falls_to_what_was_taken_but_not_below_a_record() {
        let mut window = Window::new(512 << 10);
        window.taken_in_part(100_000);
        assert_eq!(window.bytes(), 7 * STEP_BYTES);
        window.taken_in_part(0);
        assert_eq!(window.bytes(), STEP_BYTES);
    }

    #[test]
    fn a_bound_below_one_step_still_serves() {
        assert_eq!(Window::new(100).bytes(), STEP_BYTES);
    }
}
