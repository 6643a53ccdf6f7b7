//! Fair queueing for the helper: which questions it works on now, and the order of the others.
//!
//! An origin answers a few questions at a time. Each client has a queue, and the queues are served round-robin, so a flood from one address
//! delays only that address. A question leaves its queue when its last viewer gives up.
//!
//! Invariants:
//! - Each question exists once, waiting or under way, however many clients ask it. It waits in the queue of every client with room for it, so a
//!   client with a long queue that asks first never makes it wait longer.
//! - Queues are bounded in bytes, each and in total. When the total is reached, the longest queue loses entries to a shorter one.
//! - `order` holds exactly the clients whose queue isn't empty.
//!
//! No I/O and no clock.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;

/// Cost of a waiting question in addition to its text: roughly its memory, including the waiting viewer's.
const QUESTION_BYTES: usize = 1 << 10;

/// The bounds of [`FairQueue`].
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimits {
    /// Most questions under way at the same time.
    pub(super) under_way_max: usize,
    /// Most of them per client.
    pub(super) under_way_by_client_max: usize,
    /// Most bytes waiting in total: [`QUESTION_BYTES`] and the text of each question.
    pub(super) waiting_bytes_max: usize,
    /// Most bytes waiting per client.
    pub(super) waiting_bytes_by_client_max: usize,
}

/// Why a question is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueFull {
    /// The client's queue is full.
    ClientFull,
    /// The total is reached, and no queue is longer than the client's.
    Full,
    /// The origin holds as many requests as it may, of this client or of all.
    Held,
}

struct Question {
    bytes: usize,
    /// The client that it is charged to while it is under way.
    under_way: Option<IpAddr>,
    /// The clients in whose queues it waits.
    lines: Vec<IpAddr>,
}

struct Line<K> {
    waiting: VecDeque<K>,
    waiting_bytes: usize,
    under_way: usize,
}

impl<K> Default for Line<K> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), waiting_bytes: 0, under_way: 0 }
    }
}

/// The questions, by their keys.
pub(super) struct FairQueue<K> {
    limits: QueueLimits,
    questions: HashMap<K, Question>,
    lines: HashMap<IpAddr, Line<K>>,
    order: VecDeque<IpAddr>,
    waiting_bytes: usize,
    under_way: usize,
}

