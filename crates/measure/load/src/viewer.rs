//! One viewer's life: it connects, sends requests, takes the responses, and reconnects after any failure.

use crate::connection::{Connection, ConnectionOptions};
use crate::course::Course;
use crate::crew::{Crew, Watch};
use crate::failure::Failure;
use crate::film::{Ask, Film};
use crate::head::Head;
use crate::options::{Pace, Pattern};
use crate::schedule::{PlayingClock, ReadingClock};
use crate::tally::add;
use crate::trouble::Trouble;
use crate::verify::Check;
use reactor::{sleep, sleep_until, yield_now};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The pause after a failure, so that a server that refuses all connections is not contacted without pause.
const REST: Duration = Duration::from_millis(200);

/// A slow reader's socket buffer: small, so that the server's side fills up and the server has to wait.
const SLOW_RECEIVE_BUFFER_BYTES: usize = 32 << 10;

/// How much a viewer reads before the others of its thread get their turn.
const GULP_BYTES_MAX: u64 = 1 << 20;

/// How long to wait after a handshake, if nothing else follows, for the ticket that the next one needs.
const TICKET_PATIENCE: Duration = Duration::from_millis(500);

/// One viewer.
pub(crate) struct Viewer {
    crew: Rc<Crew>,
    watch: Rc<Watch>,
    course: Course,
    clock: Option<PlayingClock>,
    connection: Option<Open>,
    /// The last awaited ticket has arrived, or none has been awaited yet.
    tickets_come: bool,
}

/// An open connection to one of the run's servers, counted while it is open.
struct Open {
    connection: Connection,
    endpoint: usize,
    crew: Rc<Crew>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let open = &self.crew.counters.connections_open;
        open.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// How a response ended.
struct Fetched {
    /// Bytes of the body that arrived.
    body_bytes: u64,
    /// The connection can be used for the next request.
    is_reusable: bool,
    /// The viewer aborted it.
    is_aborted: bool,
}

impl Viewer {
    pub(crate) fn new(crew: Rc<Crew>, watch: Rc<Watch>, number: usize) -> Self {
        let course = Course::new(number, crew.shared.options.seed);
        Self { crew, watch, course, clock: None, connection: None, tickets_come: true }
    }

    /// Lives from `start` to the end of the run, when its task is dropped.
    pub(crate) async fn live(mut self, start: Instant) {
        sleep_until(start).await;
        let options = &self.crew.shared.options;
        if let Pace::Viewers { bits_per_second } = options.pace {
            self.clock = Some(PlayingClock::new(start, bits_per_second));
        }
        match options.pattern {
            Pattern::Handshakes => self.shake_hands().await,
            Pattern::Idle => self.idle().await,
            _ => self.watch().await,
        }
    }

    /// Waits until the next request is due. Returns the time at which it was due.
    async fn due(&mut self) -> Instant {
        let due = match (&self.clock, &self.crew.arrivals) {
            (Some(clock), _) => clock.due(),
            (None, Some(arrivals)) => arrivals.take(),
            (None, None) => return Instant::now(),
        };
        sleep_until(due).await;
        due
    }

    async fn watch(&mut self) {
        if self.crew.arrivals.is_some() {
            self.connect_ahead().await;
        }
        loop {
            let due = self.due().await;
            let crew = Rc::clone(&self.crew);
            self.watch.asks(&crew, due);
            let options = &crew.shared.options;
            let (title, ask) =
                self.course.next(&crew.shared.films, &crew.shared.chooser, options.pattern);
            let fetched = self.fetch(title, &ask, due).await;
            crew.settled.set(crew.settled.get() + 1);
            match fetched {
                Ok(fetched) => self.after(&fetched),
                Err(trouble) => self.recover(title, &ask, trouble).await,
            }
            yield_now().await;
        }
    }

