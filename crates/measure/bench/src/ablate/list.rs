//! Everything that can be switched off, the workload in which it matters, and what Netflix measured when it switched off the same thing.
//!
//! Only two rows match exactly: reads that leave nothing in the page cache are `SF_NOCACHE`, and segmentation offload is TSO. Vector AES
//! does not, because ISA-L's gain came from stores past the caches. Nor do `gro` and `gso-gro`, which also change how the clients
//! acknowledge; switching off LRO at a server does not.

use super::pair::Interrupts;
use crate::UnknownName;
use serde_json::{Value, json};

/// The workload in which an optimisation is measured. Each has its own baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// Long files from the page cache, over TLS 1.3.
    Warm,
    /// The same, in answers of 45 KB.
    Small,
    /// Long files past the page cache.
    Cold,
    /// Long files from disk with memory for a quarter of them, so the page cache must evict.
    Scarce,
    /// Returning clients that only do handshakes.
    Handshakes,
    /// As `Warm`, with two workers.
    Workers,
    /// As `Warm`, over an Ethernet pair between two network namespaces, in packets of 1500 bytes.
    Pair,
    /// As `Cold`, over our own TCP and a TAP, in packets of 1500 bytes.
    Bypass,
    /// As `Bypass`, over AF_XDP at the far end of the Ethernet pair.
    Frames,
}

impl Work {
    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Small => "small",
            Self::Cold => "cold",
            Self::Scarce => "scarce",
            Self::Handshakes => "handshakes",
            Self::Workers => "workers",
            Self::Pair => "pair",
            Self::Bypass => "bypass",
            Self::Frames => "frames",
        }
    }

    /// Returns true if servers and clients get network namespaces of their own, which takes root.
    pub(crate) fn takes_namespaces(self) -> bool {
        matches!(self, Self::Pair | Self::Bypass | Self::Frames)
    }

    /// Returns true if the server reads past the page cache.
    pub(crate) fn is_direct(self) -> bool {
        matches!(self, Self::Cold | Self::Bypass | Self::Frames)
    }

    /// Its description for the legend.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Warm => "TLS 1.3, from the page cache",
            Self::Small => "the same, in answers of 45 KB",
            Self::Cold => "TLS 1.3, from disk past the page cache",
            Self::Scarce => "TLS 1.3, from disk by heat, with memory for a quarter of the library",
            Self::Handshakes => "returning clients that only do handshakes, as fast as they can",
            Self::Workers => "as warm, two workers on two cores",
            Self::Pair => "as warm, over an Ethernet pair in packets of 1500 bytes",
            Self::Bypass => "as cold, over our own TCP and a TAP in packets of 1500 bytes",
            Self::Frames => "as bypass, by AF_XDP at an Ethernet pair instead of a TAP",
        }
    }
}

/// How an optimisation is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Off {
    /// `serve --off` with its own name.
    Switch,
    /// `serve --off` with this name, which differs from the row's.
    SwitchOf(&'static str),
    /// `serve --tls off`.
    Tls,
    /// An environment that makes aws-lc believe there are no vector AES instructions.
    VectorAes,
    /// `ethtool -K` at the server's end of the pair, and at the clients'.
    Offloads {
        /// At the server's end.
        server: &'static [&'static str],
        /// At the clients' end.
        clients: &'static [&'static str],
    },
    /// Larger packets on the pair. This adds something, so the change is a gain.
    Mtu(u32),
    /// Delayed interrupts at the server's end. This adds something too.
    Interrupts(Interrupts),
}

/// One optimisation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ablation {
    /// Its name, the same as in `serve --off` if that has one.
    pub(crate) name: &'static str,
    /// The feature that is switched off.
    pub(crate) what: &'static str,
    /// The workload in which it matters.
    pub(crate) work: Work,
    /// How it is switched off.
    pub(crate) off: Off,
    /// Netflix's measurement of the same thing; `None` if it published none.
    pub(crate) seed: Option<Seed>,
}

