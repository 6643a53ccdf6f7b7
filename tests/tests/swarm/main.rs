//! `fullbore swarm` against the real server, and against servers that fail, each in its own way.

mod agreement;
mod evening;
mod experience;
mod faults;
mod live;
mod pathways;
mod play;
mod program;
mod virtual_time;
