//! The helper of a caching edge.
//!
//! The server may not make outgoing connections, and does not parse what origins send. A helper, in a process of its own, does both
//! ([`fetcher`]). It fetches aligned blocks of objects, keeps them in files below one folder (`store`), and passes each file's descriptor
//! to the server. [`contract`] defines their messages, which go over one Unix socket ([`helper_process::packets`]). If the helper dies, its
//! keeper ([`helper_process::keeper`]) starts another one on the same socket, and the server repeats its open requests.
//!
//! Invariants:
//! - An object on disk is one version: one path, one strong entity tag, one length. Each of its blocks came with that tag and that length,
//!   and all except those of the first answer were requested with `If-Match`. When the origin has another version, the object ends, and
//!   another begins.
//! - A block is announced after its bytes and its hash are written. After a restart it is announced only if the bytes still have that hash.
//! - Requests go to the configured hosts only: no redirects, no proxies.
//! - The helper may open its cache and the files needed to resolve names, and may connect to the ports of its origins, and of what gives the
//!   credentials for a bucket ([`helper_process::sandbox`]).
//!
//! Read first: [`contract`], then [`fetcher`].

mod bucket_role;
pub mod contract;
pub mod credentials;
pub mod fetcher;
pub mod http_cache;
pub mod inquiry;
mod origin;
mod origin_access;
mod origin_address;
pub mod origin_files;
mod origin_settings;
pub mod policy;
pub mod purge;
mod reference;
pub mod rules;
mod store;

use std::time::Duration;

/// The longest pause before a failed helper is restarted ([`helper_process::keeper`]): short, because viewers wait for it.
pub const PAUSE_MAX: Duration = Duration::from_secs(10);

pub use origin_access::check_files;
pub use origin_address::{ORIGINS_MAX, OriginAddress, escaped};
pub use origin_settings::{HeaderText, OriginSettings};
pub use reference::resolved;
pub use store::{CacheSpace, Damage};
