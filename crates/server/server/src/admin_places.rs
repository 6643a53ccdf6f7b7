//! Places at the admin listener.
//!
//! If none is free, a new client takes that of a connection that waits for its client. It is one of the address that has most connections: the oldest
//! one there that has not sent a whole request, or else the one that has been idle longest. So half-sent requests and idle
//! connections keep no operator out, however many there are. Connections that are being answered, such as dashboards, keep their places; if all
//! are, a new client is refused.

use net::Socket;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::net::IpAddr;
use std::rc::Rc;

/// Connections at once: enough for a few scrapers and people.
const CONNECTIONS_MAX: usize = 64;

/// The order in which connections of an address lose their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    /// It has not sent a whole request.
    New,
    /// It was answered, and waits for the next request.
    Idle,
    /// It is being answered.
    Busy,
}

#[derive(Debug)]
struct Client {
    socket: Socket,
    address: IpAddr,
    /// Its progress, and a number that grows with each change of any client.
    progress: Cell<(Progress, u64)>,
}

impl Client {
    /// Whether the next bytes have to come from the client. Bytes that wait here may be a request.
    fn keeps_us_waiting(&self) -> bool {
        self.progress.get().0 != Progress::Busy && !self.socket.readiness(true).readable
    }
}

/// All places.
#[derive(Debug, Default)]
pub(crate) struct AdminPlaces {
    clients: RefCell<Vec<Rc<Client>>>,
    /// Connections that are not closed yet, those without a place included.
    open: Cell<usize>,
    changes: Cell<u64>,
}

/// The place of a connection; given back when dropped.
#[derive(Debug)]
pub(crate) struct AdminPlace {
    places: Rc<AdminPlaces>,
    client: Rc<Client>,
}

impl AdminPlaces {
    /// A place for a new connection. `None` if it is gone, if all others are being answered, or if those that lost their places are not closed yet.
    pub(crate) fn enter(self: &Rc<Self>, socket: Socket) -> Option<AdminPlace> {
        let address = socket.peer().ok()?.ip();
        let mut clients = self.clients.borrow_mut();
        if self.open.get() == 2 * CONNECTIONS_MAX {
            return None;
        }
        if clients.len() == CONNECTIONS_MAX {
            let count = |of: IpAddr| clients.iter().filter(|client| client.address == of).count();
            let waiting =
                clients.iter().enumerate().filter(|(_, client)| client.keeps_us_waiting());
            let order = |client: &Client| (Reverse(count(client.address)), client.progress.get());
            let (first, _) = waiting.min_by_key(|(_, client)| order(client))?;
            clients.swap_remove(first).socket.hang_up();
        }
        self.open.set(self.open.get() + 1);
        let progress = Cell::new((Progress::New, self.next_change()));
        let client = Rc::new(Client { socket, address, progress });
        clients.push(Rc::clone(&client));
        Some(AdminPlace { places: Rc::clone(self), client })
    }

    fn next_change(&self) -> u64 {
        self.changes.set(self.changes.get() + 1);
        self.changes.get()
    }
}

impl AdminPlace {
    pub(crate) fn socket(&self) -> &Socket {
        &self.client.socket
    }

    /// Its request is there.
    pub(crate) fn begin_answer(&self) {
        self.client.progress.set((Progress::Busy, self.places.next_change()));
    }

    /// It waits for the next request.
    pub(crate) fn end_answer(&self) {
        self.client.progress.set((Progress::Idle, self.places.next_change()));
    }
}

impl Drop for AdminPlace {
    fn drop(&mut self) {
        self.places.open.set(self.places.open.get() - 1);
        self.places.clients.borrow_mut().retain(|client| !Rc::ptr_eq(client, &self.client));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_tests::Plain;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

    fn accept(places: &Rc<AdminPlaces>, listener: &TcpListener) -> Option<AdminPlace> {
        let (ours, _) = listener.accept().unwrap();
        places.enter(Socket::from(OwnedFd::from(ours)))
    }

    /// A connection's place, and the client's end.
    fn enter(places: &Rc<AdminPlaces>, listener: &TcpListener) -> Option<(AdminPlace, TcpStream)> {
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Some((accept(places, listener)?, theirs))
    }

    #[test]
    fn connections_that_wait_for_their_clients_give_way_in_order_and_others_stay() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let places = Rc::new(AdminPlaces::default());
        let mut full: Vec<_> =
            (0..CONNECTIONS_MAX).map(|_| enter(&places, &listener).unwrap()).collect();
        full.iter().for_each(|(place, _)| place.begin_answer());
        assert!(enter(&places, &listener).is_none(), "all are being answered");
        for at in [5, 3] {
            full[at].0.end_answer();
        }
        let is_over = |theirs: &mut TcpStream| theirs.read(&mut [0]).unwrap() == 0;
        let mut first = enter(&places, &listener).unwrap();
        assert!(is_over(&mut full[5].1), "it has been idle longest");
        let mut second = enter(&places, &listener).unwrap();
        assert!(is_over(&mut first.1), "it has never asked");
        second.1.write_all(b"GET").unwrap();
        assert!(second.0.socket().readiness(true).readable);
        let third = enter(&places, &listener).unwrap();
        assert!(is_over(&mut full[3].1), "the newer one may have asked");
        assert_eq!(places.clients.borrow().len(), CONNECTIONS_MAX);
        drop(third);
        assert_eq!(places.clients.borrow().len(), CONNECTIONS_MAX - 1, "a place is free");
        assert_eq!(places.open.get(), CONNECTIONS_MAX + 2);
    }

    #[test]
    fn an_address_with_many_connections_takes_no_place_of_another() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let places = Rc::new(AdminPlaces::default());
        let address = listener.local_addr().unwrap();
        let _theirs = Plain::connect_from(IpAddr::from([127, 0, 0, 2]), address);
        let other = accept(&places, &listener).unwrap();
        // Those that lose their places stay open here, so the flood ends when there are too many of them.
        let flood: Vec<_> = std::iter::from_fn(|| enter(&places, &listener)).collect();
        assert_eq!(flood.len(), 2 * CONNECTIONS_MAX - 1);
        let clients = places.clients.borrow();
        assert_eq!(clients.len(), CONNECTIONS_MAX);
        assert!(clients.iter().any(|client| Rc::ptr_eq(client, &other.client)));
    }
}