impl<K: Clone + Eq + Hash> FairQueue<K> {
    pub(super) fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            questions: HashMap::new(),
            lines: HashMap::new(),
            order: VecDeque::new(),
            waiting_bytes: 0,
            under_way: 0,
        }
    }

    /// The client that a question is charged to, if it is being worked on.
    pub(super) fn charged(&self, key: &K) -> Option<IpAddr> {
        self.questions.get(key)?.under_way
    }

    /// Number of questions waiting.
    pub(super) fn waiting(&self) -> usize {
        self.questions.len() - self.under_way
    }

    /// Whether more questions wait than can be under way, so that a new one waits for more than one answer.
    pub(super) fn is_long(&self) -> bool {
        self.waiting() >= self.limits.under_way_max
    }

    /// Queues a question of `client` with a text of `text_bytes` until [`Self::next`] returns it, unless it is under way already. Returns the
    /// questions of other clients that it displaces.
    ///
    /// # Errors
    /// If there is no room.
    pub(super) fn ask(
        &mut self,
        key: &K,
        text_bytes: usize,
        client: IpAddr,
    ) -> Result<Vec<K>, QueueFull> {
        // It is sent once, as it was asked first.
        let known_bytes = self.questions.get(key).map(|known| known.bytes);
        let bytes = known_bytes.unwrap_or(QUESTION_BYTES + text_bytes);
        let own = self.lines.get(&client).map_or(0, |line| line.waiting_bytes);
        let fits = own + bytes <= self.limits.waiting_bytes_by_client_max;
        if let Some(known) = self.questions.get_mut(key) {
            if fits && known.under_way.is_none() && !known.lines.contains(&client) {
                known.lines.push(client);
                self.join(key.clone(), bytes, client);
            }
            return Ok(Vec::new());
        }
        if !fits {
            return Err(QueueFull::ClientFull);
        }
        let mut displaced = Vec::new();
        while self.waiting_bytes + bytes > self.limits.waiting_bytes_max {
            let longest = self.lines.values().max_by_key(|line| line.waiting_bytes);
            let last = longest.filter(|line| line.waiting_bytes > own + bytes);
            let last = last.and_then(|line| line.waiting.back().cloned()).ok_or(QueueFull::Full)?;
            self.remove(&last);
            displaced.push(last);
        }
        let question = Question { bytes, under_way: None, lines: vec![client] };
        self.questions.insert(key.clone(), question);
        self.waiting_bytes += bytes;
        self.join(key.clone(), bytes, client);
        Ok(displaced)
    }

    fn join(&mut self, key: K, bytes: usize, client: IpAddr) {
        let line = self.lines.entry(client).or_default();
        if line.waiting.is_empty() {
            self.order.push_back(client);
        }
        line.waiting.push_back(key);
        line.waiting_bytes += bytes;
    }

    /// The next question, if another may be under way; it counts as under way from now on.
    pub(super) fn next(&mut self) -> Option<K> {
        if self.under_way >= self.limits.under_way_max {
            return None;
        }
        let by_client_max = self.limits.under_way_by_client_max;
        let lines = &self.lines;
        let is_free = |client: &IpAddr| lines[client].under_way < by_client_max;
        let place = self.order.iter().position(is_free)?;
        let client = self.order.remove(place)?;
        // Behind the others; taking the question out of its line removes it from there if it was the last one.
        self.order.push_back(client);
        let key = self.lines.get(&client)?.waiting.front().cloned()?;
        self.leave_lines(&key);
        self.questions.get_mut(&key)?.under_way = Some(client);
        self.lines.entry(client).or_default().under_way += 1;
        self.under_way += 1;
        Some(key)
    }

    /// The question has been answered.
    pub(super) fn finish(&mut self, key: &K) {
        self.remove(key);
    }

    /// The question's last viewer gave up. Returns whether it was dropped, which it is unless it is under way.
    pub(super) fn withdraw(&mut self, key: &K) -> bool {
        let is_waiting = self.questions.get(key).is_some_and(|known| known.under_way.is_none());
        if is_waiting {
            self.remove(key);
        }
        is_waiting
    }

    /// Drops all questions.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.limits);
    }

    fn remove(&mut self, key: &K) {
        self.leave_lines(key);
        let Some(question) = self.questions.remove(key) else { return };
        let Some(client) = question.under_way else { return };
        self.under_way -= 1;
        if let Some(line) = self.lines.get_mut(&client) {
            line.under_way -= 1;
            self.forget_if_idle(client);
        }
    }

    /// Removes a waiting question from every queue.
    fn leave_lines(&mut self, key: &K) {
        let Some(question) = self.questions.get_mut(key) else { return };
        if question.under_way.is_none() && !question.lines.is_empty() {
            self.waiting_bytes -= question.bytes;
        }
        let bytes = question.bytes;
        for client in std::mem::take(&mut question.lines) {
            let Some(line) = self.lines.get_mut(&client) else { continue };
            let Some(place) = line.waiting.iter().position(|waiting| waiting == key) else {
                continue;
            };
            line.waiting.remove(place);
            line.waiting_bytes -= bytes;
            if line.waiting.is_empty() {
                self.order.retain(|other| *other != client);
                self.forget_if_idle(client);
            }
        }
    }

    fn forget_if_idle(&mut self, client: IpAddr) {
        let is_idle = |line: &Line<K>| line.waiting.is_empty() && line.under_way == 0;
        if self.lines.get(&client).is_some_and(is_idle) {
            self.lines.remove(&client);
        }
    }
}

#[cfg(test)]
#[path = "fair_queue_tests.rs"]
mod tests;
