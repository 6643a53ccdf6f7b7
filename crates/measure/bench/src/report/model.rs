//! The content of the benches' JSON files, as far as the report shows it.
//!
//! Every member may be missing or null: the bench may have been ended early, the machine may not report something, or a later version may
//! have more members. A member of the wrong type makes the file unusable.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One file's content, by its kind.
#[derive(Clone, Debug)]
pub(crate) enum Bench {
    Versus(Versus),
    Limit(Limit),
    Ablate(Ablate),
    Start(Start),
    Connections(Connections),
    Disk(Disk),
    Load(Load),
    Swarm(Box<Swarm>),
}

/// A comparison of two servers in one workload.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Versus {
    pub(crate) workload: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) congestion_control: Option<String>,
    pub(crate) connections: Option<u64>,
    pub(crate) seconds: Option<f64>,
    pub(crate) rate_bits_per_second: Option<f64>,
    pub(crate) interrupted: Option<bool>,
    pub(crate) counters_unavailable: Option<String>,
    /// One part per hit ratio. Other workloads have a single part, with its members at the top level.
    #[serde(skip)]
    pub(crate) parts: Vec<Part>,
}

/// One comparison.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Part {
    pub(crate) hit_percent: Option<f64>,
    pub(crate) unit: Option<String>,
    pub(crate) better: Option<String>,
    pub(crate) sides: Option<Vec<Side>>,
    pub(crate) ratio: Option<f64>,
    pub(crate) ratio_deviation: Option<f64>,
}

/// A server and its rounds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Side {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) command: Option<String>,
    pub(crate) median: Option<f64>,
    pub(crate) deviation: Option<f64>,
    pub(crate) rounds: Option<Vec<Round>>,
}

/// One turn of a side.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Round {
    pub(crate) figure: Option<f64>,
    pub(crate) gbps: Option<f64>,
    pub(crate) requests_per_second: Option<f64>,
    pub(crate) handshakes_per_second: Option<f64>,
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) wall_seconds: Option<f64>,
    pub(crate) softirq_share: Option<f64>,
    pub(crate) rss_bytes: Option<f64>,
    pub(crate) wakeups_per_mib: Option<f64>,
    pub(crate) cpu_us_per_wakeup: Option<f64>,
    pub(crate) client_bound: Option<bool>,
    pub(crate) first_byte_ms: Option<FirstByte>,
    pub(crate) viewer_mbps: Option<ViewerRate>,
    pub(crate) swarm: Option<Carried>,
    pub(crate) counters: Option<Counters>,
}

/// The result of a search for how many viewers play without a stall.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Carried {
    pub(crate) viewers: Option<f64>,
    /// A lower bound: the swarm was the limit, or larger numbers were not tried.
    pub(crate) at_least: Option<bool>,
    pub(crate) stopped_by: Option<String>,
    pub(crate) lag_ms_p99: Option<f64>,
    pub(crate) trials: Option<f64>,
}

/// Milliseconds to the first byte, percentiles.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FirstByte {
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) p999: Option<f64>,
}

/// Mb/s per viewer, percentiles.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ViewerRate {
    pub(crate) p1: Option<f64>,
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
}

/// Hardware counts per byte of body.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Counters {
    pub(crate) cycles_per_byte: Option<f64>,
    pub(crate) instructions_per_byte: Option<f64>,
    pub(crate) llc_misses_per_byte: Option<f64>,
    pub(crate) dram_bytes_per_byte: Option<f64>,
    pub(crate) socket_bytes_per_byte: Option<f64>,
}

/// The machine's parts alone, and servers compared with their sums.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Limit {
    pub(crate) parts: Option<Vec<LimitPart>>,
    pub(crate) pipeline_gbps: Option<f64>,
    pub(crate) bound_by: Option<String>,
    pub(crate) interrupted: Option<bool>,
    /// All chains; the first is the main one. In some files its members are at the top level, without a list.
    #[serde(skip)]
    pub(crate) chains: Vec<Chain>,
}

/// The parts of a workload, and the server that runs it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Chain {
    pub(crate) workload: Option<String>,
    pub(crate) chain: Option<Vec<String>>,
    pub(crate) ceiling_gbps: Option<f64>,
    pub(crate) server: Option<LimitServer>,
    pub(crate) share_of_ceiling: Option<f64>,
}

