//! Routes of a node's router, forwarded to gateways.
//!
//! A node next to a router reads the router's routes and sends them to every gateway. The first update of a boot has all routes, each further one
//! only the changes; one without changes confirms the present routes. So a full table is sent once, and a withdrawn route takes one line.

use serde::{Deserialize, Serialize};

use crate::heartbeat::check_boot;
use crate::{Announced, Name, OutOfBounds, Prefix};

/// Most routes of one node.
pub const ROUTES_MAX: usize = 100_000;

/// The changes since the previous update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutesUpdate {
    /// The version of this document: 1.
    pub version: u32,
    /// The sender. A name other than the one in its certificate is refused.
    pub node: Name,
    /// Drawn at each start of the agent.
    pub boot: String,
    /// The number of the set of routes after this update. It rises with each change within a boot.
    pub number: u64,
    /// The number of the set of routes before it; `None` if `announced` is the complete set.
    #[serde(default)]
    pub base: Option<u64>,
    /// New and changed routes, sorted by prefix.
    #[serde(default)]
    pub announced: Vec<Announced>,
    /// Withdrawn routes, sorted.
    #[serde(default)]
    pub withdrawn: Vec<Prefix>,
}

/// A gateway's answer to a [`RoutesUpdate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutesAnswer {
    /// The gateway lacks the base of the update: the node should send all routes.
    pub wants_all: bool,
    /// Number of the node's routes within its site's allow-list.
    pub believed: u64,
    /// Number of its routes outside it.
    pub refused: u64,
}

impl RoutesUpdate {
    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        let wrong = |text| Err(OutOfBounds(text));
        if self.version != 1 {
            return wrong("version is not 1: gateway and node are of different releases");
        }
        check_boot(&self.boot)?;
        if self.announced.len() > ROUTES_MAX || self.withdrawn.len() > ROUTES_MAX {
            return wrong("there are more than 100000 routes");
        }
        if !self.announced.is_sorted_by(|one, next| one.prefix < next.prefix) {
            return wrong("announced is not sorted, or has a prefix twice");
        }
        if !self.withdrawn.is_sorted_by(|one, next| one < next) {
            return wrong("withdrawn is not sorted, or has a prefix twice");
        }
        match self.base {
            None if !self.withdrawn.is_empty() => wrong("all routes are sent, and some withdrawn"),
            Some(base) if base > self.number => wrong("base is newer than number"),
            Some(base) if base == self.number && !self.is_empty() => {
                wrong("routes have changed, and number has not")
            }
            _ => Ok(()),
        }
    }

    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.announced.is_empty() && self.withdrawn.is_empty()
    }

    /// The routes after this update, given those before it. Both are sorted.
    ///
    /// # Errors
    /// If there are too many.
    pub fn applied(&self, before: &[Announced]) -> Result<Vec<Announced>, OutOfBounds> {
        let is_withdrawn = |one: &Announced| self.withdrawn.binary_search(&one.prefix).is_ok();
        let is_changed = |one: &Announced| {
            self.announced.binary_search_by(|new| new.prefix.cmp(&one.prefix)).is_ok()
        };
        let stays = before.iter().filter(|one| !is_withdrawn(one) && !is_changed(one));
        let mut after: Vec<_> = stays.chain(&self.announced).copied().collect();
        if after.len() > ROUTES_MAX {
            return Err(OutOfBounds("there are more than 100000 routes"));
        }
        after.sort_unstable_by_key(|one| one.prefix);
        Ok(after)
    }
}

/// The new and changed routes, and the withdrawn ones, between two sorted lists.
pub fn route_changes(before: &[Announced], after: &[Announced]) -> (Vec<Announced>, Vec<Prefix>) {
    let find = |all: &[Announced], prefix: &Prefix| {
        all.binary_search_by(|one| one.prefix.cmp(prefix)).ok().map(|at| all[at])
    };
    let is_news = |one: &&Announced| find(before, &one.prefix) != Some(**one);
    let is_gone = |one: &&Announced| find(after, &one.prefix).is_none();
    let announced = after.iter().filter(is_news).copied().collect();
    let withdrawn = before.iter().filter(is_gone).map(|one| one.prefix).collect();
    (announced, withdrawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(lines: &[&str]) -> Vec<Announced> {
        Announced::read_file(&lines.join("\n")).expect("routes")
    }

    fn update(base: Option<u64>, before: &[Announced], after: &[Announced]) -> RoutesUpdate {
        let (announced, withdrawn) = route_changes(before, after);
        let node = "n1".parse().expect("a name");
        RoutesUpdate { version: 1, node, boot: "b".into(), number: 2, base, announced, withdrawn }
    }

    #[test]
    fn an_update_makes_the_new_routes_of_the_old_ones() {
        let before = routes(&["10.0.0.0/8", "192.0.2.0/24 med=1", "2001:db8::/32"]);
        let after = routes(&["192.0.2.0/24 med=2", "192.0.2.0/25", "2001:db8::/32"]);
        let one = update(Some(1), &before, &after);
        assert_eq!((one.announced.len(), one.withdrawn.len(), one.check()), (2, 1, Ok(())));
        assert_eq!(one.applied(&before), Ok(after.clone()));
        let back = update(Some(1), &after, &before);
        assert_eq!(back.applied(&after), Ok(before.clone()));
        assert!(update(Some(2), &before, &before).is_empty());
        assert_eq!(update(None, &[], &before).applied(&[]), Ok(before));
    }

    #[test]
    fn an_update_that_cannot_be_is_refused() {
        let all = routes(&["10.0.0.0/8", "192.0.2.0/24"]);
        let good = update(Some(1), &[], &all);
        assert_eq!(good.check(), Ok(()));
        let broken: [fn(&mut RoutesUpdate); 8] = [
            |one| one.version = 2,
            |one| one.boot = "../x".into(),
            |one| one.base = Some(3),
            |one| one.base = Some(2),
            |one| one.announced.reverse(),
            |one| one.announced.push(one.announced[1]),
            |one| (one.base, one.withdrawn) = (None, vec![one.announced[0].prefix]),
            |one| one.withdrawn = vec![one.announced[1].prefix, one.announced[0].prefix],
        ];
        for (number, break_it) in broken.iter().enumerate() {
            let mut one = good.clone();
            break_it(&mut one);
            assert!(one.check().is_err(), "{number}");
        }
    }

    #[test]
    fn updates_cannot_add_up_to_more_than_the_bound() {
        let route = |number: usize| {
            let address = std::net::Ipv4Addr::from_bits(number as u32).into();
            let prefix = Prefix::new(address, 32).expect("a prefix");
            Announced { prefix, as_path_length: 0, med: 0 }
        };
        let before: Vec<_> = (0..ROUTES_MAX).map(route).collect();
        let mut one = update(Some(1), &[], &[route(ROUTES_MAX)]);
        assert!(one.check().is_ok() && one.applied(&before).is_err());
        one.withdrawn = vec![before[0].prefix];
        assert_eq!(one.applied(&before).map(|after| after.len()), Ok(ROUTES_MAX));
    }
}
