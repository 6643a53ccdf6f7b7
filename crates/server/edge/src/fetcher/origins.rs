//! The origins in order of preference ([`Preference`]): the one that a request goes to, and those that it goes on to. Those that are asked for one
//! path hold the same films.
//!
//! One try asks one origin after the other until one has an answer. An origin that doesn't answer, or with an error of its own, has failed; one that
//! has failed several times in a row is passed over ([`Circuit`]). If all are passed over, none is: there may be an answer all the same.
//!
//! A film is one version ([`crate`]), and an origin that has another one is no use for it:
//! - A block counts only if its origin has the version. If none has, the first one's reason counts.
//! - Only an origin that the version came from, or one before that, can say that a film is over; one before that not while one that has the version
//!   may still send it. From another one, that counts as a failure for this film, until all origins before it are passed over: then
//!   [`Trouble::Changed`] is the result. Its callers keep a film that may still be served, and otherwise ask again, without a version.
//!
//! Other responses are whole, and come from whichever origin answers.

use super::answering::terms_of_304;
use super::circuit::{Circuit, FAILURES_MAX};
use super::leaving::Viewer;
use super::passing::with_own_fields;
use super::spread::{OriginSpread, Preference};
use super::telling::Telling;
use crate::contract::{EdgeTold, ForwardedRequest, OriginAsked, Trouble};
use crate::http_cache::{Fields, is_blocking_reload};
use crate::origin::{Found, Heard, Origin, Refused, Unanswered, Verdict, is_failing};
use crate::origin_access::{Reach, trusted};
use crate::origin_files::HandedFiles;
use crate::origin_settings::OriginSettings;
use crate::rules::{PathRules, PathSettings};
use crate::store::Stored;
use helper_process::sandbox::Confined;
use reqwest::Response;
use reqwest::header::HeaderMap;
use std::ops::Range;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::time::{interval, timeout};

/// How often to look whether the keeper has read other files: after a reload on request, requests have the new ones at once. It costs a system call.
const FILES_LOOKED_AT_EVERY: Duration = Duration::from_millis(100);

/// The most characters of an address that are shown.
const NAME_CHARACTERS_MAX: usize = 200;

/// All origins. One is named by its number: its place in the order of preference, from 0.
pub(super) struct Origins {
    all: Vec<Origin>,
    circuits: Mutex<Vec<Circuit>>,
    preference: Preference,
    rules: Arc<PathRules>,
    files: Mutex<HandedFiles>,
    told: Sender<Telling>,
    silent_max: Duration,
    confined: Confined,
}

impl Origins {
    /// Sends no request yet. An origin that is silent for longer than `silent_max` has failed.
    ///
    /// # Errors
    /// If the files that the settings name, those for certificates, or the credentials for a bucket can't be used.
    pub(super) fn new(
        (origins, mut files): (Vec<OriginSettings>, HandedFiles),
        (spread, silent_max): (OriginSpread, Duration),
        rules: PathRules,
        told: Sender<Telling>,
    ) -> Result<Self, String> {
        let reach = Reach { trusted: trusted()?, silent_max };
        let texts = files.changed().map_err(|error| error.to_string())?.unwrap_or_default();
        let rules = Arc::new(rules);
        let ready = |(number, settings)| {
            Origin::new(number, (settings, &texts), reach.clone(), Arc::clone(&rules))
        };
        let patterns: Vec<_> =
            origins.iter().map(OriginSettings::patterns).collect::<Result<_, _>>()?;
        let all: Vec<_> = origins.into_iter().enumerate().map(ready).collect::<Result<_, _>>()?;
        if all.is_empty() {
            return Err("an edge needs an origin".into());
        }
        let circuits = Mutex::new(all.iter().map(|_| Circuit::default()).collect());
        let addresses = all.iter().map(|origin| origin.address().to_string());
        let preference = Preference::new(spread, addresses.zip(patterns));
        let (files, confined) = (Mutex::new(files), Confined::not());
        Ok(Self { all, circuits, preference, rules, files, told, silent_max, confined })
    }

