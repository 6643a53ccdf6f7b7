//! The fleet's issues: what is wrong, since when, and what to do about it.
//!
//! [`find`] derives them from the fleet's present state, without I/O and clock. [`IssueList`] follows them over time: an issue is listed once it has
//! lasted for its kind's patience, and ends once it has been gone for a minute, so that one that comes and goes is one entry. Each gateway hears all
//! nodes, so each has a list of its own, and keeps it in its folder. Snoozes are in the store, so that all gateways have them.
//!
//! Read first: `kind.rs`, then `list.rs`.

mod find;
mod kind;
mod list;
mod reported;
#[cfg(test)]
mod tests;

pub use find::{Surroundings, find};
pub use kind::{IssueKind, Severity};
pub use list::{EndedIssue, Issue, IssueChange, IssueList, ListedIssue};
pub use reported::Reported;
