//! One Prometheus endpoint for the entire fleet, so that monitoring need not scrape every node.
//!
//! Labels are bounded: nodes have their own series only in fleets of up to [`NODES_MAX`] nodes. Larger fleets have sums by site, and with more than
//! [`SITES_MAX`] sites there are no series of sites either; `fullbore_fleet_series_left_out` shows that. No label has a title or an address.

mod defined;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State as AxumState;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use fleet_protocol::State;
use identity::RefusalReason;
use qoe::SparseBuckets;
use telemetry::Metric;

use self::defined::*;
use super::asker::Asker;
use super::operation::Needed;
use super::told;
use crate::gateway::Gateway;
use crate::live::{CLOCK_OFF_MILLIS_MAX, FleetView, NodeView, SiteView};

pub use self::defined::METRICS;

/// Most nodes with series of their own.
const NODES_MAX: usize = 1000;

/// Most sites with series of their own.
const SITES_MAX: usize = 1000;

const STATES: [State; 6] =
    [State::Joining, State::Serving, State::Draining, State::Drained, State::Lost, State::Revoked];

/// Prometheus' text format, version 0.0.4.
const FORM: &str = "text/plain; version=0.0.4";

pub(super) async fn answer(AxumState(gateway): AxumState<Arc<Gateway>>, asker: Asker) -> Response {
    let answer = asker.operator(&gateway, Needed::Read).map(|_| {
        let view = gateway.live().view(gateway.now());
        ([(CONTENT_TYPE, FORM)], written(&gateway, &view))
    });
    told(&gateway, answer.map(IntoResponse::into_response))
}

fn written(gateway: &Gateway, view: &FleetView) -> String {
    let mut text = Text(String::new());
    fleet(&mut text, gateway, view);
    issues(&mut text, gateway);
    webhook(&mut text, gateway);
    viewers(&mut text, gateway);
    refused(&mut text, gateway);
    popularity(&mut text, gateway);
    experience(&mut text, gateway);
    sites(&mut text, view);
    nodes(&mut text, view);
    text.0
}

struct Text(String);

impl Text {
    /// Starts a family of series.
    fn family(&mut self, metric: &Metric) {
        let (name, help, kind) = (metric.name, metric.help, metric.kind.name());
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes one series. Label values are names and constants, which need no quoting.
    fn series(&mut self, metric: &Metric, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<_> =
            labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.0, "{}{labels} {value}", metric.name);
    }

    /// Writes a histogram. `unit` is that of the values in the metric's.
    fn histogram(&mut self, metric: &Metric, spread: &SparseBuckets, bounds: &[u64], unit: f64) {
        self.family(metric);
        for bound in bounds {
            let (up_to, name) = (spread.up_to(*bound), metric.name);
            let _ = writeln!(self.0, "{name}_bucket{{le=\"{}\"}} {up_to}", *bound as f64 * unit);
        }
        let (name, count, sum) = (metric.name, spread.count(), spread.sum() as f64 * unit);
        let _ = writeln!(
            self.0,
            "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}"
        );
    }

    /// Writes a family with a single series.
    fn one(&mut self, metric: &Metric, value: impl std::fmt::Display) {
        self.family(metric);
        self.series(metric, &[], value);
    }
}

fn fleet(text: &mut Text, gateway: &Gateway, view: &FleetView) {
    text.family(&FLEET_NODES);
    for state in STATES {
        let count = view.nodes.iter().filter(|node| node.state == state).count();
        text.series(&FLEET_NODES, &[("state", state.as_str())], count);
    }
    text.family(&FLEET_TITLES);
    for (state, count) in [
        ("published", view.titles.published),
        ("incomplete", view.titles.incomplete),
        ("withdrawn", view.titles.withdrawn),
    ] {
        text.series(&FLEET_TITLES, &[("state", state)], count);
    }
    let waiting: usize = view.nodes.iter().map(|node| node.receipts_waiting).sum();
    let off = view.nodes.iter().filter(|node| is_clock_off(node)).count();
    for (metric, value) in [
        (&FLEET_FROZEN, u64::from(view.frozen.is_some())),
        (&FLEET_STORE_PROBLEM, u64::from(gateway.store_problem().is_some())),
        (&FLEET_RECEIPTS_WAITING, waiting as u64),
        (&FLEET_PURGES_WAITING, purges_waiting(gateway)),
        (&FLEET_CLOCKS_OFF, off as u64),
        (&FLEET_SNAPSHOT, view.snapshot),
        (&FLEET_EPOCH, view.epoch),
        (&FLEET_SERIES_LEFT_OUT, u64::from(is_left_out(view))),
    ] {
        text.one(metric, value);
    }
}

