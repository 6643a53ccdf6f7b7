//! Explaining a decision to an operator.

use std::fmt::Write;
use std::ops::ControlFlow;

use fleet_protocol::SnapshotNode;

use crate::decide::{Known, decide_known};
use crate::order;
use crate::{ChoiceReason, Decision, Fleet, Label, Question, Standing};

/// Most sites named in addition to those in the answer.
const SITES_MAX: usize = 8;

/// Most nodes named for each site.
const NODES_MAX: usize = 12;

/// Describes which sites and nodes were considered for a viewer, which were excluded and why, and the answer. The text contains the address, so it
/// is only for the operator who asked, and must not be logged.
pub fn explain(fleet: &Fleet, question: &Question<'_>) -> String {
    let known = Known::of(fleet, question);
    let decision = decide_known(fleet, &known);
    let told = Told { fleet, known, decision: &decision };
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = told.all(&mut text, question);
    text
}

struct Told<'t> {
    fleet: &'t Fleet,
    known: Known<'t>,
    decision: &'t Decision,
}

impl Told<'_> {
    fn all(&self, text: &mut String, question: &Question<'_>) -> std::fmt::Result {
        let snapshot = self.fleet.snapshot();
        writeln!(
            text,
            "{} asks for {} (snapshot {} of {}, epoch {})",
            question.address, question.title, snapshot.number, snapshot.gateway, snapshot.epoch
        )?;
        let Some(title) = self.fleet.title(self.known.title) else {
            return writeln!(text, "The fleet has no title of that path.");
        };
        self.whereabouts(text)?;
        self.playing(text, title)?;
        writeln!(text, "\nSites, best first:")?;
        self.sites(text, title)?;
        self.answer(text)
    }

    fn whereabouts(&self, text: &mut String) -> std::fmt::Result {
        match (self.decision.matched, self.known.whence.region) {
            (Some(prefix), _) => writeln!(
                text,
                "The longest announced prefix that contains the address is {prefix}."
            ),
            (None, Some(region)) => {
                writeln!(text, "No site announces the address. The gateway's region is {region}.")
            }
            (None, None) => {
                writeln!(text, "No site announces the address, so any site may serve it.")
            }
        }
    }

    fn playing(&self, text: &mut String, title: usize) -> std::fmt::Result {
        let Some(pathway) = self.known.pathway else { return Ok(()) };
        let Some(node) = self.fleet.node(pathway) else {
            return writeln!(
                text,
                "It reports a pathway that is not a node, so it counts as a new viewer."
            );
        };
        let stays =
            self.decision.ranked.first().is_some_and(|first| first.reason == ChoiceReason::Playing);
        let verdict = match (stays, self.fleet.standing(node)) {
            (true, Standing::Open | Standing::Closed) => "and stays there",
            (true, _) => "and stays there, because no better node holds the title",
            (false, _) => "and has to leave it",
        };
        writeln!(text, "It plays from {pathway} ({}), {verdict}.", self.state(node, title))
    }

    /// The sites in order, until those in the answer have been named.
    fn sites(&self, text: &mut String, title: usize) -> std::fmt::Result {
        let snapshot = self.fleet.snapshot();
        let mut seen: Vec<usize> = Vec::new();
        let mut wanted: Vec<&str> = self
            .decision
            .ranked
            .iter()
            .map(|ranked| snapshot.nodes[ranked.node].place.site.as_str())
            .collect();
        let (mut done, mut left_out) = (Ok(()), 0);
        order::sites(self.fleet, &self.known.whence, |site, reason| {
            if seen.contains(&site) {
                return ControlFlow::Continue(());
            }
            seen.push(site);
            let name = snapshot.sites[site].name.as_str();
            if seen.len() > SITES_MAX && !wanted.contains(&name) {
                left_out += 1;
            } else {
                done = done.and_then(|()| self.site(text, seen.len(), site, reason, title));
            }
            wanted.retain(|other| *other != name);
            let is_over = done.is_err() || (wanted.is_empty() && seen.len() >= SITES_MAX);
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        done?;
        match (seen.is_empty(), left_out) {
            (true, _) => writeln!(text, "  There are none."),
            (_, 0) => Ok(()),
            _ => writeln!(text, "  {left_out} sites in between are left out here."),
        }
    }

    fn site(
        &self,
        text: &mut String,
        rank: usize,
        site: usize,
        reason: ChoiceReason,
        title: usize,
    ) -> std::fmt::Result {
        let name = &self.fleet.snapshot().sites[site].name;
        writeln!(text, "  {rank}. {name}: {}", self.why(site, reason))?;
        let entries = self.fleet.node_table().in_site(site);
        for entry in entries.iter().take(NODES_MAX) {
            let node = &self.fleet.snapshot().nodes[entry.node as usize];
            writeln!(text, "       {}: {}", node.name, self.state(entry.node as usize, title))?;
        }
        match entries.len().saturating_sub(NODES_MAX) {
            0 if entries.is_empty() => writeln!(text, "       no nodes"),
            0 => Ok(()),
            more => writeln!(text, "       and {more} more nodes"),
        }
    }

    fn why(&self, site: usize, reason: ChoiceReason) -> String {
        let region = &self.fleet.snapshot().sites[site].region;
        match reason {
            ChoiceReason::Prefix => self.announced(site),
            ChoiceReason::Near => {
                let neighbour = self.neighbour_km(site);
                neighbour.unwrap_or_else(|| "near the best site".to_owned())
            }
            ChoiceReason::Region => format!("in the region {region}"),
            ChoiceReason::Playing | ChoiceReason::Anywhere => {
                format!("elsewhere (region {region})")
            }
        }
    }

    fn announced(&self, site: usize) -> String {
        let reach = self.fleet.reach();
        let route = reach.levels(self.known.whence.matched).find_map(|level| {
            let mut routes = reach.routes(level).iter();
            routes.find(|route| route.site as usize == site).map(|route| (level, route))
        });
        route.map_or_else(String::new, |(level, route)| {
            let (prefix, med) = (reach.prefix(level), route.med);
            format!("announces {prefix}, AS path length {}, MED {med}", route.as_path_length)
        })
    }

    fn neighbour_km(&self, site: usize) -> Option<String> {
        let mut best = None;
        order::sites(self.fleet, &self.known.whence, |site, _| {
            best = Some(site);
            ControlFlow::Break(())
        });
        let neighbours = self.fleet.geography().neighbours(best?);
        let km = neighbours.iter().find(|near| near.site as usize == site)?.km?;
        let (name, region) = {
            let sites = &self.fleet.snapshot().sites;
            (&sites[best?].name, &sites[site].region)
        };
        Some(format!("{km:.0} km from {name} (region {region})"))
    }

    /// Whether a node can serve the title, and why not.
    fn state(&self, node: usize, title: usize) -> String {
        let own = &self.fleet.snapshot().nodes[node];
        let holds = if self.fleet.holds(node, title) { "" } else { ", lacks the title" };
        format!("{}{holds}", standing(own, self.fleet.standing(node)))
    }

    fn answer(&self, text: &mut String) -> std::fmt::Result {
        let nodes = &self.fleet.snapshot().nodes;
        writeln!(text, "\nAnswer, good for {} s:", self.decision.ttl_seconds)?;
        if self.decision.ranked.is_empty() {
            writeln!(text, "  None: no serving node holds the title.")?;
        }
        for (rank, ranked) in self.decision.ranked.iter().enumerate() {
            let node = &nodes[ranked.node];
            let rack =
                node.place.rack.as_ref().map_or(String::new(), |rack| format!(", rack {rack}"));
            let (site, cluster) = (&node.place.site, &node.place.cluster);
            let reason = ranked.reason.as_str();
            writeln!(
                text,
                "  {}. {} (site {site}, cluster {cluster}{rack}): {reason}",
                rank + 1,
                node.name
            )?;
        }
        let first = self.decision.first_choice.map(|node| &nodes[node]);
        match (self.decision.label, first) {
            (Some(Label::Content), Some(first)) => writeln!(
                text,
                "Label C: no node of the best site, {}, holds the title.",
                first.place.site
            ),
            (Some(Label::Health), Some(first)) => writeln!(
                text,
                "Label H: the first choice is {}, but it is {}.",
                first.name,
                standing(first, Standing::of(first))
            ),
            _ => Ok(()),
        }
    }
}

/// Whether a node accepts viewers, and why not.
fn standing(node: &SnapshotNode, standing: Standing) -> String {
    let load = format!("{}.{} % of its ceiling", node.load_permille / 10, node.load_permille % 10);
    let reasons: Vec<&str> = node.not_me.iter().map(|reason| reason.as_str()).collect();
    let reasons = reasons.join(", ");
    match standing {
        Standing::Open => format!("takes viewers, at {load}"),
        Standing::Closed if node.not_me.is_empty() => format!("full, at {load}"),
        Standing::Closed => format!("takes no new viewers ({reasons}), at {load}"),
        Standing::Failing => format!("serves badly ({reasons}), at {load}"),
        Standing::Out => node.state.as_str().to_owned(),
    }
}