    /// Has requests made with the texts of the files that settings name, as they are from now on. Looks whether the keeper has read others.
    pub(super) async fn keep_files_current(self: Arc<Self>) {
        let mut looks = interval(FILES_LOOKED_AT_EVERY);
        loop {
            looks.tick().await;
            let changed = self.files.lock().expect("no holder of this lock can panic").changed();
            let renewed = match changed {
                Ok(None) => Ok(()),
                Ok(Some(texts)) => self.all.iter().try_for_each(|origin| origin.renew(&texts)),
                Err(error) => Err(error.to_string()),
            };
            // The keeper has checked them, and says what is wrong with a file.
            if let Err(why) = renewed {
                eprintln!("fullbore: the edge's helper cannot use the files for origins: {why}");
            }
        }
    }

    /// This process has been confined. Requests for which it has to resolve a name are sent only afterwards.
    pub(super) fn confine(&mut self, confined: Confined) {
        self.confined = confined;
    }

    /// The restrictions that could not be applied.
    pub(super) fn lacks(&self) -> Option<&str> {
        self.confined.lacks.as_deref()
    }

    /// An origin can't be reached. Ends this process if the reason may be that it can no longer resolve names.
    pub(super) fn restart_if_outdated(&self) {
        if self.confined.is_outdated() {
            eprintln!(
                "fullbore: the edge's helper can no longer read a name-resolution file (such as /etc/resolv.conf) because it was replaced; restarting the helper"
            );
            // Its keeper starts another helper, which can read it.
            std::process::exit(1);
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Origin] {
        &self.all
    }

    /// The place of an origin in the order for `path`, from 0.
    pub(super) fn rank(&self, path: &str, number: usize) -> usize {
        self.preference.rank(path, number)
    }

    /// The address of an origin, if there are several.
    pub(super) fn name(&self, number: usize) -> Option<String> {
        let origin = self.all.get(number).filter(|_| self.all.len() > 1)?;
        Some(origin.address().to_string().chars().take(NAME_CHARACTERS_MAX).collect())
    }

    /// Changes URLs in the fields of an origin's answer about `path` to those of the edge, as [`Origin::localize`] says. At the edge, a path may be
    /// another origin's.
    pub(super) fn localize(&self, number: usize, path: &str, fields: &mut Fields) {
        let is_here = |local: &str| {
            let local = local.split('#').next().unwrap_or_default();
            self.preference.order(local).contains(&number)
        };
        self.all[number].localize(path, fields, is_here);
    }

    /// Under which path a response is stored to requests for a URL that the answer of an origin to a request for `path` names, if it is one of that
    /// origin's.
    pub(super) fn stored_under(&self, number: usize, path: &str, named: &str) -> Option<String> {
        Some(self.rules.stored_under(&self.all[number].path_of(path, named)?))
    }

    /// The operator's settings for a path.
    pub(super) fn rule(&self, path: &str) -> &PathSettings {
        self.rules.at_stored(path)
    }

    /// Requests `range` of the current version at `path`, unless that is the `known` one, for a viewer with this `request`.
    pub(super) async fn look(
        self: &Arc<Self>,
        path: &str,
        range: Range<u64>,
        known: Option<&Stored>,
        request: &ForwardedRequest,
        is_last: bool,
    ) -> Result<Verdict, Refused> {
        let mut failures = Failures::default();
        let etag = known.map(|known| known.etag.as_str());
        self.begin_trials(path);
        for number in self.order(path, None)? {
            let (origin, mut heard) = (&self.all[number], Heard::default());
            let looked = origin.look(path, range.clone(), etag, request, is_last, &mut heard).await;
            let has_failed = match &looked {
                Ok(Verdict::Other(_, why)) => *why == Trouble::Unreachable,
                Ok(_) => false,
                Err((why, _)) => why.is_failure(),
            };
            self.note_heard(number, (heard, has_failed), !is_blocking_reload(path));
            if has_failed {
                let is_held = is_held(path, &looked);
                failures.add(looked);
                if is_held {
                    break;
                }
                continue;
            }
            let Some(known) = known.filter(|known| known.came_before(self.rank(path, number)))
            else {
                return looked;
            };
            match looked {
                Ok(Verdict::NotModified(ref header, _)) if self.confirms(known, header) => {
                    return looked;
                }
                Ok(Verdict::Found(found)) if found.is_of(known) => {
                    return Ok(Verdict::Found(found));
                }
                _ => failures.add(Err((Trouble::Changed, other_version(path)))),
            }
        }
        failures.result(path)
    }

    /// Whether a 304 with this header confirms a version.
    fn confirms(&self, known: &Stored, header: &HeaderMap) -> bool {
        terms_of_304(known, header, self.rule(&known.path).lifetimes).is_ok()
    }

    /// Requests `range` of a version, by a `request` that is no viewer's. The caller notes how the body ends. The `avoided` origin is asked last.
    pub(super) async fn bring(
        self: &Arc<Self>,
        object: &Stored,
        range: Range<u64>,
        request: &ForwardedRequest,
        avoided: Option<usize>,
    ) -> Result<Found, Refused> {
        let path = &object.path;
        let mut failures = Failures::default();
        self.begin_trials(path);
        let order = self.order(path, avoided)?;
        let came_before = |number: usize| object.came_before(self.rank(path, number));
        // Whether one of those asked can say that the film is over.
        let has_own = order.iter().any(|number| !came_before(*number));
        for number in order {
            let version = (&*object.etag, object.size_of(number));
            let (origin, mut heard) = (&self.all[number], Heard::default());
            let brought = origin.bring(path, range.clone(), version, request, &mut heard).await;
            let (why, said) = match brought {
                Ok(found) if found.is_of(object) => return Ok(found),
                Ok(_) => {
                    let said =
                        format!("{path}: the origin sent another length under the same ETag");
                    (Trouble::Changed, said)
                }
                Err(refused) => refused,
            };
            self.note_heard(number, (heard, why.is_failure()), true);
            let why = match (why, came_before(number)) {
                (Trouble::NotFound, false) => Trouble::Changed,
                (Trouble::NotFound | Trouble::Uncacheable, true) => Trouble::Unreachable,
                (Trouble::Changed, true) if has_own => Trouble::Unreachable,
                (why, _) => why,
            };
            if object.is_from(number, self.rank(path, number)) && why.tries() > 1 {
                failures.forget_verdict();
            }
            failures.add(Err((why, said)));
        }
        failures.result(path)
    }

    /// Sends a viewer's request for reading on, with these `conditions`.
    pub(super) async fn forward(
        self: &Arc<Self>,
        path: &str,
        request: &ForwardedRequest,
        conditions: &Fields,
    ) -> Result<Response, Refused> {
        let mut failures = Failures::default();
        self.begin_trials(path);
        for number in self.order(path, None)? {
            let rank = self.rank(path, number);
            let (origin, mut heard) = (&self.all[number], Heard::default());
            let answer = origin.forward(path, request, conditions, &mut heard).await;
            let answer = answer.map_err(|unanswered| match unanswered.refused {
                // A bucket has no words for viewers, and its word doesn't end what is stored if one before it may have it.
                (Trouble::NotFound, said) if rank > 0 && conditions.has("if-none-match") => {
                    (Trouble::Unreachable, said)
                }
                refused => refused,
            });
            let has_failed = has_failed(&answer);
            self.note_heard(number, (heard, has_failed), !is_blocking_reload(path));
            if !has_failed {
                return answer;
            }
            let is_held = is_held(path, &answer);
            failures.add(answer);
            if is_held {
                break;
            }
        }
        failures.result(path)
    }

    /// Sends a request on that may change something: to the next origin only if no connection to the one before it could be made, and not after its
    /// `viewer` has left.
    pub(super) async fn send_once(
        &self,
        path: &str,
        request: &ForwardedRequest,
        viewer: &Viewer,
    ) -> Result<Response, Refused> {
        let mut failures = Failures::default();
        let order = self.order(path, None)?.into_iter();
        for number in order.take_while(|_| !viewer.has_left()) {
            let (origin, mut heard) = (&self.all[number], Heard::default());
            let answer = origin.forward(path, request, &Fields::default(), &mut heard).await;
            let is_over = !matches!(answer, Err(Unanswered { was_sent: false, .. }));
            let answer = answer.map_err(|unanswered| unanswered.refused);
            // How long it takes, and how it ends, depends on what it is to change.
            self.note_heard(number, (heard, has_failed(&answer)), !is_over);
            match is_over {
                true => return answer,
                false => failures.add(answer),
            }
        }
        failures.result(path)
    }

    /// The origins to ask for `path` in one try.
    fn order(&self, path: &str, avoided: Option<usize>) -> Result<Vec<usize>, Refused> {
        let all = self.preference.order(path);
        if all.is_empty() {
            return Err((Trouble::NotFound, format!("{path}: no origin has such a path")));
        }
        let circuits = self.circuits();
        let mut order: Vec<usize> =
            all.iter().copied().filter(|number| !circuits[*number].is_open()).collect();
        if order.is_empty() {
            return Ok(all);
        }
        order.sort_by_key(|number| Some(*number) == avoided);
        Ok(order)
    }

    /// Has those asked for `path` again whose time has come.
    fn begin_trials(self: &Arc<Self>, path: &str) {
        let order = self.preference.order(path);
        let (now, mut circuits) = (Instant::now(), self.circuits());
        // An origin would hold a blocking reload for seconds. If all are passed over, all are asked.
        if is_blocking_reload(path) || order.iter().all(|number| circuits[*number].is_open()) {
            return;
        }
        for number in order {
            let circuit = &mut circuits[number];
            // Without a request, a trial would show nothing.
            let may_try = circuit.is_open() && self.all[number].url_of(path).is_some();
            if may_try && circuit.begin_trial(now) {
                // By a request of its own, so that no viewer waits for an origin that is still silent.
                tokio::spawn(Arc::clone(self).try_again(number, path.to_owned()));
            }
        }
    }

    async fn try_again(self: Arc<Self>, number: usize, path: String) {
        let request = with_own_fields(&ForwardedRequest::get());
        let asked = self.all[number].ask_briefly(&path, &request);
        let heard = timeout(3 * self.silent_max, asked).await;
        let has_answered = heard.is_ok_and(|heard| heard == Heard::Answer);
        if !has_answered {
            // While the other origins answer, nothing else would notice.
            self.restart_if_outdated();
        }
        self.change(number, has_answered, |circuit, now| circuit.end_trial(has_answered, now));
    }

    /// Notes how a request has ended, if it was sent. A failure is one of the origin's health only if it `counts`.
    fn note_heard(&self, number: usize, (heard, has_failed): (Heard, bool), counts: bool) {
        let has_answered = heard == Heard::Answer;
        if heard != Heard::Nothing {
            self.change(number, !has_failed, |circuit, now| {
                if has_answered || counts {
                    circuit.note(has_answered, now);
                }
            });
        }
    }

    /// A request to an origin has ended.
    pub(super) fn note(&self, number: usize, has_answered: bool) {
        self.change(number, has_answered, |circuit, now| circuit.note(has_answered, now));
    }

    /// Changes the record of an origin, and reports that to the server, and to the operator if the origin is passed over, or is not any more.
    fn change(
        &self,
        number: usize,
        has_answered: bool,
        change: impl FnOnce(&mut Circuit, Instant),
    ) {
        let mut circuits = self.circuits();
        let Some(circuit) = circuits.get_mut(number) else { return };
        let was_open = circuit.is_open();
        change(circuit, Instant::now());
        // An only origin is asked all the same.
        let name = self.name(number).filter(|_| !self.preference.is_alone(number));
        let (is_open, is_passed_over) = (circuit.is_open(), circuit.is_open() && name.is_some());
        // In order, so while the circuits are locked. If there is no receiver, the server is gone.
        let asked = OriginAsked { origin: number, has_answered, is_passed_over };
        let _ = self.told.send((EdgeTold::Asked(asked), None));
        drop(circuits);
        match name {
            Some(name) if is_open && !was_open => eprintln!(
                "fullbore: the origin {name} has failed {FAILURES_MAX} times in a row: requests go to the other origins, and it is tried again from time to time"
            ),
            Some(name) if was_open && !is_open => {
                eprintln!("fullbore: the origin {name} answers again");
            }
            _ => {}
        }
    }

    fn circuits(&self) -> MutexGuard<'_, Vec<Circuit>> {
        self.circuits.lock().expect("no holder of this lock can panic")
    }
}

