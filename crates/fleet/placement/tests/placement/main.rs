//! Properties of every plan.

mod draw;
mod edges;
mod invariants;
mod scale;
