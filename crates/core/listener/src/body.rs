//! Reads the body of a request from an identified sender, with limits on size, time and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::Frame;
use std::future::poll_fn;
use std::pin::Pin;
use tokio::time::{Instant, timeout_at};

/// The same time as for a head.
const GRACE: Duration = Duration::from_secs(10);

/// Limits of one body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyBounds {
    /// Its largest size.
    pub bytes_max: usize,
    /// How long it may take before the minimum rate counts.
    pub grace: Duration,
    /// The minimum rate after that, on average since it began.
    pub bytes_per_second_min: u32,
}

impl BodyBounds {
    /// A body that must be complete within ten seconds.
    pub const fn small(bytes_max: usize) -> Self {
        Self { bytes_max, grace: GRACE, bytes_per_second_min: u32::MAX }
    }

    /// A body that has to arrive at 64 KiB a second: the rate of the slowest link that a box or an operator may have.
    pub const fn large(bytes_max: usize) -> Self {
        Self { bytes_max, grace: GRACE, bytes_per_second_min: 64 << 10 }
    }

    /// When more of a body must have arrived, given its start and the bytes received so far.
    fn deadline(&self, began: Instant, bytes: usize) -> Instant {
        let earned = bytes as f64 / f64::from(self.bytes_per_second_min.max(1));
        began + self.grace + Duration::from_secs_f64(earned)
    }
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFault {
    /// It exceeds its limit. If its Content-Length does, none of it is read.
    TooLarge,
    /// It arrived too slowly, or incomplete.
    Slow,
    /// All bodies together have reached their memory budget.
    NoMemory,
}

/// The memory that all bodies of one kind may take together.
#[derive(Debug)]
pub struct BodyBudget {
    bytes_max: usize,
    taken: AtomicUsize,
}

impl BodyBudget {
    /// A budget of `bytes_max`.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, taken: AtomicUsize::new(0) })
    }

    /// Bytes that bodies take at the moment.
    pub fn taken_bytes(&self) -> usize {
        self.taken.load(Relaxed)
    }

    fn reserve(&self, bytes: usize) -> bool {
        let fits = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        self.taken.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }
}

/// A complete body. Its memory counts against its budget until it is dropped.
#[derive(Debug)]
pub struct ReadBody {
    bytes: Vec<u8>,
    reserved: usize,
    budget: Arc<BodyBudget>,
}

impl std::ops::Deref for ReadBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ReadBody {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.reserved, Relaxed);
    }
}

impl ReadBody {
    /// Appends a piece. Memory is reserved as pieces arrive: a length that is only announced takes none.
    fn push(&mut self, piece: &Bytes, bytes_max: usize) -> Result<(), BodyFault> {
        let needed = self.bytes.len() + piece.len();
        if needed > bytes_max {
            return Err(BodyFault::TooLarge);
        }
        if needed > self.reserved {
            // Doubled, as a vector grows.
            let more = needed.max(self.reserved * 2).min(bytes_max) - self.reserved;
            if !self.budget.reserve(more) {
                return Err(BodyFault::NoMemory);
            }
            self.reserved += more;
            self.bytes.reserve_exact(self.reserved - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
}

/// Reads all of a body. Call it once it is clear that the sender may send one.
///
/// # Errors
/// Why it was not read.
pub async fn read_body(
    body: Body,
    bounds: BodyBounds,
    budget: &Arc<BodyBudget>,
) -> Result<ReadBody, BodyFault> {
    if body.size_hint().lower() > bounds.bytes_max as u64 {
        return Err(BodyFault::TooLarge);
    }
    let mut body = body;
    let mut read = ReadBody { bytes: Vec::new(), reserved: 0, budget: Arc::clone(budget) };
    let began = Instant::now();
    loop {
        let deadline = bounds.deadline(began, read.len());
        let next = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let frame = timeout_at(deadline, next).await.map_err(|_| BodyFault::Slow)?;
        match frame.map(|frame| frame.map(Frame::into_data)) {
            None => return Ok(read),
            Some(Ok(Ok(piece))) => read.push(&piece, bounds.bytes_max)?,
            // Trailers are ignored.
            Some(Ok(Err(_))) => {}
            Some(Err(_)) => return Err(BodyFault::Slow),
        }
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
