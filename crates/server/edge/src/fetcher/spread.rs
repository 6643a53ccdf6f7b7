//! The order in which origins are asked for a path: as the operator has named them, or by a consistent hash of the path, so that each origin of a
//! tier has a share of the paths.
//!
//! An origin may have paths of its own, by patterns. A path that some of them match is requested from the origins that these are of, and from no
//! other one; every other path from the origins without patterns.
//!
//! The hash is rendezvous hashing (Thaler and Ravishankar, 1998): an origin's score for a path is a hash of both, and the highest score comes first.
//! It needs no table, all edges with the same origins agree, whatever order they name them in, and an origin that goes takes only its own paths
//! along.

use crate::rules::{PathPattern, decoded};
use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

/// How requests are spread over several origins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OriginSpread {
    /// Not at all: the first origin that answers gets all of them.
    #[default]
    Order,
    /// Each path has an order of its own, by a hash.
    Hash,
}

/// The order of origins for each path. An origin's rank is its place in it, from 0.
pub(super) struct Preference {
    /// The addresses of the origins, if paths have orders of their own.
    hashed: Vec<String>,
    /// The patterns of each origin.
    patterns: Vec<Vec<PathPattern>>,
}

impl Preference {
    /// For origins with these addresses and patterns.
    pub(super) fn new(
        spread: OriginSpread,
        origins: impl Iterator<Item = (String, Vec<PathPattern>)>,
    ) -> Self {
        let (addresses, patterns): (Vec<_>, Vec<_>) = origins.unzip();
        let hashed = if spread == OriginSpread::Hash { addresses } else { Vec::new() };
        Self { hashed, patterns }
    }

    /// The numbers of the origins to ask for `path`, in their order. Empty if none has it.
    pub(super) fn order(&self, path: &str) -> Vec<usize> {
        let mut order = self.with(path);
        if !self.hashed.is_empty() {
            let path = hashed(path);
            // The address decides between equal scores, so that all edges still agree.
            order.sort_by_cached_key(|number| {
                let address = &self.hashed[*number];
                (std::cmp::Reverse(score(address, &path)), address.clone())
            });
        }
        order
    }

    /// The origins that have `path`.
    fn with(&self, path: &str) -> Vec<usize> {
        let all = || (0..).zip(&self.patterns);
        let others = || all().filter(|(_, own)| own.is_empty()).map(|(number, _)| number).collect();
        if self.patterns.iter().all(Vec::is_empty) {
            return others();
        }
        let path = decoded(path);
        let has = |own: &Vec<PathPattern>| own.iter().any(|pattern| pattern.matches(&path));
        let own: Vec<_> = all().filter(|(_, own)| has(own)).map(|(number, _)| number).collect();
        if own.is_empty() { others() } else { own }
    }

    /// Whether no other origin has paths of this one, as far as the patterns show.
    pub(super) fn is_alone(&self, number: usize) -> bool {
        let own = &self.patterns[number];
        let shares = |other: &Vec<PathPattern>| {
            own.is_empty() && other.is_empty() || other.iter().any(|pattern| own.contains(pattern))
        };
        !(0..).zip(&self.patterns).any(|(other, patterns)| other != number && shares(patterns))
    }

    /// The rank of an origin for `path`.
    pub(super) fn rank(&self, path: &str, number: usize) -> usize {
        if self.hashed.is_empty() && self.patterns.iter().all(Vec::is_empty) {
            return number;
        }
        self.order(path).iter().position(|one| *one == number).unwrap_or(number)
    }
}