/// One part alone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LimitPart {
    pub(crate) name: Option<String>,
    pub(crate) what: Option<String>,
    /// Rate per CPU second.
    pub(crate) gbps: Option<f64>,
    pub(crate) deviation: Option<f64>,
    /// Rate by the wall clock: lower if the part waits.
    pub(crate) wall_gbps: Option<f64>,
}

/// The whole server in the same run.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LimitServer {
    pub(crate) gbps_per_cpu_second: Option<f64>,
    pub(crate) deviation: Option<f64>,
}

/// The bypass route with increasing numbers of viewers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Connections {
    pub(crate) total_bits_per_second: Option<f64>,
    pub(crate) rows: Option<Vec<ConnectionsRow>>,
}

/// The figures for one number of viewers.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ConnectionsRow {
    pub(crate) connections: Option<u64>,
    pub(crate) gbps: Option<f64>,
    pub(crate) cpu_percent: Option<f64>,
    pub(crate) cpu_ns_per_byte: Option<f64>,
    pub(crate) wakeups_per_mib: Option<f64>,
    pub(crate) timers_per_mib: Option<f64>,
    pub(crate) records_again_percent: Option<f64>,
    pub(crate) bytes_per_connection: Option<f64>,
    pub(crate) jain: Option<f64>,
}

/// A disk's reads, completed in several ways.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Disk {
    /// A description of the file or device.
    pub(crate) read: Option<String>,
    pub(crate) read_bytes: Option<f64>,
    pub(crate) in_flight: Option<u64>,
    pub(crate) interrupted: Option<bool>,
    pub(crate) ways: Option<Vec<DiskWay>>,
}

/// One way.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DiskWay {
    pub(crate) name: Option<String>,
    /// Why it was not available.
    pub(crate) unavailable: Option<String>,
    pub(crate) gbps_per_cpu_second: Option<f64>,
    pub(crate) deviation: Option<f64>,
    pub(crate) gbps: Option<f64>,
    pub(crate) reads_per_second: Option<f64>,
    pub(crate) us_median: Option<f64>,
    pub(crate) reads_at_once: Option<f64>,
    pub(crate) interrupts_per_read: Option<f64>,
}

/// The greatest stable load with everything on, and with each optimisation switched off in turn.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Ablate {
    pub(crate) rate_bits_per_second: Option<f64>,
    pub(crate) rows: Option<Vec<AblateRow>>,
    pub(crate) interrupted: Option<bool>,
}

/// One optimisation switched off.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AblateRow {
    pub(crate) switch: Option<String>,
    pub(crate) what: Option<String>,
    pub(crate) workload: Option<String>,
    pub(crate) unit: Option<String>,
    pub(crate) baseline: Option<Stable>,
    #[serde(flatten)]
    pub(crate) stable: Stable,
    pub(crate) change: Option<f64>,
    pub(crate) stopped_by: Option<String>,
    pub(crate) skipped: Option<String>,
    pub(crate) seed: Option<Seed>,
}

/// A greatest stable load.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Stable {
    pub(crate) viewers: Option<f64>,
    pub(crate) gbps: Option<f64>,
    pub(crate) cpu_percent: Option<f64>,
    pub(crate) gbps_per_cpu_percent: Option<f64>,
    pub(crate) handshakes_per_second: Option<f64>,
}

/// What Netflix measured when it switched off something similar; the method is theirs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Seed {
    pub(crate) source: Option<String>,
    pub(crate) switched_off: Option<String>,
    pub(crate) gbps: Option<f64>,
    pub(crate) cpu_percent: Option<f64>,
    pub(crate) baseline_gbps: Option<f64>,
    pub(crate) baseline_cpu_percent: Option<f64>,
}

/// Time from the start of the process to the first byte.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Start {
    pub(crate) milliseconds: Option<Vec<f64>>,
    pub(crate) median: Option<f64>,
    pub(crate) deviation: Option<f64>,
}

