//! The server's half of a caching edge: what it knows of the origin's objects, and how it asks its helper for more.
//!
//! Two threads talk to the helper, one in each direction ([`link`]). What they learn is in one table for all workers. A worker has open files of
//! its own ([`local`]), so a request for what is there and fresh takes no lock, and its bytes go the same way as those of a library's file.
//! Sessions wait for what is not there; the worker is woken when there is news. What must not be kept is fetched for each session alone
//! ([`passing`]).

mod link;
mod local;
mod passing;
mod start;

pub(crate) use link::{Cached, EdgeLink};
pub(crate) use local::LocalEdge;
pub(crate) use start::Starting;
