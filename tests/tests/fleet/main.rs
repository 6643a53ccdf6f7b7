//! A fleet of real processes on loopback: a gateway, nodes with their servers, and viewers who really play, while things break.

mod bucket;
mod filling;
mod gateways;
mod guide;
mod house;
mod keys;
mod networks;
mod newcomer;
mod nodes;
mod operate;
mod paths;
mod placing;
mod popularity;
mod routing;
mod secured;
