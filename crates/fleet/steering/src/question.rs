//! A viewer's question.

use std::net::IpAddr;

/// The question where a viewer should play a title.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// The viewer's address.
    pub address: IpAddr,
    /// The title's path.
    pub title: &'q str,
    /// Any number that stays the same while a viewer plays. It spreads viewers over nodes and over time, so it should be random.
    pub viewer: u64,
    /// The viewer's likely region if no site announces the address: that of the gateway, if it has one.
    pub region: Option<&'q str>,
    /// The viewer's report, if it is already playing.
    pub playing: Option<Playing<'q>>,
}

/// A playing viewer's report, which cannot be verified.
#[derive(Clone, Copy, Debug)]
pub struct Playing<'q> {
    /// The pathway that it plays from: a node's name. Any other name counts as no report.
    pub pathway: &'q str,
    /// Its measured throughput. It is logged, but has no effect: it says as much about the viewer's own line as about the node.
    pub bits_per_second: Option<u64>,
}

impl<'q> Playing<'q> {
    /// A viewer that plays from `pathway` and reports nothing else.
    pub fn from(pathway: &'q str) -> Self {
        Self { pathway, bits_per_second: None }
    }
}
