//! A node's weight relative to others, bounded so that no node attracts viewers by overstating its ceiling.
//!
//! A weight is a ceiling in bits per second. An operator's ceiling counts as it is. A node's own figure counts up to [`CLAIM_MEDIANS_MAX`] times
//! the usual ceiling, and a node that reports none gets the usual one: otherwise a single node with a ceiling would get all viewers of the nodes
//! next to it that have none.
//!
//! *Usual* is the lower median of the known ceilings at the node's site. A single liar can choose the median only if fewer than three are known, so
//! such a site uses that of the entire fleet. If that has fewer than three as well, the lower one counts.

use crate::weight::Scope::{Fleet, Site};

/// A node's own figure counts up to this many times the usual ceiling. An honest guess: it leaves two generations of network cards to one site
/// (25 and 100 Gb/s, 100 and 400 Gb/s), and gives a liar next to three others four sevenths of the site's viewers.
pub const CLAIM_MEDIANS_MAX: u64 = 4;

/// Upper bound on any node's ceiling, whatever it reports.
pub const CLAIM_BITS_PER_SECOND_MAX: u64 = 1_000_000_000_000;

/// A single node could choose the median of fewer ceilings than this.
const KNOWN_MIN: usize = 3;

/// The known data about a node's ceiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CeilingClaim {
    /// The node's site, as any number that is unique to the site.
    pub site: usize,
    /// The node's own figure; 0 if it reports none.
    pub stated_bits_per_second: u64,
    /// The operator's limit; 0 if none is set.
    pub set_bits_per_second: u64,
    /// The node is revoked: its figure does not count for medians.
    pub is_revoked: bool,
}

/// A node's weight, and its basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeWeight {
    /// The weight; 0 if no ceiling is known in the whole fleet.
    pub bits_per_second: u64,
    /// The bound that was applied.
    pub basis: WeightBasis,
}

/// The bound on a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightBasis {
    /// None: the node's own figure counts.
    Stated,
    /// The operator's ceiling.
    Set,
    /// The node reports more than [`CLAIM_MEDIANS_MAX`] times the usual ceiling there.
    Capped(Scope),
    /// The node reports no ceiling, and gets the usual one there.
    Usual(Scope),
    /// No node of the fleet reports a ceiling.
    Unknown,
}

/// The scope of a median.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The node's site.
    Site,
    /// The fleet, because too few ceilings are known at the site.
    Fleet,
}

impl CeilingClaim {
    fn stated(&self) -> u64 {
        self.stated_bits_per_second.min(CLAIM_BITS_PER_SECOND_MAX)
    }

    /// The ceiling before the comparison with others; 0 if unknown.
    fn known(&self) -> u64 {
        match (self.stated(), self.set_bits_per_second) {
            (stated, 0) => stated,
            (0, set) => set,
            (stated, set) => stated.min(set),
        }
    }
}

/// Nodes' weights, in the order of `claims`.
pub fn weigh(claims: &[CeilingClaim]) -> Vec<NodeWeight> {
    let usual = Usual::of(claims);
    claims.iter().map(|claim| weigh_one(claim, usual.at(claim.site))).collect()
}

fn weigh_one(claim: &CeilingClaim, usual: Option<(u64, Scope)>) -> NodeWeight {
    let known = claim.known();
    let of = |bits_per_second, basis| NodeWeight { bits_per_second, basis };
    match (known, usual) {
        (0, None) => of(0, WeightBasis::Unknown),
        (0, Some((usual, scope))) => of(usual, WeightBasis::Usual(scope)),
        _ if claim.set_bits_per_second > 0 && known != claim.stated_bits_per_second => {
            of(known, WeightBasis::Set)
        }
        (_, Some((usual, scope))) if claim.set_bits_per_second == 0 => {
            let most = usual.saturating_mul(CLAIM_MEDIANS_MAX);
            match known > most {
                true => of(most, WeightBasis::Capped(scope)),
                false => of(known, WeightBasis::Stated),
            }
        }
        _ => of(known, WeightBasis::Stated),
    }
}

/// The usual ceilings of a fleet.
struct Usual {
    /// Known ceilings by site, ascending.
    known: Vec<(usize, u64)>,
    of_fleet: Option<u64>,
}

