//! The modelled servers: how soon and how fast they answer, and their faults.

use super::fault::{FaultKind, ServerFault};
use std::cell::Cell;
use std::time::Duration;

/// A server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VirtualServer {
    /// Time from a request's arrival to the response's first byte.
    pub latency: Duration,
    /// Its sending rate.
    pub ceiling: Ceiling,
}

impl Default for VirtualServer {
    fn default() -> Self {
        // This project's server takes a few milliseconds for a cold range.
        Self { latency: Duration::from_millis(5), ceiling: Ceiling::None }
    }
}

/// Limit on a server's sending rate, in bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ceiling {
    /// As fast as its viewers' networks.
    None,
    /// This rate on each connection.
    PerConnection(f64),
    /// This rate over all connections together. Each has an equal part, updated five times a second; what a slow viewer leaves of its part
    /// does not go to others.
    Shared(f64),
}

/// All servers of a run, with their faults.
#[derive(Debug)]
pub(crate) struct Servers<'a> {
    servers: &'a [VirtualServer],
    faults: &'a [ServerFault],
    /// Number of responses that each is sending.
    sending: Vec<Cell<u32>>,
}

/// A server's reaction to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Health {
    /// It answers, at this many bits per second at most.
    Well { ceiling: f64 },
    /// It answers with this status.
    Refuses(u16),
    /// It does not answer.
    Silent,
    /// It resets connections.
    Dead,
}

impl<'a> Servers<'a> {
    pub(crate) fn new(servers: &'a [VirtualServer], faults: &'a [ServerFault]) -> Self {
        Self { servers, faults, sending: servers.iter().map(|_| Cell::new(0)).collect() }
    }

    pub(crate) fn latency(&self, server: usize) -> Duration {
        self.servers[server].latency
    }

    /// Returns true if one viewer's actions may affect what another gets.
    pub(crate) fn are_shared(&self) -> bool {
        self.servers.iter().any(|server| matches!(server.ceiling, Ceiling::Shared(_)))
    }

    /// Returns true if the server's speed depends on the number of responses.
    pub(crate) fn is_shared(&self, server: usize) -> bool {
        matches!(self.servers[server].ceiling, Ceiling::Shared(_))
    }

    /// Counts a response that begins.
    pub(crate) fn begin(&self, server: usize) {
        self.sending[server].set(self.sending[server].get() + 1);
    }

    /// Counts a response that ends.
    pub(crate) fn end(&self, server: usize) {
        self.sending[server].set(self.sending[server].get() - 1);
    }

    /// The server's state at a time: its worst fault counts.
    pub(crate) fn health(&self, server: usize, now: Duration) -> Health {
        let mut ceiling = match self.servers[server].ceiling {
            Ceiling::None => f64::INFINITY,
            Ceiling::PerConnection(rate) => rate,
            Ceiling::Shared(rate) => rate / f64::from(self.sending[server].get().max(1)),
        };
        let mut worst = None;
        for fault in self.faults.iter().filter(|fault| fault.holds(server, now)) {
            match fault.kind {
                FaultKind::Dead => return Health::Dead,
                FaultKind::Silent => worst = Some(Health::Silent),
                FaultKind::Status(status) => worst = worst.or(Some(Health::Refuses(status))),
                FaultKind::Slow(rate) => ceiling = ceiling.min(rate),
                FaultKind::Missing(_) | FaultKind::WrongLength(_) => {}
            }
        }
        worst.unwrap_or(Health::Well { ceiling })
    }

    /// The fault of a segment there: [`FaultKind::Missing`] or [`FaultKind::WrongLength`].
    pub(crate) fn damage(&self, server: usize, segment: usize, now: Duration) -> Option<FaultKind> {
        let of_segment = |kind: &FaultKind| match kind {
            FaultKind::Missing(this) | FaultKind::WrongLength(this) => *this == segment,
            _ => false,
        };
        let holding = self.faults.iter().filter(|fault| fault.holds(server, now));
        holding.map(|fault| fault.kind).find(of_segment)
    }

    /// When a fault of the server next begins or ends.
    pub(crate) fn next_change(&self, server: usize, now: Duration) -> Option<Duration> {
        let faults = self.faults.iter().filter(|fault| fault.is_of(server));
        let times = faults.flat_map(|fault| [fault.from, fault.until]);
        times.filter(|time| *time > now && *time < Duration::MAX).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_a_servers_faults_counts() {
        let faults: Vec<ServerFault> =
            ["1:slow@10s-40s", "1:status=503@20s-30s", "1:dead@25s-26s", "2:silent@5s"]
                .map(|text| text.parse().expect("a fault"))
                .to_vec();
        let both = [VirtualServer::default(); 2];
        let servers = Servers::new(&both, &faults);
        let health = |server, at| servers.health(server, Duration::from_secs(at));
        assert_eq!(health(0, 0), Health::Well { ceiling: f64::INFINITY });
        assert_eq!(health(0, 10), Health::Well { ceiling: 200e3 });
        assert_eq!(health(0, 20), Health::Refuses(503));
        assert_eq!(health(0, 25), Health::Dead);
        assert_eq!(health(0, 40), Health::Well { ceiling: f64::INFINITY });
        assert_eq!(health(1, 100), Health::Silent);
        let changes = |server, at| servers.next_change(server, Duration::from_secs(at));
        assert_eq!(changes(0, 20), Some(Duration::from_secs(25)));
        assert_eq!((changes(0, 40), changes(1, 5)), (None, None));
    }

    #[test]
    fn a_shared_ceiling_is_divided_among_the_responses() {
        let one = [VirtualServer { ceiling: Ceiling::Shared(9e6), ..VirtualServer::default() }];
        let servers = Servers::new(&one, &[]);
        (0..3).for_each(|_| servers.begin(0));
        assert_eq!(servers.health(0, Duration::ZERO), Health::Well { ceiling: 3e6 });
        servers.end(0);
        assert_eq!(servers.health(0, Duration::ZERO), Health::Well { ceiling: 4.5e6 });
        assert!(servers.are_shared() && servers.is_shared(0));
    }
}
