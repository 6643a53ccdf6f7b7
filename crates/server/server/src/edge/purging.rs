//! Purges that the helper works on.
//!
//! The answer to a purge means that no later request gets what it covers from the cache. If the helper dies before it answers, the next one gets the
//! purge again.

use super::EdgeLink;
use super::key::{KeyRules, NO_URL, stored_beginning, stored_under};
use crate::redact;
use edge::contract::EdgeAsk;
use edge::purge::{Purge, PurgeRecord, PurgeScope, Purged};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The most purges under way. Each is done in milliseconds, unless it removes very much.
const UNDER_WAY_MAX: usize = 64;

/// How long a purge may take. Removing a million files takes some ten seconds.
pub(super) const PURGE_MAX: Duration = Duration::from_secs(60);

/// The longest URL or list of tags that a log line shows.
const SHOWN_CHARACTERS_MAX: usize = 200;

/// The most purges that operators are shown. All of them fit into one message: in JSON, each has at most 1.5 KiB.
const RECORDS_MAX: usize = 100;

/// Why a purge could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PurgeFailed {
    /// It can't match anything.
    #[error("nothing was purged: {0}")]
    Misused(&'static str),
    /// Too many others are under way.
    #[error(
        "nothing was purged: {UNDER_WAY_MAX} other purges are under way; try again in a second"
    )]
    TooMany,
    /// There is no helper.
    #[error("nothing was purged: {0}")]
    NoHelper(String),
    /// The helper has not answered.
    #[error(
        "the purge is not done after {} s: the cache\'s disk may be slow; purge again",
        PURGE_MAX.as_secs()
    )]
    TimedOut,
}

/// The purges under way, and counts of those done.
#[derive(Default)]
pub(super) struct Purging {
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    under_way: BTreeMap<u64, UnderWay>,
    counts: PurgeCounts,
    /// The latest ones that are done, the oldest first.
    records: VecDeque<PurgeRecord>,
}

struct UnderWay {
    purge: Purge,
    by: String,
    outcome: Option<Result<Purged, PurgeFailed>>,
}

/// Totals since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PurgeCounts {
    /// Purges that were carried out, by kind.
    pub(super) purges: BTreeMap<&'static str, u64>,
    /// What they found.
    pub(super) purged: Purged,
}

/// A purge under way. It is forgotten when this is dropped.
pub(super) struct BegunPurge<'a> {
    purging: &'a Purging,
    ticket: u64,
}

impl Purging {
    /// Adds a purge `by` someone, and returns the message for the helper.
    pub(super) fn begin(
        &self,
        purge: Purge,
        by: &str,
    ) -> Result<(BegunPurge<'_>, EdgeAsk), PurgeFailed> {
        purge.scope.check().map_err(PurgeFailed::Misused)?;
        let mut state = self.state();
        if state.under_way.len() >= UNDER_WAY_MAX {
            return Err(PurgeFailed::TooMany);
        }
        state.last += 1;
        let ticket = state.last;
        let ask = EdgeAsk::Purge { ticket, purge: purge.clone() };
        state.under_way.insert(ticket, UnderWay { purge, by: by.to_owned(), outcome: None });
        Ok((BegunPurge { purging: self, ticket }, ask))
    }

    /// The helper has carried out a purge. Returns a line for the log.
    pub(super) fn done(&self, ticket: u64, purged: Purged) -> Option<String> {
        let mut state = self.state();
        let under_way = state.under_way.get_mut(&ticket).filter(|one| one.outcome.is_none())?;
        under_way.outcome = Some(Ok(purged));
        let (record, kind) = (record(under_way, purged), kind(&under_way.purge));
        let line = line(&record);
        *state.counts.purges.entry(kind).or_default() += 1;
        state.counts.purged.films += purged.films;
        state.counts.purged.responses += purged.responses;
        if state.records.len() == RECORDS_MAX {
            state.records.pop_front();
        }
        state.records.push_back(record);
        drop(state);
        self.answered.notify_all();
        Some(line)
    }

    /// The messages for a new helper.
    pub(super) fn again(&self) -> Vec<EdgeAsk> {
        let state = self.state();
        let open = state.under_way.iter().filter(|(_, one)| one.outcome.is_none());
        open.map(|(ticket, one)| EdgeAsk::Purge { ticket: *ticket, purge: one.purge.clone() })
            .collect()
    }