impl Usual {
    fn of(claims: &[CeilingClaim]) -> Self {
        let known = claims.iter().filter(|claim| claim.known() > 0 && !claim.is_revoked);
        let mut known: Vec<_> = known.map(|claim| (claim.site, claim.known())).collect();
        known.sort_unstable();
        let mut ceilings: Vec<u64> = known.iter().map(|(_, ceiling)| *ceiling).collect();
        ceilings.sort_unstable();
        Self { of_fleet: ceilings.get(ceilings.len().saturating_sub(1) / 2).copied(), known }
    }

    fn at(&self, site: usize) -> Option<(u64, Scope)> {
        let start = self.known.partition_point(|(at, _)| *at < site);
        let end = self.known.partition_point(|(at, _)| *at <= site);
        match end - start >= KNOWN_MIN {
            true => Some((self.known[start + (end - start - 1) / 2].1, Site)),
            false => self.of_fleet.map(|ceiling| (ceiling, Fleet)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGA: u64 = 1_000_000_000;

    fn stated(site: usize, gigabits: u64) -> CeilingClaim {
        let stated_bits_per_second = gigabits.saturating_mul(GIGA);
        CeilingClaim { site, stated_bits_per_second, ..CeilingClaim::default() }
    }

    fn weights(claims: &[CeilingClaim]) -> Vec<(u64, WeightBasis)> {
        let weights = weigh(claims).into_iter();
        weights.map(|weight| (weight.bits_per_second / GIGA, weight.basis)).collect()
    }

    #[test]
    fn a_node_without_a_ceiling_weighs_as_much_as_is_usual() {
        use WeightBasis::{Stated, Unknown, Usual};
        assert_eq!(weights(&[stated(0, 0), stated(1, 0)]), [(0, Unknown); 2]);
        let one = [stated(0, 0), stated(0, 10), stated(0, 0), stated(0, 0)];
        let usual = (10, Usual(Fleet));
        assert_eq!(weights(&one), [usual, (10, Stated), usual, usual]);
        let site = [stated(0, 0), stated(0, 10), stated(0, 25), stated(0, 40), stated(1, 1)];
        assert_eq!(weights(&site)[0], (25, Usual(Site)));
    }

    #[test]
    fn a_claim_counts_up_to_four_medians_wherever_it_is_made() {
        use WeightBasis::{Capped, Stated};
        let site = [stated(0, u64::MAX), stated(0, 10), stated(0, 10), stated(0, 40)];
        assert_eq!(weights(&site)[0], (40, Capped(Site)));
        assert_eq!(weights(&site)[3], (40, Stated));
        // Alone at its site, it is compared with the fleet.
        let alone = [stated(7, u64::MAX), stated(0, 10), stated(0, 10)];
        assert_eq!(weights(&alone)[0], (40, Capped(Fleet)));
        let two = [stated(0, u64::MAX), stated(0, 10)];
        assert_eq!(weights(&two)[0], (40, Capped(Fleet)));
        // Without any comparison, the others get the same weight.
        let only = [stated(0, u64::MAX), stated(0, 0)];
        assert_eq!(weigh(&only)[0].bits_per_second, weigh(&only)[1].bits_per_second);
        assert_eq!(weights(&only)[0], (1000, Stated));
    }

    #[test]
    fn what_an_operator_sets_counts_whatever_is_usual() {
        use WeightBasis::{Set, Stated};
        let set = |stated_bits, gigabits| CeilingClaim {
            set_bits_per_second: gigabits * GIGA,
            ..stated(0, stated_bits)
        };
        let others = [stated(0, 10), stated(0, 10), stated(0, 10)];
        let first = |claim| weights(&[&[claim][..], &others].concat())[0];
        assert_eq!(first(set(100, 100)), (100, Stated));
        assert_eq!(first(set(100, 400)), (100, Stated));
        assert_eq!(first(set(u64::MAX, 400)), (400, Set));
        assert_eq!(first(set(100, 2)), (2, Set));
        assert_eq!(first(set(0, 100)), (100, Set));
    }

    #[test]
    fn a_revoked_node_moves_no_median() {
        let gone = CeilingClaim { is_revoked: true, ..stated(0, 1000) };
        let claims = [stated(0, 10), stated(0, 1000), stated(0, 10), gone, gone];
        assert_eq!(weights(&claims)[1], (40, WeightBasis::Capped(Site)));
    }
}
