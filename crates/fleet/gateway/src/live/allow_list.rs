//! Allow-lists: the prefixes that a site may announce.

use fleet_protocol::{Announced, Prefix};

/// The prefixes within which a site's announcements are accepted, from any source: a file, a router, a lying node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList {
    is_open: bool,
    /// Sorted, with no prefix inside another one, so at most one can cover a given prefix.
    prefixes: Vec<Prefix>,
}

/// Routes split by the allow-list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sifted {
    /// Routes within the list, in their original order.
    pub believed: Vec<Announced>,
    /// Number of routes outside it.
    pub refused: u64,
    /// The first of those.
    pub first_refused: Option<Prefix>,
}

impl AllowList {
    /// The list of a site of the fleet's own operator for which none is set.
    pub fn open() -> Self {
        Self { is_open: true, prefixes: Vec::new() }
    }

    /// Accepts only prefixes within one of `prefixes`.
    pub fn within(prefixes: &[Prefix]) -> Self {
        let mut sorted = prefixes.to_vec();
        // Sorting puts a prefix before those that it covers.
        sorted.sort_unstable();
        let mut apart: Vec<Prefix> = Vec::with_capacity(sorted.len());
        for prefix in sorted {
            if !apart.last().is_some_and(|last| last.covers(&prefix)) {
                apart.push(prefix);
            }
        }
        Self { is_open: false, prefixes: apart }
    }

    /// Whether the site may announce `prefix`.
    pub fn allows(&self, prefix: &Prefix) -> bool {
        // A covering prefix starts at the same address or before, with no other one in between.
        let after = self.prefixes.partition_point(|one| one.address() <= prefix.address());
        let covers = |at: usize| self.prefixes[at].covers(prefix);
        self.is_open || after.checked_sub(1).is_some_and(covers)
    }

    /// Whether all announcements are accepted.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Splits `announced` by the list.
    pub fn sift(&self, announced: &[Announced]) -> Sifted {
        let mut sifted = Sifted::default();
        for one in announced {
            if self.allows(&one.prefix) {
                sifted.believed.push(*one);
            } else {
                sifted.refused += 1;
                sifted.first_refused.get_or_insert(one.prefix);
            }
        }
        sifted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    #[test]
    fn a_site_may_announce_what_is_within_its_list() {
        let list = ["192.0.2.0/24", "10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32", "10.0.0.0/9"]
            .map(prefix);
        let list = AllowList::within(&list);
        for good in
            ["192.0.2.0/24", "192.0.2.128/25", "10.0.0.0/8", "10.200.0.0/16", "2001:db8:1::/48"]
        {
            assert!(list.allows(&prefix(good)), "{good}");
        }
        for bad in ["0.0.0.0/0", "192.0.0.0/16", "192.0.3.0/24", "9.0.0.0/8", "::/0", "2001::/16"] {
            assert!(!list.allows(&prefix(bad)), "{bad}");
        }
        assert!(!AllowList::default().allows(&prefix("192.0.2.0/24")));
        assert!(AllowList::open().allows(&prefix("0.0.0.0/0")));
        assert!(AllowList::within(&[prefix("::/0")]).allows(&prefix("2001:db8::/32")));
        assert!(!AllowList::within(&[prefix("::/0")]).allows(&prefix("192.0.2.0/24")));
    }

    #[test]
    fn the_list_says_the_same_as_looking_at_each_of_its_prefixes() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut draw = || {
            let bits = random.u8(0..=8);
            let address = std::net::Ipv4Addr::new(random.u8(..), 0, 0, 0).to_bits();
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            let address = std::net::Ipv4Addr::from_bits(address & mask);
            Prefix::new(address.into(), bits).expect("a prefix")
        };
        for _ in 0..500 {
            let prefixes: Vec<_> = (0..4).map(|_| draw()).collect();
            let list = AllowList::within(&prefixes);
            for _ in 0..20 {
                let asked = draw();
                let expected = prefixes.iter().any(|one| one.covers(&asked));
                assert_eq!(list.allows(&asked), expected, "{asked} in {prefixes:?}");
            }
        }
    }
}
