//! Metrics of a gateway's fleet: the one definition of each.

use telemetry::{Kind, Metric};

pub(super) const FLEET_NODES: Metric =
    Metric::new(Kind::Gauge, "fullbore_fleet_nodes", "Nodes by state, as this gateway sees them.")
        .by("state");

pub(super) const FLEET_TITLES: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_fleet_titles",
    "Titles: published, on fewer nodes than they should be, withdrawn versions.",
)
.by("state");

pub(super) const FLEET_DECISIONS: Metric = Metric::new(
    Kind::Counter,
    "fullbore_fleet_decisions_total",
    "Steering decisions, by result: C means no content, H means health.",
)
.by("label");

pub(super) const FLEET_ANSWERS: Metric =
    Metric::new(Kind::Counter, "fullbore_fleet_answers_total", "Answers to viewers, by kind.")
        .by("kind");

pub(super) const FLEET_MACHINES_REFUSED: Metric = Metric::new(
    Kind::Counter,
    "fullbore_fleet_machines_refused_total",
    "Requests and connections of machines that were refused, by reason.",
)
.by("reason");

pub(super) const FLEET_OPERATORS_REFUSED: Metric = Metric::new(
    Kind::Counter,
    "fullbore_fleet_operators_refused_total",
    "Requests of operators that were refused, by reason.",
)
.by("reason");

pub(super) const FLEET_HANDSHAKES_REFUSED: Metric = Metric::new(
    Kind::Counter,
    "fullbore_fleet_handshakes_refused_total",
    "TLS handshakes of viewers (public) and operators (admin) that were refused, by listener and reason.",
)
.by("listener, reason");

pub(super) const FLEET_REQUESTS_REFUSED: Metric = Metric::new(
    Kind::Counter,
    "fullbore_fleet_requests_refused_total",
    "Connections and requests that a listener (public, machines, admin) refused before authentication, by reason. gave_way: closed without a \
     request in progress, to make room for a new connection.",
)
.by("listener, reason");

pub(super) const FLEET_FROZEN: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_fleet_frozen",
    "1 while this gateway suspects its own connection to the nodes.",
);

pub(super) const FLEET_STORE_PROBLEM: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_fleet_store_problem",
    "1 while the store accepts no changes, or is an old copy that was put back without a restore.",
);

pub(super) const FLEET_RECEIPTS_WAITING: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_fleet_receipts_waiting",
    "Withdrawals that nodes have not confirmed.",
);

pub(super) const FLEET_PURGES_WAITING: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_fleet_purges_waiting",
    "Nodes whose edges have not confirmed the latest purge of the fleet, or have refused it.",
);

pub(super) const FLEET_ISSUES: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_fleet_issues",
    "Open issues, as listed by fullbore control issues. Those that an operator has snoozed count as snoozed only.",
)
.by("state");

pub(super) const FLEET_WEBHOOK: Metric = Metric::new(
    Kind::Counter,
    "fullbore_fleet_webhook_total",
    "Messages to the webhook that were delivered, tries that failed, and messages that were given up after a day or for newer ones.",
)
.by("result");

pub(super) const FLEET_WEBHOOK_WAITING: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_fleet_webhook_waiting",
    "Messages that wait for the webhook.",
);

pub(super) const FLEET_CLOCKS_OFF: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_fleet_clocks_off",
    "Nodes whose clocks differ from this gateway's by more than a second.",
);

pub(super) const FLEET_SNAPSHOT: Metric =
    Metric::new(Kind::Gauge, "fullbore_fleet_snapshot", "Number of the newest snapshot.");

pub(super) const FLEET_EPOCH: Metric =
    Metric::new(Kind::Gauge, "fullbore_fleet_epoch", "Rises when a backup is restored.");

pub(super) const FLEET_SERIES_LEFT_OUT: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_fleet_series_left_out",
    "1 if there are too many nodes or sites for series of their own.",
);

pub(super) const SITE_NODES_SERVING: Metric =
    Metric::new(Kind::Gauge, "fullbore_site_nodes_serving", "Serving nodes of the site.")
        .by("site");

