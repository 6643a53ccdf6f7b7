//! What fetching ahead was worth lately, for each client and in all.
//!
//! When too large a share of a client's bytes was wasted, nothing more is fetched ahead for that client, except one object now and then, to find out
//! whether that has changed. It is the same for all if that share is too large in all. A client whose bytes are wasted is stopped before it counts
//! for the others: so it takes several to stop all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The share of waste is that of the last minutes: of older bytes, half count after this time, a quarter after twice that.
const HALF_LIFE: Duration = Duration::from_secs(300);

/// A client's share means something once this many objects were taken or wasted. Fewer are one viewer who stopped.
const OUTCOMES_MIN: f64 = 8.0;

/// The share of all means something once it is that of three clients.
const ALL_OUTCOMES_MIN: f64 = 3.0 * OUTCOMES_MIN;

/// A pause ends when so little is left of what it is for, whatever its share: ten minutes after eight objects were wasted.
const OUTCOMES_LEFT_MIN: f64 = 2.0;

/// Older outcomes count a little less than one each.
const ROUNDED_OFF: f64 = 0.5;

/// How often one object is fetched ahead all the same during a pause.
const TRIED_EVERY: Duration = Duration::from_secs(30);

/// How long after a failure of the origin's nothing is fetched ahead: it needs no more requests than viewers make.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// The most objects of one client, and the most bytes in all, of which it isn't known yet whether viewers take them. Twice the bytes that viewers
/// have taken lately come on top of those. One client has an eighth of these bytes.
const OPEN_BY_CLIENT_MAX: usize = 32;
pub(super) const OPEN_BYTES_MIN: u64 = 64 << 20;
pub(super) const CLIENT_SHARE: u64 = 8;

/// The most clients with a tally of their own. Nothing is fetched ahead for further ones.
const CLIENTS_MAX: usize = 4096;

/// What a request counts for that brought nothing to keep: it costs the origin about as much as a small object.
const REQUEST_BYTES: u64 = 64 << 10;

/// All tallies.
#[derive(Default)]
pub(super) struct Tallies {
    /// The share of the bytes, in percent, that may be wasted.
    pub(super) waste_percent_max: u8,
    all: Tally,
    clients: HashMap<IpAddr, Tally>,
    last_failure: Option<(Instant, IpAddr)>,
}

/// The tally of a client, or of all.
#[derive(Default)]
struct Tally {
    open_count: usize,
    open_bytes: u64,
    /// Decided lately, older things for less.
    used_bytes: f64,
    wasted_bytes: f64,
    outcomes: f64,
    at: Option<Instant>,
    is_paused: bool,
    tried_at: Option<Instant>,
    failed_at: Option<Instant>,
}

impl Tally {
    /// Whether too much was wasted. A pause begins with enough outcomes, and does not end because they grow old.
    fn is_paused(&mut self, outcomes_min: f64, waste_percent_max: u8, now: Instant) -> bool {
        let since = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let left = 0.5_f64.powf(since.as_secs_f64() / HALF_LIFE.as_secs_f64());
        for one in [&mut self.used_bytes, &mut self.wasted_bytes, &mut self.outcomes] {
            *one *= left;
        }
        self.at = Some(now);
        let bytes_max =
            f64::from(waste_percent_max) / 100.0 * (self.used_bytes + self.wasted_bytes);
        let needed = if self.is_paused { OUTCOMES_LEFT_MIN } else { outcomes_min - ROUNDED_OFF };
        self.is_paused = self.wasted_bytes > bytes_max && self.outcomes >= needed;
        self.is_paused
    }

    /// Whether an object may be tried, although there is a pause.
    fn may_try(&self, now: Instant) -> bool {
        self.tried_at.is_none_or(|at| now >= at + TRIED_EVERY)
    }

    fn has_failed(&self, now: Instant) -> bool {
        self.failed_at.is_some_and(|at| now < at + AFTER_FAILURE)
    }

    fn add(&mut self, (used, wasted): (u64, u64), is_over: bool) {
        self.used_bytes += used as f64;
        self.wasted_bytes += wasted as f64;
        self.outcomes += f64::from(u8::from(is_over));
    }
}

