//! Sessions in progress, and figures of those that have ended. One collector serves all workers, because a player's connections may be on
//! several.
//!
//! Reports wait a little before they are processed. Workers pass them on once a second, and the wait puts those of one session in order. A
//! session ends after five minutes without a report. If there are too many sessions, the one that has been silent for longest ends.
//!
//! Events that players post are processed before the requests of the same second, and in the order of the player's clock. An event alone begins no
//! session, and counts only if a request of its session came from the same network: it waits for one (`early_events.rs`).

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use catalog::KnownTitles;

use crate::credible::{Credible, DELIVERED_BYTES_MIN};
use crate::early_events::EarlyEvents;
use crate::session::{News, Session};
use crate::stats::Stats;
use crate::tally::Tally;
use crate::{Delivery, QoeEvent, QoeReport};

/// The most sessions at once: some 20 MB.
pub const SESSIONS_MAX: usize = 50_000;

/// Titles with figures of their own; sessions of other titles are counted together. A title has at most 100 KB of histograms.
pub const TITLES_MAX: usize = 64;

/// Reports that may wait: more than two workers at their limit make in a second.
const WAITING_MAX: usize = 65_536;

/// How long reports wait: workers pass theirs on once a second.
const LAG_MS: u64 = 2500;

/// A session ends after this long without a report.
const SILENCE_MS: u64 = 300_000;

/// Quantiles cover the last one to two of these windows.
pub(crate) const WINDOW_MS: u64 = 3_600_000;

/// The sessions, and all figures.
#[derive(Debug, Default)]
pub struct Collector {
    waiting: Vec<QoeReport>,
    deliveries: Vec<Delivery>,
    events: Vec<QoeEvent>,
    early: EarlyEvents,
    sessions: HashMap<u64, Session>,
    /// The same sessions, by the time of their last report.
    by_silence: BTreeSet<(u64, u64)>,
    /// Those that the tally has not counted yet, by the time of their first report.
    uncounted: BTreeSet<(u64, u64)>,
    tally: Tally,
    known: Arc<KnownTitles>,
    titles: HashMap<String, Title>,
    pub(crate) all: Stats,
    pub(crate) other: Stats,
    pub(crate) evicted_total: u64,
    pub(crate) reports_total: u64,
    pub(crate) reports_lost_total: u64,
    pub(crate) events_total: u64,
    pub(crate) events_lost_total: u64,
    pub(crate) credible: Credible,
    pub(crate) now_ms: u64,
    window_began_ms: u64,
}

#[derive(Debug, Default)]
struct Title {
    stats: Stats,
    last_ms: u64,
}

impl Collector {
    /// Sets which folders are `known` to be titles from now on.
    pub fn know(&mut self, known: Arc<KnownTitles>) {
        self.known = known;
    }

    /// Counts sessions for the fleet with `tally` from now on. Call it before the first report.
    pub fn count_with(&mut self, tally: Tally) {
        self.tally = tally;
    }

    /// The fleet's counts.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Accepts a worker's reports, in any order. Reports beyond the bound are dropped and counted.
    pub fn take(&mut self, mut reports: Vec<QoeReport>) {
        let room = WAITING_MAX - self.waiting.len();
        if reports.len() > room {
            self.reports_lost_total += (reports.len() - room) as u64;
            reports.truncate(room);
        }
        self.waiting.append(&mut reports);
    }

    /// Accepts the events that players posted to a worker, in any order. Hand the worker's reports over before. Events beyond the bound are dropped
    /// and counted; those of sessions without a request from their network have a bound of their own.
    pub fn take_events(&mut self, events: Vec<QoeEvent>) {
        let is_new = |report: &&QoeReport| !self.sessions.contains_key(&report.session);
        let begun: HashSet<u64> =
            self.waiting.iter().filter(is_new).map(|report| report.session).collect();
        for event in events {
            let is_known = match self.sessions.get(&event.session) {
                Some(session) => session.is_of(&event),
                None => begun.contains(&event.session),
            };
            self.events_lost_total += match is_known {
                true if self.events.len() >= WAITING_MAX => 1,
                true => {
                    self.events.push(event);
                    0
                }
                false => self.early.push(event),
            };
        }
    }