pub(super) const SITE_BYTES_PER_SECOND: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_site_bytes_per_second",
    "Bytes per second that the site's serving nodes send.",
)
.by("site");

pub(super) const SITE_CEILING_BYTES_PER_SECOND: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_site_ceiling_bytes_per_second",
    "Bytes per second that they may send.",
)
.by("site");

pub(super) const SITE_CONNECTIONS: Metric =
    Metric::new(Kind::Gauge, "fullbore_site_connections", "Connections to them.").by("site");

pub(super) const SITE_PREFIXES: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_site_prefixes",
    "Prefixes that the site announces, by its file and its routers.",
)
.by("site");

pub(super) const SITE_PREFIXES_REFUSED: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_site_prefixes_refused",
    "Prefixes that it announces outside its allow-list; they don't count.",
)
.by("site");

pub(super) const SITE_FEEDS: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_site_feeds",
    "Nodes of the site that feed its routers' routes.",
)
.by("site");

pub(super) const NODE_UP: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_node_up",
    "1 if the node serves, drains or is drained, 0 if it is lost or joining.",
)
.by("node, site");

pub(super) const NODE_DRAINING: Metric =
    Metric::new(Kind::Gauge, "fullbore_node_draining", "1 if an operator wants no viewers on it.")
        .by("node, site");

pub(super) const NODE_NOT_ME: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_node_not_me",
    "Number of reasons why it wants no new viewers.",
)
.by("node, site");

pub(super) const NODE_LOAD_RATIO: Metric =
    Metric::new(Kind::Gauge, "fullbore_node_load_ratio", "Load divided by ceiling.")
        .by("node, site");

pub(super) const NODE_FREE_BYTES: Metric =
    Metric::new(Kind::Gauge, "fullbore_node_free_bytes", "Free room for titles.").by("node, site");

pub(super) const NODE_TITLES_MISSING: Metric =
    Metric::new(Kind::Gauge, "fullbore_node_titles_missing", "Published titles that it lacks.")
        .by("node, site");

pub(super) const NODE_CLOCK_OFF_SECONDS: Metric =
    Metric::new(Kind::Gauge, "fullbore_node_clock_off_seconds", "Its clock minus this gateway's.")
        .by("node, site");

pub(super) const NODE_SILENT_SECONDS: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_node_silent_seconds",
    "Seconds since its last heartbeat to this gateway.",
)
.by("node, site");

pub(super) const FLEET_DECISION_LINES_DROPPED: Metric = Metric::new(
    Kind::Counter,
    "fullbore_fleet_decision_lines_dropped_total",
    "Lines dropped from the decision log because the disk was too slow.",
);

pub(super) const FLEET_POPULARITY_COUNTS: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_fleet_popularity_counts",
    "Popularity counts, one for each title in each region.",
);

pub(super) const FLEET_POPULARITY_UNNAMED: Metric = Metric::new(
    Kind::Counter,
    "fullbore_fleet_popularity_unnamed_total",
    "Counts merged into the rest of their region: nodes reported an unknown title, or there was no room for the least watched.",
)
.by("reason");

pub(super) const FLEET_QOE_SESSIONS: Metric = Metric::new(
    Kind::Counter,
    "fullbore_fleet_qoe_sessions_total",
    "Viewers' sessions that nodes have reported, by result: not started, stalled, or well.",
)
.by("result");

pub(super) const FLEET_QOE_STALLS: Metric =
    Metric::new(Kind::Counter, "fullbore_fleet_qoe_stalls_total", "Stalls in these sessions.");

pub(super) const FLEET_QOE_STALLED_SECONDS: Metric = Metric::new(
    Kind::Counter,
    "fullbore_fleet_qoe_stalled_seconds_total",
    "Time that their viewers waited in stalls.",
);

pub(super) const FLEET_QOE_PLAYED_SECONDS: Metric = Metric::new(
    Kind::Counter,
    "fullbore_fleet_qoe_played_seconds_total",
    "Time that their viewers watched.",
);