/// Many viewers on one server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Load {
    pub(crate) measured_seconds: Option<f64>,
    pub(crate) gbps: Option<f64>,
    pub(crate) requests_per_second: Option<f64>,
    pub(crate) handshakes_per_second: Option<f64>,
    pub(crate) connections_opened: Option<u64>,
    pub(crate) verified: Option<u64>,
    pub(crate) errors: Option<Map<String, Value>>,
    pub(crate) first_byte_ms: Option<FirstByte>,
    pub(crate) viewer_mbps: Option<ViewerRate>,
    pub(crate) client_bound: Option<bool>,
    pub(crate) interrupted: Option<bool>,
}

/// Viewers that play like real ones, and their experience.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Swarm {
    #[serde(flatten)]
    pub(crate) all: Watched,
    pub(crate) wall_seconds: Option<f64>,
    pub(crate) gbps: Option<f64>,
    pub(crate) stall_ratio_of_all: Option<f64>,
    pub(crate) probe_share: Option<f64>,
    pub(crate) stalls: Option<Stalls>,
    pub(crate) pathways: Option<BTreeMap<String, Watched>>,
    pub(crate) titles: Option<Vec<Watched>>,
    /// How often players changed their pathway, by reason.
    pub(crate) moves: Option<BTreeMap<String, u64>>,
    pub(crate) errors: Option<Map<String, Value>>,
    pub(crate) course: Option<Vec<Moment>>,
    pub(crate) own: Option<Own>,
    pub(crate) interrupted: Option<bool>,
}

/// The experience of a group's viewers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Watched {
    /// The title's rank, from 0.
    pub(crate) title: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) sessions: Option<Sessions>,
    pub(crate) play_delay_seconds: Option<Spread>,
    pub(crate) stall_ratio: Option<Spread>,
    pub(crate) mbps: Option<Spread>,
    pub(crate) time_to_quality_seconds: Option<Spread>,
}

/// Counts of viewers.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Sessions {
    pub(crate) count: Option<u64>,
    pub(crate) started: Option<u64>,
    pub(crate) without_stall: Option<u64>,
    pub(crate) gave_up: Option<u64>,
}

/// A quantity's distribution over viewers.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Spread {
    pub(crate) p1: Option<f64>,
    pub(crate) p5: Option<f64>,
    pub(crate) p25: Option<f64>,
    pub(crate) p50: Option<f64>,
    pub(crate) p75: Option<f64>,
    pub(crate) p95: Option<f64>,
    pub(crate) p99: Option<f64>,
}

/// How often viewers stalled, and why.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Stalls {
    pub(crate) count: Option<u64>,
    pub(crate) by_reason: Option<BTreeMap<String, u64>>,
}

/// The viewers' states at one moment.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Moment {
    pub(crate) seconds: Option<f64>,
    pub(crate) waiting: Option<f64>,
    pub(crate) playing: Option<f64>,
    pub(crate) stalled: Option<f64>,
}

/// Delays of the swarm itself.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Own {
    pub(crate) lag_ms: Option<Lag>,
    pub(crate) busiest_thread: Option<f64>,
    pub(crate) too_slow: Option<bool>,
}

/// Milliseconds, percentiles.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Lag {
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) max: Option<f64>,
}

impl Bench {
    /// Reads a file's object.
    ///
    /// # Errors
    /// If it is not a bench's file, has another version, or a member has the wrong type. The text says what is wrong.
    pub(crate) fn of(value: &Value) -> Result<Self, String> {
        let kind =
            value["kind"].as_str().ok_or("it has no \"kind\", so it is not a file of a bench")?;
        match &value["version"] {
            version if version.as_u64() == Some(1) => {}
            Value::Null => return Err("it has no \"version\"".to_owned()),
            version => {
                return Err(format!("it is of version {version}; this program reads version 1"));
            }
        }
        match kind {
            "versus" => versus(value).map(Self::Versus),
            "limit" => limit(value).map(Self::Limit),
            "ablate" => read(value).map(Self::Ablate),
            "start" => read(value).map(Self::Start),
            "connections" => read(value).map(Self::Connections),
            "disk" => read(value).map(Self::Disk),
            "load" => read(value).map(Self::Load),
            "swarm" => read(value).map(Box::new).map(Self::Swarm),
            other => Err(format!("there is no bench of kind {other:?}")),
        }
    }
}