impl Found {
    /// Whether it is the version that is kept.
    fn is_of(&self, known: &Stored) -> bool {
        self.terms.etag == known.etag && self.size == known.size
    }
}

/// Whether the answer to a request is a failure, so that the next origin may have a better one.
fn has_failed(answer: &Result<Response, Refused>) -> bool {
    match answer {
        Ok(answer) => is_failing(answer.status()),
        Err((why, _)) => why.is_failure(),
    }
}

/// Whether an origin has held a blocking reload for too long. The next one would hold it as well, and its player has waited long enough.
fn is_held<T>(path: &str, answer: &Result<T, Refused>) -> bool {
    is_blocking_reload(path) && matches!(answer, Err((Trouble::TimedOut, _)))
}

fn other_version(path: &str) -> String {
    format!("{path}: the origin has another version than the one that is kept from another origin")
}

/// The result of a try in which no origin has an answer: that of the first one.
struct Failures<T>(Option<Result<T, Refused>>);

impl<T> Default for Failures<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Failures<T> {
    fn add(&mut self, next: Result<T, Refused>) {
        let is_better = match (&self.0, &next) {
            (None, _) => true,
            // An error in the origin's own words is better than none. What says that a version is over stays.
            (Some(Err((first, _))), Ok(_)) => first.is_failure(),
            // A silent origin is not asked as often.
            (Some(Err((first, _))), Err((next, _))) => {
                (*first, *next) == (Trouble::Unreachable, Trouble::TimedOut)
            }
            _ => false,
        };
        if is_better {
            self.0 = Some(next);
        }
    }

