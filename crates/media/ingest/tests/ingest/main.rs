//! Titles made from real video files with a real ffmpeg, and checked by independent programs and parsers.
//!
//! Sources are made here, a few seconds long and small. Tests that need ffmpeg report loudly if it is missing.

mod burn_in;
mod captions;
mod catalog;
mod chapters;
mod colours;
mod copied;
mod faults;
mod formats;
mod forms;
mod hdr;
mod hostile;
mod in_sync;
mod judge;
mod late_sound;
mod layouts;
mod library;
mod odd_sources;
mod played;
mod posters;
mod rates;
mod replacing;
mod resuming;
mod segments;
mod source;
mod stated_length;
mod subtitles;
mod surround;
mod sync;
mod title;
mod tracks;
mod watching;
