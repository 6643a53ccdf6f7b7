//! The networks that each site reaches: the longest announced prefix of an address, and the sites that announce it.
//!
//! Prefixes are nested or disjoint, and never overlap partially. So they divide the addresses of a family into ranges, each with one longest
//! prefix, and a binary search among the ranges' starts finds it. A trie would give the same answer with more memory and more code.

use std::net::IpAddr;

use fleet_protocol::{Prefix, Site};

/// A prefix's index in the table.
pub(crate) type PrefixId = u32;

const NONE: PrefixId = PrefixId::MAX;

/// An announcement of a prefix by a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    pub(crate) as_path_length: u8,
    pub(crate) med: u32,
    pub(crate) site: u32,
    /// The index in the site's `announced`.
    pub(crate) index: u32,
}

impl Route {
    /// Whether routing ranks both equal.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        (self.as_path_length, self.med) == (other.as_path_length, other.med)
    }
}

#[derive(Debug)]
struct Entry {
    prefix: Prefix,
    /// The longest other prefix that covers it.
    parent: PrefixId,
    /// Where its routes start; they end where the next entry's start.
    routes: u32,
}

/// All announced prefixes.
#[derive(Debug)]
pub(crate) struct Reach {
    entries: Vec<Entry>,
    routes: Vec<Route>,
    four: Ranges<u32>,
    six: Ranges<u128>,
}

/// Starts of address ranges, and the longest prefix of each range.
#[derive(Debug, Default)]
struct Ranges<A> {
    starts: Vec<A>,
    longest: Vec<PrefixId>,
}

impl<A: Ord> Ranges<A> {
    fn push(&mut self, start: A, longest: PrefixId) {
        // A longer prefix may start at the same address as a shorter one.
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.longest.pop();
        }
        self.starts.push(start);
        self.longest.push(longest);
    }

    fn longest(&self, address: A) -> Option<PrefixId> {
        let after = self.starts.partition_point(|start| *start <= address);
        let id = *self.longest.get(after.checked_sub(1)?)?;
        (id != NONE).then_some(id)
    }
}

/// An address as 128 bits, left-aligned, so that both families are handled alike.
fn wide(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => u128::from(four.to_bits()) << 96,
        IpAddr::V6(six) => six.to_bits(),
    }
}

/// The address after a prefix's last one; `None` after the last address of all.
fn after(prefix: &Prefix) -> Option<u128> {
    let rest = u128::MAX.checked_shr(prefix.bits().into()).unwrap_or(0);
    (wide(prefix.address()) | rest).checked_add(1)
}

impl Reach {
    pub(crate) fn new(sites: &[Site]) -> Self {
        let mut all: Vec<(Prefix, Route)> =
            Vec::with_capacity(sites.iter().map(|site| site.announced.len()).sum());
        for (site, index, announced) in sites.iter().enumerate().flat_map(|(number, site)| {
            site.announced.iter().enumerate().map(move |(index, one)| (number as u32, index, one))
        }) {
            let route = Route {
                as_path_length: announced.as_path_length,
                med: announced.med,
                site,
                index: index as u32,
            };
            all.push((announced.prefix, route));
        }
        // By address, then by length, so a prefix comes before those that it covers.
        all.sort_unstable();
        let mut entries: Vec<Entry> = Vec::new();
        for (at, (prefix, _)) in all.iter().enumerate() {
            if entries.last().is_none_or(|last| last.prefix != *prefix) {
                entries.push(Entry { prefix: *prefix, parent: NONE, routes: at as u32 });
            }
        }
        entries.shrink_to_fit();
        let routes = all.into_iter().map(|(_, route)| route).collect();
        let (four, six) = cut(&mut entries);
        Self { entries, routes, four, six }
    }

    /// The longest announced prefix that contains `address`.
    pub(crate) fn longest(&self, address: IpAddr) -> Option<PrefixId> {
        match address.to_canonical() {
            IpAddr::V4(four) => self.four.longest(four.to_bits()),
            IpAddr::V6(six) => self.six.longest(six.to_bits()),
        }
    }

    pub(crate) fn prefix(&self, id: PrefixId) -> Prefix {
        self.entries[id as usize].prefix
    }

    /// The index of `prefix` itself.
    pub(crate) fn find(&self, prefix: &Prefix) -> Option<PrefixId> {
        let longest = match prefix.address() {
            IpAddr::V4(four) => self.four.longest(four.to_bits()),
            IpAddr::V6(six) => self.six.longest(six.to_bits()),
        };
        self.levels(longest).find(|id| self.prefix(*id) == *prefix)
    }

    /// A prefix and those that cover it, longest first.
    pub(crate) fn levels(&self, longest: Option<PrefixId>) -> impl Iterator<Item = PrefixId> {
        let parent = |id: &PrefixId| {
            let parent = self.entries[*id as usize].parent;
            (parent != NONE).then_some(parent)
        };
        std::iter::successors(longest, parent)
    }

    /// The announcements of a prefix, best first; those that routing ranks equal are sorted by site.
    pub(crate) fn routes(&self, id: PrefixId) -> &[Route] {
        let start = self.entries[id as usize].routes as usize;
        let next = self.entries.get(id as usize + 1);
        &self.routes[start..next.map_or(self.routes.len(), |next| next.routes as usize)]
    }
}

