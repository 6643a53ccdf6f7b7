//! `fullbore swarm` against the real server, and against servers that fail, each in its own way.

mod experience;
mod faults;
mod film;
mod pathways;
mod play;
mod program;
mod virtual_time;
