//! A viewer's course through titles: which step of which title comes next.

use crate::film::{Ask, Film};
use crate::options::Pattern;
use crate::popularity::{Choice, Chooser};

/// A viewer's position.
#[derive(Debug)]
pub(crate) struct Course {
    viewer: usize,
    /// Titles chosen so far.
    had: usize,
    /// The title and the next step in it.
    place: Option<(usize, u64)>,
    pub(crate) random: fastrand::Rng,
}

impl Course {
    pub(crate) fn new(viewer: usize, seed: u64) -> Self {
        // Neighbouring seeds give unrelated sequences: fastrand mixes them.
        let random = fastrand::Rng::with_seed(seed.wrapping_add((viewer as u64) << 20));
        Self { viewer, had: 0, place: None, random }
    }

    /// The title and what to request from it. At the end of a title, another one is chosen.
    pub(crate) fn next(
        &mut self,
        films: &[Film],
        chooser: &Chooser,
        pattern: Pattern,
    ) -> (usize, Ask) {
        if let Some((title, step)) = self.place {
            if let Some(ask) = films[title].ask(pattern, step) {
                self.went(chooser, title, step);
                return (title, ask);
            }
        }
        let choice = chooser.choose(self.viewer, self.had, &mut self.random);
        self.had += 1;
        let film = &films[choice.title];
        let step = self.first_step(film, pattern, choice, chooser.is_by_request());
        let ask = film.ask(pattern, step).or_else(|| film.ask(pattern, 0));
        self.went(chooser, choice.title, step);
        (choice.title, ask.expect("every title has a first step"))
    }

    fn went(&mut self, chooser: &Chooser, title: usize, step: u64) {
        self.place = (!chooser.is_by_request()).then_some((title, step + 1));
    }

    fn first_step(
        &mut self,
        film: &Film,
        pattern: Pattern,
        choice: Choice,
        by_request: bool,
    ) -> u64 {
        // A title of unknown size begins at its start; the response shows its size.
        let Some(steps) = film.steps(pattern).filter(|steps| *steps > 0) else { return 0 };
        match (choice.cold_range, pattern) {
            (Some(range), _) => range % steps,
            (None, Pattern::Ranges { .. }) => self.random.u64(..steps),
            (None, _) if by_request => self.random.u64(..steps),
            (None, _) => 0,
        }
    }

    /// Jumps to a random position in the title.
    pub(crate) fn seek(&mut self, films: &[Film], pattern: Pattern) {
        let Some((title, _)) = self.place else { return };
        if let Some(steps) = films[title].steps(pattern).filter(|steps| *steps > 0) {
            self.place = Some((title, self.random.u64(..steps)));
        }
    }

    /// Forgets the title, so that the next request chooses again.
    pub(crate) fn leave(&mut self) {
        self.place = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Popularity;

    fn films(count: usize, bytes: u64) -> Vec<Film> {
        let film = |number| {
            let url = format!("http://h/{number}").parse().expect("a URL");
            let film = Film::new(url, 0, Vec::new());
            film.learn(bytes);
            film
        };
        (0..count).map(film).collect()
    }

    #[test]
    fn a_title_is_asked_for_to_its_end_before_the_next_one_is_chosen() {
        let (films, chooser) = (films(2, 400_000), Chooser::new(Popularity::InTurn, 2));
        let mut course = Course::new(0, 1);
        let titles: Vec<_> =
            (0..6).map(|_| course.next(&films, &chooser, Pattern::Player).0).collect();
        assert_eq!(titles, [0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn a_seek_stays_in_the_title_and_leaving_changes_it() {
        let (films, chooser) = (films(2, 100_000_000), Chooser::new(Popularity::InTurn, 2));
        let mut course = Course::new(0, 1);
        course.next(&films, &chooser, Pattern::Player);
        course.seek(&films, Pattern::Player);
        let (title, ask) = course.next(&films, &chooser, Pattern::Player);
        let start = ask.range.expect("a range").start;
        assert!(title == 0 && start > 45_000, "{title} {start}");
        course.leave();
        assert_eq!(course.next(&films, &chooser, Pattern::Player).0, 1);
    }

    #[test]
    fn with_a_hit_ratio_cold_ranges_are_never_asked_twice_before_all_were() {
        let films = films(3, 1_000_000);
        let chooser = Chooser::new(Popularity::HitRatio { hit_share: 0.5, hot: 1 }, 3);
        let (pattern, mut course) = (Pattern::Ranges { bytes: 100_000 }, Course::new(0, 1));
        let mut cold = std::collections::HashSet::new();
        while cold.len() < 20 {
            let (title, ask) = course.next(&films, &chooser, pattern);
            if title > 0 {
                assert!(cold.insert((title, ask.range)), "twice");
            }
        }
    }
}
