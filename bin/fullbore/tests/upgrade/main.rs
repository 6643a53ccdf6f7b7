//! A new process takes over from a running server: viewers notice nothing, and whatever goes wrong with the new one, the old one continues.

mod config_diff;
mod failures;
mod plain_http;
mod stage;
mod takeover;
mod viewers;
