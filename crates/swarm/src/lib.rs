//! Viewers that really play.
//!
//! `fullbore-player` is one player. This crate is a crowd of them: who they are and when they come, the networks that
//! they sit behind, a run in virtual time, a run over real sockets, and what the viewers saw.

#![forbid(unsafe_code)]