/// What of a path and its query decides. Directives for a playlist (`_HLS_msn` and others) don't: its reloads must not come from an origin that knows
/// an older one.
fn hashed(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let kept = query.split('&').filter(|parameter| !parameter.starts_with("_HLS_"));
    let kept: Vec<_> = kept.collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

/// The same in every release and on every machine: edges of several releases share a tier.
fn score(address: &str, path: &str) -> u64 {
    let mut hash = Context::new(&SHA256);
    hash.update(address.as_bytes());
    // No address and no path has one.
    hash.update(b"\n");
    hash.update(path.as_bytes());
    let hash = hash.finish();
    hash.as_ref()[..8].iter().fold(0, |score, byte| score << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const PATHS: usize = 40_000;

    fn tier(names: &[&str]) -> Preference {
        let origins = names.iter().map(|name| (format!("http://{name}.example/"), Vec::new()));
        Preference::new(OriginSpread::Hash, origins)
    }

    fn path(number: usize) -> String {
        format!("/films/{}/v{}/seg-{number}.m4s?x={}", number / 100, number % 3, number % 7)
    }

    /// The name that is first for each path.
    fn firsts<'a>(names: &[&'a str]) -> Vec<&'a str> {
        let tier = tier(names);
        (0..PATHS).map(|number| names[tier.order(&path(number))[0]]).collect()
    }

    #[test]
    fn each_origin_of_a_tier_has_its_share_of_the_paths() {
        for names in [
            &["a", "b"][..],
            &["a", "b", "c", "d"],
            &["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"],
        ] {
            let mut counts = HashMap::new();
            firsts(names).into_iter().for_each(|name| *counts.entry(name).or_insert(0usize) += 1);
            let share = PATHS / names.len();
            for (name, count) in counts {
                assert!(count.abs_diff(share) < share / 20, "{name} has {count} of {PATHS}");
            }
        }
    }

    #[test]
    fn an_origin_that_goes_takes_only_its_own_paths_along_and_the_others_share_them() {
        let (before, after) = (firsts(&["a", "b", "c", "d"]), firsts(&["a", "b", "d"]));
        let mut heirs = HashMap::new();
        for (before, after) in before.into_iter().zip(after) {
            match before {
                "c" => *heirs.entry(after).or_insert(0usize) += 1,
                _ => assert_eq!(before, after),
            }
        }
        let share = heirs.values().sum::<usize>() / 3;
        assert!(heirs.len() == 3 && heirs.values().all(|count| count.abs_diff(share) < share / 10));
    }

    #[test]
    fn the_order_in_which_a_tier_is_named_makes_no_difference() {
        assert_eq!(firsts(&["a", "b", "c"]), firsts(&["c", "a", "b"]));
        let tier = tier(&["a", "b", "c"]);
        for number in 0..100 {
            let order = tier.order(&path(number));
            let ranks: Vec<_> = order.iter().map(|one| tier.rank(&path(number), *one)).collect();
            assert_eq!(ranks, [0, 1, 2], "the ranks are the places in the order");
        }
    }

    #[test]
    fn reloads_of_a_playlist_go_where_the_playlist_is() {
        let tier = tier(&["a", "b", "c", "d", "e"]);
        for number in 0..100 {
            let playlist = format!("/live/{number}/index.m3u8");
            let order = tier.order(&playlist);
            assert_eq!(tier.order(&format!("{playlist}?_HLS_msn={number}&_HLS_part=1")), order);
        }
        let orders = |query: &str| {
            (0..100).map(|number| tier.order(&format!("/{number}{query}"))).collect::<Vec<_>>()
        };
        assert_ne!(orders("?a=1"), orders("?a=2"), "others are other films");
        assert_eq!(orders("?a=1"), orders("?a=1&_HLS_msn=7"));
    }

    #[test]
    fn without_a_hash_each_path_has_the_operators_order() {
        let origins = ["a", "b", "c"].map(|name| (name.to_owned(), Vec::new()));
        let tier = Preference::new(OriginSpread::Order, origins.into_iter());
        for number in 0..100 {
            assert_eq!(tier.order(&path(number)), [0, 1, 2]);
            assert_eq!((0..3).map(|one| tier.rank(&path(number), one)).sum::<usize>(), 3);
        }
    }

    #[test]
    fn paths_go_to_the_origins_that_have_them_and_all_others_to_the_rest() {
        let origin = |(name, patterns): (&str, &[&str])| {
            let patterns = patterns.iter().map(|text| PathPattern::new(text).unwrap());
            (name.to_owned(), patterns.collect())
        };
        let named: [(&str, &[&str]); 5] = [
            ("a", &[]),
            ("b", &["/live/*", "*.m3u8"]),
            ("c", &["/live/*"]),
            ("d", &[]),
            ("e", &["/\u{e9}/*"]),
        ];
        let of = |spread| Preference::new(spread, named.into_iter().map(origin));
        let origins = of(OriginSpread::Order);
        for (path, order) in [
            ("/films/1", &[0, 3][..]),
            ("/films/1?/live/", &[0, 3]),
            ("/live/1", &[1, 2]),
            ("/liv%65/1?a=b", &[1, 2]),
            ("/films/1.m3u8", &[1]),
            ("/%C3%A9/1", &[4]),
            ("/e%CC%81/1", &[4]),
        ] {
            assert_eq!(origins.order(path), order, "{path}");
            let mut hashed = of(OriginSpread::Hash).order(path);
            hashed.sort_unstable();
            assert_eq!(hashed, order, "{path}");
        }
        let ranks = [("/live/1", 1), ("/live/1", 2), ("/films/1", 3), ("/%C3%A9/1", 4)];
        assert_eq!(ranks.map(|(path, number)| origins.rank(path, number)), [0, 1, 1, 0]);
        let alone: Vec<_> = (0..5).filter(|number| origins.is_alone(*number)).collect();
        assert_eq!(alone, [4]);
        let only = Preference::new(OriginSpread::Order, [named[1]].into_iter().map(origin));
        assert!(only.order("/films/1").is_empty() && only.is_alone(0));
    }
}