impl Tallies {
    /// Whether to fetch one more object ahead for `client`.
    pub(super) fn may_go_on(&mut self, client: IpAddr, now: Instant) -> bool {
        if !self.has_room_for(client, now) {
            return false;
        }
        let (percent, all) = (self.waste_percent_max, &mut self.all);
        let own = self.clients.entry(client).or_default();
        let is_paused = all.is_paused(ALL_OUTCOMES_MIN, percent, now);
        let is_own_paused = own.is_paused(OUTCOMES_MIN, percent, now);
        let bytes_max = OPEN_BYTES_MIN + 2 * all.used_bytes as u64;
        if own.open_count >= OPEN_BY_CLIENT_MAX
            || own.open_bytes >= bytes_max / CLIENT_SHARE
            || all.open_bytes >= bytes_max
            || own.has_failed(now)
            || all.has_failed(now)
            || is_own_paused && !own.may_try(now)
            || is_paused && !all.may_try(now)
        {
            return false;
        }
        for (tally, is_paused) in [(own, is_own_paused), (all, is_paused)] {
            if is_paused {
                tally.tried_at = Some(now);
            }
        }
        true
    }

    /// Whether nothing is fetched ahead for any client, because too much was wasted.
    pub(super) fn is_paused(&mut self, now: Instant) -> bool {
        self.all.is_paused(ALL_OUTCOMES_MIN, self.waste_percent_max, now)
    }

    /// An object is open: it isn't known yet what becomes of it.
    pub(super) fn open(&mut self, client: IpAddr) {
        self.clients.entry(client).or_default().open_count += 1;
    }

    /// An object is no longer open.
    pub(super) fn close(&mut self, client: IpAddr) {
        let own = self.clients.entry(client).or_default();
        own.open_count = own.open_count.saturating_sub(1);
    }

    /// Bytes of an open object have arrived.
    pub(super) fn arrive(&mut self, client: IpAddr, bytes: u64) {
        self.clients.entry(client).or_default().open_bytes += bytes;
        self.all.open_bytes += bytes;
    }

    /// It is known what became of these bytes, used and wasted ones, and of all of an object if it `is_over`.
    pub(super) fn decide(
        &mut self,
        client: IpAddr,
        (used, wasted): (u64, u64),
        is_over: bool,
        now: Instant,
    ) {
        for tally in [&mut self.all, self.clients.entry(client).or_default()] {
            tally.open_bytes = tally.open_bytes.saturating_sub(used + wasted);
        }
        self.note(client, (used, wasted), is_over, now);
    }

    /// A request brought nothing to keep, and these bytes.
    pub(super) fn note_lost(&mut self, client: IpAddr, bytes: u64, now: Instant) {
        self.note(client, (0, bytes.max(REQUEST_BYTES)), true, now);
    }

    fn note(&mut self, client: IpAddr, bytes: (u64, u64), is_over: bool, now: Instant) {
        let (percent, own) = (self.waste_percent_max, self.clients.entry(client).or_default());
        if !own.is_paused(OUTCOMES_MIN, percent, now) {
            self.all.is_paused(ALL_OUTCOMES_MIN, percent, now);
            self.all.add(bytes, is_over);
        }
        own.add(bytes, is_over);
        own.is_paused(OUTCOMES_MIN, percent, now);
    }

    /// The origin has failed. What one client announces may be why; that of a second one is not.
    pub(super) fn note_failed(&mut self, client: IpAddr, now: Instant) {
        self.clients.entry(client).or_default().failed_at = Some(now);
        let is_lately = |at: Instant| now < at + AFTER_FAILURE;
        if self.last_failure.is_some_and(|(at, other)| other != client && is_lately(at)) {
            self.all.failed_at = Some(now);
        }
        self.last_failure = Some((now, client));
    }