    /// Connects the open loop's viewers before the first arrival.
    async fn connect_ahead(&mut self) {
        let crew = Rc::clone(&self.crew);
        let (title, ask) =
            self.course.next(&crew.shared.films, &crew.shared.chooser, crew.shared.options.pattern);
        self.course.leave();
        if let Err(trouble) = self.connect(crew.shared.films[title].endpoint).await {
            self.recover(title, &ask, trouble).await;
        }
    }

    fn after(&mut self, fetched: &Fetched) {
        if let Some(clock) = &mut self.clock {
            clock.asked(fetched.body_bytes);
        }
        if !fetched.is_reusable {
            self.connection = None;
        }
        let options = &self.crew.shared.options;
        if fetched.is_aborted {
            self.course.leave();
        } else if self.course.random.f64() < options.seek_share {
            self.course.seek(&self.crew.shared.films, options.pattern);
        }
    }

    async fn recover(&mut self, title: usize, ask: &Ask, trouble: Trouble) {
        self.connection = None;
        self.report(title, ask, &trouble);
        sleep(REST).await;
    }

    fn report(&self, title: usize, ask: &Ask, trouble: &Trouble) {
        let shared = &self.crew.shared;
        let url = &shared.films[title].url;
        let example = || trouble.describe(url, &ask.path, ask.range.as_ref());
        self.crew.counters.error(trouble.as_str(), example);
        shared.failed();
    }

    /// Ensures that there is a connection to the title's server.
    async fn connect(&mut self, endpoint: usize) -> Result<&mut Connection, Trouble> {
        if self.connection.as_ref().is_none_or(|open| open.endpoint != endpoint) {
            self.connection = None;
            self.connection = Some(Open::new(&self.crew, endpoint).await?);
        }
        Ok(&mut self.connection.as_mut().expect("it was just opened").connection)
    }

    /// Sends a request and takes the response.
    async fn fetch(&mut self, title: usize, ask: &Ask, due: Instant) -> Result<Fetched, Trouble> {
        let (crew, watch) = (Rc::clone(&self.crew), Rc::clone(&self.watch));
        let film = &crew.shared.films[title];
        let has_schedule = self.clock.is_some() || crew.arrivals.is_some();
        let leaves = self.course.random.f64() < crew.shared.options.abort_share;
        let leaves_after = self.course.random.f64();
        let connection = self.connect(film.endpoint).await?;
        // Without a schedule, a request is sent when there is a connection.
        let asked = if has_schedule { due } else { Instant::now() };
        let head = crew.ask(connection, film, ask, asked).await?;
        let leave_bytes =
            head.body_bytes.filter(|_| leaves).map(|bytes| (bytes as f64 * leaves_after) as u64);
        let is_aborted = leave_bytes.is_some();
        let check = crew.check(film, ask, is_aborted)?;
        let mut taking =
            Taking { crew: &crew, watch: &watch, check, chunk: Vec::new(), received: 0 };
        taking.take(connection, leave_bytes).await?;
        let Taking { check, received, .. } = taking;
        add(if is_aborted { &crew.counters.aborted } else { &crew.counters.requests }, 1);
        if let Some(check) = check {
            crew.shared.verifier.end(check, ask.clone())?;
            add(&crew.counters.verified, 1);
        }
        Ok(Fetched { body_bytes: received, is_reusable: !is_aborted && !head.closes, is_aborted })
    }

    /// Only does handshakes. Each ends with its connection.
    async fn shake_hands(&mut self) {
        loop {
            let due = self.due().await;
            let crew = Rc::clone(&self.crew);
            let (title, ask) =
                self.course.next(&crew.shared.films, &crew.shared.chooser, Pattern::Handshakes);
            let connected = self.connect(crew.shared.films[title].endpoint).await.map(|_| ());
            crew.settled.set(crew.settled.get() + 1);
            match connected {
                Ok(()) => {
                    crew.answered(due);
                    crew.shared.succeeded();
                    if let Err(trouble) = self.part().await {
                        self.recover(title, &ask, trouble).await;
                    }
                }
                Err(trouble) => self.recover(title, &ask, trouble).await,
            }
            yield_now().await;
        }
    }

