//! Drawn pairs of requests: no viewer gets what an origin made for another one.
//!
//! The rules are those of the helper, in virtual time, with an origin that draws what it says of caching, under drawn rules of the operator's. The
//! judge has its own, plainer copy of the RFC and of these rules: for each answer it knows which request the origin made it for, and every field
//! carries the number of the answer that it came with.

use super::*;
use crate::fetcher::HelperOptions;
use crate::fetcher::origin_answer::stored;
use crate::fetcher::slots::REQUESTS_MAX;
use crate::http_cache::{is_credential, may_store};
use crate::rules::{EdgeRule, PathRules};
use std::collections::HashMap;
use std::time::Duration;

/// Names and values of header fields.
type Lines<'a> = &'a [(&'a str, &'a str)];

/// The pairs: each draws a request, and another one for the same path.
const PAIRS: usize = 100_000;

/// The most requests that the origin is working on.
const FLIGHTS_MAX: usize = 4;

const CACHE_CONTROLS: [&str; 16] = [
    "max-age=2",
    "max-age=60",
    "public, max-age=60",
    "s-maxage=60",
    "must-revalidate, max-age=2",
    "max-age=60, stale-while-revalidate=60",
    "no-cache",
    "public, no-cache",
    "private",
    "private, max-age=60",
    "max-age=60; private",
    "no-store",
    "max-age=60, no-store",
    "max-age=60, private=\"X-Mine\"",
    "public, max-age=60, no-cache=\"x-mine\"",
    "public, max-age=60, private=\"a\", private=\"X-Mine\"",
];

const VARIES: [Option<&str>; 8] = [
    None,
    None,
    None,
    Some("X-Who"),
    Some("Cookie"),
    Some("Accept-Encoding, x-who"),
    Some("Authorization, Cookie"),
    Some("*"),
];

/// The lives of an edge that share the pairs. Each has rules of its own.
const LIVES: usize = 50;

/// The paths of a life.
const FILMS: usize = 8;

