//! Options of a run over real sockets: its viewers and servers.

use super::servers::Place;
use super::source_addresses::SourceAddresses;
use crate::crowd::CrowdOptions;
use load::{ClientOptions, Url};
use player::PlayerOptions;
use std::time::Duration;

/// More servers than this make no sense, because a player has to measure each.
const ALSO_AT_MAX: usize = 7;

/// Longer than any run, and short enough to add to any time.
const TIME_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A run over real sockets.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The manifests of the titles, most popular first.
    pub titles: Vec<Url>,
    /// Further servers that have all of the titles, each a pathway for every viewer.
    pub also_at: Vec<Place>,
    /// The viewers, and when they come. Its number of titles is that of `titles`.
    pub crowd: CrowdOptions,
    /// Settings that all players share. Each viewer has its own plan, name and time to leave.
    pub player: PlayerOptions,
    /// If set, viewers are behind the networks that were drawn for them. If not, they take bytes as fast as they come.
    pub has_networks: bool,
    /// If set, players report to the server (CMCD).
    pub cmcd: bool,
    /// If set as well, they post events to the server that sends their film (CMCD version 2, event mode).
    pub cmcd_events: bool,
    /// Length of the run.
    pub duration: Duration,
    /// The addresses that viewers connect from; `None` leaves it to the kernel.
    pub sources: Option<SourceAddresses>,
    /// Trusted certificates, and the TLS versions, ciphers and groups to offer.
    pub tls: ClientOptions,
    /// If set, new connections resume earlier TLS sessions.
    pub resume: bool,
    /// Number of threads.
    pub threads: usize,
    /// Flags that were given and make sense for films only: with them, a live stream ends the run with an error.
    pub film_flags: Vec<&'static str>,
}

impl LiveOptions {
    /// Checks the combination of options.
    ///
    /// # Errors
    /// The first conflict.
    pub fn check(&self) -> Result<(), LiveOptionsError> {
        let complaints = [
            (self.titles.is_empty(), "there is no URL to play"),
            (self.crowd.viewers == 0, "at least one viewer is needed"),
            (self.duration.is_zero(), "the duration is zero: no viewer would see anything"),
            (self.duration > TIME_MAX, "no time may be longer than a year"),
            (self.threads == 0, "at least one thread is needed"),
            (
                self.also_at.len() > ALSO_AT_MAX,
                "there are more than seven further servers: a player would do nothing but measure them",
            ),
        ];
        let complaint = complaints.iter().find(|(is_wrong, _)| *is_wrong);
        complaint.map_or(Ok(()), |(_, what)| Err(LiveOptionsError(what)))
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads.clamp(1, self.crowd.viewers.max(1))
    }
}

/// Options that conflict. The display text explains why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LiveOptionsError(&'static str);
