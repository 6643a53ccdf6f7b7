//! Searches for the greatest stable load: up in leaps until a load is not stable, then between the last two.
//!
//! The search is noisy, so an unstable step gets a second chance. This module knows nothing about viewers but their number.

use std::cell::Cell;
use std::io;

/// One step: a number of viewers, and whether the load was stable.
pub(crate) trait Attempt {
    /// The number of viewers.
    fn viewers(&self) -> usize;

    /// Why this load is not stable; `None` if it is.
    fn trouble(&self) -> Option<String>;
}

/// The limits of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Viewers to start with: a guess at the answer, or a small number.
    pub(crate) first: usize,
    /// Limit on viewers.
    pub(crate) most: usize,
    /// The factor of the first leap. Each further one is its square, up to 2.
    pub(crate) leap: f64,
    /// Precision of the answer, as a share of it.
    pub(crate) resolution: f64,
    /// Limit on steps, second chances included. A search that reaches it is less precise.
    pub(crate) steps_max: usize,
}

/// The result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found<T> {
    /// The stable step with the most viewers; `None` if no step was stable.
    pub(crate) best: Option<T>,
    /// The unstable step with the fewest viewers, if any.
    pub(crate) worst: Option<T>,
    /// Why no larger load was stable.
    pub(crate) stopped_by: String,
}

impl<T: Attempt> Found<T> {
    /// Ends a search. The reason is what was wrong with the next larger load, or `otherwise` if nothing was.
    fn ended(best: Option<T>, worst: Option<T>, otherwise: impl FnOnce() -> String) -> Self {
        let stopped_by = worst.as_ref().and_then(T::trouble).unwrap_or_else(otherwise);
        Self { best, worst, stopped_by }
    }

    /// Replaces the reason, if the search ended at a deliberate limit.
    pub(crate) fn explained(self, why: &str) -> Self {
        let is_bound =
            self.best.as_ref().is_some_and(|best| self.stopped_by == beyond(best.viewers()));
        if is_bound { Self { stopped_by: why.to_owned(), ..self } } else { self }
    }
}

/// Why a search ended at its limit.
fn beyond(most: usize) -> String {
    format!("more than {most} viewers were not tried")
}

/// The largest factor of a leap.
const LEAP_MAX: f64 = 2.0;

/// Searches for the greatest stable load. `step` tries a number of viewers. If it returns `None`, it was interrupted, which ends the search
/// as well.
///
/// # Errors
/// If `step` fails: a load that cannot be tried at all, not an unstable one.
pub(crate) fn search<T: Attempt>(
    bounds: Bounds,
    mut step: impl FnMut(usize) -> io::Result<Option<T>>,
) -> io::Result<Found<T>> {
    let Bounds { first, most, mut leap, resolution, steps_max } = bounds;
    let steps = Cell::new(0);
    let mut step = |viewers| {
        steps.set(steps.get() + 1);
        step(viewers)
    };
    let mut best: Option<T> = None;
    // The fewest viewers that were not stable.
    let mut worst: Option<T> = None;
    let mut viewers = first.clamp(1, most);
    loop {
        if steps.get() >= steps_max {
            return Ok(Found::ended(best, worst, || {
                format!("more than {steps_max} steps were not tried")
            }));
        }
        let Some(trial) = with_second_chance(viewers, &mut step)? else {
            return Ok(Found { best, worst, stopped_by: "interrupted".into() });
        };
        match trial.trouble() {
            None => best = Some(trial),
            Some(_) => worst = Some(trial),
        }
        viewers = match (best.as_ref().map(T::viewers), worst.as_ref().map(T::viewers)) {
            (Some(stable), None) if stable < most => leapt(stable, leap).min(most),
            (None, Some(unstable)) if unstable > 1 => fallen(unstable, leap),
            (Some(stable), Some(unstable)) if is_between(stable, unstable, resolution) => {
                ((stable as f64 * unstable as f64).sqrt() as usize).clamp(stable + 1, unstable - 1)
            }
            _ => return Ok(Found::ended(best, worst, || beyond(most))),
        };
        leap = (leap * leap).min(LEAP_MAX);
    }
}

/// Returns true if there is a load left to try between the stable and the unstable one.
fn is_between(stable: usize, unstable: usize, resolution: f64) -> bool {
    let gap = unstable.saturating_sub(stable);
    gap > 1 && gap as f64 > stable as f64 * resolution
}

fn leapt(viewers: usize, leap: f64) -> usize {
    ((viewers as f64 * leap) as usize).max(viewers + 1)
}

fn fallen(viewers: usize, leap: f64) -> usize {
    ((viewers as f64 / leap) as usize).clamp(1, viewers - 1)
}

