//! Derives issues from the fleet's present state.

use std::collections::{BTreeMap, BTreeSet};

use fleet_protocol::{Name, SheddingReason, State};

use super::kind::IssueKind;
use super::list::Issue;
use crate::live::{CLOCK_OFF_MILLIS_MAX, FleetView, NodeView, PurgeAtNode, PurgeState, SiteView};

/// The state of the fleet apart from nodes and sites.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The store's present problem.
    pub store_problem: Option<String>,
    /// Whether a gateway leads.
    pub has_leader: bool,
    /// The latest purge, and how far nodes are with it; no nodes if there was none.
    pub purge: (u64, Vec<PurgeAtNode>),
}

/// The present issues, including those that have not lasted long enough to be listed.
pub fn find(view: &FleetView, around: &Surroundings) -> Vec<Issue> {
    let mut found = Vec::new();
    if let Some(problem) = &around.store_problem {
        let text = format!("The store accepts no changes: {problem}");
        found.push(of_fleet(IssueKind::StoreUnavailable, text));
    } else if !around.has_leader {
        found.push(of_fleet(IssueKind::NoLeader, "No gateway leads.".to_owned()));
    }
    if view.frozen.is_some() {
        let text = "Many nodes fell silent at once, so this gateway keeps their states.".to_owned();
        found.push(of_fleet(IssueKind::NodesSilentAtOnce, text));
    }
    let mut at_sites: BTreeMap<&Name, Vec<&NodeView>> = BTreeMap::new();
    for node in &view.nodes {
        at_sites.entry(&node.place.site).or_default().push(node);
    }
    for site in &view.sites {
        found.extend(at_site(site, at_sites.get(&site.name).map_or(&[], Vec::as_slice)));
    }
    found.extend(view.nodes.iter().flat_map(node));
    let is_lost = |node: &&NodeView| node.state == State::Lost;
    let lost: BTreeSet<_> = view.nodes.iter().filter(is_lost).map(|node| &node.name).collect();
    let (number, at_nodes) = &around.purge;
    // An agent that has not reported whether it has an edge is old, or has just started.
    let is_open = |at: &&PurgeAtNode| {
        matches!(at.state, PurgeState::Waiting | PurgeState::Refused) && !lost.contains(&at.node)
    };
    found.extend(at_nodes.iter().filter(is_open).map(|at| purge(*number, at)));
    found
}

fn of_fleet(kind: IssueKind, text: String) -> Issue {
    Issue { kind, subject: String::new(), site: None, text, since_unix_millis: None }
}

fn at_site(site: &SiteView, nodes: &[&NodeView]) -> Vec<Issue> {
    let (prefixes_refused, site) = (site.prefixes_refused, &site.name);
    let mut found = Vec::new();
    let mut add = |kind, text: String| {
        let (subject, site) = (site.to_string(), Some(site.clone()));
        found.push(Issue { kind, subject, site, text, since_unix_millis: None });
    };
    // Nodes that an operator has drained are not missing, and neither are those that never served.
    let is_expected =
        |node: &&&NodeView| !node.is_drained && matches!(node.state, State::Serving | State::Lost);
    let takes_viewers = |node: &&NodeView| {
        node.state == State::Serving && !node.not_me.iter().any(|why| why.moves_viewers())
    };
    let expected: Vec<_> = nodes.iter().filter(is_expected).map(takes_viewers).collect();
    if !expected.is_empty() && !expected.contains(&true) {
        let count = expected.len();
        let nodes = if count == 1 { "its node" } else { &format!("none of its {count} nodes") };
        let verb = if count == 1 { "takes no viewers" } else { "takes viewers" };
        add(IssueKind::SiteDown, format!("{site} is down: {nodes} {verb}."));
    }
    if prefixes_refused > 0 {
        let text = format!("{site} announces {prefixes_refused} prefixes outside its allow-list.");
        add(IssueKind::PrefixesRefused, text);
    }
    found
}

fn node(node: &NodeView) -> Vec<Issue> {
    let mut found = Vec::new();
    let name = &node.name;
    let mut add = |kind, text: String| {
        let (subject, site) = (name.to_string(), Some(node.place.site.clone()));
        found.push(Issue { kind, subject, site, text, since_unix_millis: None });
    };
    match node.state {
        State::Revoked => return found,
        // Its operator knows: it may be out for repair.
        State::Lost if node.is_drained => return found,
        State::Lost => {
            add(IssueKind::NodeLost, format!("{name} is lost: {}.", lost(node)));
            found[0].since_unix_millis = Some(node.since_unix_millis);
            // Its other figures are from before.
            return found;
        }
        State::Joining => {
            let why = node.reason.as_deref().unwrap_or("it has not reported yet");
            add(IssueKind::NodeNotReady, format!("{name} does not serve yet: {why}."));
        }
        State::Serving => {
            if let Some(reason) = &node.reason {
                add(IssueKind::NodeTwice, format!("{name}: {reason}."));
            }
            for reason in &node.not_me {
                add(IssueKind::NodeSheds(*reason), format!("{name} {}.", sheds(*reason)));
            }
        }
        State::Draining | State::Drained => {}
    }
    if let Some(served) = &node.served_at {
        let text = format!("{name} serves {} at port {}.", served.scheme, served.port);
        add(IssueKind::NodeAddress, text);
    }
    if let Some(off) = node.clock_off_millis.filter(|off| off.unsigned_abs() > CLOCK_OFF_MILLIS_MAX)
    {
        let side = if off > 0 { "ahead" } else { "behind" };
        let seconds = off.unsigned_abs() / 1000;
        add(IssueKind::NodeClock, format!("{name}: the clock is {seconds} s {side}."));
    }
    let copies = node.fill.as_ref().is_some_and(|fill| fill.bytes_per_second > 0 || !fill.is_open);
    if node.missing > 0 && !copies {
        let titles = plural(node.missing, "title");
        let text = format!("{name} lacks {titles} that it should have, and copies nothing.");
        add(IssueKind::NodeIncomplete, text);
    }
    if node.receipts_waiting > 0 {
        let titles = plural(node.receipts_waiting, "withdrawn title");
        let text = format!("{name} has not confirmed that it removed {titles}.");
        add(IssueKind::RemovalUnconfirmed, text);
    }
    found
}

/// Why a node is lost, without the seconds, which change.
fn lost(node: &NodeView) -> &str {
    match node.reason.as_deref() {
        Some(reason) if !reason.starts_with("silent for") => reason,
        _ => "it is silent",
    }
}

fn sheds(reason: SheddingReason) -> &'static str {
    match reason {
        SheddingReason::AtCeiling => "is at its ceiling",
        SheddingReason::DiskErrors => "has disk errors",
        SheddingReason::Pressure => "is overloaded: tasks wait for processor, memory or disks",
        SheddingReason::AcceptPaused => "accepts no connections: a resource is exhausted",
        SheddingReason::ViewersStall => "has viewers who report stalls",
        SheddingReason::Hot => "is too hot: its processor is throttled",
        SheddingReason::ServerSilent => "has a server that does not answer its agent",
        SheddingReason::Other => {
            "takes no new viewers, for a reason that this gateway doesn't know"
        }
    }
}

fn purge(number: u64, at: &PurgeAtNode) -> Issue {
    let node = &at.node;
    let verb = if at.state == PurgeState::Refused { "refused" } else { "not carried out" };
    let why = at.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    let text = format!("{node} has {verb} purge {number}{why}.");
    let (subject, site) = (node.to_string(), Some(at.site.clone()));
    Issue { kind: IssueKind::PurgeUnconfirmed, subject, site, text, since_unix_millis: None }
}

fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