/// A row of the published ablations of the 400 Gb/s machine: FreeBSD, 32 cores, 400,000 viewers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed {
    switched_off: &'static str,
    gbps: f64,
    cpu_percent: f64,
    baseline_gbps: f64,
    baseline_cpu_percent: f64,
}

/// Source of the table of ablations.
const SOURCE: &str = "Drew Gallatin, EuroBSDCon 2022";

impl Seed {
    /// Compared with all optimisations including the NIC's TLS: 375 Gb/s at 53%.
    const fn of_all(switched_off: &'static str, gbps: f64, cpu_percent: f64) -> Option<Self> {
        let (baseline_gbps, baseline_cpu_percent) = (375.0, 53.0);
        Some(Self { switched_off, gbps, cpu_percent, baseline_gbps, baseline_cpu_percent })
    }

    /// The ratio of Gb/s per CPU percent to its baseline's.
    fn change(&self) -> f64 {
        (self.gbps / self.cpu_percent) / (self.baseline_gbps / self.baseline_cpu_percent)
    }

    /// As text: `SF_NOCACHE: 375 @ 53 -> 120 @ 55 (x0.31)`.
    pub(crate) fn describe(&self) -> String {
        let Self { switched_off, gbps, cpu_percent, baseline_gbps, baseline_cpu_percent } = self;
        let change = self.change();
        format!(
            "{switched_off}: {baseline_gbps} @ {baseline_cpu_percent} -> {gbps} @ {cpu_percent} (x{change:.2})"
        )
    }

    /// As JSON.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "source": SOURCE,
            "switched_off": self.switched_off,
            "gbps": self.gbps,
            "cpu_percent": self.cpu_percent,
            "baseline_gbps": self.baseline_gbps,
            "baseline_cpu_percent": self.baseline_cpu_percent,
        })
    }
}

const fn switch(name: &'static str, what: &'static str, work: Work) -> Ablation {
    Ablation { name, what, work, off: Off::Switch, seed: None }
}

impl Ablation {
    const fn beside(self, seed: Option<Seed>) -> Self {
        Self { seed, ..self }
    }

    const fn by(self, off: Off) -> Self {
        Self { off, ..self }
    }
}

