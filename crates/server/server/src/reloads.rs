//! Failed reloads of files: counted for monitoring, and reported to the operator once per reason.
//!
//! The previously loaded files stay in use, so a server with a bad certificate or list looks healthy. These figures show that it isn't.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use telemetry::{Exposition, Kind, Metric};

const FAILED: Metric = Metric::new(
    Kind::Counter,
    "fullbore_reloads_failed_total",
    "Files that could not be reloaded, by kind; each reason counts once while it lasts.",
)
.by("kind");

const FAILING: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_reload_failing",
    "Whether files of a kind could not be reloaded the last time, so that older ones are in use: 1 if so.",
)
.by("kind");

/// The metrics of reloads.
pub(crate) const METRICS: [Metric; 2] = [FAILED, FAILING];

/// The number of kinds of files that are reloaded.
const KINDS: usize = 5;

/// A kind of files.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reloaded {
    Certificates,
    SigningKeys,
    CopyKeys,
    AddressLists,
    OriginFiles,
}

impl Reloaded {
    const ALL: [Self; KINDS] = [
        Self::Certificates,
        Self::SigningKeys,
        Self::CopyKeys,
        Self::AddressLists,
        Self::OriginFiles,
    ];

    /// The label of its metrics.
    fn as_str(self) -> &'static str {
        match self {
            Self::Certificates => "certificates",
            Self::SigningKeys => "signing_keys",
            Self::CopyKeys => "copy_keys",
            Self::AddressLists => "address_lists",
            Self::OriginFiles => "origin_files",
        }
    }

    /// The kind in a sentence.
    fn in_words(self) -> &'static str {
        match self {
            Self::Certificates => "certificates",
            Self::SigningKeys | Self::CopyKeys => "keys",
            Self::AddressLists => "lists",
            Self::OriginFiles => "files for this origin",
        }
    }
}

/// The figures of all kinds, for other threads.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    failed: [AtomicU64; KINDS],
    failing: [AtomicBool; KINDS],
}

impl Reloads {
    /// Adds its metrics to `out`.
    pub(crate) fn expose(&self, out: &mut Exposition) {
        out.labelled(&FAILED, self.failed());
        out.labelled(&FAILING, self.failing().map(|(kind, is)| (kind, u64::from(is))));
    }

    /// The same, for `/status.json`.
    pub(crate) fn json(&self) -> serde_json::Value {
        let failed: serde_json::Map<_, _> =
            self.failed().map(|(kind, count)| (kind.to_owned(), count.into())).collect();
        let failing: Vec<_> = self.failing().filter_map(|(kind, is)| is.then_some(kind)).collect();
        serde_json::json!({ FAILED.key(): failed, FAILING.key(): failing })
    }

    fn failed(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.failed.iter().map(|count| count.load(Ordering::Relaxed));
        Reloaded::ALL.into_iter().map(Reloaded::as_str).zip(counts)
    }

    fn failing(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let states = self.failing.iter().map(|is| is.load(Ordering::Relaxed));
        Reloaded::ALL.into_iter().map(Reloaded::as_str).zip(states)
    }
}

/// The last complaint of each kind, so that it is not repeated at every look.
#[derive(Debug, Default)]
pub(crate) struct ReloadComplaints {
    last: [String; KINDS],
    counted: Arc<Reloads>,
}

impl ReloadComplaints {
    pub(crate) fn new(counted: Arc<Reloads>) -> Self {
        Self { counted, ..Self::default() }
    }

    /// Repeats every fault again, because the operator asked for a reload.
    pub(crate) fn forget(&mut self) {
        self.last = Default::default();
    }

    /// Records that `what` was reloaded.
    pub(crate) fn clear(&mut self, what: Reloaded) {
        self.last[what as usize].clear();
        self.counted.failing[what as usize].store(false, Ordering::Relaxed);
    }

    /// Records and reports that `what` could not be reloaded.
    pub(crate) fn tell(&mut self, what: Reloaded, complaint: String) {
        self.counted.failing[what as usize].store(true, Ordering::Relaxed);
        let last = &mut self.last[what as usize];
        if *last != complaint {
            self.counted.failed[what as usize].fetch_add(1, Ordering::Relaxed);
            eprintln!("fullbore: {complaint}; the {} already loaded stay in use", what.in_words());
            *last = complaint;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_counts_once_while_it_lasts_and_the_state_until_a_reload() {
        let reloads = Arc::<Reloads>::default();
        let mut complaints = ReloadComplaints::new(Arc::clone(&reloads));
        let exposed = || {
            let mut out = Exposition::default();
            reloads.expose(&mut out);
            out.into_text()
        };
        let assert_are = |count: u32, failing: u32| {
            let text = exposed();
            for line in [
                format!("fullbore_reloads_failed_total{{kind=\"address_lists\"}} {count}\n"),
                format!("fullbore_reload_failing{{kind=\"address_lists\"}} {failing}\n"),
                "fullbore_reload_failing{kind=\"certificates\"} 0\n".to_owned(),
            ] {
                assert!(text.contains(&line), "{line} is not in {text}");
            }
        };
        assert_are(0, 0);
        complaints.tell(Reloaded::AddressLists, "line 2 is bad".into());
        complaints.tell(Reloaded::AddressLists, "line 2 is bad".into());
        assert_are(1, 1);
        complaints.forget();
        assert_are(1, 1);
        complaints.tell(Reloaded::AddressLists, "line 2 is bad".into());
        complaints.tell(Reloaded::AddressLists, "line 3 is bad".into());
        assert_are(3, 1);
        complaints.clear(Reloaded::AddressLists);
        assert_are(3, 0);
        assert_eq!(reloads.json()["reload_failing"], serde_json::json!([]));
    }
}
