//! Maps figures to positions along an axis, and chooses the axis's marks.

/// An axis from left to right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    left: f64,
    right: f64,
    is_logarithmic: bool,
}

/// The most powers of ten that a logarithmic axis covers; figures beyond are drawn at its ends.
const DECADES_MAX: i32 = 12;

impl Scale {
    /// From zero to slightly above the largest of `figures`.
    pub(crate) fn from_nought(
        figures: impl IntoIterator<Item = f64>,
        left: f64,
        right: f64,
    ) -> Self {
        let greatest = finite(figures).fold(0.0, f64::max);
        let high = if greatest > 0.0 { greatest.min(1e300) * 1.04 } else { 1.0 };
        Self { low: 0.0, high, left, right, is_logarithmic: false }
    }

    /// Around all of `figures` above zero.
    pub(crate) fn logarithmic(
        figures: impl IntoIterator<Item = f64>,
        left: f64,
        right: f64,
    ) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for figure in finite(figures).filter(|figure| *figure > 0.0) {
            (low, high) = (low.min(figure), high.max(figure));
        }
        if high == 0.0 {
            (low, high) = (1.0, 10.0);
        }
        let low = low.max(high / 10_f64.powi(DECADES_MAX)).max(f64::MIN_POSITIVE);
        Self { low: low / 1.15, high: high * 1.15, left, right, is_logarithmic: true }
    }

    /// The position of a figure. Figures outside are drawn at the end.
    pub(crate) fn place(&self, figure: f64) -> f64 {
        let share = if self.is_logarithmic {
            (figure.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (figure - self.low) / (self.high - self.low)
        };
        self.left + share.clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// Figures to mark, at most about one per 70 pixels.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let room = ((self.right - self.left) / 70.0).clamp(2.0, 12.0);
        if self.is_logarithmic { self.logarithmic_ticks(room) } else { self.linear_ticks(room) }
    }

    fn linear_ticks(&self, room: f64) -> Vec<f64> {
        let step = round_up((self.high - self.low) / room);
        (0..=room as usize + 1)
            .map(|index| self.low + index as f64 * step)
            .filter(|tick| *tick <= self.high)
            .collect()
    }

    fn logarithmic_ticks(&self, room: f64) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let choices: [&[f64]; 4] =
            [&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0], &[1.0, 2.0, 3.0, 5.0], &[1.0, 2.0, 5.0], &[1.0]];
        let ticks = |digits: &[f64]| -> Vec<f64> {
            let all = decades
                .clone()
                .flat_map(|exponent| digits.iter().map(move |digit| digit * 10_f64.powi(exponent)));
            all.filter(|tick| *tick >= self.low && *tick <= self.high).collect()
        };
        let fitting = choices.into_iter().map(ticks).find(|ticks| ticks.len() as f64 <= room + 1.0);
        fitting.unwrap_or_else(|| thinned(&ticks(&[1.0]), room as usize))
    }
}

fn thinned(ticks: &[f64], room: usize) -> Vec<f64> {
    ticks.iter().copied().step_by(ticks.len().div_ceil(room.max(1)).max(1)).collect()
}

fn finite(figures: impl IntoIterator<Item = f64>) -> impl Iterator<Item = f64> {
    figures.into_iter().filter(|figure| figure.is_finite())
}

/// The next larger of 1, 2, 2.5, 5 times a power of ten.
fn round_up(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let digits = [1.0, 2.0, 2.5, 5.0, 10.0];
    digits
        .into_iter()
        .map(|digit| digit * power)
        .find(|rounded| *rounded >= step * 0.999)
        .unwrap_or(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_begin_at_nought_and_have_round_marks() {
        let scale = Scale::from_nought([40.2, 12.8, f64::NAN], 0.0, 700.0);
        assert_eq!(scale.place(0.0), 0.0);
        assert!(scale.place(40.2) < 700.0 && scale.place(40.2) > 650.0);
        assert_eq!(scale.ticks(), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0]);
    }

    #[test]
    fn logarithmic_axes_put_equal_ratios_equally_far_apart() {
        let scale = Scale::logarithmic([0.4, 3.2], 0.0, 700.0);
        let step = scale.place(2.0) - scale.place(1.0);
        assert!((scale.place(1.0) - scale.place(0.5) - step).abs() < 1e-9);
        assert!(scale.ticks().contains(&1.0));
    }

    #[test]
    fn axes_of_nothing_or_of_nonsense_are_axes_all_the_same() {
        let nonsense: [&[f64]; 4] =
            [&[], &[0.0, -3.0], &[f64::NAN, f64::INFINITY], &[1e-300, 1e308]];
        for figures in nonsense {
            for scale in [
                Scale::from_nought(figures.to_vec(), 0.0, 300.0),
                Scale::logarithmic(figures.to_vec(), 0.0, 300.0),
            ] {
                assert!(
                    scale.ticks().len() <= 13 && scale.ticks().iter().all(|tick| tick.is_finite())
                );
                assert!(
                    (0.0..=300.0).contains(&scale.place(1e308))
                        && (0.0..=300.0).contains(&scale.place(0.0))
                );
            }
        }
    }
}
