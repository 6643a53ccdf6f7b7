//! The stream of one connection, with its deadlines and its framing.
//!
//! While a handler runs there is no deadline: handlers limit their own time. Otherwise the connection ends [`RequestBounds::idle_max`]
//! after the last response made progress, plus the time that the peer has earned by receiving bytes since. Sending earns nothing, so
//! neither a trickle of header lines nor of HTTP/2 frames keeps a connection open. A head that has begun has a deadline of its own, and so
//! does the first head of a connection.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::activity::Activity;
use crate::bounds::RequestBounds;
use crate::framing::{Framing, Phase};
use crate::refused::{ListenerRefusal, RefusedCounts};

/// How long a peer has to read a refusal, and how long its remaining bytes are discarded. Closing with unread bytes resets the
/// connection, which can destroy the response on its way (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(2);

/// The number of bytes to discard per read.
const DISCARDED_BYTES: usize = 8 << 10;

type Ended = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection of a listener. Reads end when its time is over, or when it has to make room for another one.
pub(crate) struct Guarded<S> {
    stream: S,
    /// `None` for HTTP/2, which frames requests itself.
    framing: Option<Framing>,
    activity: Arc<Activity>,
    bounds: RequestBounds,
    counts: Arc<RefusedCounts>,
    ended: Ended,
    alarm: Pin<Box<Sleep>>,
    /// When the head that is arriving began. Set from the start, because the first head has a deadline, too.
    head_began: Option<Instant>,
    /// The latest end, regardless of progress.
    last: Option<Instant>,
    /// The time that the peer has earned by receiving bytes since `earned_since`.
    earned: Duration,
    earned_since: Instant,
    /// Until when incoming bytes are discarded, once the connection is being closed.
    lingers: Option<Instant>,
}

impl<S> Guarded<S> {
    /// `life_max` is the maximum lifetime of the connection.
    pub(crate) fn new(
        stream: S,
        framing: Option<Framing>,
        activity: Arc<Activity>,
        bounds: RequestBounds,
        counts: Arc<RefusedCounts>,
        life_max: Option<Duration>,
    ) -> Self {
        let now = Instant::now();
        let of_end = Arc::clone(&activity);
        Self {
            stream,
            head_began: framing.is_some().then_some(now),
            framing,
            bounds,
            counts,
            ended: Box::pin(async move { of_end.place.ended().await }),
            alarm: Box::pin(sleep_until(now)),
            last: life_max.map(|life| now + life),
            earned: Duration::ZERO,
            earned_since: activity.moved(),
            lingers: None,
            activity,
        }
    }

    /// When the connection has to end or its head has to be complete. `None` while a handler runs.
    fn deadline(&mut self) -> Option<Instant> {
        let moved = self.activity.moved();
        if moved != self.earned_since {
            (self.earned, self.earned_since) = (Duration::ZERO, moved);
        }
        if self.activity.is_running() {
            return None;
        }
        let idle = moved + self.bounds.idle_max + self.earned;
        let head = self.head_began.map(|began| began + self.bounds.head_max);
        Some(head.map_or(idle, |head| head.min(idle)))
    }

    /// Wakes this task when its time is over, or returns that it is.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Checked first, because a future that was ready must not be polled again.
        if self.activity.place.is_over() || self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        loop {
            let now = Instant::now();
            // A handler that ends wakes the task with its response; checking again then is enough.
            let until = self.deadline().unwrap_or(now + self.bounds.idle_max);
            let until = self.last.map_or(until, |last| last.min(until));
            if until <= now {
                return Poll::Ready(());
            }
            if self.alarm.deadline() != until {
                self.alarm.as_mut().reset(until);
            }
            ready!(self.alarm.as_mut().poll(context));
        }
    }

    fn is_over_for_good(&self) -> bool {
        self.activity.place.is_over() || self.last.is_some_and(|last| last <= Instant::now())
    }

    /// Handles the end of the head's time. Returns whether the peer gets an answer to its partial request.
    fn refuse_slow_head(&mut self) -> bool {
        if self.is_over_for_good() {
            return false;
        }
        let Some(framing) = self.framing.as_mut().filter(|framing| framing.has_partial_head())
        else {
            return false;
        };
        framing.refuse(ListenerRefusal::HeadSlow);
        self.counts.add(ListenerRefusal::HeadSlow);
        self.head_began = None;
        true
    }

    fn earn(&mut self, bytes: usize) {
        let rate = self.bounds.bytes_per_second_min.max(1) as f64;
        self.earned += Duration::from_secs_f64(bytes as f64 / rate);
    }
}

