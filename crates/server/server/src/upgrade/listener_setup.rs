//! How the kernel assigns connections to a server's listeners.

use libc::sock_filter;
use net::ListenerOptions;
use net::listener::{steer, unsteer};
use std::io;
use std::os::fd::OwnedFd;

/// The options that connections start with, and the assignment to listeners.
pub(crate) struct ListenerSetup {
    /// With every default set explicitly, because the listeners may have another server's.
    pub(crate) options: ListenerOptions,
    /// The program that chooses the listener; none if the kernel spreads connections.
    pub(crate) program: Option<Vec<sock_filter>>,
}

impl ListenerSetup {
    /// Makes all listeners of one address receive like this. Needs no privilege, and the sandbox allows it.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) fn set(&self, listeners: &[OwnedFd]) -> io::Result<()> {
        listeners.iter().try_for_each(|listener| self.options.reset(listener))?;
        let Some(first) = listeners.first() else { return Ok(()) };
        match &self.program {
            Some(program) => steer(first, program),
            None => unsteer(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::Steering;
    use net::listener::{bind, local_address};
    use net::steering::ListenerGroup;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    /// Spread at random, this many connections would all go to one of two listeners once in a million runs.
    const CONNECTIONS: usize = 21;

    /// Assigns every connection to the listener of this number.
    fn all_to(first: u32) -> ListenerSetup {
        let group = ListenerGroup { first, count: 1 };
        let steering = Steering { nics: Vec::new(), cpus: vec![(0..=u32::MAX - 1, group)] };
        let options = ListenerOptions::default().spelled_out().unwrap();
        ListenerSetup { options, program: Some(steering.program()) }
    }

    /// Visits, and counts the connections that each listener gets.
    fn visit(listeners: &[OwnedFd]) -> Vec<usize> {
        let address = local_address(&listeners[0]).unwrap();
        let visitors: Vec<_> =
            (0..CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let accept = |listener: &OwnedFd| {
            let listener = TcpListener::from(listener.try_clone().unwrap());
            std::iter::from_fn(|| listener.accept().ok()).count()
        };
        let mut accepted = vec![0; listeners.len()];
        let deadline = Instant::now() + Duration::from_secs(60);
        // A busy kernel may queue a connection only after its visitor's connect has returned.
        while accepted.iter().sum::<usize>() < visitors.len() && Instant::now() < deadline {
            accepted.iter_mut().zip(listeners).for_each(|(count, at)| *count += accept(at));
        }
        accepted
    }

    #[test]
    fn a_server_that_comes_back_receives_as_before() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = bind(any, &ListenerOptions::default()).unwrap();
        let address = local_address(&first).unwrap();
        let second = bind(address, &ListenerOptions::default()).unwrap();
        let listeners = [first, second];
        let (old, new) = (all_to(0), all_to(1));
        for (setup, expected) in
            [(&old, [CONNECTIONS, 0]), (&new, [0, CONNECTIONS]), (&old, [CONNECTIONS, 0])]
        {
            setup.set(&listeners).unwrap();
            assert_eq!(visit(&listeners), expected);
        }
        let spread = ListenerSetup { program: None, ..all_to(0) };
        spread.set(&listeners).unwrap();
        let got = visit(&listeners);
        assert!(got[0] > 0 && got[1] > 0 && got[0] + got[1] == CONNECTIONS, "{got:?}");
    }
}