    /// An origin that has the version may send it at the next try, so that another one's word that it is over doesn't count yet.
    fn forget_verdict(&mut self) {
        self.0.take_if(|first| first.as_ref().is_err_and(|(why, _)| why.tries() == 1));
    }

    fn result(self, path: &str) -> Result<T, Refused> {
        let none = || Err((Trouble::Unreachable, format!("{path}: there is no origin")));
        self.0.unwrap_or_else(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a try in which these came one after the other.
    fn result(all: &[Result<u16, Trouble>]) -> Result<u16, Trouble> {
        let mut failures = Failures::default();
        all.iter().for_each(|one| failures.add(one.map_err(|why| (why, String::new()))));
        failures.result("/a").map_err(|(why, _)| why)
    }

    #[test]
    fn of_several_failures_the_first_counts_unless_a_later_one_has_words_or_is_silent() {
        use Trouble::{Changed, TimedOut, Unreachable};
        assert_eq!(result(&[Err(Unreachable), Err(Changed)]), Err(Unreachable));
        assert_eq!(result(&[Err(Changed), Err(Unreachable)]), Err(Changed));
        assert_eq!(result(&[Err(Changed), Ok(503)]), Err(Changed));
        assert_eq!(result(&[Err(Unreachable), Ok(503), Ok(500)]), Ok(503));
        assert_eq!(result(&[Err(TimedOut), Ok(500), Err(Unreachable)]), Ok(500));
        assert_eq!(result(&[Err(Unreachable), Err(TimedOut)]), Err(TimedOut));
        assert_eq!(result(&[]), Err(Unreachable));
    }

    #[test]
    fn a_failure_of_the_origin_that_has_a_version_outweighs_the_word_that_it_is_over() {
        use Trouble::{Changed, NotFound, TimedOut, Uncacheable, Unreachable, Wrong};
        for verdict in [Changed, NotFound, Uncacheable] {
            for failure in [Unreachable, TimedOut, Wrong] {
                let mut failures = Failures::<()>::default();
                for why in [verdict, failure, verdict] {
                    if why == failure {
                        failures.forget_verdict();
                    }
                    failures.add(Err((why, String::new())));
                }
                assert_eq!(failures.result("/a").unwrap_err().0, failure, "{verdict:?}");
            }
        }
    }
}