/// Divides the addresses into ranges, and finds each prefix's parent on the way. `open` has the prefixes that cover the current position of the
/// sweep.
fn cut(entries: &mut [Entry]) -> (Ranges<u32>, Ranges<u128>) {
    let (mut four, mut six) = (Ranges::default(), Ranges::default());
    let mut push = |is_four: bool, start: u128, id: PrefixId| {
        if is_four { four.push((start >> 96) as u32, id) } else { six.push(start, id) }
    };
    let mut open: Vec<PrefixId> = Vec::new();
    for id in 0..entries.len() {
        let prefix = entries[id].prefix;
        close(entries, &mut open, Some(&prefix), &mut push);
        entries[id].parent = open.last().copied().unwrap_or(NONE);
        open.push(id as PrefixId);
        push(prefix.address().is_ipv4(), wide(prefix.address()), id as PrefixId);
    }
    close(entries, &mut open, None, &mut push);
    (four, six)
}

/// Closes the prefixes that end before `next`: the addresses after each belong to the surrounding prefix.
fn close(
    entries: &[Entry],
    open: &mut Vec<PrefixId>,
    next: Option<&Prefix>,
    push: &mut impl FnMut(bool, u128, PrefixId),
) {
    while let Some(id) = open.last() {
        let last = &entries[*id as usize].prefix;
        if next.is_some_and(|next| last.covers(next)) {
            return;
        }
        let (is_four, start) = (last.address().is_ipv4(), after(last));
        open.pop();
        if let Some(start) = start {
            push(is_four, start, open.last().copied().unwrap_or(NONE));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use fleet_protocol::{Announced, Prefix, Site};

    use super::Reach;

    fn site(name: &str, prefixes: &[Prefix]) -> Site {
        let announced = |prefix: &Prefix| Announced { prefix: *prefix, as_path_length: 0, med: 0 };
        Site {
            name: name.parse().expect("a name"),
            region: "r".parse().expect("a name"),
            latitude: None,
            longitude: None,
            announced: prefixes.iter().map(announced).collect(),
        }
    }

    /// A prefix in a small part of its family's addresses, so that drawn prefixes nest and touch.
    fn drawn(random: &mut fastrand::Rng) -> Prefix {
        let high = random.bool();
        if random.bool() {
            let bits = [0, 1, 8, 27, 28, 30, 31, 32][random.usize(..8)];
            let address = if high { u32::MAX - random.u32(..64) } else { random.u32(..64) };
            let kept = address & u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            Prefix::new(Ipv4Addr::from_bits(kept).into(), bits).expect("zeros behind it")
        } else {
            let bits = [0, 1, 64, 123, 124, 126, 127, 128][random.usize(..8)];
            let address = if high { u128::MAX - random.u128(..64) } else { random.u128(..64) };
            let kept = address & u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            Prefix::new(Ipv6Addr::from_bits(kept).into(), bits).expect("zeros behind it")
        }
    }

    fn addresses() -> impl Iterator<Item = IpAddr> {
        let four = (0..70).flat_map(|low| [low, u32::MAX - low]).chain([1 << 24, 1 << 31]);
        let six = (0..70).flat_map(|low| [low, u128::MAX - low]).chain([1 << 64, 1 << 127]);
        let four = four.map(|bits| IpAddr::from(Ipv4Addr::from_bits(bits)));
        four.chain(six.map(|bits| IpAddr::from(Ipv6Addr::from_bits(bits))))
    }

    #[test]
    fn the_longest_prefix_is_the_one_that_a_look_at_all_finds() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let prefixes: Vec<Prefix> =
                (0..random.usize(..30)).map(|_| drawn(&mut random)).collect();
            let reach = Reach::new(&[site("a", &prefixes)]);
            for address in addresses() {
                // ::ffff:0:0/96 is IPv4 in IPv6 notation, so none is drawn there.
                let mut containing: Vec<_> =
                    prefixes.iter().copied().filter(|prefix| prefix.contains(address)).collect();
                containing.sort_unstable_by_key(|prefix| std::cmp::Reverse(prefix.bits()));
                containing.dedup();
                let levels = reach.levels(reach.longest(address)).map(|id| reach.prefix(id));
                assert_eq!(levels.collect::<Vec<_>>(), containing, "{address} in {prefixes:?}");
            }
            for prefix in &prefixes {
                assert_eq!(reach.find(prefix).map(|id| reach.prefix(id)), Some(*prefix));
            }
        }
    }

    #[test]
    fn an_ipv4_address_in_ipv6_form_is_an_ipv4_address() {
        let reach = Reach::new(&[site("a", &["192.0.2.0/24".parse().expect("a prefix")])]);
        assert!(reach.longest("::ffff:192.0.2.1".parse().expect("an address")).is_some());
        assert!(reach.longest("::ffff:192.0.3.1".parse().expect("an address")).is_none());
    }

    #[test]
    fn the_sites_of_a_prefix_come_best_first() {
        let prefix = "192.0.2.0/24".parse().expect("a prefix");
        let mut sites = ["a", "b", "c"].map(|name| site(name, &[prefix]));
        sites[0].announced[0].as_path_length = 2;
        sites[1].announced[0].med = 5;
        let reach = Reach::new(&sites);
        let id = reach.find(&prefix).expect("it is announced");
        assert_eq!(reach.routes(id).iter().map(|route| route.site).collect::<Vec<_>>(), [2, 1, 0]);
    }
}
