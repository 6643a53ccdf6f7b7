//! What is at a path: asks the origin, if what is known is not fresh.

use super::{Helper, OBJECT_BYTES, refused_for, shortened};
use crate::contract::{BLOCK_BYTES, Described, EdgeTold, OBJECT_BYTES_MAX, Trouble};
use crate::origin::{Found, Refused, Verdict};
use crate::policy::{Terms, terms};
use crate::store::{Stored, trouble};
use reqwest::header::{CACHE_CONTROL, ETAG, HeaderMap, HeaderValue};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long something stale is served before a gone origin is asked again.
const RETRY: Duration = Duration::from_secs(5);

/// What can be served at a path.
struct Answer {
    object: Arc<Stored>,
    is_stale: bool,
    /// The bytes that came with the answer, if any did, and their blocks, which are marked as being fetched.
    body: Option<(Found, Range<u64>)>,
}

impl Answer {
    fn of(object: Arc<Stored>) -> Self {
        Self { object, is_stale: false, body: None }
    }
}

impl Helper {
    /// Tells what is at `path`.
    pub(super) async fn open(self: Arc<Self>, path: String, offset: u64) {
        let answer = self.look(&path, offset).await;
        let answer = answer.and_then(|answer| {
            let file = answer.object.open().map_err(|error| {
                self.end(&answer.object, Trouble::Disk);
                (Trouble::Disk, format!("{path}: its file cannot be opened: {error}"))
            })?;
            Ok((answer, OwnedFd::from(file)))
        });
        // Before it is told: who asks from now on may need another answer.
        self.known().opening.remove(&path);
        match answer {
            Ok((answer, file)) => {
                let told = EdgeTold::Object(described(&answer.object, answer.is_stale));
                self.tell_with(told, Some(file));
                if let Some((found, blocks)) = answer.body {
                    self.take_in_first(answer.object, found, blocks).await;
                }
            }
            Err((why, said)) => {
                let for_ms = refused_for(why).as_millis() as u64;
                self.tell(EdgeTold::Refused { path, why, for_ms, said: shortened(&said) });
            }
        }
    }

    async fn look(&self, path: &str, offset: u64) -> Result<Answer, Refused> {
        let known = self.known().by_path.get(path).cloned();
        if let Some(object) = known.as_ref().filter(|object| fresh_left(object) > Duration::ZERO) {
            return Ok(Answer::of(Arc::clone(object)));
        }
        let start = offset / BLOCK_BYTES * BLOCK_BYTES;
        let range = start..start + BLOCK_BYTES;
        let etag = known.as_ref().map(|object| object.etag.as_str());
        let verdict = self.try_again(|| self.origin.look(path, range.clone(), etag)).await;
        match (verdict, known) {
            (Ok(Verdict::Found(found)), known) => self.found(path, found, known),
            (Ok(Verdict::NotModified(header)), Some(known)) => self.still(known, header),
            // Not asked for; the origin contradicts itself.
            (Ok(Verdict::NotModified(_)), None) => Err((
                Trouble::Wrong,
                format!("{path}: the origin said 304, which was not asked for"),
            )),
            (Err((Trouble::Unreachable | Trouble::TimedOut, _)), Some(known))
                if stale_left(&known) > Duration::ZERO =>
            {
                Ok(Answer { is_stale: true, ..Answer::of(known) })
            }
            (Err((why, said)), known) => {
                let is_answer = !matches!(why, Trouble::Unreachable | Trouble::TimedOut);
                if let Some(known) = known.filter(|_| is_answer) {
                    self.end(&known, why);
                }
                Err((why, said))
            }
        }
    }

    /// The origin has sent the beginning of an object: another version than the one that was known, in most cases.
    fn found(
        &self,
        path: &str,
        found: Found,
        known: Option<Arc<Stored>>,
    ) -> Result<Answer, Refused> {
        if let Some(known) = known {
            if known.etag == found.terms.etag && known.size == found.size {
                known.renew(found.terms);
                return Ok(Answer::of(known));
            }
            self.end(&known, Trouble::Changed);
        }
        let bytes_max = self.room().bytes_max().min(OBJECT_BYTES_MAX);
        if found.size > bytes_max {
            let said = format!("{path}: its {} bytes are more than the cache has", found.size);
            return Err((Trouble::TooLarge, said));
        }
        let created = self.store.create(path, found.size, found.terms.clone());
        let object = created.map(Arc::new).map_err(|error| {
            (trouble(&error), format!("{path}: the cache cannot take it: {error}"))
        })?;
        // Before anybody knows of the object: who asks for these blocks gets them from here.
        let blocks = found.range.start / BLOCK_BYTES..found.range.end.div_ceil(BLOCK_BYTES);
        object.take(blocks.clone());
        self.room().begin(object.number, &object.path, OBJECT_BYTES, Instant::now());
        self.known().add(Arc::clone(&object));
        Ok(Answer { body: Some((found, blocks)), ..Answer::of(object) })
    }

    /// The origin says that the version is still the same. What its answer does not repeat stays as it was (RFC 9111 section 4.3.4).
    fn still(&self, known: Arc<Stored>, mut header: HeaderMap) -> Result<Answer, Refused> {
        let before = known.said().terms;
        let keep = |header: &mut HeaderMap, name, value: Option<&str>| {
            if !header.contains_key(&name) {
                if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                    header.insert(name, value);
                }
            }
        };
        keep(&mut header, ETAG, Some(&before.etag));
        keep(&mut header, CACHE_CONTROL, before.cache_control.as_deref());
        match terms(&header) {
            Ok(now) if now.etag == before.etag => {
                let Terms { content_type, modified, .. } = before;
                known.renew(Terms { content_type, modified, ..now });
                Ok(Answer::of(known))
            }
            Ok(_) => {
                self.end(&known, Trouble::Wrong);
                let said = format!("{}: the origin said 304 for another version", known.path);
                Err((Trouble::Wrong, said))
            }
            Err((why, said)) => {
                self.end(&known, why);
                Err((why, format!("{} cannot be kept: {said}", known.path)))
            }
        }
    }
}

fn fresh_left(object: &Stored) -> Duration {
    let said = object.said();
    said.terms.fresh.saturating_sub(said.at.elapsed())
}

/// For how long it may still be served while the origin is gone.
fn stale_left(object: &Stored) -> Duration {
    let said = object.said();
    said.terms.fresh.saturating_add(said.terms.stale).saturating_sub(said.at.elapsed())
}

fn described(object: &Stored, is_stale: bool) -> Described {
    let said = object.said();
    let fresh = if is_stale { RETRY.min(stale_left(object)) } else { fresh_left(object) };
    Described {
        path: object.path.clone(),
        object: object.number,
        size: object.size,
        etag: object.etag.clone(),
        content_type: said.terms.content_type.clone(),
        modified: said.terms.modified,
        cache_control: said.terms.cache_control.clone(),
        fresh_ms: fresh.as_millis() as u64,
        age_ms: (said.terms.age + said.at.elapsed()).as_millis() as u64,
        is_stale,
    }
}
