//! Which viewers to put on which servers.

use super::servers::Place;
use super::source_addresses::SourceAddresses;
use crate::crowd::CrowdOptions;
use load::{ClientOptions, Url};
use player::PlayerOptions;
use std::fmt;
use std::time::Duration;

/// More servers than this make no sense: a player has to measure each.
const ALSO_AT_MAX: usize = 7;

/// Longer than any run, and short enough to be added to any time.
const TIME_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A run over real sockets.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The manifests of the titles, the most popular first.
    pub titles: Vec<Url>,
    /// Further servers that have all of the titles, each a pathway for every viewer.
    pub also_at: Vec<Place>,
    /// Who watches, and when. Its number of titles is that of `titles`.
    pub crowd: CrowdOptions,
    /// What all players have in common. Each viewer has its own plan, name and time to leave.
    pub player: PlayerOptions,
    /// Whether viewers sit behind the networks that were drawn for them. If not, they take bytes as fast as they come.
    pub has_networks: bool,
    /// Whether players report to the server (CMCD).
    pub cmcd: bool,
    /// How long to watch.
    pub duration: Duration,
    /// Where viewers come from; `None` leaves it to the kernel.
    pub sources: Option<SourceAddresses>,
    /// Which certificates to trust, and which versions, ciphers and groups to offer.
    pub tls: ClientOptions,
    /// Whether new connections resume earlier TLS sessions.
    pub resume: bool,
    /// Number of threads.
    pub threads: usize,
}

impl LiveOptions {
    /// Checks the options in combination.
    ///
    /// # Errors
    /// The first thing that does not go together.
    pub fn check(&self) -> Result<(), LiveOptionsError> {
        let complaints = [
            (self.titles.is_empty(), "there is no URL to play"),
            (self.crowd.viewers == 0, "at least one viewer is needed"),
            (self.duration.is_zero(), "the duration is zero: nobody would see anything"),
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

/// Options that do not go together. What it displays says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveOptionsError(&'static str);

impl fmt::Display for LiveOptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for LiveOptionsError {}
