//! The server's half of a caching edge: its knowledge of the origin's objects, and its requests to the helper.
//!
//! Two threads talk to the helper, one in each direction ([`link`]). Their results are in one table for all workers. A worker has its own open
//! files ([`local`]), so a request for a cached and fresh object takes no lock, and its bytes take the same way as those of a library's file.
//! Sessions wait for missing objects; the worker is woken when there is news. Responses that must not be cached are fetched for each session alone
//! ([`passing`]). Operators' purges ([`purging`]) and questions ([`inquiring`]) go the same way.
//!
//! The helper works on a bounded number of questions at a time; the others wait in one queue per client address ([`fair_queue`]). So one client can't
//! starve the others, and a question is dropped when its viewer disconnects. Questions that the origin holds wait outside of that ([`held_places`]).

mod ahead;
mod arriving;
mod cached;
mod fair_queue;
mod figures;
mod growing;
mod held_places;
mod inquiring;
mod key;
mod link;
mod local;
mod origin_health;
mod passing;
mod purging;
mod response_space;
mod spellings;
mod start;
mod stored_space;
mod table;

pub(crate) use ahead::AheadSettings;
pub(crate) use cached::Cached;
pub(crate) use fair_queue::QueueFull;
pub(crate) use growing::GrowingBody;
pub(crate) use key::{KeyRules, key_of, path_and_stored};
pub(crate) use link::EdgeLink;
pub(crate) use local::{Forwarded, LocalEdge, Lookup, Opened, PassedBody, Viewer};
pub(crate) use purging::PurgeFailed;
pub(crate) use start::Starting;

use edge::contract::Trouble;

/// Why the edge can't serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The origin, the cache or the helper.
    Trouble(Trouble),
    /// Too many questions wait.
    QueueFull(QueueFull),
    /// The viewer disconnected while its question was queued.
    Left,
}

impl From<Trouble> for NoAnswer {
    fn from(why: Trouble) -> Self {
        Self::Trouble(why)
    }
}

impl NoAnswer {
    /// Its label in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Trouble(why) => why.as_str(),
            Self::QueueFull(QueueFull::ClientFull) => "edge_address_queue_full",
            Self::QueueFull(QueueFull::Full) => "edge_queue_full",
            Self::QueueFull(QueueFull::Held) => "edge_held_full",
            Self::Left => "edge_viewer_left",
        }
    }
}
