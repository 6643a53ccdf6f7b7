//! A live channel in virtual time: viewers of an edge see no stall that the origin did not have.
//!
//! The rules are those of the helper (`Responses`, lifetimes, what came after a request); the origin, the network and the players are models. Players
//! reload the playlist as RFC 8216 section 6.3.4 says, or ask for each segment by the clock, as those of DASH do, at times too early.

use super::origin_answer::stored;
use super::passing::{Now, WAITS_MAX};
use crate::http_cache::{Fields, LifetimeRule, RequestDirectives};
use crate::store::{Epoch, Responses, StoredResponse, Use};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The length of a segment, and its players' target duration.
const SEGMENT_MS: u64 = 6000;

/// How far behind the newest segment players begin (RFC 8216 section 6.3.3).
const BEHIND: u64 = 3;

/// One viewer in ten asks by the clock.
const BY_CLOCK_ONE_IN: usize = 10;

/// Something goes wrong at the origin once in so long.
const TROUBLE_EVERY_MS: u64 = 600_000;

const CACHE_CONTROLS: [&str; 5] =
    ["", "max-age=1", "no-cache", "max-age=0", "max-age=2, must-revalidate"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Wanted {
    Playlist,
    Segment(u64),
}

/// What the origin sends: a playlist up to this segment, a segment, or a 404.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Playlist(u64),
    Segment(u64),
    Absent,
}

/// A packager that may pause, on a server that may be down.
struct Channel {
    made_at_ms: Vec<u64>,
    short_pauses: Vec<Range<u64>>,
    long_pauses: Vec<Range<u64>>,
    outages: Vec<Range<u64>>,
}

impl Channel {
    fn drawn(draws: &mut fastrand::Rng, length_ms: u64) -> Self {
        let (made_at_ms, short_pauses, long_pauses, outages) = Default::default();
        let mut channel = Self { made_at_ms, short_pauses, long_pauses, outages };
        for number in 1..length_ms / TROUBLE_EVERY_MS {
            let start = number * TROUBLE_EVERY_MS + draws.u64(..TROUBLE_EVERY_MS / 2);
            let (all, lasts) = match number % 3 {
                0 => (&mut channel.long_pauses, 30_000..60_000),
                1 => (&mut channel.outages, 500..5_000),
                _ => (&mut channel.short_pauses, 500..5_000),
            };
            all.push(start..start + draws.u64(lasts));
        }
        for number in 0..length_ms / SEGMENT_MS {
            let due = (number + 1) * SEGMENT_MS;
            let pauses = channel.short_pauses.iter().chain(&channel.long_pauses);
            // A part that was due in a pause is made at its end.
            let pause = pauses.into_iter().find(|pause| pause.contains(&due));
            channel.made_at_ms.push(pause.map_or(due, |pause| pause.end));
        }
        channel
    }

    fn made(&self, at_ms: u64) -> u64 {
        self.made_at_ms.partition_point(|made| *made <= at_ms) as u64
    }

    /// The answer to a request that arrives at this time, if there is one.
    fn answer(&self, wanted: Wanted, at_ms: u64) -> Option<Sent> {
        let is_down = self.outages.iter().any(|outage| outage.contains(&at_ms));
        let made = self.made(at_ms);
        let sent = match wanted {
            Wanted::Playlist => Sent::Playlist(made),
            Wanted::Segment(number) if number < made => Sent::Segment(number),
            Wanted::Segment(_) => Sent::Absent,
        };
        (!is_down).then_some(sent)
    }
}

/// A request to the origin, and who waits for its answer: since when, and for how many answers before.
struct Fetch {
    asked: Epoch,
    sent: Option<Sent>,
    waiting: Vec<(usize, u64, u32)>,
}

#[derive(Default)]
struct Viewer {
    by_clock: bool,
    /// The next segment to get, once it has begun.
    next: Option<u64>,
    /// The segments that its playlist has.
    listed: u64,
    loaded_at_ms: u64,
    /// When it has played all that it has.
    played_at_ms: Option<u64>,
    stalls: Vec<Range<u64>>,
    got: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask(usize, Wanted),
    Answered(Wanted),
}

struct Day {
    draws: fastrand::Rng,
    channel: Channel,
    start: Instant,
    now_ms: u64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    viewers: Vec<Viewer>,
    responses: Responses,
    contents: HashMap<u64, Sent>,
    fetches: HashMap<Wanted, Fetch>,
    fetched: HashMap<Wanted, u64>,
    last_number: u64,
}

