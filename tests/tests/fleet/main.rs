//! A fleet of real processes on loopback: a gateway, nodes with their servers, and viewers who really play, while things break.

mod bucket;
mod certificates;
mod clocks;
mod experience;
mod filling;
mod gateways;
mod guide;
mod hostile;
mod house;
mod keys;
mod mistaken;
mod networks;
mod newcomer;
mod night;
mod nodes;
mod operate;
mod paths;
mod placing;
mod popularity;
mod purging;
mod routing;
#[allow(dead_code, reason = "the store's own tests use the rest")]
#[path = "../../../crates/core/s3/tests/s3_server/mod.rs"]
mod s3_server;
mod secured;
mod slowhttp;
mod stores;
mod three_gateways;