    /// Accepts the deliveries to a worker's viewers, in any order. Those beyond the bound are dropped: their sessions count a little later.
    pub fn take_deliveries(&mut self, mut deliveries: Vec<Delivery>) {
        deliveries.truncate(WAITING_MAX - self.deliveries.len());
        self.deliveries.append(&mut deliveries);
    }

    /// Advances to `now_ms`, on the clock of the reports: processes reports that have waited long enough, and ends silent sessions.
    pub fn advance(&mut self, now_ms: u64) {
        self.waiting.sort_by_key(|report| report.at_us);
        let due = self.waiting.partition_point(|report| report.at_ms() + LAG_MS <= now_ms);
        let (sessions, mut begun) = (&self.sessions, HashSet::new());
        let begins = |report: &QoeReport| {
            !sessions.contains_key(&report.session) && begun.insert(report.session)
        };
        // Events are more exact than requests, so they come before all but the first one of a session.
        let (first, others): (Vec<_>, Vec<_>) = self.waiting.drain(..due).partition(begins);
        first.iter().for_each(|report| self.count(report));
        self.count_events(now_ms);
        others.iter().for_each(|report| self.count(report));
        let is_due = |at_us: u64| at_us / 1000 + LAG_MS <= now_ms;
        self.deliveries.sort_by_key(|delivery| delivery.at_us);
        let due = self.deliveries.partition_point(|delivery| is_due(delivery.at_us));
        for delivery in self.deliveries.drain(..due).collect::<Vec<_>>() {
            self.deliver(&delivery);
        }
        self.now_ms = self.now_ms.max(now_ms);
        self.advance_tally(now_ms);
        while let Some((last_ms, id)) = self.by_silence.first().copied() {
            if last_ms + SILENCE_MS + LAG_MS > now_ms {
                break;
            }
            self.end(last_ms, id);
        }
        if now_ms >= self.window_began_ms + WINDOW_MS {
            self.window_began_ms = now_ms;
            let titles = self.titles.values_mut().map(|title| &mut title.stats);
            titles.chain([&mut self.all, &mut self.other]).for_each(Stats::rotate);
        }
    }

    /// Counts the sessions whose counted time is over.
    fn advance_tally(&mut self, now_ms: u64) {
        while let Some((first_ms, id)) = self.uncounted.first().copied() {
            if first_ms + self.tally.counted_ms() + LAG_MS > now_ms {
                break;
            }
            self.tell_tally(first_ms, id);
        }
        self.tally.advance(now_ms);
    }

    fn tell_tally(&mut self, first_ms: u64, id: u64) {
        if self.uncounted.remove(&(first_ms, id)) {
            if let Some(session) = self.sessions.get(&id) {
                self.tally.count(session.scope.title(&self.known), session);
            }
        }
    }

    fn count(&mut self, report: &QoeReport) {
        self.reports_total += 1;
        let is_new = !self.sessions.contains_key(&report.session);
        if is_new {
            self.make_room();
        }
        self.all.sessions_total += u64::from(is_new);
        let session = self.sessions.entry(report.session).or_insert_with(|| Session::of(report));
        if is_new {
            self.uncounted.insert((session.first_ms(), report.session));
        }
        self.change(report.session, report.at_ms(), |session| session.take(report));
    }

