//! Objects to fetch ahead: a short line for each client, and the lines take turns.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The most that wait, in all and for one client. A player announces one object at a time; the rest is for viewers who share an address.
const WAITING_MAX: usize = 256;
const WAITING_BY_CLIENT_MAX: usize = 16;

/// What has waited for longer is dropped: its player has requested it by now.
const WAITING_FOR: Duration = Duration::from_secs(10);

/// An object that a viewer is expected to request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedAhead {
    pub(super) path: String,
    pub(super) bytes: Range<u64>,
    pub(super) source: AheadSource,
}

/// How an object came to be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fetcher) enum AheadSource {
    /// A player has announced it.
    Cmcd,
    /// It follows in a playlist.
    Playlist,
    /// It follows by the number in its name.
    Number,
}

impl AheadSource {
    /// In words, for operators.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Cmcd => "cmcd",
            Self::Playlist => "playlist",
            Self::Number => "number",
        }
    }
}

/// The lines.
#[derive(Default)]
pub(super) struct AheadQueue {
    lines: HashMap<IpAddr, VecDeque<(Instant, WantedAhead)>>,
    /// Clients with lines, the next one first.
    turns: VecDeque<IpAddr>,
    count: usize,
}

impl AheadQueue {
    /// Adds an object for `client`, unless it waits already. A client's newest ones displace its oldest; what finds no room in all is dropped.
    pub(super) fn add(&mut self, client: IpAddr, wanted: WantedAhead, now: Instant) {
        let waits = |(_, other): &(Instant, WantedAhead)| *other == wanted;
        if self.lines.values().flatten().any(waits) {
            return;
        }
        let line_count = self.lines.get(&client).map_or(0, VecDeque::len);
        if self.count >= WAITING_MAX && line_count < WAITING_BY_CLIENT_MAX {
            return;
        }
        let line = self.lines.entry(client).or_default();
        if line.is_empty() {
            self.turns.push_back(client);
        }
        line.push_back((now, wanted));
        match line.len() > WAITING_BY_CLIENT_MAX {
            true => drop(line.pop_front()),
            false => self.count += 1,
        }
    }

    /// The next object, and the client that it is for.
    pub(super) fn next(&mut self, now: Instant) -> Option<(IpAddr, WantedAhead)> {
        loop {
            let client = self.turns.pop_front()?;
            let line = self.lines.get_mut(&client)?;
            let next = line.pop_front();
            self.count -= usize::from(next.is_some());
            match line.is_empty() {
                true => drop(self.lines.remove(&client)),
                false => self.turns.push_back(client),
            }
            let (since, wanted) = next?;
            if now.saturating_duration_since(since) <= WAITING_FOR {
                return Some((client, wanted));
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn wanted(number: usize) -> WantedAhead {
        let path = format!("/{number}");
        WantedAhead { path, bytes: 0..1, source: AheadSource::Cmcd }
    }

    #[test]
    fn clients_take_turns_and_what_waits_is_bounded_by_client_and_in_all() {
        let (mut queue, now) = (AheadQueue::default(), Instant::now());
        for number in 0..WAITING_BY_CLIENT_MAX + 2 {
            queue.add(client(1), wanted(number), now);
            queue.add(client(1), wanted(number), now);
        }
        queue.add(client(2), wanted(1000), now);
        assert_eq!(queue.count, WAITING_BY_CLIENT_MAX + 1);
        let order: Vec<_> =
            std::iter::from_fn(|| queue.next(now)).map(|(_, one)| one.path).collect();
        assert_eq!(order[..3], ["/2", "/1000", "/3"], "its oldest ones are gone");
        assert_eq!(order.len(), WAITING_BY_CLIENT_MAX + 1);
        assert!(queue.is_empty() && queue.lines.is_empty() && queue.turns.is_empty());
        for number in 0..1000 {
            queue.add(client((number % 100) as u8), wanted(number), now);
            assert!(queue.count <= WAITING_MAX);
        }
        assert_eq!(std::iter::from_fn(|| queue.next(now)).count(), WAITING_MAX);
    }

    #[test]
    fn what_has_waited_for_too_long_is_dropped() {
        let (mut queue, start) = (AheadQueue::default(), Instant::now());
        queue.add(client(1), wanted(1), start);
        let later = start + WAITING_FOR + Duration::from_secs(1);
        queue.add(client(1), wanted(2), later);
        assert_eq!(queue.next(later).map(|(_, one)| one), Some(wanted(2)));
        assert!(queue.next(later).is_none() && queue.is_empty());
    }
}
