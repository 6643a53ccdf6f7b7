//! Fetches blocks: each once, for all viewers that want it.

use super::block_pieces::BlockPieces;
use super::passing::with_own_fields;
use super::slots::{HELD_MAX, RequestPurpose, Slot};
use super::{Helper, refused_for, shortened};
use crate::contract::{BLOCK_BYTES, EdgeTold, ForwardedRequest, Trouble};
use crate::http_cache::{HELD_AFTER, ResponseKind, is_blocking_reload};
use crate::origin::{Found, Refused, broken};
use crate::store::Stored;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The pause before the next try; twice as long before the one after.
const PAUSE: Duration = Duration::from_millis(50);

impl Helper {
    /// Makes blocks of an object available, and reports them as they arrive.
    pub(super) async fn bring(self: Arc<Self>, number: u64, wanted: Range<u64>) {
        let object = self.known().by_number.get(&number).cloned();
        let Some(object) = object else {
            return self.tell(EdgeTold::Ended { object: number, why: Trouble::Evicted });
        };
        let runs = self.ahead.take(&object, wanted);
        runs.there.into_iter().for_each(|there| self.there(&object, there, 0));
        let mut fetch = runs.fetch;
        for block in runs.recorded {
            let recorded = Arc::clone(&object);
            let verified = spawn_blocking(move || recorded.verify(block)).await;
            match verified {
                Ok(true) => self.there(&object, block..block + 1, 0),
                _ => fetch.push(block..block + 1),
            }
        }
        for run in fetch {
            tokio::spawn(Arc::clone(&self).fetch(Arc::clone(&object), run, (0, None)));
        }
    }

    /// Takes in the bytes that came with the answer about a new object, and fetches the rest of `blocks`. `slot` is that of the answer.
    pub(super) async fn take_in_first(
        self: Arc<Self>,
        object: Arc<Stored>,
        found: Found,
        blocks: Range<u64>,
        slot: Option<Slot>,
    ) {
        let (mut done_to, origin) = (blocks.start, found.origin);
        let taken_in = self.take_in(&object, &blocks, found, &mut done_to).await;
        // Before anything is fetched: that takes a slot of its own, and a task must not wait for one while it holds another.
        drop(slot);
        if let Err(refused) = taken_in {
            if refused.0.is_failure() {
                self.origins.note(origin, false);
            }
            let rest = done_to..blocks.end;
            if self.is_over(&object, &refused, rest.clone()) {
                return;
            }
            if refused.0.tries() == 1 {
                return self.failed(&object, rest, refused);
            }
            self.try_later(refused.0, 1).await;
            self.fetch(object, rest, (1, Some(origin))).await;
        }
    }

    /// Fetches blocks, which are marked as being fetched. `tries` have failed before; tries that complete a block reset the count. An origin whose
    /// answer has broken off is asked last at the next try.
    pub(super) async fn fetch(
        self: Arc<Self>,
        object: Arc<Stored>,
        mut run: Range<u64>,
        (mut tries, mut broke_off): (u32, Option<usize>),
    ) {
        while !run.is_empty() {
            let mut done_to = run.start;
            let brought = self.fetch_once(&object, &run, (&mut done_to, &mut broke_off)).await;
            let is_further = done_to > run.start;
            run.start = done_to;
            let Err(refused) = brought else { continue };
            if self.is_over(&object, &refused, run.clone()) {
                return;
            }
            tries = if is_further { 1 } else { tries + 1 };
            if tries >= refused.0.tries() {
                return self.failed(&object, run, refused);
            }
            self.try_later(refused.0, tries).await;
        }
    }

    /// Reports that there will be another try, and waits for its time.
    async fn try_later(&self, why: Trouble, tries: u32) {
        if why == Trouble::Unreachable {
            self.origins.restart_if_outdated();
        }
        self.tell(EdgeTold::TriedAgain { why });
        sleep(PAUSE * tries).await;
    }

    async fn fetch_once(
        &self,
        object: &Arc<Stored>,
        run: &Range<u64>,
        (done_to, broke_off): (&mut u64, &mut Option<usize>),
    ) -> Result<(), Refused> {
        let _slot = self.slots.take(RequestPurpose::Blocks(object.number)).await;
        let request = with_own_fields(&ForwardedRequest::get());
        let bytes = object.bytes_of(run);
        let found = self.origins.bring(object, bytes, &request, broke_off.take()).await?;
        let origin = found.origin;
        let taken_in = self.take_in(object, run, found, done_to).await;
        let has_failed = taken_in.as_ref().is_err_and(|(why, _)| why.is_failure());
        *broke_off = has_failed.then_some(origin);
        self.origins.note(origin, !has_failed);
        if !has_failed {
            object.note_origin(origin, self.origins.rank(&object.path, origin));
        }
        taken_in
    }

    /// Writes the blocks of a body as they arrive. `done_to` is the first block of `run` that is not there yet.
    async fn take_in(
        &self,
        object: &Arc<Stored>,
        run: &Range<u64>,
        found: Found,
        done_to: &mut u64,
    ) -> Result<(), Refused> {
        let Found { range, mut body, .. } = found;
        if self.ahead.gives_up(object, run, &range) {
            *done_to = run.end;
            return Ok(());
        }
        let mut at = range.start;
        let mut block = BlockPieces::default();
        let mut deadline = Instant::now() + 3 * self.silent_max;
        let wrong = |what: &str| (Trouble::Wrong, format!("{}: {what}", object.path));
        loop {
            let chunk = timeout_at(deadline, body.chunk()).await;
            let chunk = chunk.map_err(|_| {
                (Trouble::TimedOut, format!("{}: the origin sends too slowly", object.path))
            })?;
            let Some(mut chunk) = chunk.map_err(|error| broken(&object.path, error))? else {
                break;
            };
            if at + block.len() as u64 + chunk.len() as u64 > range.end {
                return Err(wrong("the origin sent more than it announced"));
            }
            while !chunk.is_empty() {
                let number = at / BLOCK_BYTES;
                let whole = object.bytes_of(&(number..number + 1));
                let left = (whole.end - at) as usize - block.len();
                block.push(chunk.split_to(left.min(chunk.len())));
                if block.len() as u64 == whole.end - at {
                    self.take_in_block(object, run, number, &block).await?;
                    if run.contains(&number) {
                        *done_to = number + 1;
                    }
                    at = whole.end;
                    block.clear();
                    deadline = Instant::now() + 3 * self.silent_max;
                }
            }
        }
        match at == range.end {
            true => Ok(()),
            false => Err(wrong("the origin sent less than it announced")),
        }
    }