    /// Counts the events that have waited long enough and whose sessions are known. The others may still wait.
    fn count_events(&mut self, now_ms: u64) {
        let is_due = |event: &QoeEvent| event.at_ms() + LAG_MS <= now_ms;
        let events = std::mem::take(&mut self.events).into_iter();
        let (due, waiting): (Vec<_>, Vec<_>) = events.partition(is_due);
        self.events = waiting;
        let sessions = &self.sessions;
        let counts = |event: &QoeEvent| {
            is_due(event) && sessions.get(&event.session).is_some_and(|one| one.is_of(event))
        };
        let (mut ready, others): (Vec<_>, Vec<_>) = due.into_iter().partition(counts);
        let (late, lost) = self.early.take(now_ms, counts);
        ready.extend(late);
        self.events_lost_total += lost;
        for event in others {
            self.events_lost_total += self.early.push(event);
        }
        ready.sort_by_key(|event| event.timestamp_ms);
        for event in ready {
            self.events_total += 1;
            self.change(event.session, event.at_ms(), |session| session.take_event(&event));
        }
    }

    /// Changes a session that is known, and counts what is new.
    fn change(&mut self, id: u64, at_ms: u64, take: impl FnOnce(&mut Session) -> News) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        self.by_silence.remove(&(session.last_ms(), id));
        let news = take(session);
        self.by_silence.insert((session.last_ms(), id));
        self.all.tell(&news);
        if let Some(viewer) = session.credible_viewer() {
            self.credible.tell(viewer, &news, at_ms);
        }
    }

    fn deliver(&mut self, delivery: &Delivery) {
        let Some(session) = self.sessions.get_mut(&delivery.session) else { return };
        session.group = session.group.or(delivery.group);
        if session.deliver(delivery.viewer, delivery.bytes, DELIVERED_BYTES_MIN) {
            self.credible.begin(delivery.viewer, delivery.at_us / 1000);
        }
    }

    fn make_room(&mut self) {
        if self.sessions.len() < SESSIONS_MAX {
            return;
        }
        if let Some((last_ms, id)) = self.by_silence.first().copied() {
            self.evicted_total += 1;
            self.end(last_ms, id);
        }
    }

    fn end(&mut self, last_ms: u64, id: u64) {
        self.by_silence.remove(&(last_ms, id));
        let first_ms = self.sessions.get(&id).map_or(0, Session::first_ms);
        self.tell_tally(first_ms, id);
        if let Some(session) = self.sessions.remove(&id) {
            if let Some(viewer) = session.credible_viewer() {
                self.credible.end(viewer);
            }
            // Only now is it certain which title it watched.
            let outcome = session.outcome();
            self.all.end(&outcome);
            let known = Arc::clone(&self.known);
            let stats = self.stats(session.scope.title(&known), last_ms);
            stats.begin_and_tell(&session);
            stats.end(&outcome);
        }
    }

    /// The figures of a title. If the table is full, a new title replaces the one that has gone unwatched for longest, provided that is at
    /// least a window's time. Otherwise the new title counts among the others.
    fn stats(&mut self, title: &str, now_ms: u64) -> &mut Stats {
        if !self.titles.contains_key(title) {
            if self.titles.len() == TITLES_MAX && !self.retire_title(now_ms) {
                return &mut self.other;
            }
            self.titles.insert(title.to_owned(), Title::default());
        }
        let title = self.titles.get_mut(title).expect("it is there or was just put there");
        title.last_ms = title.last_ms.max(now_ms);
        &mut title.stats
    }

    fn retire_title(&mut self, now_ms: u64) -> bool {
        let oldest = self.titles.iter().min_by_key(|(_, title)| title.last_ms);
        let Some((name, title)) = oldest else { return false };
        if title.last_ms + WINDOW_MS > now_ms {
            return false;
        }
        let name = name.clone();
        if let Some(title) = self.titles.remove(&name) {
            self.other.add(&title.stats);
        }
        true
    }

    /// Sessions in progress.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values()
    }

    /// Titles with figures of their own, those with the most sessions in progress first, and the other titles together at the end. Sessions in
    /// progress are included as far as their figures are certain. The sum of all is [`Self::all`].
    pub(crate) fn by_title(&self) -> Vec<OfTitle<'_>> {
        let of = |name, stats| OfTitle { name, stats, live: Vec::new() };
        let known = self.titles.iter().map(|(name, title)| (name.as_str(), &title.stats));
        let mut titles: HashMap<&str, OfTitle<'_>> =
            known.map(|(name, stats)| (name, of(Some(name), stats.clone()))).collect();
        let mut others = of(None, self.other.clone());
        for (name, sessions) in self.live_by_title() {
            let has_room = titles.len() < TITLES_MAX || titles.contains_key(name);
            let title = match has_room {
                true => titles.entry(name).or_insert_with(|| of(Some(name), Stats::default())),
                false => &mut others,
            };
            sessions.iter().for_each(|session| title.stats.begin_and_tell(session));
            title.live.extend(sessions);
        }
        let mut titles: Vec<_> = titles.into_values().collect();
        titles.sort_by_key(|title| {
            (Reverse((title.live.len(), title.stats.sessions_total)), title.name)
        });
        titles.push(others);
        titles
    }

    /// Sessions in progress by title, the busiest title first: the busiest get figures of their own.
    fn live_by_title(&self) -> Vec<(&str, Vec<&Session>)> {
        let mut live: HashMap<&str, Vec<&Session>> = HashMap::new();
        for session in self.sessions.values() {
            live.entry(session.scope.title(&self.known)).or_default().push(session);
        }
        let mut live: Vec<_> = live.into_iter().collect();
        live.sort_by_key(|(name, sessions)| (Reverse(sessions.len()), *name));
        live
    }
}

