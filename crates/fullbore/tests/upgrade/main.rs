//! A server takes the place of a running one: viewers notice nothing, and whatever goes wrong with the new one, the old one goes on.

mod config_diff;
mod failures;
mod plain_http;
mod stage;
mod takeover;
mod viewers;
