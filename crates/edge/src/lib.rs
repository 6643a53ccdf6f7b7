//! The helper of a caching edge.
//!
//! The server may not connect out, and parses nothing that an origin says. So a helper, a process of its own, does both ([`fetcher`]). It fetches
//! aligned blocks of objects, keeps them in files below one folder (`store`), and passes the server each file's descriptor. [`contract`] is what
//! the two say to each other, over one Unix socket ([`mod@line`]). If the helper dies, its keeper ([`keeper`]) starts another one on the same
//! socket, and the server asks again for what it waits for.
//!
//! Invariants:
//! - An object on disk is one version: one path, one strong entity tag, one length. Each block of it came with that tag and that length, and all
//!   but those of the first answer were requested with `If-Match`. When the origin has another version, the object ends, and another begins.
//! - A block is announced after its bytes and its hash are written. After a restart it is announced only if the bytes still have that hash.
//! - Requests go to the configured host only: no redirects, no proxies. They carry nothing of a viewer's request but the path.
//!
//! - The helper may open its cache and what resolving names needs, and may connect to its origin's port (`sandbox`).
//!
//! Read first: [`contract`], then [`fetcher`].

pub mod contract;
pub mod credentials;
pub mod fetcher;
pub mod keeper;
pub mod line;
mod origin;
pub mod policy;
pub mod sandbox;
mod store;

pub use origin::{OriginAddress, check_trusted, escaped};