fn issues(text: &mut Text, gateway: &Gateway) {
    let (_, counts) = gateway.shown_issues(gateway.now());
    text.family(&FLEET_ISSUES);
    for (state, count) in
        [("critical", counts.critical), ("warning", counts.warning), ("snoozed", counts.snoozed)]
    {
        text.series(&FLEET_ISSUES, &[("state", state)], count);
    }
}

fn webhook(text: &mut Text, gateway: &Gateway) {
    let counts = gateway.webhook_counts();
    text.family(&FLEET_WEBHOOK);
    for (result, count) in
        [("delivered", counts.delivered), ("failed", counts.failed), ("dropped", counts.dropped)]
    {
        text.series(&FLEET_WEBHOOK, &[("result", result)], count);
    }
    text.one(&FLEET_WEBHOOK_WAITING, counts.waiting);
}

/// Nodes that have not confirmed the latest purge of edges.
fn purges_waiting(gateway: &Gateway) -> u64 {
    let live = gateway.live();
    let nodes = live.purge_at_nodes(live.world().purges.last, gateway.now()).unwrap_or_default();
    nodes.iter().filter(|node| !node.state.is_settled()).count() as u64
}

/// Whether there are too many nodes or sites for series of their own.
fn is_left_out(view: &FleetView) -> bool {
    view.nodes.len() > NODES_MAX || view.sites.len() > SITES_MAX
}

fn is_clock_off(node: &NodeView) -> bool {
    node.clock_off_millis.is_some_and(|off| off.unsigned_abs() > CLOCK_OFF_MILLIS_MAX)
}

fn viewers(text: &mut Text, gateway: &Gateway) {
    let counts = gateway.moves().counts();
    text.family(&FLEET_DECISIONS);
    for (label, count) in
        [("first", counts.first_choice), ("C", counts.content), ("H", counts.health)]
    {
        text.series(&FLEET_DECISIONS, &[("label", label)], count);
    }
    text.family(&FLEET_ANSWERS);
    for (kind, count) in gateway.answered() {
        text.series(&FLEET_ANSWERS, &[("kind", kind)], count);
    }
    let dropped = gateway.decisions().dropped();
    text.one(&FLEET_DECISION_LINES_DROPPED, dropped);
}

fn refused(text: &mut Text, gateway: &Gateway) {
    text.family(&FLEET_MACHINES_REFUSED);
    for (reason, count) in gateway.refusals().counts() {
        text.series(&FLEET_MACHINES_REFUSED, &[("reason", reason.as_str())], count);
    }
    text.family(&FLEET_OPERATORS_REFUSED);
    for (reason, count) in gateway.refused() {
        text.series(&FLEET_OPERATORS_REFUSED, &[("reason", reason)], count);
    }
    text.family(&FLEET_HANDSHAKES_REFUSED);
    for (listener, refused) in
        [("public", gateway.viewers_refused()), ("admin", gateway.operators_refused())]
    {
        for reason in RefusalReason::OF_GUESTS {
            let labels = [("listener", listener), ("reason", reason.as_str())];
            text.series(&FLEET_HANDSHAKES_REFUSED, &labels, refused.count(reason));
        }
    }
    text.family(&FLEET_REQUESTS_REFUSED);
    let counts = gateway.listeners_refused();
    for (listener, counts) in
        [("public", &counts.public), ("machines", &counts.machines), ("admin", &counts.admin)]
    {
        for (reason, count) in counts.counts().filter(|(_, count)| *count > 0) {
            let labels = [("listener", listener), ("reason", reason.as_str())];
            text.series(&FLEET_REQUESTS_REFUSED, &labels, count);
        }
    }
}

fn popularity(text: &mut Text, gateway: &Gateway) {
    let counts = gateway.live().popularity_counts();
    text.one(&FLEET_POPULARITY_COUNTS, counts.kept);
    text.family(&FLEET_POPULARITY_UNNAMED);
    for (reason, count) in [("unknown_title", counts.unknown_titles), ("no_room", counts.joined)] {
        text.series(&FLEET_POPULARITY_UNNAMED, &[("reason", reason)], count);
    }
}

