//! The server's resources after many viewers, and while many wait: the program itself against viewers of every kind.

mod films;
mod group;
mod idle_memory;
mod lowered_limit;
mod nothing_leaks;
mod out_of_memory;
mod soak;
mod viewer;
