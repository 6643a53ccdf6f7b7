//! The frame rate of a title.

use std::fmt::{self, Display, Formatter};

/// Frames per second, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameRate {
    pub(crate) frames: u32,
    pub(crate) seconds: u32,
}

impl FrameRate {
    pub(crate) fn per_second(self) -> f64 {
        f64::from(self.frames) / f64::from(self.seconds)
    }
}

impl Display for FrameRate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.frames, self.seconds)
    }
}

/// Rates that films are made in (SMPTE ST 2036, ITU-R BT.2020), in ascending order.
const USUAL_RATES: [(u32, u32); 9] = [
    (24_000, 1001),
    (24, 1),
    (25, 1),
    (30_000, 1001),
    (30, 1),
    (48, 1),
    (50, 1),
    (60_000, 1001),
    (60, 1),
];
/// A mean that differs from a usual rate by less than this counts as that rate.
const MEASURED: f64 = 0.002;

/// Picks the frame rate for a film, from its mean rate and the rate of its timestamps. It is the same in every rung, because key frames can
/// only be aligned if frames are.
///
/// A film with a variable rate (the two differ) gets a usual rate close to its mean, else the rate of which its timestamps are multiples,
/// else the next usual rate above its mean. The limit is 60 frames a second.
pub(crate) fn constant_rate(mean: Option<(u32, u32)>, stamped: Option<(u32, u32)>) -> FrameRate {
    let value = |(frames, seconds): (u32, u32)| f64::from(frames) / f64::from(seconds);
    let rate = |(frames, seconds)| FrameRate { frames, seconds };
    const FASTEST: (u32, u32) = (60, 1);
    let Some(mean) = mean.or(stamped) else { return rate((25, 1)) };
    let stamped = stamped.filter(|&stamped| value(stamped) <= value(FASTEST));
    if stamped == Some(mean) {
        return rate(mean);
    }
    let near = |usual: &(u32, u32)| (value(*usual) / value(mean) - 1.0).abs() < MEASURED;
    let above = || USUAL_RATES.iter().copied().find(|&usual| value(usual) >= value(mean));
    let measured = USUAL_RATES.iter().copied().find(near);
    rate(measured.or(stamped).or_else(above).unwrap_or(FASTEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_varies_becomes_a_constant_one_and_one_that_does_not_is_kept() {
        let rate = |mean, stamped| constant_rate(mean, stamped).to_string();
        assert_eq!(rate(Some((30_000, 1001)), Some((30_000, 1001))), "30000/1001");
        assert_eq!(rate(Some((15, 1)), Some((15, 1))), "15/1");
        assert_eq!(rate(Some((2997, 100)), Some((90_000, 1))), "30000/1001");
        assert_eq!(rate(Some((271, 10)), Some((120, 1))), "30000/1001");
        assert_eq!(rate(Some((22, 1)), Some((30, 1))), "30/1");
        assert_eq!(rate(Some((240, 1)), Some((240, 1))), "60/1");
        assert_eq!(rate(Some((22, 1)), Some((1000, 1))), "24000/1001");
        assert_eq!(rate(None, None), "25/1");
    }
}
