//! Limits how many connections a worker has, in total and per address.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

/// The part of each limit, in quarters, that connections from other workers may fill. The rest is left to new connections, so that every worker keeps
/// accepting them, however many viewers want the films of one disk.
const MOVED_QUARTERS: usize = 3;

/// Counts a worker's connections. Limits are per worker: cores share nothing, and the kernel spreads an address's
/// connections evenly.
#[derive(Debug)]
pub struct Admission {
    connections_max: usize,
    per_address_max: usize,
    /// Set if the limit for each address holds for this machine's own addresses too.
    counts_loopback: bool,
    connections: Cell<usize>,
    by_address: RefCell<HashMap<IpAddr, u32>>,
}

/// The limit that refused a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The worker has as many connections as it may have.
    Worker,
    /// This address has as many connections as it may have.
    Address,
}

/// A connection's place; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    admission: Rc<Admission>,
    /// None as long as the connection's address is not known.
    address: Option<IpAddr>,
}

impl Admission {
    /// Limits for one worker; `per_address_max` 0 means no limit.
    pub fn new(connections_max: usize, per_address_max: usize) -> Rc<Self> {
        Self::with(connections_max, per_address_max, true)
    }

    /// As [`Self::new`], but loopback addresses have no limit of their own: programs of this machine, such as a proxy, may open as many connections
    /// as the worker has room for.
    pub fn exempting_loopback(connections_max: usize, per_address_max: usize) -> Rc<Self> {
        Self::with(connections_max, per_address_max, false)
    }

    fn with(connections_max: usize, per_address_max: usize, counts_loopback: bool) -> Rc<Self> {
        Rc::new(Self {
            connections_max,
            per_address_max,
            counts_loopback,
            connections: Cell::new(0),
            by_address: RefCell::default(),
        })
    }

    /// Current connections.
    pub fn connections(&self) -> usize {
        self.connections.get()
    }

    /// Takes a place for a connection from `address`.
    ///
    /// # Errors
    /// The limit that was reached.
    pub fn admit(self: &Rc<Self>, address: IpAddr) -> Result<Permit, LimitReached> {
        self.take(address, self.connections_max, self.per_address_max)
    }

    /// As [`Self::admit`], for a connection that comes from another worker.
    ///
    /// # Errors
    /// The limit, of which three quarters were reached.
    pub fn admit_moved(self: &Rc<Self>, address: IpAddr) -> Result<Permit, LimitReached> {
        let share = |limit: usize| (limit * MOVED_QUARTERS).div_ceil(4);
        self.take(address, share(self.connections_max), share(self.per_address_max))
    }

    /// Takes a place for a connection whose address is not known yet: [`Permit::name`] counts it with its address.
    ///
    /// # Errors
    /// [`LimitReached::Worker`].
    pub fn admit_unnamed(self: &Rc<Self>) -> Result<Permit, LimitReached> {
        self.take_place(self.connections_max)
    }

    fn take(
        self: &Rc<Self>,
        address: IpAddr,
        connections_max: usize,
        per_address_max: usize,
    ) -> Result<Permit, LimitReached> {
        let mut permit = self.take_place(connections_max)?;
        permit.name_within(address, per_address_max)?;
        Ok(permit)
    }

    fn take_place(self: &Rc<Self>, connections_max: usize) -> Result<Permit, LimitReached> {
        if self.connections.get() >= connections_max {
            return Err(LimitReached::Worker);
        }
        self.connections.set(self.connections.get() + 1);
        Ok(Permit { admission: Rc::clone(self), address: None })
    }
}

impl Permit {
    /// Counts the connection as one of `address`, once.
    ///
    /// # Errors
    /// [`LimitReached::Address`].
    pub fn name(&mut self, address: IpAddr) -> Result<(), LimitReached> {
        self.name_within(address, self.admission.per_address_max)
    }

    fn name_within(&mut self, address: IpAddr, per_address_max: usize) -> Result<(), LimitReached> {
        assert!(self.address.is_none(), "a connection is named once");
        if address.to_canonical().is_loopback() && !self.admission.counts_loopback {
            return Ok(());
        }
        let address = network(address);
        if per_address_max > 0 {
            let mut by_address = self.admission.by_address.borrow_mut();
            let count = by_address.entry(address).or_default();
            if *count as usize >= per_address_max {
                return Err(LimitReached::Address);
            }
            *count += 1;
        }
        self.address = Some(address);
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let admission = &self.admission;
        admission.connections.set(admission.connections.get() - 1);
        let Some(address) = &self.address else { return };
        let mut by_address = admission.by_address.borrow_mut();
        if let Some(count) = by_address.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(address);
            }
        }
    }
}

