//! Models of where work queues up on machines with unequal disks. Nothing is measured here, and no server runs; docs/notes/placements.md has
//! the tables that these tests print (`-- --nocapture`).

mod hard_disks;
mod nodes;
mod popular;
