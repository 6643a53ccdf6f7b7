//! Decisions, seen from outside: drawn fleets, viewers over time, questions at the edges.

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