fn versus(value: &Value) -> Result<Versus, String> {
    let mut versus: Versus = read(value)?;
    versus.parts = match &value["parts"] {
        Value::Null => vec![read(value)?],
        parts => read(parts)?,
    };
    Ok(versus)
}

fn limit(value: &Value) -> Result<Limit, String> {
    let mut limit: Limit = read(value)?;
    limit.chains = match &value["chains"] {
        Value::Null => vec![read(value)?],
        chains => read(chains)?,
    };
    Ok(limit)
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value)
        .map_err(|error| format!("it is not what that kind of bench writes: {error}"))
}

impl Chain {
    pub(crate) fn workload(&self) -> &str {
        self.workload.as_deref().unwrap_or("the server")
    }
}

impl Versus {
    pub(crate) fn workload(&self) -> &str {
        self.workload.as_deref().unwrap_or("a workload without a name")
    }

    /// The client, unless it was our own load.
    pub(crate) fn other_client(&self) -> Option<&str> {
        self.client.as_deref().filter(|client| *client != "load")
    }

    /// The other side's name, from the first part.
    pub(crate) fn peer(&self) -> &str {
        self.parts.first().and_then(|part| part.sides().get(1)).map_or("another server", Side::name)
    }

    /// Returns true if the run was too short to cite.
    pub(crate) fn is_short(&self) -> bool {
        let rounds = self.parts.iter().flat_map(Part::sides).map(|side| side.rounds().len()).min();
        self.seconds.is_some_and(|seconds| seconds < 1.0) || rounds.is_some_and(|rounds| rounds < 5)
    }
}

impl Part {
    pub(crate) fn sides(&self) -> &[Side] {
        self.sides.as_deref().unwrap_or_default()
    }

    pub(crate) fn lower_is_better(&self) -> bool {
        self.better.as_deref() == Some("lower")
    }
}

impl Side {
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("a server without a name")
    }

    pub(crate) fn rounds(&self) -> &[Round] {
        self.rounds.as_deref().unwrap_or_default()
    }

    /// The rounds that searched for how many viewers can play.
    pub(crate) fn carried(&self) -> impl Iterator<Item = &Carried> {
        self.rounds().iter().filter_map(|round| round.swarm.as_ref())
    }

    /// The median over the rounds that have the figure.
    pub(crate) fn median_of(&self, figure: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        median(self.rounds().iter().filter_map(figure))
    }
}

/// `None` if there are no figures.
pub(crate) fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let figures: Vec<_> = figures.collect();
    (!figures.is_empty()).then(|| crate::stats::Summary::of(&figures).median)
}

impl AblateRow {
    pub(crate) fn switch(&self) -> &str {
        self.switch.as_deref().unwrap_or("something without a name")
    }

    pub(crate) fn workload(&self) -> &str {
        self.workload.as_deref().unwrap_or("a work without a name")
    }

    fn counts_handshakes(&self) -> bool {
        self.unit.as_deref() == Some("handshakes_per_second")
    }

    /// Work per CPU percent: Gb/s, or handshakes per second.
    pub(crate) fn per_cpu_percent(&self, stable: &Stable) -> Option<f64> {
        if self.counts_handshakes() {
            stable
                .handshakes_per_second
                .zip(stable.cpu_percent)
                .filter(|(_, cpu)| *cpu > 0.0)
                .map(|(done, cpu)| done / cpu)
        } else {
            stable.gbps_per_cpu_percent
        }
    }

    /// The unit per CPU percent.
    pub(crate) fn unit_words(&self) -> &'static str {
        if self.counts_handshakes() { "handshakes/s per CPU %" } else { "Gb/s per CPU %" }
    }

    /// The ratio to the baseline, if there is one.
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.change.filter(|change| change.is_finite() && *change >= 0.0)
    }
}

impl Seed {
    /// Gb/s per CPU percent, as a ratio to its own baseline's.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let per_cpu =
            |gbps: Option<f64>, cpu: Option<f64>| Some(gbps? / cpu.filter(|cpu| *cpu > 0.0)?);
        let baseline = per_cpu(self.baseline_gbps, self.baseline_cpu_percent)
            .filter(|figure| *figure > 0.0)?;
        Some(per_cpu(self.gbps, self.cpu_percent)? / baseline)
    }
}