/// Bounds of histograms, placed where people notice a difference: in milliseconds, and in kbit/s.
const DELAYS_MS: [u64; 9] = [250, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 60_000];
const BIT_RATES_KBPS: [u64; 8] = [500, 1000, 2000, 3000, 5000, 8000, 12_000, 20_000];

fn experience(text: &mut Text, gateway: &Gateway) {
    let experience = gateway.live().experience();
    let total = experience.total();
    text.family(&FLEET_QOE_SESSIONS);
    for (result, count) in [
        ("not_started", total.not_started),
        ("stalled", total.stalled),
        ("well", total.sessions.saturating_sub(total.troubled())),
    ] {
        text.series(&FLEET_QOE_SESSIONS, &[("result", result)], count);
    }
    text.one(&FLEET_QOE_STALLS, total.stalls);
    text.one(&FLEET_QOE_STALLED_SECONDS, total.stalled_ms as f64 / 1000.0);
    text.one(&FLEET_QOE_PLAYED_SECONDS, total.played_ms as f64 / 1000.0);
    text.histogram(&FLEET_QOE_PLAY_DELAY, &total.play_delay_ms, &DELAYS_MS, 1e-3);
    text.histogram(&FLEET_QOE_BYTES_PER_SECOND, &total.bitrate_kbps, &BIT_RATES_KBPS, 125.0);
    let counts = experience.counts();
    text.one(&FLEET_QOE_REPORTS, counts.reports);
    text.one(&FLEET_QOE_GROUPS, counts.cells);
    text.family(&FLEET_QOE_UNNAMED);
    for (reason, count) in [
        ("unknown_title", counts.unknown_titles),
        ("no_room", counts.no_room),
        ("later_release", counts.unknown_dimensions),
    ] {
        text.series(&FLEET_QOE_UNNAMED, &[("reason", reason)], count);
    }
    let sites = experience.by_site();
    let sites = || sites.iter().take(SITES_MAX);
    text.family(&SITE_QOE_SESSIONS);
    for (site, own) in sites() {
        text.series(&SITE_QOE_SESSIONS, &[("site", site.as_str())], own.sessions);
    }
    text.family(&SITE_QOE_TROUBLED);
    for (site, own) in sites() {
        text.series(&SITE_QOE_TROUBLED, &[("site", site.as_str())], own.troubled);
    }
}

/// Totals of a site's nodes.
#[derive(Default)]
struct Sum {
    serving: u64,
    bits_per_second: u64,
    ceiling_bits_per_second: u64,
    connections: u64,
}

fn sites(text: &mut Text, view: &FleetView) {
    if view.sites.len() > SITES_MAX {
        return;
    }
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for site in &view.sites {
        sums.entry(site.name.as_str()).or_default();
    }
    for node in view.nodes.iter().filter(|node| node.state == State::Serving) {
        let sum = sums.entry(node.place.site.as_str()).or_default();
        sum.serving += 1;
        sum.bits_per_second = sum.bits_per_second.saturating_add(node.load.bits_per_second);
        // Counted up to the node's weight, which bounds implausible figures.
        let ceiling = node.load.ceiling_bits_per_second.min(node.weight_bits_per_second);
        sum.ceiling_bits_per_second = sum.ceiling_bits_per_second.saturating_add(ceiling);
        sum.connections = sum.connections.saturating_add(node.load.connections);
    }
    type Of = fn(&Sum) -> u64;
    let families: [(&Metric, Of); 4] = [
        (&SITE_NODES_SERVING, |sum| sum.serving),
        (&SITE_BYTES_PER_SECOND, |sum| sum.bits_per_second / 8),
        (&SITE_CEILING_BYTES_PER_SECOND, |sum| sum.ceiling_bits_per_second / 8),
        (&SITE_CONNECTIONS, |sum| sum.connections),
    ];
    for (metric, of) in families {
        text.family(metric);
        for (site, sum) in &sums {
            text.series(metric, &[("site", site)], of(sum));
        }
    }
    type OfSite = fn(&SiteView) -> u64;
    let families: [(&Metric, OfSite); 3] = [
        (&SITE_PREFIXES, |site| site.prefixes as u64),
        (&SITE_PREFIXES_REFUSED, |site| site.prefixes_refused),
        (&SITE_FEEDS, |site| site.feeds as u64),
    ];
    for (metric, of) in families {
        text.family(metric);
        for site in &view.sites {
            text.series(metric, &[("site", site.name.as_str())], of(site));
        }
    }
}