/// The figures of one title.
pub(crate) struct OfTitle<'a> {
    /// None for the titles without figures of their own.
    pub(crate) name: Option<&'a str>,
    pub(crate) stats: Stats,
    /// Its sessions in progress.
    pub(crate) live: Vec<&'a Session>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cmcd;

    fn report(at_ms: u64, session: u64, path: &str, text: &str) -> QoeReport {
        let mut cmcd = Cmcd::default();
        cmcd.read(text.as_bytes());
        QoeReport::new(at_ms * 1000, session, path.as_bytes(), &cmcd)
    }

    #[test]
    fn reports_of_one_session_by_two_workers_are_put_in_order() {
        let mut collector = Collector::default();
        collector.take(vec![report(900, 1, "a/2.m4s", "ot=v,d=2000")]);
        collector.advance(1000);
        assert_eq!(
            collector.all.sessions_total, 0,
            "what has just come waits for what came before it"
        );
        collector.take(vec![
            report(100, 1, "a/m.m3u8", "ot=m,su"),
            report(300, 1, "a/1.m4s", "ot=v,su,d=2000"),
        ]);
        collector.advance(5000);
        assert_eq!(collector.all.sessions_total, 1);
        assert_eq!(
            (collector.all.play_delay.count_total(), collector.all.play_delay.sum_total()),
            (1, 800)
        );
    }

    #[test]
    fn a_silent_session_is_over() {
        let mut collector = Collector::default();
        collector.take(vec![
            report(0, 1, "a/1.m4s", "ot=v,d=2000,br=500"),
            report(2000, 1, "a/2.m4s", "ot=v,d=2000,br=500"),
        ]);
        collector.take(vec![report(0, 2, "b/m.m3u8", "su")]);
        collector.advance(200_000);
        assert_eq!(collector.sessions().count(), 2);
        assert_eq!(collector.all.bitrate.count_total(), 0);
        collector.advance(400_000);
        assert_eq!((collector.sessions().count(), collector.by_silence.len()), (0, 0));
        assert_eq!(
            (collector.all.bitrate.count_total(), collector.all.bitrate.sum_total()),
            (1, 500)
        );
        assert_eq!(collector.all.not_started_total, 1);
        assert_eq!(collector.titles.len(), 2);
        assert!(collector.titles.contains_key("a") && collector.titles.contains_key("b"));
    }

    /// A second in which each of these sessions reports a stall of half a second, and takes some bytes from its viewer's address.
    fn stall(collector: &mut Collector, second: u64, sessions: &[(u64, u64)], bytes: u64) {
        let at_ms = second * 1000;
        for (session, viewer) in sessions {
            collector.take(vec![report(at_ms, *session, "a/1.m4s", "ot=v,d=1000,bsd=500")]);
            let at_us = at_ms * 1000;
            let (session, viewer) = (*session, *viewer);
            let group = None;
            collector.take_deliveries(vec![Delivery { at_us, session, viewer, group, bytes }]);
        }
        collector.advance(at_ms + LAG_MS);
    }

    /// Viewers, those who stall, and seconds in stalls.
    fn credible(collector: &Collector) -> (usize, usize, u64) {
        let own = &collector.credible;
        (own.viewers(), own.stalling(collector.now_ms), own.stalled_ms_total / 1000)
    }

    #[test]
    fn sessions_that_one_address_invents_are_one_viewer_and_without_bytes_none() {
        let invented: Vec<_> = (1..=600).map(|session| (session, 1)).collect();
        let mut collector = Collector::default();
        for second in 0..20 {
            stall(&mut collector, second, &invented, 10);
        }
        assert_eq!(collector.all.stalls_total, 600 * 20, "as players say");
        assert_eq!(credible(&collector), (0, 0, 0));
        for second in 20..120 {
            stall(&mut collector, second, &invented, 1 << 20);
        }
        let (viewers, stalling, stalled_seconds) = credible(&collector);
        assert_eq!((viewers, stalling), (1, 1));
        assert!(stalled_seconds <= 130, "{stalled_seconds} s in 100 s");
    }

    #[test]
    fn viewers_at_many_addresses_who_take_films_count_until_they_are_gone() {
        let honest: Vec<_> = (1..=9).map(|viewer| (viewer, viewer + 100)).collect();
        let mut collector = Collector::default();
        for second in 0..20 {
            stall(&mut collector, second, &honest, 1 << 20);
        }
        let (viewers, stalling, stalled_seconds) = credible(&collector);
        assert_eq!((viewers, stalling), (9, 9));
        assert!((80..=90).contains(&stalled_seconds), "{stalled_seconds} s of 9 x 10 s");
        collector.advance(40_000);
        assert_eq!(credible(&collector).1, 0, "they no longer stall");
        collector.advance(400_000);
        assert_eq!(credible(&collector).0, 0);
    }

    #[test]
    fn the_session_heard_of_least_lately_makes_room() {
        let mut collector = Collector::default();
        for index in 0..=SESSIONS_MAX as u64 {
            // The first session reports again at the end.
            let id = index % SESSIONS_MAX as u64;
            collector.take(vec![report(index, id, "a/1.m4s", "ot=v,d=2000")]);
        }
        collector.advance(100_000);
        assert_eq!((collector.sessions().count(), collector.evicted_total), (SESSIONS_MAX, 0));
        collector.take(vec![report(200_000, SESSIONS_MAX as u64 + 7, "a/1.m4s", "ot=v")]);
        collector.advance(210_000);
        assert_eq!(collector.sessions().count(), SESSIONS_MAX);
        assert_eq!(collector.evicted_total, 1);
        assert!(
            !collector.sessions.contains_key(&1),
            "the first has reported again, the second has not"
        );
    }

    #[test]
    fn titles_that_are_too_many_are_counted_together_and_old_ones_retire() {
        let mut collector = Collector::default();
        let film = |at_ms: u64, index: u64| report(at_ms, index, &format!("{index}/m.m3u8"), "su");
        collector.take((0..TITLES_MAX as u64 + 5).map(|index| film(1000 + index, index)).collect());
        collector.advance(10_000);
        let others =
            |collector: &Collector| collector.by_title().pop().unwrap().stats.sessions_total;
        assert_eq!((collector.by_title().len(), others(&collector)), (TITLES_MAX + 1, 5));
        collector.advance(SILENCE_MS + 10_000);
        assert_eq!((collector.by_title().len(), others(&collector)), (TITLES_MAX + 1, 5));
        let later = WINDOW_MS + 100_000;
        collector.take(vec![film(later, 999)]);
        collector.advance(later + SILENCE_MS + 10_000);
        assert_eq!(collector.titles.len(), TITLES_MAX);
        assert!(collector.titles.contains_key("999") && !collector.titles.contains_key("0"));
        assert_eq!(others(&collector), 6, "what was counted is not lost");
        assert_eq!(collector.all.sessions_total, TITLES_MAX as u64 + 6);
    }

    #[test]
    fn the_busiest_titles_come_first_and_get_room() {
        let mut collector = Collector::default();
        for index in 0..2 * TITLES_MAX as u64 {
            collector.take(vec![report(1000, index, &format!("{index}/1.m4s"), "ot=v")]);
        }
        for viewer in 1000..1003 {
            collector.take(vec![report(1000, viewer, "zapping/1.m4s", "ot=v")]);
            collector.take(vec![report(1000, viewer + 100, "zoo/1.m4s", "ot=v")]);
        }
        collector.take(vec![report(1000, 2000, "zoo/1.m4s", "ot=v")]);
        collector.advance(10_000);
        let titles = collector.by_title();
        let names: Vec<_> = titles.iter().map(|title| title.name).collect();
        assert_eq!(names.len(), TITLES_MAX + 1);
        assert_eq!(names[..2], [Some("zoo"), Some("zapping")]);
        assert_eq!(names.last(), Some(&None));
    }

    #[test]
    fn a_session_counts_for_the_title_that_it_turns_out_to_be() {
        let mut collector = Collector::default();
        collector.take(vec![
            report(0, 1, "a/v/1.m4s", "ot=v,d=2000"),
            report(2000, 1, "a/master.m3u8", "ot=m"),
            report(2100, 1, "a/v/2.m4s", "ot=v,d=2000,msd=400"),
        ]);
        collector.advance(10_000);
        let told = |collector: &Collector| {
            let titles = collector.by_title().into_iter();
            let named = titles.filter_map(|title| Some((title.name?.to_owned(), title.stats)));
            named
                .map(|(name, stats)| (name, stats.sessions_total, stats.play_delay.sum_total()))
                .collect::<Vec<_>>()
        };
        let expected = vec![("a".to_owned(), 1, 400)];
        assert_eq!(told(&collector), expected);
        collector.advance(10_000 + SILENCE_MS);
        assert_eq!(told(&collector), expected, "the same when it is over");
    }

    #[test]
    fn sessions_count_for_the_titles_of_the_examples() {
        let mut known = KnownTitles::default();
        for (path, _) in catalog::EXAMPLES {
            if let Some(folder) = known.news(path.as_bytes()) {
                known.learn(folder);
            }
        }
        let mut collector = Collector::default();
        let reports = catalog::EXAMPLES.iter().zip(0..);
        collector.take(reports.map(|((path, _), id)| report(1000, id, path, "su")).collect());
        let titles = |collector: &Collector| {
            let told = collector.by_title();
            let named = told.iter().filter_map(|title| Some((title.name?, title)));
            let mut sessions: Vec<_> = named
                .flat_map(|(name, title)| {
                    vec![name.to_owned(); title.stats.sessions_total as usize]
                })
                .collect();
            sessions.sort();
            sessions
        };
        collector.advance(10_000);
        assert_ne!(titles(&collector), catalog::EXAMPLES.map(|(_, title)| title));
        collector.know(Arc::new(known));
        assert_eq!(titles(&collector), catalog::EXAMPLES.map(|(_, title)| title));
        collector.advance(10_000 + SILENCE_MS);
        assert_eq!(titles(&collector), catalog::EXAMPLES.map(|(_, title)| title));
    }

    fn event(at_ms: u64, session: u64, text: &str) -> QoeEvent {
        let line = format!("sid=\"x\",{text}");
        let read = crate::CmcdEvents::read(line.as_bytes());
        QoeEvent::new(at_ms * 1000, session, 0, &read.events[0]).expect("it is of use")
    }

    #[test]
    fn events_count_in_the_order_in_which_they_happened_and_begin_no_session() {
        let mut collector = Collector::default();
        let of = |session| {
            [
                event(350, session, "e=ps,sta=p,ts=1790000000300"),
                event(100, session, "e=ps,sta=s,ts=1790000000000"),
                event(360, session, "e=ps,sta=r,ts=1790000002300"),
                event(370, session, "e=ps,sta=p,ts=1790000002800"),
            ]
        };
        collector.take_events([of(1), of(2)].concat());
        collector.advance(3000);
        assert_eq!((collector.early.len(), collector.events_total), (8, 0), "no session is known");
        // Its first request arrives after its first event, and after others.
        collector.take(vec![
            report(900, 1, "a/m.m3u8", "ot=m,su"),
            report(1000, 1, "a/1.m4s", "ot=v,d=2000"),
        ]);
        collector.advance(4000);
        let all = &collector.all;
        assert_eq!((all.sessions_total, all.stalls_total, all.stalled_ms_total), (1, 1, 500));
        assert_eq!((all.play_delay.count_total(), all.play_delay.sum_total()), (1, 300));
        collector.advance(40_000);
        assert_eq!((collector.events_total, collector.events_lost_total), (4, 4));
        assert_eq!((collector.sessions().count(), collector.early.len()), (1, 0));
    }

    #[test]
    fn events_keep_a_session_and_count_for_viewers_who_took_something() {
        let mut collector = Collector::default();
        collector.take(vec![report(0, 1, "a/m.m3u8", "ot=m,su")]);
        collector.advance(LAG_MS);
        for second in 0..40 {
            let at_ms = second * 10_000;
            let state = if second % 2 == 0 { 'p' } else { 'r' };
            let text = format!("e=ps,sta={state},ts={}", 1_790_000_000_000 + at_ms);
            collector.take_events(vec![event(at_ms, 1, &text)]);
            let bytes = 1 << 20;
            let at_us = at_ms * 1000;
            collector.take_deliveries(vec![Delivery {
                at_us,
                session: 1,
                viewer: 9,
                group: None,
                bytes,
            }]);
            collector.advance(at_ms + LAG_MS);
        }
        assert_eq!(collector.sessions().count(), 1, "it has been silent for no five minutes");
        let (viewers, stalling, seconds) = credible(&collector);
        assert_eq!((viewers, stalling, collector.all.stalls_total), (1, 1, 20));
        assert!((185..=190).contains(&seconds), "{seconds} s");
        collector.advance(800_000);
        let all = &collector.all;
        assert_eq!((all.with_events_total, all.gave_up_total, all.finished_total), (1, 1, 0));
    }

    #[test]
    fn events_that_are_too_many_are_counted_as_lost() {
        let mut collector = Collector::default();
        collector.take(vec![report(0, 1, "a/m.m3u8", "ot=m,su")]);
        collector.take_events(vec![event(0, 1, "e=t,ts=1"); WAITING_MAX + 3]);
        assert_eq!((collector.events.len(), collector.events_lost_total), (WAITING_MAX, 3));
    }

    #[test]
    fn reports_that_are_too_many_are_counted_as_lost() {
        let mut collector = Collector::default();
        collector.take(vec![report(0, 1, "a/1.m4s", "ot=v"); WAITING_MAX + 3]);
        assert_eq!((collector.waiting.len(), collector.reports_lost_total), (WAITING_MAX, 3));
    }
}