/// What an operator may write into a rule, one of each line. The judge reads the same words in its own way ([`Ruled`]).
const RULES: [&[&str]; 6] = [
    &[
        "",
        "",
        r#""query":"drop""#,
        r#""query":"sort""#,
        r#""query_keep":["q"]"#,
        r#""query_drop":["u"]"#,
    ],
    &["", r#""headers_vary":["X-Who"]"#, r#""headers_drop":["X_Who"]"#],
    &["", r#""authorization":"drop""#],
    &["", "", r#""cookies":false"#],
    &["", r#""fresh_seconds":600"#, r#""fresh_default_seconds":60"#, r#""fresh_seconds":1"#],
    &["", r#""stale_seconds":60"#, r#""stale_seconds":0"#],
];

/// A rule that keeps nothing may say nothing of how long.
const NEVER: &str = r#""cache":false"#;

/// The words of a path's rule.
#[derive(Clone)]
struct Ruled(Arc<str>);

impl Ruled {
    fn drawn(draws: &mut fastrand::Rng, film: usize) -> Self {
        let is_kept = draws.u8(..8) > 0;
        let lists = if is_kept { &RULES[..] } else { &RULES[..1] };
        let mut words = vec![format!(r#""path":"/film{film}""#)];
        words.extend(lists.iter().map(|list| (*draws.choice(*list).unwrap()).to_owned()));
        words.extend((!is_kept).then(|| NEVER.to_owned()));
        words.retain(|word| !word.is_empty());
        Self(format!("{{{}}}", words.join(",")).into())
    }

    fn says(&self, word: &str) -> bool {
        self.0.contains(word)
    }

    /// The parameters of a query on which a response may depend, in an order in which equal ones are equal.
    fn counted(&self, query: &str) -> String {
        let counts = |parameter: &&str| {
            let is_one_left_out = self.says(r#""query_keep":["q"]"#) || self.says("query_drop");
            let is_left_out = is_one_left_out && parameter.starts_with('u');
            !(is_left_out || self.says(r#""query":"drop""#))
        };
        let mut kept: Vec<&str> = query.split('&').filter(counts).collect();
        if self.says(r#""query":"sort""#) {
            kept.sort_unstable();
        }
        kept.join("&")
    }
}

/// One request, and what the origin answered to it.
#[derive(Clone)]
struct Record {
    /// With the query as it counts, by the judge.
    path: String,
    /// As it travels.
    request: Fields,
    ruled: Ruled,
    rule: LifetimeRule,
    /// When the origin got it: the number of requests before it.
    asked: usize,
    answered: Duration,
    cache_control: &'static str,
    vary: Option<&'static str>,
}

impl Record {
    fn says(&self, wanted: &str) -> bool {
        let names = self.cache_control.split([',', ';']).map(str::trim);
        names.into_iter().any(|one| one == wanted || one.starts_with(&format!("{wanted}=")))
    }

    /// The header fields on which the answer depends.
    fn varies(&self) -> impl Iterator<Item = &str> {
        let ruled = self.ruled.says("headers_vary").then_some("X-Who");
        self.vary.into_iter().flat_map(|vary| vary.split(", ")).chain(ruled)
    }

    fn has_password(&self) -> bool {
        ["authorization", "x-plex-token"].iter().any(|name| self.request.has(name))
    }

    fn is_personal(&self) -> bool {
        self.has_password() || self.request.has("cookie")
    }

    /// Whether the answer to this request may reach the viewer of `other`.
    fn is_for(&self, other: &Self) -> Result<(), &'static str> {
        let is_private = self.cache_control.split([',', ';']).any(|one| one.trim() == "private");
        let for_all = self.says("public") || self.says("s-maxage");
        let is_known = self.has_password();
        let differs = |name: &str| self.request.first(name) != other.request.first(name);
        if self.path != other.path {
            Err("another URL")
        } else if self.ruled.says(NEVER) {
            Err("nothing is kept there")
        } else if is_private || self.says("no-store") || says_no_store(&self.request) {
            Err("it must not be stored")
        } else if is_known && !for_all && !self.says("must-revalidate") {
            Err("its request had a password")
        } else if self.request.has("cookie") && !for_all {
            Err("its request had a cookie")
        } else if self
            .varies()
            .any(|name| name == "*" || name != "Accept-Encoding" && differs(name))
        {
            Err("it is another variant")
        } else {
            Ok(())
        }
    }
}

fn says_no_store(request: &Fields) -> bool {
    request.first("cache-control") == Some("no-store")
}

/// A request that the origin is working on.
struct Flight {
    number: usize,
    is_head: bool,
    known: Option<Arc<StoredResponse>>,
    asked: Epoch,
}

struct Model {
    draws: fastrand::Rng,
    ruled: Vec<Ruled>,
    rules: PathRules,
    responses: Responses,
    start: Now,
    passed: Duration,
    records: Vec<Record>,
    flights: Vec<Flight>,
    /// The requests before the latest change of each path.
    changed: HashMap<String, usize>,
    /// Which record each stored response came with.
    made: HashMap<u64, usize>,
    counts: [usize; 5],
}

const SHARED: usize = 0;
const CONFIRMED: usize = 1;
const WITH_COOKIE: usize = 2;
const LATE: usize = 3;
const UPDATED_BY_HEAD: usize = 4;

impl Model {
    fn new(seed: u64) -> Self {
        let mut draws = fastrand::Rng::with_seed(seed);
        let ruled: Vec<_> = (0..FILMS).map(|film| Ruled::drawn(&mut draws, film)).collect();
        let rules: Vec<EdgeRule> =
            ruled.iter().map(|Ruled(words)| serde_json::from_str(words).unwrap()).collect();
        rules.iter().for_each(|rule| rule.check(false).unwrap());
        Self {
            draws,
            ruled,
            rules: PathRules::new(&rules, true),
            responses: Responses::default(),
            start: Now { at: std::time::Instant::now(), unix_seconds: 1_700_000_000 },
            passed: Duration::ZERO,
            records: Vec::new(),
            flights: Vec::new(),
            changed: HashMap::new(),
            made: HashMap::new(),
            counts: [0; 5],
        }
    }

    fn now(&self) -> Now {
        let unix_seconds = self.start.unix_seconds + self.passed.as_secs();
        Now { at: self.start.at + self.passed, unix_seconds }
    }

    fn drawn_request(&mut self) -> Fields {
        let mut request = Fields::default();
        for (name, values) in [
            ("Cookie", ["id=a", "id=b"]),
            ("Authorization", ["Basic YQ==", "Basic Yg=="]),
            ("X-Plex-Token", ["a", "b"]),
            ("X-Who", ["a", "b"]),
        ] {
            if self.draws.u8(..4) == 0 {
                request.push(name, *self.draws.choice(&values).unwrap());
            }
        }
        match self.draws.u8(..20) {
            0 => request.push("Cache-Control", "no-store"),
            1 => request.push("Cache-Control", "no-cache"),
            2 => request.push("Cache-Control", "max-stale=30"),
            _ => {}
        }
        request
    }

    /// A viewer's request: answered with what is stored, or sent to the origin.
    fn ask(&mut self, film: usize, query: &str) {
        let (names, ruled) = (format!("/film{film}"), self.ruled[film].clone());
        let (mut request, settings) = (self.drawn_request(), self.rules.at_stored(&names));
        // As the server leaves them out.
        request.remove(|name| {
            let lower = name.to_ascii_lowercase();
            settings.drops_header(&lower)
                || is_credential(&lower) && !settings.sends_passwords
                || lower == "cookie" && !settings.sends_cookies
        });
        let kept = String::from_utf8(settings.query_sent_on(query.as_bytes())).unwrap();
        let path = format!("{names}?{kept}");
        assert_eq!(path, format!("{names}?{}", ruled.counted(query)), "{}", ruled.0);
        let (rule, is_kept) = (settings.lifetimes, settings.is_kept);
        let vary = *self.draws.choice(&VARIES).unwrap();
        let cache_control = *self.draws.choice(&CACHE_CONTROLS).unwrap();
        let asked = self.records.len();
        let answered = self.passed;
        let record = Record { path, request, ruled, rule, asked, answered, cache_control, vary };
        self.records.push(record.clone());
        if !is_kept {
            return;
        }
        let known = self.responses.find(&record.path, &record.request);
        let said = RequestDirectives::of(&record.request);
        let usable = known.as_ref().map(|known| known.use_for(&said, self.now().at));
        if let (Some(known), Some(Use::Now | Use::WhileRevalidating)) = (&known, usable) {
            self.judge(known.number, &known.fields, asked);
            if usable == Some(Use::Now) {
                return;
            }
        }
        let is_head = self.draws.u8(..10) == 0;
        let asked_in = self.responses.epoch(&record.path);
        self.flights.push(Flight { number: asked, is_head, known, asked: asked_in });
    }

    /// The origin's answer to one of the requests that it is working on.
    fn answer(&mut self) {
        let Flight { number, is_head, known, asked } =
            self.flights.swap_remove(self.draws.usize(..self.flights.len()));
        self.records[number].answered = self.passed;
        let record = self.records[number].clone();
        let mut fields = Fields::of(&[("Cache-Control", record.cache_control), ("ETag", "\"v1\"")]);
        if let Some(vary) = record.vary {
            fields.push("Vary", vary);
        }
        for name in self.rules.at_stored(&record.path).headers_vary() {
            fields.push("Vary", name);
        }
        let sets_cookie = self.draws.u8(..3) == 0;
        if sets_cookie {
            fields.push("Set-Cookie", format!("id-{number}"));
        }
        fields.push("X-Mine", format!("mine-{number}"));
        fields.push("X-All", format!("all-{number}"));
        let is_late = self.changed.get(&record.path).is_some_and(|at| *at > number);
        self.counts[LATE] += usize::from(is_late);
        let Some(known) = known else {
            if !is_head && may_store(&record.request, 200, &fields).is_ok() {
                let new = 1 << 63 | number as u64;
                let now = self.now();
                let new = stored(
                    (&record.path, new),
                    (200, &fields),
                    &record.request,
                    (now, record.rule),
                );
                self.made.insert(new.number, number);
                self.responses.put(new, &record.request, asked);
            }
            return;
        };
        self.counts[CONFIRMED] += 1;
        self.counts[WITH_COOKIE] += usize::from(sets_cookie);
        self.counts[UPDATED_BY_HEAD] += usize::from(is_head);
        let was = (&known.fields, &known.selecting);
        match renewal(&record.request, known.status, was, &fields, FIELDS_BYTES_MAX) {
            Renewal::Renewed(kept) => {
                let renewed =
                    confirmed(&known, (&record.request, kept), &fields, (self.now(), record.rule));
                self.responses.renew(renewed, &record.request, asked);
            }
            Renewal::Unchanged => {}
            Renewal::Ended => drop(self.responses.remove(known.number)),
        }
    }

    /// Judges a stored response that is used for the request `number`.
    fn judge(&mut self, stored: u64, fields: &Fields, number: usize) {
        let viewer = self.records[number].clone();
        let made = self.made[&stored];
        let came_with = |name: &str| {
            let numbers = fields.all(name).map(|value| {
                value.rsplit('-').next().and_then(|number| number.parse().ok()).expect("a number")
            });
            numbers.collect::<Vec<usize>>()
        };
        let confirmed_by = came_with("X-All")[0];
        let refuse = |record: usize, why: &str| {
            let other = &self.records[record];
            panic!(
                "request {number} {:?} got the answer {record} to {:?} ({} {:?}): {why}; {fields:?}",
                viewer.request, other.request, other.cache_control, other.vary
            )
        };
        for record in [made, confirmed_by] {
            self.records[record].is_for(&viewer).unwrap_or_else(|why| refuse(record, why));
        }
        let latest = &self.records[confirmed_by];
        let longest = match latest.says("must-revalidate") {
            true => 2,
            false => 60,
        };
        // By the rule alone, it would be fresh for longer.
        let is_over = self.passed >= latest.answered + Duration::from_secs(longest);
        if latest.is_personal() && !latest.says("public") && is_over {
            refuse(confirmed_by, "the origin lets others have it for less time");
        }
        for record in came_with("Set-Cookie") {
            refuse(record, "it sets a cookie for another viewer");
        }
        for record in came_with("X-Mine") {
            if self.records[record].cache_control.to_ascii_lowercase().contains("\"x-mine\"") {
                refuse(record, "the field is named as one viewer's");
            }
        }
        if self.changed.get(&viewer.path).is_some_and(|at| *at > self.records[confirmed_by].asked) {
            refuse(confirmed_by, "it is older than a change");
        }
        self.counts[SHARED] += 1;
    }

    /// A request changes what the latest one was for.
    fn change(&mut self) {
        let path = self.records.last().expect("there was one").path.clone();
        let _ = self.responses.invalidate(&path);
        self.changed.insert(path, self.records.len());
    }

    /// Draws pairs of requests for the same film, with queries that may differ.
    fn live(&mut self, pairs: usize) {
        for _ in 0..pairs {
            let film = self.draws.usize(..FILMS);
            for _ in 0..2 {
                let mut query = [("q", 2), ("u", 2)]
                    .map(|(name, values)| format!("{name}={}", self.draws.u8(..values)));
                if self.draws.u8(..4) == 0 {
                    query.reverse();
                }
                self.ask(film, &query.join("&"));
                while self.flights.len() > self.draws.usize(..FLIGHTS_MAX) {
                    self.answer();
                }
            }
            if self.draws.u8(..50) == 0 {
                self.change();
            }
            self.passed += Duration::from_millis(self.draws.u64(..200));
        }
    }
}

/// `FULLBORE_SEED` repeats a run.
#[test]
fn of_drawn_pairs_of_requests_none_gets_what_was_made_for_the_other() {
    let seed = std::env::var("FULLBORE_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    eprintln!("FULLBORE_SEED={seed}");
    let (mut draws, mut counts) = (fastrand::Rng::with_seed(seed), [0; 5]);
    for _ in 0..LIVES {
        let mut model = Model::new(draws.u64(..));
        model.live(PAIRS / LIVES);
        counts.iter_mut().zip(model.counts).for_each(|(all, own)| *all += own);
    }
    eprintln!("shared, confirmed, with a cookie, late, by HEAD: {counts:?}");
    let least = [20_000, 10_000, 3_000, 500, 1_000];
    assert!(counts.iter().zip(least).all(|(count, least)| *count >= least), "{counts:?}");
}

#[test]
fn a_response_to_head_confirms_only_a_version_that_it_names() {
    let known = |fields: &[(&str, &str)]| {
        let fields = Fields::of(fields);
        let new = stored(
            ("/a", 1),
            (200, &fields),
            &Fields::default(),
            (Now::read(), LifetimeRule::default()),
        );
        StoredResponse { size: 10, ..new }
    };
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let table: &[(Lines, Lines, Option<bool>)] = &[
        (&[], &[], None),
        (&[], &[("Content-Length", "10")], None),
        (&[], &[("Content-Length", "11")], Some(false)),
        (&[("ETag", "\"a\"")], &[], None),
        (&[("ETag", "\"a\"")], &[("etag", "\"a\"")], Some(true)),
        (&[("ETag", "\"a\"")], &[("etag", "\"a\""), ("Content-Length", "9")], Some(false)),
        (&[("ETag", "\"a\""), ("Last-Modified", date)], &[("Last-Modified", date)], Some(true)),
        (
            &[("ETag", "\"a\""), ("Last-Modified", date)],
            &[("ETag", "\"b\""), ("Last-Modified", date)],
            Some(false),
        ),
    ];
    for (before, newer, expected) in table {
        let verdict = is_of_same_version(&known(before), &Fields::of(newer));
        assert_eq!(verdict, *expected, "{before:?}: {newer:?}");
    }
}

#[test]
fn a_change_that_gets_no_turn_at_the_origin_is_not_sent() {
    let cache = tempfile::tempdir().unwrap();
    let options = HelperOptions {
        silent_max: Duration::from_millis(1),
        ..HelperOptions::of_test(cache.path(), 1 << 30)
    };
    let helper = Arc::new(Helper::new(options).unwrap().0);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let refused = runtime.block_on(async {
        let mut held = Vec::new();
        for _ in 0..REQUESTS_MAX {
            held.push(helper.slots.take(RequestPurpose::New).await);
        }
        let change = ForwardedRequest { method: "POST".into(), ..ForwardedRequest::get() };
        let viewer = helper.viewers.begin(1);
        let late = helper.send_on("/a", &change, &viewer).await.err();
        drop(held);
        helper.viewers.leave(1);
        [late, helper.send_on("/a", &change, &viewer).await.err()]
    });
    let [late, left] = refused.map(|refused| refused.expect("it is refused"));
    assert!(late.0 == Trouble::Full && late.1.contains("not sent"), "{late:?}");
    assert!(left.0 == Trouble::Unreachable && left.1.contains("has left"), "{left:?}");
}

#[test]
fn a_range_without_an_end_is_asked_for_in_pieces() {
    let range = |fields: &[(&str, &str)]| {
        let request = ForwardedRequest { fields: Fields::of(fields), ..ForwardedRequest::get() };
        range_of(&request, true).first("range").map(str::to_owned)
    };
    let personal = |range_of_viewer| {
        range(&[("Authorization", "a"), ("Sec-Fetch-Dest", "video"), ("Range", range_of_viewer)])
    };
    for (asked, sent) in [
        ("bytes=0-", "bytes=0-8388607"),
        ("bytes=100-", "bytes=100-8388707"),
        ("bytes=0-9", "bytes=0-9"),
        ("bytes=-9", "bytes=-9"),
        ("bytes=0-9,20-", "bytes=0-9,20-"),
        ("bytes=+1-", "bytes=+1-"),
        ("bytes=18446744073709551615-", "bytes=18446744073709551615-"),
    ] {
        assert_eq!(personal(asked).as_deref(), Some(sent), "{asked}");
    }
    let download = range(&[("Authorization", "a"), ("Range", "bytes=0-")]);
    assert_eq!(download.as_deref(), Some("bytes=0-"), "it would take the part for all of it");
    assert_eq!(range(&[("Range", "bytes=0-")]), None, "others can share the whole response");
}
