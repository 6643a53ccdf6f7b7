//! The cost of moving and encrypting a byte, and the usable share of each part's rate. docs/plan.md has the table with sources.

use serde_json::Value;

/// Costs of one kind of machine. Rates are in Gb/s for one core that does nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostTable {
    /// Share of a core's time that can be used before viewers notice.
    pub cpu_busy_max: f64,
    /// Share of STREAM's rate that serving reaches.
    pub memory_usable: f64,
    /// Share of a port's rate at which nothing is dropped.
    pub port_usable: f64,
    /// Share of a PCIe link that remains after packet headers.
    pub bus_usable: f64,
    /// Usable share of a link between nodes.
    pub fabric_usable: f64,
    /// Usable share of a disk's rate.
    pub disk_usable: f64,
    /// Share of the traffic through the server's small buffers that stays in the last-level cache.
    pub buffers_cached: f64,
    /// Set if encryption writes with ordinary stores, which read each line of memory before they write it.
    pub ordinary_stores: bool,
    /// Reading past the page cache.
    pub read_cold: Option<f64>,
    /// Copying from the page cache.
    pub read_warm: Option<f64>,
    /// Encrypting from a buffer in the cache.
    pub seal: Option<f64>,
    /// Encrypting from memory.
    pub seal_hot: Option<f64>,
    /// Encryption by the kernel.
    pub seal_kernel: Option<f64>,
    /// Sending from a buffer.
    pub send: Option<f64>,
    /// Sending from the page cache.
    pub sendfile: Option<f64>,
    /// Processor time of a full TLS handshake.
    pub handshake_ms: f64,
    /// Processor time for each time a paced viewer is served, on top of the cost of the bytes.
    pub pull_us: f64,
    /// Data that a paced viewer gets each time.
    pub pull_kib: f64,
    /// Size of a card's read of memory.
    pub bus_read_bytes: f64,
    /// Duration of such a read.
    pub bus_read_ns: f64,
}

impl CostTable {
    /// The defaults. Processor costs are cautious estimates, because no recorded run has these figures. Most shares are those that
    /// Netflix's machines reached (`published`).
    pub const USUAL: Self = Self {
        cpu_busy_max: 0.85,
        memory_usable: 0.80,
        port_usable: 0.95,
        // 256 bytes of payload with 24 of headers and framing are 91%. Flow control takes the rest; this is an estimate.
        bus_usable: 0.90,
        fabric_usable: 0.62,
        // An estimate: content is never spread evenly over disks.
        disk_usable: 0.90,
        // Marinos and others measured almost half the memory reads for a server that works this way.
        buffers_cached: 0.5,
        ordinary_stores: false,
        read_cold: Some(190.0),
        read_warm: Some(93.0),
        seal: Some(87.0),
        seal_hot: Some(60.0),
        // A library without vector AES, which kernels do not use either.
        seal_kernel: Some(33.0),
        send: Some(37.0),
        sendfile: Some(37.0),
        handshake_ms: 0.1,
        pull_us: 13.0,
        pull_kib: 64.0,
        // Assumed to be the usual largest read request. `bus_read_ns` was computed with it.
        bus_read_bytes: 512.0,
        bus_read_ns: 1092.0,
    };

    /// Replaces the processor's costs by those in the output of `fullbore bench limit --json` or `fullbore doctor --measure --json`. Parts
    /// missing there keep their cost; their names are returned.
    ///
    /// # Errors
    /// If it is not such a file. The text says what it is and what to do.
    pub fn with_measured(self, figures: &Value) -> Result<(Self, Vec<&'static str>), String> {
        let parts = match (figures["kind"].as_str(), figures["version"].as_u64()) {
            (Some("limit"), Some(1)) => &figures["parts"],
            (Some("doctor"), Some(1)) if figures["measured"].is_null() => {
                return Err("the doctor had not measured anything: add --measure".to_owned());
            }
            (Some("doctor"), Some(1)) => &figures["measured"]["parts"],
            _ => return Err("it is not what a bench of this release writes".to_owned()),
        };
        let parts = parts.as_array().map(Vec::as_slice).unwrap_or_default();
        let rate = |name: &str| {
            let part = parts.iter().find(|part| part["name"] == name)?;
            part["gbps"].as_f64().filter(|gbps| gbps.is_finite() && *gbps > 0.0)
        };
        let mut costs = self;
        let mut missing = Vec::new();
        let mut take = |name: &'static str, cost: &mut Option<f64>| match rate(name) {
            Some(gbps) => *cost = Some(gbps),
            None => missing.push(name),
        };
        take("seal aes128-gcm", &mut costs.seal);
        take("seal from hot set", &mut costs.seal_hot);
        take("read warm", &mut costs.read_warm);
        take("read direct", &mut costs.read_cold);
        take("send", &mut costs.send);
        take("sendfile", &mut costs.sendfile);
        let paced = ["seal for viewers", "send to viewers"];
        missing.extend(paced.iter().filter(|name| rate(name).is_none()));
        let [paced, all] = [paced, ["seal from hot set", "send"]]
            .map(|names| seconds_per_gigabit(names.map(rate)));
        if let Some((paced, all)) = paced.zip(all) {
            // The extra time for paced viewers, compared with those who take everything they can.
            let seconds_per_gigabit = (paced - all).max(0.0);
            costs.pull_us = seconds_per_gigabit * costs.pull_kib * 1024.0 * 8.0 / 1e3;
        }
        if missing.len() == 8 {
            return Err(
                "it has no part's rate: was the measurement interrupted? Measure again".to_owned()
            );
        }
        Ok((costs, missing))
    }
}

/// The time of consecutive parts, if all of them are known.
fn seconds_per_gigabit<const N: usize>(rates: [Option<f64>; N]) -> Option<f64> {
    rates.iter().map(|rate| Some(1.0 / (*rate)?)).sum()
}
