//! Titles made of real video files by a real ffmpeg, and judged by programs and parsers that are not ours.
//!
//! Sources are made here, a few seconds long and small. Tests that need ffmpeg say so loudly where there is none.

mod catalog;
mod faults;
mod formats;
mod hostile;
mod judge;
mod library;
mod odd_sources;
mod played;
mod replacing;
mod resuming;
mod source;
mod title;
