//! Each fault is found, and nothing else; a healthy machine has none; and whatever a file contains or refuses, nothing crashes
//! and nothing is made up.

mod sample;
mod table;
mod unreadable;
