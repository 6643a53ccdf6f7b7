//! Decisions from outside: random fleets, viewers over time, and edge cases.

mod build;
mod draw;
mod edges;
mod explaining;
mod full;
mod invariants;
mod logging;
mod proximity;
mod renewing;
mod settling;