/// The addresses that count as one: an IPv6 subscriber can choose from a whole /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => (u128::from(v6) & (u128::MAX << 64)).to_be_bytes().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_come_back() {
        let admission = Admission::new(2, 0);
        let address = IpAddr::from([127, 0, 0, 1]);
        let first = admission.admit(address).unwrap();
        let _second = admission.admit(address).unwrap();
        assert_eq!(admission.admit(address).unwrap_err(), LimitReached::Worker);
        drop(first);
        assert!(admission.admit(address).is_ok());
    }

    #[test]
    fn connections_of_other_workers_leave_room_for_new_ones() {
        let admission = Admission::new(8, 4);
        let [one, other] = [1, 2].map(|last| IpAddr::from([127, 0, 0, last]));
        let mut moved: Vec<_> = (0..3).map(|_| admission.admit_moved(one).unwrap()).collect();
        assert_eq!(admission.admit_moved(one).unwrap_err(), LimitReached::Address);
        moved.extend((0..3).map(|_| admission.admit_moved(other).unwrap()));
        assert_eq!(admission.admit_moved(other).unwrap_err(), LimitReached::Worker);
        let new = [one, other].map(|address| admission.admit(address).unwrap());
        assert_eq!(admission.admit(one).unwrap_err(), LimitReached::Worker);
        drop((moved, new));
        assert_eq!(admission.connections(), 0);
    }

    #[test]
    fn one_address_cannot_take_every_place() {
        let admission = Admission::new(10, 1);
        let _held = admission.admit(IpAddr::from([127, 0, 0, 1])).unwrap();
        assert_eq!(
            admission.admit(IpAddr::from([127, 0, 0, 1])).unwrap_err(),
            LimitReached::Address
        );
        assert!(admission.admit(IpAddr::from([127, 0, 0, 2])).is_ok());
    }

    #[test]
    fn a_connection_that_is_named_later_counts_with_its_address_from_then_on() {
        let admission = Admission::new(3, 1);
        let address = IpAddr::from([127, 0, 0, 1]);
        let (mut first, mut second) =
            (admission.admit_unnamed().unwrap(), admission.admit_unnamed().unwrap());
        first.name(address).unwrap();
        assert_eq!(second.name(address).unwrap_err(), LimitReached::Address);
        let _third = admission.admit_unnamed().unwrap();
        assert_eq!(admission.admit_unnamed().unwrap_err(), LimitReached::Worker);
        drop(second);
        assert_eq!(admission.admit(address).unwrap_err(), LimitReached::Address);
        drop(first);
        let _again = admission.admit(address).unwrap();
        assert_eq!(admission.connections(), 2);
    }

    #[test]
    fn loopback_may_be_exempt() {
        let admission = Admission::exempting_loopback(5, 1);
        let own = ["127.0.0.1", "::1", "::ffff:127.0.0.1"].map(|own| own.parse().unwrap());
        let mut passes: Vec<_> = own.iter().map(|own| admission.admit(*own).unwrap()).collect();
        passes.push(admission.admit(own[0]).unwrap());
        let other = IpAddr::from([192, 0, 2, 1]);
        passes.push(admission.admit(other).unwrap());
        assert_eq!(admission.admit(own[0]).unwrap_err(), LimitReached::Worker);
        passes.remove(0);
        assert_eq!(admission.admit(other).unwrap_err(), LimitReached::Address);
        drop(passes);
        assert_eq!(admission.connections(), 0);
        assert!(admission.by_address.borrow().is_empty());
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let admission = Admission::new(10, 1);
        let _held = admission.admit("2001:db8::1".parse().unwrap()).unwrap();
        assert_eq!(
            admission.admit("2001:db8::2".parse().unwrap()).unwrap_err(),
            LimitReached::Address
        );
        assert!(admission.admit("2001:db8:0:1::1".parse().unwrap()).is_ok());
    }

    #[test]
    fn addresses_that_left_are_forgotten() {
        let admission = Admission::new(10, 1);
        drop(admission.admit(IpAddr::from([127, 0, 0, 1])).unwrap());
        assert!(admission.by_address.borrow().is_empty());
    }
}