/// All optimisations, grouped by workload.
pub(crate) const ALL: &[Ablation] = &[
    switch("onepass", "sealing in one pass (copy first instead)", Work::Warm),
    switch("handout", "keys taken out of the handshake (rustls seals instead)", Work::Warm),
    switch("vaes", "vector AES instructions", Work::Warm).by(Off::VectorAes),
    switch("tls", "TLS (plain HTTP instead)", Work::Warm).by(Off::Tls),
    switch("pull", "window pull (a full send buffer instead)", Work::Warm),
    switch("window", "windows that grow (64 KiB instead)", Work::Warm),
    switch("lifo", "last-in-first-out buffers (first in, first out instead)", Work::Warm),
    switch("resident", "asking what the page cache has (heat alone instead)", Work::Warm),
    switch("hot", "popular parts of films in its own memory (the page cache instead)", Work::Warm),
    switch("hot-hugepages", "large pages for the hot set (pages of 4 KiB instead)", Work::Warm)
        .by(Off::SwitchOf("hugepages")),
    switch("files", "files that stay open between requests", Work::Small),
    switch("ahead", "several reads in flight per viewer", Work::Cold),
    switch("rotating", "larger reads from disks that rotate", Work::Cold),
    switch("registered", "buffers registered with the ring", Work::Cold),
    switch("hugepages", "large pages for buffers", Work::Cold),
    switch("heat", "caching by heat (everything cached instead)", Work::Scarce)
        .beside(Seed::of_all("SF_NOCACHE", 120.0, 55.0)),
    switch("folios", "large folios in the page cache (pages of 4 KiB instead)", Work::Scarce),
    switch("tickets", "TLS session tickets", Work::Handshakes),
    switch("listeners", "a listener per worker (one for all instead)", Work::Workers),
    switch("pinning", "workers pinned to cores", Work::Workers),
    switch("gso", "segmentation offload", Work::Pair)
        .by(Off::Offloads { server: &["tso", "off", "gso", "off"], clients: &[] })
        .beside(Seed::of_all("TSO", 180.0, 85.0)),
    switch("gro", "receive offload", Work::Pair)
        .by(Off::Offloads { server: &["gro", "off"], clients: &["gro", "off"] }),
    switch("gso-gro", "both offloads", Work::Pair).by(Off::Offloads {
        server: &["tso", "off", "gso", "off", "gro", "off"],
        clients: &["gro", "off"],
    }),
    switch("mtu", "nothing: packets of 9000 bytes added", Work::Pair).by(Off::Mtu(9000)),
    switch("napi", "nothing: polled receiving (NAPI) added at the server", Work::Pair)
        .by(Off::Interrupts(Interrupts { flush_ns: 0, deferred: 0 })),
    switch("napi-20us", "nothing: the same, interrupts put off by 20 us", Work::Pair)
        .by(Off::Interrupts(Interrupts { flush_ns: 20_000, deferred: 2 })),
    switch("napi-200us", "nothing: the same, by 200 us", Work::Pair)
        .by(Off::Interrupts(Interrupts { flush_ns: 200_000, deferred: 8 })),
    switch("tso", "super-segments (one segment at a time instead)", Work::Bypass),
    switch("coalesce", "segments that arrive as one", Work::Bypass),
    switch("merge", "acknowledgements that arrive together processed as one", Work::Bypass),
    switch("completion", "processing reads to their end (in stages instead)", Work::Bypass),
    switch("reread", "reading lost bytes again (keeping what was sent instead)", Work::Bypass),
    switch("bypass-lifo", "last-in-first-out buffers (first in, first out instead)", Work::Bypass)
        .by(Off::SwitchOf("lifo")),
    switch("pacing", "sending spread over the round trip (in bursts instead)", Work::Bypass),
    switch("cached-frames", "frames written through the caches (past them instead)", Work::Frames),
];

/// The ablations with these names; all of them if there are no names.
///
/// # Errors
/// If a name is unknown.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<Ablation>, UnknownName> {
    let is_known = |name: &&String| ALL.iter().any(|ablation| ablation.name == *name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        return Err(UnknownName::new("switch", name, self::names()));
    }
    let is_chosen =
        |ablation: &&Ablation| names.is_empty() || names.iter().any(|name| name == ablation.name);
    Ok(ALL.iter().filter(is_chosen).copied().collect())
}

/// The names of all ablations.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|ablation| ablation.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_there_twice_and_works_are_together() {
        let mut names = names();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        let mut works: Vec<_> = ALL.iter().map(|ablation| ablation.work).collect();
        works.dedup();
        let runs = works.len();
        works.sort_unstable();
        works.dedup();
        assert_eq!(works.len(), runs, "each baseline is measured once, just before its rows");
    }

    #[test]
    fn names_choose_and_unknown_ones_are_refused_with_the_known() {
        let chosen_names = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(&names).map(|chosen| chosen.iter().map(|one| one.name).collect::<Vec<_>>())
        };
        assert_eq!(chosen_names(&["heat", "lifo"]).unwrap(), ["lifo", "heat"]);
        assert_eq!(chosen_names(&[]).unwrap().len(), ALL.len());
        assert!(chosen_names(&["warp"]).unwrap_err().to_string().contains("onepass"));
    }

    #[test]
    fn netflixs_rows_read_as_published() {
        let heat = ALL.iter().find(|ablation| ablation.name == "heat").unwrap();
        let said = heat.seed.unwrap().describe();
        assert_eq!(said, "SF_NOCACHE: 375 @ 53 -> 120 @ 55 (x0.31)");
        let beside = ALL.iter().filter(|ablation| ablation.seed.is_some());
        let names: Vec<_> = beside.map(|ablation| ablation.name).collect();
        assert_eq!(names, ["heat", "gso"], "only what is the same thing");
    }
}