    /// Ends a connection that was used only for a handshake.
    async fn part(&mut self) -> Result<(), Trouble> {
        let Some(open) = &mut self.connection else { return Ok(()) };
        if self.crew.shared.options.resume && self.tickets_come {
            // Do not wait again for a server that once sent no ticket: otherwise the measurement would mostly show the wait.
            self.tickets_come = open.connection.wait_for_ticket(TICKET_PATIENCE).await?;
        }
        self.connection = None;
        Ok(())
    }

    /// Requests one byte and holds the connection. A connection that ends anyway is an error, and is opened again.
    async fn idle(&mut self) {
        loop {
            let crew = Rc::clone(&self.crew);
            let (title, ask) =
                self.course.next(&crew.shared.films, &crew.shared.chooser, Pattern::Idle);
            let held = match self.fetch(title, &ask, Instant::now()).await {
                Ok(_) => self.hold().await,
                Err(trouble) => trouble,
            };
            self.recover(title, &ask, held).await;
        }
    }

    /// Waits for the end of an idle connection.
    async fn hold(&mut self) -> Trouble {
        loop {
            let Some(open) = &mut self.connection else { return Failure::ClosedEarly.into() };
            match open.connection.head().await {
                // The time limit has passed, which is normal for an idle connection.
                Err(Failure::Timeout { .. }) => {}
                Err(failure) => return failure.into(),
                Ok(_) => return Failure::BadResponse("it answers no request").into(),
            }
        }
    }
}

impl Crew {
    /// Sends a request and waits for a correct head.
    async fn ask(
        &self,
        connection: &mut Connection,
        film: &Film,
        ask: &Ask,
        asked: Instant,
    ) -> Result<Head, Trouble> {
        connection.send_request(ask.request(&film.url.authority()).as_bytes()).await?;
        let head = connection.head().await?;
        self.answered(asked);
        accept(&head, ask)?;
        self.shared.succeeded();
        if let (Some(bytes), true) = (whole_bytes(&head), film.segments.is_empty()) {
            film.learn(bytes);
        }
        Ok(head)
    }

    /// Begins a comparison if it is this response's turn.
    fn check(&self, film: &Film, ask: &Ask, leaves: bool) -> Result<Option<Check>, Trouble> {
        let number = self.comparable.get();
        if leaves || !self.shared.verifier.is_due(number) {
            self.comparable.set(number + u64::from(!leaves));
            return Ok(None);
        }
        self.comparable.set(number + 1);
        self.shared.verifier.begin(film, ask).map(Some)
    }
}

impl Open {
    async fn new(crew: &Rc<Crew>, endpoint: usize) -> Result<Self, Trouble> {
        let options = &crew.shared.options;
        let how = ConnectionOptions {
            patience: options.patience,
            receive_buffer_bytes: options
                .read_rate_bits_per_second
                .map(|_| SLOW_RECEIVE_BUFFER_BYTES),
            read_bytes_max: options.read_bytes_max,
            resume: options.resume,
            ..ConnectionOptions::default()
        };
        let connection = Connection::open(&crew.shared.endpoints[endpoint], &how).await?;
        let counters = &crew.counters;
        add(&counters.connections_opened, 1);
        add(&counters.connections_open, 1);
        if crew.shared.endpoints[endpoint].tls.is_some() {
            add(&counters.handshakes, 1);
            add(&counters.resumed, connection.is_resumed().into());
        }
        Ok(Self { connection, endpoint, crew: Rc::clone(crew) })
    }
}

/// The state of taking a body.
struct Taking<'a> {
    crew: &'a Crew,
    watch: &'a Watch,
    check: Option<Check>,
    /// For a body that is compared: the last piece that arrived.
    chunk: Vec<u8>,
    received: u64,
}

