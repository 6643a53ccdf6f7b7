//! Titles made from real video files with a real ffmpeg, and checked by independent programs and parsers.
//!
//! Sources are made here, a few seconds long and small. Tests that need ffmpeg report loudly if it is missing.

mod catalog;
mod chapters;
mod faults;
mod formats;
mod hostile;
mod judge;
mod layouts;
mod library;
mod odd_sources;
mod played;
mod rates;
mod replacing;
mod resuming;
mod segments;
mod source;
mod subtitles;
mod title;
mod tracks;
mod watching;