pub(super) const FLEET_QOE_PLAY_DELAY: Metric = Metric::new(
    Kind::Histogram,
    "fullbore_fleet_qoe_play_delay_seconds",
    "Time from the request to play until playback began, per session.",
);

pub(super) const FLEET_QOE_BYTES_PER_SECOND: Metric = Metric::new(
    Kind::Histogram,
    "fullbore_fleet_qoe_media_bytes_per_second",
    "Mean bit rate of what was watched, in bytes, per session.",
);

pub(super) const FLEET_QOE_REPORTS: Metric = Metric::new(
    Kind::Counter,
    "fullbore_fleet_qoe_reports_total",
    "Nodes' reports of viewers' experience that were counted.",
);

pub(super) const FLEET_QOE_GROUPS: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_fleet_qoe_groups",
    "Groups of sessions that are kept, in all stretches of time together.",
);

pub(super) const FLEET_QOE_UNNAMED: Metric = Metric::new(
    Kind::Counter,
    "fullbore_fleet_qoe_unnamed_total",
    "Groups that lost their name, or were left out: the title is not published, there were too many, or a later release made them.",
)
.by("reason");

pub(super) const SITE_QOE_SESSIONS: Metric = Metric::new(
    Kind::Counter,
    "fullbore_site_qoe_sessions_total",
    "Viewers' sessions that its nodes have reported.",
)
.by("site");

pub(super) const SITE_QOE_TROUBLED: Metric = Metric::new(
    Kind::Counter,
    "fullbore_site_qoe_sessions_troubled_total",
    "Those of them that did not start, or stalled.",
)
.by("site");

/// All of them, in the order of docs/metrics.md.
pub const METRICS: [&Metric; 48] = [
    &FLEET_NODES,
    &FLEET_TITLES,
    &FLEET_DECISIONS,
    &FLEET_ANSWERS,
    &FLEET_MACHINES_REFUSED,
    &FLEET_OPERATORS_REFUSED,
    &FLEET_HANDSHAKES_REFUSED,
    &FLEET_REQUESTS_REFUSED,
    &FLEET_FROZEN,
    &FLEET_STORE_PROBLEM,
    &FLEET_RECEIPTS_WAITING,
    &FLEET_PURGES_WAITING,
    &FLEET_ISSUES,
    &FLEET_WEBHOOK,
    &FLEET_WEBHOOK_WAITING,
    &FLEET_CLOCKS_OFF,
    &FLEET_SNAPSHOT,
    &FLEET_EPOCH,
    &FLEET_SERIES_LEFT_OUT,
    &FLEET_DECISION_LINES_DROPPED,
    &FLEET_POPULARITY_COUNTS,
    &FLEET_POPULARITY_UNNAMED,
    &FLEET_QOE_SESSIONS,
    &FLEET_QOE_STALLS,
    &FLEET_QOE_STALLED_SECONDS,
    &FLEET_QOE_PLAYED_SECONDS,
    &FLEET_QOE_PLAY_DELAY,
    &FLEET_QOE_BYTES_PER_SECOND,
    &FLEET_QOE_REPORTS,
    &FLEET_QOE_GROUPS,
    &FLEET_QOE_UNNAMED,
    &SITE_NODES_SERVING,
    &SITE_BYTES_PER_SECOND,
    &SITE_CEILING_BYTES_PER_SECOND,
    &SITE_CONNECTIONS,
    &SITE_PREFIXES,
    &SITE_PREFIXES_REFUSED,
    &SITE_FEEDS,
    &SITE_QOE_SESSIONS,
    &SITE_QOE_TROUBLED,
    &NODE_UP,
    &NODE_DRAINING,
    &NODE_NOT_ME,
    &NODE_LOAD_RATIO,
    &NODE_FREE_BYTES,
    &NODE_TITLES_MISSING,
    &NODE_CLOCK_OFF_SECONDS,
    &NODE_SILENT_SECONDS,
];