fn nodes(text: &mut Text, view: &FleetView) {
    if view.nodes.len() > NODES_MAX {
        return;
    }
    type Of = fn(&NodeView) -> Option<f64>;
    let families: [(&Metric, Of); 8] = [
        (&NODE_UP, |node| {
            let is_up = matches!(node.state, State::Serving | State::Draining | State::Drained);
            (node.state != State::Revoked).then_some(f64::from(u8::from(is_up)))
        }),
        (&NODE_DRAINING, |node| {
            Some(f64::from(u8::from(matches!(node.state, State::Draining | State::Drained))))
        }),
        (&NODE_NOT_ME, |node| Some(node.not_me.len() as f64)),
        (&NODE_LOAD_RATIO, |node| Some(f64::from(node.load_permille) / 1000.0)),
        (&NODE_FREE_BYTES, |node| Some(node.load.free_bytes as f64)),
        (&NODE_TITLES_MISSING, |node| Some(node.missing as f64)),
        (&NODE_CLOCK_OFF_SECONDS, |node| node.clock_off_millis.map(|off| off as f64 / 1000.0)),
        (&NODE_SILENT_SECONDS, |node| node.silent_millis.map(|silent| silent as f64 / 1000.0)),
    ];
    for (metric, of) in families {
        text.family(metric);
        for node in &view.nodes {
            if let Some(value) = of(node) {
                let labels = [("node", node.name.as_str()), ("site", node.place.site.as_str())];
                text.series(metric, &labels, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fleet_protocol::{Load, NodeKind, NodePlace};

    use super::*;
    use crate::live::TitleCounts;

    fn site(number: usize) -> SiteView {
        SiteView {
            name: format!("s{number}").parse().expect("a name"),
            region: "r".parse().expect("a name"),
            prefixes: 0,
            prefixes_refused: 0,
            feeds: 0,
        }
    }

    fn node(number: usize) -> NodeView {
        NodeView {
            name: format!("n{number}").parse().expect("a name"),
            place: NodePlace {
                site: "s0".parse().expect("a name"),
                cluster: "c".parse().expect("a name"),
                rack: None,
            },
            kind: NodeKind::Flash,
            host: "n.example".to_owned(),
            state: State::Serving,
            since_unix_millis: 0,
            reason: None,
            is_drained: false,
            returns_unix_seconds: None,
            not_me: Vec::new(),
            silent_millis: Some(0),
            clock_off_millis: Some(0),
            load: Load::default(),
            load_permille: 0,
            weight_bits_per_second: 0,
            weight_note: None,
            titles: 0,
            missing: 0,
            receipts_waiting: 0,
            fill: None,
            served_at: None,
        }
    }

    fn view(nodes: usize, sites: usize) -> FleetView {
        FleetView {
            gateway: "g1".parse().expect("a name"),
            unix_millis: 0,
            epoch: 1,
            snapshot: 1,
            frozen: None,
            ttl_seconds: 30,
            full_permille: 900,
            sites: (0..sites).map(site).collect(),
            nodes: (0..nodes).map(node).collect(),
            titles: TitleCounts::default(),
        }
    }

    /// Number of series in a family.
    fn series(view: &FleetView, metric: &Metric) -> usize {
        let mut text = Text(String::new());
        sites(&mut text, view);
        nodes(&mut text, view);
        text.0.lines().filter(|line| line.starts_with(&format!("{}{{", metric.name))).count()
    }

    #[test]
    fn fleets_of_any_size_have_a_bounded_number_of_series() {
        let full = view(NODES_MAX, SITES_MAX);
        assert_eq!(series(&full, &NODE_UP), NODES_MAX);
        assert_eq!(series(&full, &SITE_NODES_SERVING), SITES_MAX);
        assert!(!is_left_out(&full));
        let nodes = view(NODES_MAX + 1, 2);
        assert_eq!((series(&nodes, &NODE_UP), series(&nodes, &SITE_FEEDS)), (0, 2));
        assert!(is_left_out(&nodes));
        let sites = view(1, SITES_MAX + 1);
        assert_eq!((series(&sites, &SITE_NODES_SERVING), series(&sites, &SITE_FEEDS)), (0, 0));
        assert!(is_left_out(&sites));
    }
}