fn too_slow() -> io::Error {
    io::Error::new(
        ErrorKind::TimedOut,
        "the peer received nothing for too long, or made room for another",
    )
}

impl<S: AsyncRead + Unpin> Guarded<S> {
    fn poll_framed(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(framing) = &mut self.framing else {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        };
        loop {
            let passed = framing.ready();
            if !passed.is_empty() {
                let count = passed.len().min(buffer.remaining());
                buffer.put_slice(&passed[..count]);
                framing.pass(count);
                return Poll::Ready(Ok(()));
            }
            let refused = match framing.phase() {
                // The service answers the replacement for the refused request, and closes.
                Phase::Over => return Poll::Pending,
                Phase::Body(left) => {
                    let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.remaining());
                    let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
                    ready!(Pin::new(&mut self.stream).poll_read(context, &mut part))?;
                    let count = part.filled().len();
                    buffer.advance(count);
                    framing.pass_body(count as u64);
                    return Poll::Ready(Ok(()));
                }
                Phase::Head => {
                    // Bytes after the last request have already arrived.
                    let mut refused = framing.advance();
                    if refused.is_none() && framing.ready().is_empty() {
                        let mut bytes = [0; 4 << 10];
                        let most = bytes.len().min(framing.room());
                        let mut part = ReadBuf::new(&mut bytes[..most]);
                        let read = Pin::new(&mut self.stream).poll_read(context, &mut part);
                        if read.is_pending() && framing.has_partial_head() {
                            self.head_began.get_or_insert_with(Instant::now);
                        }
                        ready!(read)?;
                        if part.filled().is_empty() {
                            return Poll::Ready(Ok(()));
                        }
                        refused = framing.take(part.filled());
                    }
                    if framing.phase() == Phase::Head && framing.ready().is_empty() {
                        self.head_began.get_or_insert_with(Instant::now);
                    } else {
                        self.head_began = None;
                    }
                    refused
                }
            };
            if let Some(refused) = refused {
                self.counts.add(refused);
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.poll_over(context).is_ready() && !self.refuse_slow_head() {
            // As if the peer had closed: requests in progress end without waiting.
            return Poll::Ready(Ok(()));
        }
        self.poll_framed(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        match polled {
            Poll::Ready(Ok(count)) => self.earn(count),
            Poll::Pending if self.poll_over(context).is_ready() => {
                return Poll::Ready(Err(too_slow()));
            }
            _ => {}
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        if polled.is_pending() && self.poll_over(context).is_ready() {
            return Poll::Ready(Err(too_slow()));
        }
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let until = *self.lingers.get_or_insert_with(|| Instant::now() + LINGER);
        self.alarm.as_mut().reset(until);
        if self.alarm.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        let unread = |framing: &Framing| framing.phase() != Phase::Head;
        if !shut.is_ready() || !self.framing.as_ref().is_some_and(unread) {
            return shut;
        }
        // The rest of the refused request.
        let mut bytes = [0; DISCARDED_BYTES];
        loop {
            let mut nowhere = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut nowhere));
            if read.is_err() || nowhere.filled().is_empty() {
                return shut;
            }
            // Neither a fast sender nor a slow timer can prolong this.
            if Instant::now() >= until {
                return shut;
            }
        }
    }
}