fn with_second_chance<T: Attempt>(
    viewers: usize,
    step: &mut impl FnMut(usize) -> io::Result<Option<T>>,
) -> io::Result<Option<T>> {
    match step(viewers)? {
        Some(trial) if trial.trouble().is_some() => step(viewers),
        trial => Ok(trial),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ablate::trial::Trial;
    use crate::ablate::trial::tests::trial;

    const BOUNDS: Bounds =
        Bounds { first: 16, most: 100_000, leap: 2.0, resolution: 0.05, steps_max: usize::MAX };

    /// A system that gives each viewer its rate up to `capacity`, and shares evenly beyond.
    fn system(capacity: usize, viewers: usize) -> Trial {
        trial(viewers, (capacity as f64 / viewers as f64).min(1.0))
    }

    fn found(bounds: Bounds, step: impl Fn(usize) -> Trial) -> (Found<Trial>, usize) {
        let mut steps = 0;
        let found = search(bounds, |viewers| {
            steps += 1;
            Ok(Some(step(viewers)))
        });
        (found.unwrap(), steps)
    }

    /// What [`system`] still counts as stable: the median may lack 5%.
    fn assert_near(best: Option<Trial>, capacity: usize) {
        let viewers = best.unwrap().viewers as f64 / capacity as f64;
        assert!((0.95..=1.0527).contains(&viewers), "{viewers} of {capacity}");
    }

    #[test]
    fn finds_the_capacity_from_any_guess() {
        for capacity in [1, 2, 3, 17, 777, 5_000] {
            for first in [1, 16, 700, 20_000] {
                for leap in [1.25, 2.0] {
                    let bounds = Bounds { first, leap, ..BOUNDS };
                    let (found, steps) = found(bounds, |viewers| system(capacity, viewers));
                    assert_near(found.best, capacity);
                    assert!(steps < 60, "{steps} steps");
                    assert!(found.stopped_by.contains("the median viewer got"));
                }
            }
        }
    }

    #[test]
    fn a_good_guess_takes_few_steps() {
        let bounds = Bounds { first: 800, leap: 1.15, ..BOUNDS };
        let (found, steps) = found(bounds, |viewers| system(777, viewers));
        assert_near(found.best, 777);
        assert!(steps <= 8, "{steps} steps");
    }

    #[test]
    fn one_bad_step_now_and_then_does_not_mislead_it() {
        for period in [3, 5, 7] {
            let mut steps = 0;
            let found = search(BOUNDS, |viewers| {
                steps += 1;
                let share = if steps % period == 0 { 0.5 } else { 1.0 };
                Ok(Some(if viewers > 777 { system(777, viewers) } else { trial(viewers, share) }))
            });
            assert_near(found.unwrap().best, 777);
        }
    }

    #[test]
    fn errors_from_some_load_on_bound_it_and_are_the_reason() {
        let refusing = |viewers| Trial {
            error: (viewers > 300).then(|| "2 x refused".to_owned()),
            ..trial(viewers, 1.0)
        };
        let (found, _) = found(BOUNDS, refusing);
        let viewers = found.best.unwrap().viewers;
        assert!((285..=300).contains(&viewers), "{viewers}");
        assert_eq!(found.stopped_by, "2 x refused");
    }

    #[test]
    fn what_is_stable_with_nobody_is_said_to_be_nothing() {
        let broken = |viewers| Trial { error: Some("status 503".into()), ..trial(viewers, 0.0) };
        let (found, steps) = found(BOUNDS, broken);
        assert_eq!((found.best, found.stopped_by.as_str()), (None, "status 503"));
        assert_eq!(found.worst.map(|worst| worst.viewers), Some(1));
        assert!(steps < 20);
    }

    #[test]
    fn it_asks_for_no_more_than_allowed() {
        let (found, _) = found(Bounds { most: 100, ..BOUNDS }, |viewers| {
            assert!(viewers <= 100);
            trial(viewers, 1.0)
        });
        assert_eq!(found.best.unwrap().viewers, 100);
        assert!(found.stopped_by.contains("100 viewers"));
    }

    #[test]
    fn an_interruption_keeps_what_was_found() {
        let found = search(BOUNDS, |viewers| Ok((viewers < 100).then(|| trial(viewers, 1.0))));
        let found = found.unwrap();
        assert_eq!((found.best.unwrap().viewers, found.stopped_by.as_str()), (64, "interrupted"));
    }

    #[test]
    fn what_cannot_be_tried_is_an_error() {
        assert!(
            search(BOUNDS, |_| Err::<Option<Trial>, _>(io::ErrorKind::NotFound.into())).is_err()
        );
    }

    #[test]
    fn a_limit_on_steps_ends_it_with_what_was_found() {
        let bounds = Bounds { steps_max: 8, ..BOUNDS };
        let (found, steps) = found(bounds, |viewers| system(777, viewers));
        // 16 to 512, then 1024 twice.
        assert_eq!((found.best.unwrap().viewers, steps), (512, 8));
        assert_eq!(found.worst.unwrap().viewers, 1024);
        assert!(found.stopped_by.contains("the median viewer got"));
    }
}
