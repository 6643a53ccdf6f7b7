//! Chooses the titles that get a place on the faster disk.

use std::collections::HashSet;

/// Existing copies get this bonus over other titles. So two titles that are about equally busy do not alternate, each time at the cost of a
/// whole copy.
const KEPT_FACTOR: f64 = 1.25;

/// A title that could have a copy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) title: String,
    /// Bytes of its files.
    pub(super) bytes: u64,
    /// Its average rate over the last hour or so.
    pub(super) gbps: f64,
    /// Whether there is a copy.
    pub(super) is_copied: bool,
}

/// The titles that should have a copy, busiest first, if copies may take `bytes_max`. A title without requests gets no copy, but keeps an
/// existing one as long as no busier title needs its place.
pub(super) fn choose(mut candidates: Vec<Candidate>, bytes_max: u64) -> Vec<Candidate> {
    let worth = |one: &Candidate| one.gbps * if one.is_copied { KEPT_FACTOR } else { 1.0 };
    candidates.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then_with(|| a.title.cmp(&b.title)));
    let (mut left, mut seen) = (bytes_max, HashSet::new());
    candidates.retain(|one| {
        let is_worth = one.is_copied || one.gbps > 0.0;
        let fits = is_worth && one.bytes <= left && seen.insert(one.title.clone());
        left -= if fits { one.bytes } else { 0 };
        fits
    });
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(candidates: &[(&str, u64, f64, bool)], bytes_max: u64) -> Vec<String> {
        let candidate = |&(title, bytes, gbps, is_copied): &(&str, u64, f64, bool)| Candidate {
            title: title.into(),
            bytes,
            gbps,
            is_copied,
        };
        let chosen = choose(candidates.iter().map(candidate).collect(), bytes_max);
        chosen.into_iter().map(|one| one.title).collect()
    }

    #[test]
    fn the_busiest_titles_that_fit_get_copies() {
        let titles = [("a", 40, 1.0, false), ("b", 70, 3.0, false), ("c", 20, 2.0, false)];
        assert_eq!(chosen(&titles, 100), ["b", "c"], "a does not fit any more");
        assert_eq!(chosen(&titles, 65), ["c", "a"], "b never fits");
        assert_eq!(chosen(&[("idle", 1, 0.0, false)], 100), [""; 0]);
    }

    #[test]
    fn a_copy_gives_way_only_to_a_title_that_is_clearly_busier() {
        let with = |gbps| chosen(&[("new", 60, gbps, false), ("copy", 60, 1.0, true)], 100);
        assert_eq!(with(1.2), ["copy"]);
        assert_eq!(with(1.3), ["new"]);
        assert_eq!(
            chosen(&[("idle", 60, 0.0, true), ("new", 40, 1.0, false)], 100),
            ["new", "idle"]
        );
    }
}