impl Day {
    fn new(seed: u64, viewers: usize, length_ms: u64) -> Self {
        let mut draws = fastrand::Rng::with_seed(seed);
        let channel = Channel::drawn(&mut draws, length_ms);
        let (events, responses, contents, fetches, fetched) = Default::default();
        let viewer =
            |number| Viewer { by_clock: number % BY_CLOCK_ONE_IN == 0, ..Viewer::default() };
        let mut day = Self {
            draws,
            channel,
            start: Instant::now(),
            now_ms: 0,
            events,
            viewers: (0..viewers).map(viewer).collect(),
            responses,
            contents,
            fetches,
            fetched,
            last_number: 1 << 63,
        };
        for number in 0..viewers {
            // Not before there is enough to begin with.
            let joins = (BEHIND + 1) * SEGMENT_MS + day.draws.u64(..300_000);
            day.events.push(Reverse((joins, Event::Ask(number, Wanted::Playlist))));
        }
        day
    }

    fn run(&mut self, length_ms: u64) {
        while let Some(Reverse((at_ms, event))) = self.events.pop() {
            if at_ms >= length_ms {
                return;
            }
            self.now_ms = at_ms;
            match event {
                Event::Ask(viewer, wanted) => self.answer((viewer, at_ms, 0), wanted),
                Event::Answered(wanted) => self.answered(wanted),
            }
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    /// Answers a viewer with what is stored, or once the origin has answered, as `Helper::respond` does.
    fn answer(&mut self, (viewer, since_ms, waits): (usize, u64, u32), wanted: Wanted) {
        let known = self.responses.find(&path_of(wanted), &Fields::default());
        if let Some(known) = known.as_ref().filter(|known| self.is_usable(known, since_ms)) {
            return self.take(viewer, wanted, Some(self.contents[&known.number]));
        }
        assert!(waits < WAITS_MAX, "what came after the request was not used");
        if let Some(fetch) = self.fetches.get_mut(&wanted) {
            return fetch.waiting.push((viewer, since_ms, waits + 1));
        }
        let way_ms = self.draws.u64(10..200);
        let sent = self.channel.answer(wanted, self.now_ms + way_ms);
        let asked = self.responses.epoch(&path_of(wanted));
        *self.fetched.entry(wanted).or_default() += 1;
        self.fetches
            .insert(wanted, Fetch { asked, sent, waiting: vec![(viewer, since_ms, waits + 1)] });
        self.events.push(Reverse((self.now_ms + 2 * way_ms, Event::Answered(wanted))));
    }

    fn is_usable(&self, known: &StoredResponse, since_ms: u64) -> bool {
        let (said, now) = (RequestDirectives::default(), self.at(self.now_ms));
        known.use_for(&said, now) == Use::Now || known.came_after(self.at(since_ms), &said, now)
    }

    fn answered(&mut self, wanted: Wanted) {
        let Fetch { asked, sent, waiting } = self.fetches.remove(&wanted).expect("it is under way");
        if let Some(sent) = sent {
            self.keep(wanted, sent, asked);
            return waiting.into_iter().for_each(|one| self.answer(one, wanted));
        }
        let known = self.responses.find(&path_of(wanted), &Fields::default());
        let may_be_stale = |known: &Arc<StoredResponse>| {
            known.stale_for(self.at(self.now_ms)) < known.lifetime.if_unreachable
        };
        let stale = known.filter(may_be_stale).map(|known| self.contents[&known.number]);
        waiting.into_iter().for_each(|(viewer, ..)| self.take(viewer, wanted, stale));
    }

    fn keep(&mut self, wanted: Wanted, sent: Sent, asked: Epoch) {
        let status = if sent == Sent::Absent { 404 } else { 200 };
        let part = (self.now_ms / TROUBLE_EVERY_MS) as usize;
        let said = match sent {
            Sent::Playlist(_) => CACHE_CONTROLS[part % CACHE_CONTROLS.len()],
            Sent::Segment(_) if part % 2 == 0 => "max-age=3600",
            _ => "",
        };
        let mut fields = Fields::default();
        if !said.is_empty() {
            fields.push("Cache-Control", said);
        }
        self.last_number += 1;
        let (path, number) = (path_of(wanted), self.last_number);
        let now = Now { at: self.at(self.now_ms), unix_seconds: 1_700_000_000 };
        let new = stored(
            (&path, number),
            (status, &fields),
            &Fields::default(),
            (now, LifetimeRule::default()),
        );
        self.contents.insert(number, sent);
        for gone in self.responses.put(new, &Fields::default(), asked) {
            self.contents.remove(&gone);
        }
    }

    /// A viewer gets an answer, or an error, and asks for the next thing.
    fn take(&mut self, number: usize, wanted: Wanted, sent: Option<Sent>) {
        let (now, viewer) = (self.now_ms, &mut self.viewers[number]);
        let (at, next) = match sent {
            None => (now + 1000, wanted),
            Some(Sent::Absent) => (now + 500, wanted),
            Some(Sent::Playlist(listed)) => {
                let is_changed = listed > viewer.listed;
                (viewer.listed, viewer.loaded_at_ms) = (viewer.listed.max(listed), now);
                let next = *viewer.next.get_or_insert(viewer.listed.saturating_sub(BEHIND));
                match is_changed && next < viewer.listed {
                    true => (now, Wanted::Segment(next)),
                    false => (now + SEGMENT_MS / 2, Wanted::Playlist),
                }
            }
            Some(Sent::Segment(got)) => {
                let played = viewer.played_at_ms.unwrap_or(now);
                if now > played {
                    viewer.stalls.push(played..now);
                }
                viewer.played_at_ms = Some(played.max(now) + SEGMENT_MS);
                viewer.got += 1;
                let next = got + 1;
                viewer.next = Some(next);
                match (next < viewer.listed, viewer.by_clock) {
                    (true, _) => (now, Wanted::Segment(next)),
                    // Some of them too early.
                    (false, true) => {
                        let due = (next + 1) * SEGMENT_MS;
                        (now.max(due - 300 + self.draws.u64(..600)), Wanted::Segment(next))
                    }
                    (false, false) => (now.max(viewer.loaded_at_ms + SEGMENT_MS), Wanted::Playlist),
                }
            }
        };
        self.events.push(Reverse((at, Event::Ask(number, next))));
    }
}

fn path_of(wanted: Wanted) -> String {
    match wanted {
        Wanted::Playlist => "/live.m3u8".to_owned(),
        Wanted::Segment(number) => format!("/{number}.m4s"),
    }
}

/// Plays the channel for so long, and checks each stall against what the origin had.
fn play(viewers: usize, hours: u64) {
    let seed = std::env::var("FULLBORE_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    eprintln!("FULLBORE_SEED={seed}");
    let length_ms = hours * 3_600_000;
    let mut day = Day::new(seed, viewers, length_ms);
    day.run(length_ms);
    let pauses = &day.channel.long_pauses;
    let mut stalls = 0;
    for (number, viewer) in day.viewers.iter().enumerate() {
        for stall in &viewer.stalls {
            // Players have up to three segments, and the edge is a second behind at most.
            let is_origins = |pause: &&Range<u64>| {
                pause.start < stall.end && stall.start < pause.end + 2 * SEGMENT_MS
            };
            let pause = pauses.iter().find(is_origins);
            let of_origin = pause.map(|pause| pause.end - pause.start);
            let lasted = stall.end - stall.start;
            assert!(of_origin.is_some_and(|paused| lasted <= paused), "{number}: {stall:?}");
        }
        stalls += viewer.stalls.len();
        assert!(viewer.got + 200 > length_ms / SEGMENT_MS, "{number} got {}", viewer.got);
    }
    assert!(
        pauses.is_empty() || stalls >= viewers,
        "a pause of half a minute is a stall: {stalls}"
    );
    let playlists = day.fetched[&Wanted::Playlist];
    eprintln!("{stalls} stalls of the origin's; {playlists} requests for the playlist");
    // An answer takes 20 ms at least, and counts for all who came meanwhile.
    let of_segment =
        |(wanted, count): (&Wanted, &u64)| (*wanted != Wanted::Playlist).then_some(*count);
    let most = day.fetched.iter().filter_map(of_segment).max();
    assert!(most.is_some_and(|most| most < 300), "{most:?} requests for a segment");
}

#[test]
fn viewers_of_a_live_channel_see_no_stall_that_the_origin_did_not_have() {
    play(100, 2);
}

#[test]
#[ignore = "a day of a thousand viewers takes minutes: ./run nightly"]
fn a_thousand_viewers_of_a_day_of_live_see_no_stall_that_the_origin_did_not_have() {
    play(1000, 24);
}
