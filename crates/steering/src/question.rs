//! What a viewer asks.

use std::net::IpAddr;

/// Where should this viewer play this title?
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// The viewer's address.
    pub address: IpAddr,
    /// The title's path.
    pub title: &'q str,
    /// Any number that stays the same while a viewer plays. It spreads viewers over nodes and over time, so draw it at random.
    pub viewer: u64,
    /// Where the viewer is likely to be if no site announces its address: the region of the gateway that was asked, if that says anything.
    pub region: Option<&'q str>,
    /// What the viewer says of itself, if it plays already.
    pub playing: Option<Playing<'q>>,
}

/// What a playing viewer reports. Nobody can check it.
#[derive(Clone, Copy, Debug)]
pub struct Playing<'q> {
    /// The pathway that it plays from: a node's name. A name of no node counts as no report.
    pub pathway: &'q str,
    /// What it measured. It is logged, and decides nothing: it says as much of the viewer's own line as of the node.
    pub bits_per_second: Option<u64>,
}

impl<'q> Playing<'q> {
    /// A viewer that plays from `pathway` and reports nothing else.
    pub fn from(pathway: &'q str) -> Self {
        Self { pathway, bits_per_second: None }
    }
}
