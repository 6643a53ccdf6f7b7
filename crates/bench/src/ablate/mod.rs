//! What each optimisation is worth: the greatest stable bandwidth with it and without it, and the CPU time for it.
//!
//! The method is that of "Serving Netflix video at 400 Gb/s" (its table of ablations): the load rises until it is no
//! longer stable, and the bandwidth just before is divided by its CPU percent. Stable means: no error, a median viewer
//! who gets at least 95% of its rate, and 99% of viewers with at least 80% of the median's.
//!
//! Each optimisation is switched off alone, in the work where it matters (`list`), and compared with the same work with
//! everything on, measured in the same run. What this machine cannot show is skipped, with the reason.
//!
//! Read first: `list`, then `search` (beside this folder).

mod bench;
mod drive;
mod group;
mod list;
mod outcome;
pub(crate) mod pair;
mod subject;
pub(crate) mod trial;
mod vector_aes;

pub use bench::{Options, run};
pub use list::names;
pub use outcome::Outcome;

/// Whether the named switches (none: all) need network namespaces, in which this program has to be started again.
pub fn wants_namespace(names: &[String]) -> bool {
    let chosen = list::chosen(names).unwrap_or_default();
    chosen.iter().any(|ablation| ablation.work.takes_namespaces()) && pair::obstacle().is_none()
}
