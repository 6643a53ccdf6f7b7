//! The main loop of our own TCP: from the device to TCP, and from TCP to sessions, suppliers and the device.

use super::{OwnTcp, OwnTcpSocket};
use reactor::op::{self, Op};
use reactor::{Fd, sleep_until, spawn, yield_now};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// After a turn, timeouts wait at least this long, so that one wake-up serves many viewers. Most of them are pacing's, which makes up for a
/// millisecond.
const TIMEOUTS_APART: Duration = Duration::from_micros(500);

/// A descriptor that is polled again and again.
struct Source {
    fd: Fd,
    waiting: Option<Op<Fd>>,
}

impl Source {
    fn new(fd: Fd) -> Self {
        Self { fd, waiting: None }
    }

    /// Returns true if there is something to read.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let waiting = self.waiting.get_or_insert_with(|| op::readable(&self.fd));
        let is_ready = Pin::new(waiting).poll(cx).is_ready();
        if is_ready {
            self.waiting = None;
        }
        is_ready
    }
}

/// Why the loop continues.
#[derive(Clone, Copy, Default)]
struct Why {
    frames: bool,
    news: bool,
}

impl OwnTcp {
    /// Runs for as long as its worker lives. `welcome` gets each new connection.
    ///
    /// # Errors
    /// If the device is gone. Every connection has ended then.
    pub async fn run(self: Rc<Self>, welcome: impl Fn(OwnTcpSocket)) -> io::Result<()> {
        let listening = Rc::clone(&self).listen_to_others();
        // If it fails, routers' reports that reach other workers are lost, and TCP learns from losses instead.
        spawn(async move { drop(listening.await) });
        let ran = self.turn_by_turn(welcome).await;
        self.end_all();
        ran
    }

    async fn turn_by_turn(self: &Rc<Self>, welcome: impl Fn(OwnTcpSocket)) -> io::Result<()> {
        let (device, news) = self.descriptors()?;
        let (mut device, mut news) = (Source::new(device), news.map(Source::new));
        let mut why = Why { frames: true, news: news.is_some() };
        loop {
            let now = Instant::now();
            if why.news {
                self.learn_ways()?;
            }
            let has_more = why.frames && self.receive(now)?;
            self.handle_timeout(now);
            self.hand_on(now).into_iter().for_each(&welcome);
            self.flush()?;
            if has_more {
                yield_now().await;
                why = Why { frames: true, news: false };
            } else {
                why = self.wait(&mut device, news.as_mut(), now).await;
            }
        }
    }

    /// Waits for frames, news, a timeout, or something to send. Timeouts were last processed at `now`.
    async fn wait(&self, device: &mut Source, mut news: Option<&mut Source>, now: Instant) -> Why {
        // A device does not report when it has read a buffer. Ask it again soon, because a supplier may wait for that buffer.
        let asks_again = self.driver.borrow().keeps_buffers().then_some(now);
        let due = self.next_timeout().into_iter().chain(asks_again).min();
        let due = due.map(|due| due.max(now + TIMEOUTS_APART));
        let mut due = pin!(due.map(sleep_until));
        poll_fn(|cx| {
            let frames = device.poll(cx);
            let news = news.as_mut().is_some_and(|news| news.poll(cx));
            let due = due.as_mut().as_pin_mut().is_some_and(|due| due.poll(cx).is_ready());
            if self.is_kicked.take() || frames || news || due {
                return Poll::Ready(Why { frames, news });
            }
            self.pump.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await
    }
}