impl Taking<'_> {
    /// Takes the body until it is over, or until `leave_bytes` have arrived.
    async fn take(
        &mut self,
        connection: &mut Connection,
        leave_bytes: Option<u64>,
    ) -> Result<(), Trouble> {
        let began = Instant::now();
        let rate = self.crew.shared.options.read_rate_bits_per_second.map(ReadingClock::new);
        let sip_bytes = rate.map_or(GULP_BYTES_MAX, |rate| rate.sip_bytes());
        loop {
            let left = leave_bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(self.received));
            if left == 0 {
                return Ok(());
            }
            let bytes = self.some(connection, sip_bytes.min(left)).await?;
            if bytes == 0 {
                return Ok(());
            }
            self.received += bytes;
            self.watch.received(bytes);
            add(&self.crew.counters.body_bytes, bytes);
            match rate {
                Some(rate) => sleep_until(began + rate.rest(self.received)).await,
                // Otherwise a server that is always ahead would keep the other viewers waiting. Discarding yields by itself.
                None if self.check.is_some() => yield_now().await,
                None => {}
            }
        }
    }

    async fn some(&mut self, connection: &mut Connection, bytes_max: u64) -> Result<u64, Trouble> {
        let Some(check) = &mut self.check else {
            return Ok(connection.discard(bytes_max).await?);
        };
        self.chunk.clear();
        let bytes = connection.body(&mut self.chunk).await?;
        check.update(&self.chunk)?;
        Ok(bytes as u64)
    }
}

/// Checks that the response matches the request.
pub(crate) fn accept(head: &Head, ask: &Ask) -> Result<(), Trouble> {
    let expected = if ask.range.is_some() { 206 } else { 200 };
    if head.status != expected {
        return Err(Trouble::Status { status: head.status, expected });
    }
    if let Some(asked) = &ask.range {
        let came = head.content_range.as_ref().map(|(range, _)| range.clone());
        let end = match &head.content_range {
            Some((_, Some(whole))) => asked.end.min(*whole),
            _ => asked.end,
        };
        if came != Some(asked.start..end)
            || head.body_bytes.is_some_and(|bytes| bytes != end - asked.start)
        {
            return Err(Trouble::OtherRange { asked: asked.clone(), came });
        }
    }
    Ok(())
}

/// The size of the whole file.
fn whole_bytes(head: &Head) -> Option<u64> {
    match &head.content_range {
        Some((_, whole)) => *whole,
        None => head.body_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    fn head(
        status: u16,
        body_bytes: u64,
        content_range: Option<(Range<u64>, Option<u64>)>,
    ) -> Head {
        Head {
            status,
            body_bytes: Some(body_bytes),
            is_chunked: false,
            content_range,
            retry_after: None,
            closes: false,
        }
    }

    fn judge(range: Option<Range<u64>>, head: &Head) -> &'static str {
        let ask = Ask { path: "/".into(), range };
        accept(head, &ask).map_or_else(|trouble| trouble.as_str(), |()| "accepted")
    }

    #[test]
    fn only_what_was_asked_for_is_accepted() {
        let range = |range: Range<u64>, whole| Some((range, Some(whole)));
        assert_eq!(judge(None, &head(200, 100, None)), "accepted");
        assert_eq!(judge(None, &head(404, 100, None)), "status");
        assert_eq!(judge(Some(0..10), &head(200, 100, None)), "status");
        assert_eq!(judge(Some(0..10), &head(206, 10, range(0..10, 100))), "accepted");
        assert_eq!(judge(Some(90..120), &head(206, 10, range(90..100, 100))), "accepted");
        assert_eq!(judge(Some(0..10), &head(206, 10, range(10..20, 100))), "other_range");
        assert_eq!(judge(Some(0..10), &head(206, 9, range(0..9, 100))), "other_range");
        assert_eq!(judge(Some(0..10), &head(206, 9, range(0..10, 100))), "other_range");
        assert_eq!(judge(Some(0..10), &head(206, 10, None)), "other_range");
    }
}