    /// Writes a block and reports it, unless it is there or another task fetches it.
    async fn take_in_block(
        &self,
        object: &Arc<Stored>,
        run: &Range<u64>,
        number: u64,
        bytes: &BlockPieces,
    ) -> Result<(), Refused> {
        let one = number..number + 1;
        // An origin without ranges sends everything: keep unrequested blocks, too, because they cannot be fetched alone.
        if !run.contains(&number) && object.take(one.clone()).fetch.is_empty() {
            return Ok(());
        }
        let written = self.write(object, number, bytes).await;
        written.inspect_err(|_| object.give_back(one.clone()))?;
        self.there(object, one, bytes.len() as u64);
        Ok(())
    }

    fn there(&self, object: &Stored, blocks: Range<u64>, fetched_bytes: u64) {
        let Range { start: first, mut end } = blocks;
        // The server learns of it when a viewer requests it.
        if fetched_bytes > 0 && self.ahead.arrive(object.number, first, fetched_bytes) {
            end = first;
        }
        self.tell(EdgeTold::There { object: object.number, first, end, fetched_bytes });
    }

    fn failed(&self, object: &Stored, run: Range<u64>, (why, said): Refused) {
        object.give_back(run.clone());
        self.ahead.fail(object.number, &run);
        let Range { start: first, end } = run;
        let said = shortened(&said);
        self.tell(EdgeTold::Failed { object: object.number, first, end, why, said });
    }

    /// Whether `refused` means that there will be no more of this version. If so, ends it.
    fn is_over(&self, object: &Arc<Stored>, refused: &Refused, run: Range<u64>) -> bool {
        let is_over =
            matches!(refused.0, Trouble::Changed | Trouble::Uncacheable | Trouble::Evicted);
        if is_over {
            self.failed(object, run, refused.clone());
            self.end(object, refused.0);
        }
        if refused.0 == Trouble::Uncacheable {
            // Each viewer has to request it: another object there would end in the same way.
            let for_ms = refused_for(Trouble::Uncacheable).as_millis() as u64;
            let path = object.path.clone();
            self.tell(EdgeTold::NoObject { path, for_ms, shared: None, except_ms: 0 });
        }
        is_over
    }

    /// Asks the origin about `path`, with retries if they may help. A silent origin is asked only once here: the viewer has received nothing yet, and
    /// should get the reason soon. Calls `held` if the origin holds the request.
    /// Returns the slot as well: keep it until the body has been read.
    pub(super) async fn try_again_with_slot<T, F: Future<Output = Result<T, Refused>>>(
        &self,
        (path, purpose): (&str, RequestPurpose),
        ask: impl Fn() -> F,
        held: impl Fn(),
    ) -> Result<(T, Slot), Refused> {
        let mut tries = 1;
        loop {
            let slot = self.first_slot(path, purpose).await?;
            let asked = self.ask_in(slot, (path, purpose), ask(), &held).await;
            match asked {
                Err((why, _)) if why != Trouble::TimedOut && tries < why.tries() => {
                    self.try_later(why, tries).await;
                    tries += 1;
                }
                asked => return asked,
            }
        }
    }

    /// The slot for a request: at once for one that the origin will hold, or none.
    async fn first_slot(&self, path: &str, purpose: RequestPurpose) -> Result<Slot, Refused> {
        if purpose != RequestPurpose::New || !is_blocking_reload(path) {
            return Ok(self.slots.take(purpose).await);
        }
        self.slots.hold().ok_or_else(|| {
            let said = format!("{path}: the origin holds {HELD_MAX} requests already");
            (Trouble::Full, said)
        })
    }

    /// Waits for the answer to a request in a slot. If the origin holds a request about a live stream, `held` is called, and the request leaves its
    /// slot for one of those for held requests. If none is free, it stays. Its answer is read in a slot like any other, so that bodies stay few.
    async fn ask_in<T>(
        &self,
        mut slot: Slot,
        (path, purpose): (&str, RequestPurpose),
        asked: impl Future<Output = Result<T, Refused>>,
        held: &impl Fn(),
    ) -> Result<(T, Slot), Refused> {
        let mut asked = pin!(asked);
        if may_be_held(path) && !slot.is_held() {
            if let Ok(answer) = timeout(HELD_AFTER, &mut asked).await {
                return answer.map(|answer| (answer, slot));
            }
            if let Some(own) = self.slots.hold() {
                slot = own;
                held();
            }
        }
        let answer = asked.await?;
        if slot.is_held() {
            // The slot that it leaves is given back only then.
            slot = self.slots.take(purpose).await;
        }
        Ok((answer, slot))
    }
}

/// Whether an origin may hold a request for `path` until there is an answer.
pub(super) fn may_be_held(path: &str) -> bool {
    ResponseKind::of(path, None) != ResponseKind::Other || is_blocking_reload(path)
}