    /// A purge could not be sent to the helper.
    pub(super) fn refuse(&self, ticket: u64, why: &str) {
        if let Some(one) = self.state().under_way.get_mut(&ticket) {
            one.outcome.get_or_insert(Err(PurgeFailed::NoHelper(why.to_owned())));
        }
        self.answered.notify_all();
    }

    /// There is no helper.
    pub(super) fn fail(&self, why: &str) {
        for one in self.state().under_way.values_mut() {
            one.outcome.get_or_insert(Err(PurgeFailed::NoHelper(why.to_owned())));
        }
        self.answered.notify_all();
    }

    /// The latest purges, the last one first.
    fn records(&self) -> Vec<PurgeRecord> {
        self.state().records.iter().rev().cloned().collect()
    }

    pub(super) fn counts(&self) -> PurgeCounts {
        self.state().counts.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock can panic")
    }
}

impl BegunPurge<'_> {
    /// The outcome, once known.
    pub(super) fn outcome(&self) -> Option<Result<Purged, PurgeFailed>> {
        self.purging.state().under_way.get(&self.ticket)?.outcome.clone()
    }

    /// Blocks until the outcome is known.
    pub(super) fn wait(&self) -> Result<Purged, PurgeFailed> {
        let deadline = Instant::now() + PURGE_MAX;
        let mut state = self.purging.state();
        loop {
            if let Some(outcome) =
                state.under_way.get(&self.ticket).and_then(|one| one.outcome.clone())
            {
                return outcome;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(PurgeFailed::TimedOut);
            }
            let waited = self.purging.answered.wait_timeout(state, left);
            state = waited.expect("no holder of this lock can panic").0;
        }
    }
}

impl Drop for BegunPurge<'_> {
    fn drop(&mut self) {
        self.purging.state().under_way.remove(&self.ticket);
    }
}

/// Its label in metrics.
fn kind(purge: &Purge) -> &'static str {
    match (&purge.scope, purge.is_soft) {
        (scope, false) => scope.as_str(),
        (PurgeScope::Url(_), true) => "soft_url",
        (PurgeScope::Prefix(_), true) => "soft_prefix",
        (PurgeScope::Tags(_), true) => "soft_tag",
    }
}

fn record(UnderWay { purge, by, .. }: &UnderWay, purged: Purged) -> PurgeRecord {
    // Queries may grant access to the origin.
    let what = match &purge.scope {
        PurgeScope::Url(path) | PurgeScope::Prefix(path) => redact::queries(path),
        PurgeScope::Tags(tags) => tags.join(" "),
    };
    let what: String = what.chars().take(SHOWN_CHARACTERS_MAX).collect();
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    PurgeRecord {
        at_unix_seconds: since_1970.as_secs(),
        by: by.clone(),
        kind: purge.scope.as_str().to_owned(),
        is_soft: purge.is_soft,
        what: redact::text(what.as_bytes()),
        purged,
    }
}

fn line(PurgeRecord { by, kind, is_soft, what, purged, .. }: &PurgeRecord) -> String {
    let which = match kind.as_str() {
        "prefix" => "all under ",
        "tag" => "tags ",
        _ => "",
    };
    let did = if *is_soft { "marked as stale" } else { "purged" };
    ingest::shown(&format!("{did} by {by}: {which}{what}: {purged}")).into_owned()
}

impl EdgeLink {
    /// Carries out a purge as someone, whom the log names, has asked for it. Blocks until it is done, and returns what it found.
    ///
    /// # Errors
    /// Why it is not done.
    pub(crate) fn purge(
        &self,
        asked: Purge,
        by: &str,
        rules: &KeyRules,
    ) -> Result<Purged, PurgeFailed> {
        self.begin_purge(purge_of(asked, rules)?, by)?.wait()
    }

    /// The latest purges since the start, the last one first.
    pub(crate) fn recent_purges(&self) -> Vec<PurgeRecord> {
        self.purging.records()
    }
}

