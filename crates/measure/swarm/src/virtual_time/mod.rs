//! A swarm in virtual time: thousands of players on modelled networks and servers, in seconds, without a socket.
//!
//! Invariant: the outcome depends only on the options. Threads change how long a run takes, and nothing else.
//!
//! Modelled: rates of networks over time, round trips, connections (a new one takes two more round trips), servers that are slow, silent,
//! dead, busy, or lack a segment. Not modelled: packets, slow start, and the effect of a server's load on its latency.
//!
//! Read [`VirtualOptions`] for the options, `session` for a viewer's life.

mod fault;
mod film;
mod library;
mod server;
mod session;

pub use fault::{FaultKind, ServerFault};
pub use film::Films;
pub use server::{Ceiling, VirtualServer};

use crate::crowd::{self, CrowdOptions, Viewer};
use crate::outcome::Outcome;
use library::Library;
use player::options::PlayerOptions;
use server::Servers;
use session::Session;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A run. `VirtualOptions::default()` is a hundred viewers on one server that never fails.
#[derive(Clone, Debug)]
pub struct VirtualOptions {
    /// The viewers. The length and number of titles come from here and from `films`.
    pub crowd: CrowdOptions,
    /// Length of the run. Viewers who are still there at its end leave.
    pub duration: Duration,
    /// The servers; at least one.
    pub servers: Vec<VirtualServer>,
    /// How many of the servers each viewer's manifest names.
    pub pathways: usize,
    /// Faults of the servers.
    pub faults: Vec<ServerFault>,
    /// Properties of the films.
    pub films: Films,
    /// Behaviour of the players. A viewer's actions and the length of its stay come from the crowd.
    pub player: PlayerOptions,
    /// Number of threads. Servers that share their speed among viewers allow only one.
    pub threads: usize,
}

impl Default for VirtualOptions {
    fn default() -> Self {
        Self {
            crowd: CrowdOptions::default(),
            duration: Duration::from_secs(2 * 3600),
            servers: vec![VirtualServer::default()],
            pathways: 1,
            faults: Vec::new(),
            films: Films::default(),
            player: PlayerOptions {
                // Few viewers wait longer for anything; our own choice.
                give_up_after: Some(Duration::from_secs(60)),
                ..PlayerOptions::default()
            },
            threads: 1,
        }
    }
}

/// Why a run is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VirtualError {
    /// No server, fewer servers than pathways, or more than a player supports.
    #[error(
        "there are from 1 to 16 servers, and no more pathways than servers: see --servers and --pathways"
    )]
    Servers,
    /// A fault names a server that does not exist.
    #[error("a --fault names a server that does not exist: see --servers")]
    Fault,
    /// No title, no bit rate, or segments that are empty or more than a manifest may have.
    #[error("a film needs bit rates in rising order and from 1 to 86400 segments")]
    Films,
}

/// A player's own bound on pathways.
const SERVERS_MAX: usize = 16;

/// A manifest's bound on segments.
const SEGMENTS_MAX: f64 = 86_400.0;

impl VirtualOptions {
    fn check(&self) -> Result<(), VirtualError> {
        let servers = self.servers.len();
        if !(1..=SERVERS_MAX).contains(&servers) || !(1..=servers).contains(&self.pathways) {
            return Err(VirtualError::Servers);
        }
        if self.faults.iter().any(|fault| fault.server.is_some_and(|server| server >= servers)) {
            return Err(VirtualError::Fault);
        }
        let films = &self.films;
        let is_rising = films.rungs.windows(2).all(|two| two[0] < two[1]);
        let is_right = is_rising && films.rungs.first().is_some_and(|rung| *rung > 0);
        let segments = films.duration.as_secs_f64() / films.segment.as_secs_f64();
        let is_right = is_right && segments > 0.0 && segments <= SEGMENTS_MAX;
        if !is_right || self.crowd.titles == 0 {
            return Err(VirtualError::Films);
        }
        Ok(())
    }
}

/// Runs the swarm.
///
/// # Errors
/// [`VirtualError`] if the options conflict.
pub fn run(options: &VirtualOptions) -> Result<Outcome, VirtualError> {
    options.check()?;
    let (servers, pathways) = (options.servers.len(), options.pathways);
    let library = Library::new(&options.films, options.crowd.titles, servers, pathways);
    // Names of hosts and files consist of digits and letters here.
    let library = library.map_err(|_| VirtualError::Films)?;
    let crowd = CrowdOptions { title_duration: options.films.duration, ..options.crowd.clone() };
    if Servers::new(&options.servers, &options.faults).are_shared() {
        return Ok(together(options, &library, crowd::crowd(&crowd)));
    }
    let threads = options.threads.max(1);
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let (crowd, library) = (&crowd, &library);
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let viewers = crowd::crowd(crowd).skip(thread).step_by(threads);
                scope.spawn(move || one_by_one(options, library, viewers))
            })
            .collect();
        let joined = running.into_iter().map(|thread| thread.join());
        joined
            .map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut sum = Outcome::default();
    outcomes.iter().for_each(|outcome| sum.add(outcome));
    Ok(sum)
}

/// Runs viewers who do not affect each other: each session is played to its end, which keeps it in the processor's caches.
fn one_by_one(
    options: &VirtualOptions,
    library: &Library,
    viewers: impl Iterator<Item = Viewer>,
) -> Outcome {
    let servers = Servers::new(&options.servers, &options.faults);
    let mut outcome = Outcome::default();
    for viewer in viewers.filter(|viewer| viewer.begins < options.duration) {
        let mut session =
            Session::new(&viewer, &options.player, &servers, library, options.duration);
        while let Some(next) = session.next_event() {
            session.advance(next);
        }
        outcome.record(viewer.number, viewer.title, session.pathways(), &session.report());
    }
    outcome
}

/// Runs viewers who compete: the next event is the earliest one of any viewer.
fn together(
    options: &VirtualOptions,
    library: &Library,
    viewers: impl Iterator<Item = Viewer>,
) -> Outcome {
    let servers = Servers::new(&options.servers, &options.faults);
    let viewers: Vec<Viewer> = viewers.filter(|viewer| viewer.begins < options.duration).collect();
    let mut sessions: Vec<Option<Session>> = viewers.iter().map(|_| None).collect();
    let begins = viewers.iter().enumerate().map(|(index, viewer)| Reverse((viewer.begins, index)));
    let mut events: BinaryHeap<_> = begins.collect();
    let mut outcome = Outcome::default();
    while let Some(Reverse((now, index))) = events.pop() {
        let viewer = &viewers[index];
        let begin = || Session::new(viewer, &options.player, &servers, library, options.duration);
        let session = match &mut sessions[index] {
            Some(session) => {
                session.advance(now);
                session
            }
            none => none.insert(begin()),
        };
        match session.next_event() {
            Some(next) => events.push(Reverse((next, index))),
            None => {
                let report = session.report();
                outcome.record(viewer.number, viewer.title, session.pathways(), &report);
                sessions[index] = None;
            }
        }
    }
    outcome
}

#[cfg(test)]
mod tests;
