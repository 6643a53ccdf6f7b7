//! What a shared cache does with a response: whether it may be stored, for how long it is fresh, which request it answers, and how a
//! revalidation changes it (RFC 9111). No I/O and no clock: a time is an argument.
//!
//! An existing crate, `http-cache-semantics`, answers the first two questions, but knows neither `CDN-Cache-Control` (RFC 9213), nor
//! `must-understand`, `no-cache="field"` or the updates of RFC 9111 section 3.2 as this cache needs them.

mod cache_status;
mod dates;
mod directives;
mod fields;
mod freshness;
mod lifetime_rule;
mod live;
mod of_proxies;
mod reuse;
mod storing;
mod tags;

pub use cache_status::{CacheStatus, ForwardReason, ForwardStatus, NAME, VIA};
pub(crate) use dates::unix_seconds;
pub use directives::{Directives, RequestDirectives};
pub use fields::{Fields, latin1_of};
pub use freshness::{Freshness, lifetime, lifetime_for, said_age, while_revalidating};
pub use lifetime_rule::LifetimeRule;
pub(crate) use live::HELD_AFTER;
pub use live::{ABSENT, INDEX_FRESH, ResponseKind, is_blocking_reload};
pub use of_proxies::is_of_proxies;
pub(crate) use reuse::is_secret;
pub use reuse::{
    Renewal, Selecting, is_invalidating, renewal, send_as_selected, update, validators,
};
pub use storing::{
    end_to_end, is_credential, is_for_one_viewer, is_of_connection, may_store, stored_fields,
};
pub use tags::{Tags, has_tags, tags_in};

#[cfg(test)]
mod tests;