    /// Whether `client` has a tally, or can have one. Those that say little any more are dropped if there are too many.
    fn has_room_for(&mut self, client: IpAddr, now: Instant) -> bool {
        if self.clients.len() < CLIENTS_MAX || self.clients.contains_key(&client) {
            return true;
        }
        let percent = self.waste_percent_max;
        self.clients.retain(|_, tally| {
            let is_open = tally.open_count > 0 || tally.open_bytes > 0;
            is_open || tally.is_paused(OUTCOMES_MIN, percent, now)
        });
        self.clients.len() < CLIENTS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn client(number: u32) -> IpAddr {
        IpAddr::from((0xc000_0000 + number).to_be_bytes())
    }

    fn tallies() -> Tallies {
        Tallies { waste_percent_max: 20, ..Tallies::default() }
    }

    fn waste(tallies: &mut Tallies, client: IpAddr, count: usize, now: Instant) {
        for _ in 0..count {
            tallies.arrive(client, MIB);
            tallies.decide(client, (0, MIB), true, now);
        }
    }

    /// A pause once ended by itself after 28 seconds, when eight outcomes had become seven and a half.
    #[test]
    fn too_much_waste_of_a_client_ends_it_but_for_one_try_now_and_then() {
        let (mut tallies, start) = (tallies(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        waste(&mut tallies, client(1), 7, start);
        assert!(tallies.may_go_on(client(1), start), "a few say nothing");
        waste(&mut tallies, client(1), 1, start);
        let tries = (0..590).filter(|second| tallies.may_go_on(client(1), at(*second)));
        assert_eq!(tries.collect::<Vec<_>>(), (0..590).step_by(30).collect::<Vec<_>>());
        assert!(tallies.may_go_on(client(2), at(600)) && tallies.may_go_on(client(2), at(600)));
        let tries = (610..620).filter(|second| tallies.may_go_on(client(1), at(*second)));
        assert_eq!(tries.count(), 10, "that was long ago");
        waste(&mut tallies, client(1), 8, at(620));
        assert!(!tallies.may_go_on(client(1), at(621)) || !tallies.may_go_on(client(1), at(621)));
        tallies.waste_percent_max = 100;
        assert!(tallies.may_go_on(client(1), at(621)), "as much as this may be wasted");
        tallies.waste_percent_max = 20;
        waste(&mut tallies, client(1), 1, at(621));
        // It has become worthwhile.
        for _ in 0..40 {
            tallies.decide(client(1), (2 * MIB, 0), true, at(622));
        }
        assert!(tallies.may_go_on(client(1), at(622)) && tallies.may_go_on(client(1), at(622)));
    }

    #[test]
    fn one_client_does_not_stop_all_and_several_do() {
        let (mut tallies, now) = (tallies(), Instant::now());
        waste(&mut tallies, client(1), 1000, now);
        assert!(!tallies.is_paused(now) && tallies.may_go_on(client(2), now));
        waste(&mut tallies, client(2), 100, now);
        assert!(!tallies.is_paused(now));
        waste(&mut tallies, client(3), 100, now);
        assert!(tallies.is_paused(now));
        assert!(tallies.may_go_on(client(4), now), "one is tried");
        assert!(!tallies.may_go_on(client(5), now), "and no other");
        assert!(tallies.is_paused(now + Duration::from_secs(600)));
        assert!(!tallies.is_paused(now + Duration::from_secs(1200)));
    }

    #[test]
    fn failures_stop_all_only_if_they_are_those_of_two_clients() {
        let (mut tallies, now) = (tallies(), Instant::now());
        for _ in 0..10 {
            tallies.note_failed(client(1), now);
        }
        assert!(!tallies.may_go_on(client(1), now) && tallies.may_go_on(client(3), now));
        tallies.note_failed(client(2), now);
        assert!(!tallies.may_go_on(client(3), now));
        assert!(tallies.may_go_on(client(3), now + AFTER_FAILURE));
    }

    #[test]
    fn what_is_open_is_bounded_by_client_and_in_all_and_so_are_the_tallies() {
        let (mut tallies, now) = (tallies(), Instant::now());
        let mut began = 0;
        while tallies.may_go_on(client(1), now) {
            tallies.open(client(1));
            began += 1;
        }
        assert_eq!(began, OPEN_BY_CLIENT_MAX);
        let mut bytes = 0;
        for number in 2..100 {
            let mut of_client = 0;
            while tallies.may_go_on(client(number), now) {
                tallies.arrive(client(number), MIB);
                of_client += MIB;
            }
            assert!(of_client <= OPEN_BYTES_MIN / CLIENT_SHARE);
            bytes += of_client;
        }
        assert_eq!(bytes, OPEN_BYTES_MIN);
        tallies.decide(client(2), (MIB, 0), true, now);
        assert!(tallies.may_go_on(client(50), now));
        waste(&mut tallies, client(200), 8, now);
        for number in 1000..10_000 {
            tallies.may_go_on(client(number), now);
            assert!(tallies.clients.len() <= CLIENTS_MAX);
        }
        assert!(tallies.clients[&client(1)].open_count == OPEN_BY_CLIENT_MAX);
        assert!(tallies.clients[&client(200)].is_paused, "it does not get away with that");
    }
}