/// The purge that someone has asked for, with its URL as responses are stored under it by these `rules`.
///
/// # Errors
/// If no response can be stored there.
pub(super) fn purge_of(asked: Purge, rules: &KeyRules) -> Result<Purge, PurgeFailed> {
    let scope = match asked.scope {
        PurgeScope::Url(url) => {
            let stored = stored_under(&url, rules).ok_or(NO_URL);
            PurgeScope::Url(stored.map_err(PurgeFailed::Misused)?)
        }
        PurgeScope::Prefix(prefix) => {
            let stored = stored_beginning(&prefix, rules);
            PurgeScope::Prefix(stored.map_err(PurgeFailed::Misused)?)
        }
        tags @ PurgeScope::Tags(_) => tags,
    };
    Ok(Purge { scope, ..asked })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purge(path: &str) -> Purge {
        Purge { scope: PurgeScope::Url(path.into()), is_soft: false }
    }

    #[test]
    fn a_purge_is_given_to_the_next_helper_until_it_is_done_and_counted_once() {
        let purging = Purging::default();
        let (begun, ask) = purging.begin(purge("/a"), "a test").ok().unwrap();
        assert_eq!(purging.again(), [ask]);
        assert_eq!(begun.outcome(), None);
        let purged = Purged { films: 1, responses: 2 };
        let line = purging.done(begun.ticket, purged).unwrap();
        assert_eq!(line, "purged by a test: /a: 1 film, 2 other responses");
        assert_eq!(purging.done(begun.ticket, Purged::default()), None, "it was sent twice");
        assert_eq!((begun.outcome(), begun.wait()), (Some(Ok(purged)), Ok(purged)));
        assert!(purging.again().is_empty());
        let counts = purging.counts();
        assert_eq!((counts.purges[&"url"], counts.purged), (1, purged));
        drop(begun);
        assert!(purging.state().under_way.is_empty());
    }

    #[test]
    fn purges_are_bounded_and_fail_without_a_helper() {
        let purging = Purging::default();
        let begun: Vec<_> =
            std::iter::from_fn(|| purging.begin(purge("/a"), "").ok()).take(1000).collect();
        assert_eq!(begun.len(), UNDER_WAY_MAX);
        assert_eq!(purging.begin(purge("/a"), "").err(), Some(PurgeFailed::TooMany));
        purging.fail("it is gone");
        assert_eq!(begun[0].0.wait(), Err(PurgeFailed::NoHelper("it is gone".into())));
        drop(begun);
        assert!(purging.begin(purge("/a"), "").is_ok());
        let bad = purging.begin(purge("a"), "").err();
        assert!(matches!(bad, Some(PurgeFailed::Misused(_))), "{bad:?}");
    }

    #[test]
    fn the_latest_purges_are_shown_and_fit_into_a_message() {
        let purging = Purging::default();
        // No other characters are longer in JSON.
        let tags = || vec!["\u{1}".repeat(SHOWN_CHARACTERS_MAX)];
        for number in 0..RECORDS_MAX + 3 {
            let asked = Purge { scope: PurgeScope::Tags(tags()), is_soft: true };
            let (begun, _) = purging.begin(asked, &format!("client {number}")).ok().unwrap();
            purging.done(begun.ticket, Purged { films: 1, responses: number as u64 });
        }
        let records = purging.records();
        assert_eq!(records.len(), RECORDS_MAX);
        assert_eq!(records[0].by, format!("client {}", RECORDS_MAX + 2), "the last one first");
        assert!(records[0].at_unix_seconds > 1_700_000_000);
        assert!(records[0].is_soft && records[0].kind == "tag");
        let bytes = serde_json::to_vec(&records).unwrap().len();
        assert!(bytes + 100 < helper_process::packets::PACKET_BYTES_MAX, "{bytes}");
    }

    #[test]
    fn a_log_line_shows_no_token_no_query_and_no_line_break() {
        let asked = Purge { scope: PurgeScope::Tags(vec!["a\nb".into()]), is_soft: true };
        let one = UnderWay { purge: asked, by: "10.0.0.1".into(), outcome: None };
        let line = line(&record(&one, Purged::default()));
        assert!(line.starts_with("marked as stale by 10.0.0.1: tags a"), "{line}");
        assert!(!line.contains('\n'), "{line}");
        let rules = &KeyRules::default();
        let line_of = |scope| {
            let purge = purge_of(Purge { scope, is_soft: false }, rules).unwrap();
            let under_way = UnderWay { purge, by: "x".into(), outcome: None };
            super::line(&record(&under_way, Purged::default()))
        };
        let found = "0 films, 0 other responses";
        let url = line_of(PurgeScope::Url("https://h/a?Signature=secret&x=1".into()));
        assert_eq!(url, format!("purged by x: /a?...: {found}"));
        let prefix = line_of(PurgeScope::Prefix("/a?Signature=secret&".into()));
        assert_eq!(prefix, format!("purged by x: all under /a?...: {found}"));
        let wrong = purge_of(purge("https://h/%zz"), rules);
        assert_eq!(wrong, Err(PurgeFailed::Misused(NO_URL)));
    }
}
