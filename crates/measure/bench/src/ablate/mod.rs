//! Measures what each optimisation is worth: the greatest stable bandwidth with and without it, and the CPU time it takes.
//!
//! The method follows the table of ablations in "Serving Netflix video at 400 Gb/s": raise the load until it is no longer stable, then
//! divide the last stable bandwidth by its CPU percent. A load is stable if there is no error, the median viewer gets at least 95% of its
//! rate, and 99% of viewers get at least 80% of the median's.
//!
//! Each optimisation is switched off alone, in the workload where it matters (`list`), and compared with the same workload with everything
//! on, measured in the same run. Rows that this machine cannot measure are skipped, with the reason.
//!
//! Read first: `list`, then `search` (next to this folder).

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

/// Returns true if the named switches (all if none are named) need network namespaces. If so, this program must be started again inside
/// one.
pub fn wants_namespace(names: &[String]) -> bool {
    let chosen = list::chosen(names).unwrap_or_default();
    chosen.iter().any(|ablation| ablation.work.takes_namespaces()) && pair::obstacle().is_none()
}
