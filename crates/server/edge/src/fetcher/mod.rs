//! The helper's main loop: answers the server's requests until the server is gone.

mod ahead;
mod answering;
mod arriving;
mod block_pieces;
mod circuit;
mod fetching;
mod full_disk;
mod growing;
mod handed;
mod inquiring;
mod leaving;
#[cfg(test)]
mod live_day;
mod origin_answer;
mod origins;
mod passed_space;
mod passing;
mod purging;
mod reasons;
mod receiving;
mod restoring;
mod ring;
mod slots;
mod spread;
mod telling;
mod viewers_range;

use crate::bucket_role::BucketRole;
use crate::contract::{EdgeAsk, EdgeTold, Trouble};
use crate::http_cache::{ABSENT, Tags};
use crate::origin::{Origin, Refused};
use crate::origin_address::OriginAddress;
use crate::origin_files::HandedFiles;
use crate::origin_settings::OriginSettings;
use crate::rules::{EdgeRule, PathRules};
use crate::store::{ByPath, CacheSpace, Responses, Store, Stored, TagIndex};
use ahead::{Ahead, AheadFor};
use arriving::{Arriving, Paths};
use block_pieces::BlockPieces;
use full_disk::FullDisk;
use growing::GrowingResponses;
use handed::Handed;
use helper_process::keeper::ignore_signals;
use helper_process::packets;
use helper_process::sandbox::{self, HelperNeeds};
use leaving::Viewers;
use origins::Origins;
use passed_space::PassedSpace;
use passing::UnderWay;
use reasons::RecentReasons;
use ring::LargeFilms;
use slots::Slots;
pub use spread::OriginSpread;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use telling::{Telling, tell};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

/// The overhead of an object: its record, and its inodes.
const OBJECT_BYTES: u64 = 8 << 10;

/// The longest detail text for the operator. Paths may be longer.
const SAID_CHARACTERS_MAX: usize = 500;

/// The helper's configuration.
pub struct HelperOptions {
    /// The origins of the objects, in order of preference.
    pub origins: Vec<OriginSettings>,
    /// How requests are spread over them.
    pub spread: OriginSpread,
    /// The operator's rules for some paths.
    pub rules: Vec<EdgeRule>,
    /// The texts of the files that the origins' settings name.
    pub files: HandedFiles,
    /// The folder where they are kept.
    pub cache: PathBuf,
    /// The size limit of the cache in bytes.
    pub bytes_max: u64,
    /// An origin that is silent for longer counts as unreachable.
    pub silent_max: Duration,
    /// Whether to drop privileges that the helper does not need.
    pub is_confined: bool,
}

/// The state that all tasks share.
struct Helper {
    origins: Arc<Origins>,
    store: Store,
    told: Sender<Telling>,
    known: Mutex<Known>,
    space: Mutex<CacheSpace>,
    full_disk: FullDisk,
    slots: Slots,
    passing: Semaphore,
    growing: Arc<Semaphore>,
    growing_responses: GrowingResponses,
    viewers: Viewers,
    passed_space: PassedSpace,
    responses: Mutex<Responses>,
    handed: Handed,
    under_way: UnderWay,
    arriving: Arriving,
    alone: Paths,
    refreshed: Paths,
    purges_begun: Mutex<HashSet<u64>>,
    reasons: RecentReasons,
    large_films: LargeFilms,
    ahead: Ahead,
    silent_max: Duration,
}

#[derive(Default)]
struct Known {
    by_path: ByPath<Arc<Stored>>,
    by_number: HashMap<u64, Arc<Stored>>,
    tags: TagIndex,
    /// Paths that the origin is being asked about.
    opening: HashMap<String, Opening>,
}

/// A question to the origin about a path.
struct Opening {
    /// Set if it was not a viewer's to begin with.
    ahead_for: Option<AheadFor>,
    /// Whether a viewer waits for the answer.
    is_awaited: bool,
}

/// Creates the files that a helper needs below `cache`, and checks them. The server does this before it reports that it is ready.
///
/// # Errors
/// Which file or folder cannot be used, and what to do.
pub fn prepare(cache: &Path) -> io::Result<()> {
    Store::prepare(cache).map(drop)
}

/// Answers the server at the other end of `socket`, until it is gone.
///
/// # Errors
/// If the cache cannot be used, or the system has no threads or descriptors left.
pub fn run(options: HelperOptions, socket: OwnedFd) -> io::Result<()> {
    ignore_signals()?;
    let helper = Helper::new(options);
    let (helper, telling) = helper.inspect_err(|error| {
        // If this fails, the server is gone.
        let said = shortened(&error.to_string());
        let _ = packets::send(&socket, &EdgeTold::CannotBegin { said }, None);
    })?;
    if let Some(lacks) = helper.origins.lacks() {
        eprintln!("fullbore: the edge's helper: {lacks}");
    }
    let helper = Arc::new(helper);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let out = socket.try_clone()?;
    let viewers = helper.viewers.clone();
    let telling = move || tell(&out, &telling, &viewers);
    std::thread::Builder::new().name("telling".into()).spawn(telling)?;
    helper.tell(EdgeTold::Began);
    (0..helper.origins.all().len()).for_each(|number| {
        runtime.spawn(keep_role_current(Arc::clone(&helper.origins), number));
        runtime.spawn(look_for_origin(Arc::clone(&helper.origins), number));
    });
    runtime.spawn(Arc::clone(&helper.origins).keep_files_current());
    runtime.spawn(Arc::clone(&helper).sweep_handed());
    runtime.spawn(Arc::clone(&helper).sweep_ahead());
    runtime.spawn(Arc::clone(&helper).fetch_all_ahead());
    runtime.spawn(Arc::clone(&helper).follow_playlists());
    let restoring = Arc::clone(&helper);
    runtime.spawn_blocking(move || restoring.restore_all());
    let mut buffer = Vec::new();
    while let Some((ask, _)) = packets::receive(&socket, &mut buffer)? {
        helper.answer(ask, &runtime);
    }
    // Work in progress is of no use any more.
    runtime.shutdown_background();
    Ok(())
}

impl Known {
    /// Adds a new object. Returns the one that was at its path.
    fn add(&mut self, object: Arc<Stored>) -> Option<Arc<Stored>> {
        self.by_number.insert(object.number, Arc::clone(&object));
        self.tags.add(object.number, &object.said().terms.tags);
        self.by_path.insert(object.path.clone(), object)
    }

    /// A viewer asks about `path`. Returns whether the origin is not being asked already.
    fn begin(&mut self, path: &str) -> bool {
        if let Some(opening) = self.opening.get_mut(path) {
            opening.is_awaited = true;
            return false;
        }
        self.opening.insert(path.to_owned(), Opening { ahead_for: None, is_awaited: true });
        true
    }

    /// The same before a viewer asks.
    fn begin_ahead(&mut self, path: &str, ahead_for: AheadFor) -> bool {
        let is_new = !self.opening.contains_key(path);
        if is_new {
            let opening = Opening { ahead_for: Some(ahead_for), is_awaited: false };
            self.opening.insert(path.to_owned(), opening);
        }
        is_new
    }

    /// The origin has given an object other tags than its `former` ones.
    fn retag(&mut self, object: &Stored, former: &Tags) {
        self.tags.remove(object.number, former);
        let now = object.said().terms.tags;
        match self.by_number.contains_key(&object.number) {
            true => self.tags.add(object.number, &now),
            false => self.tags.remove(object.number, &now),
        }
    }
}

#[cfg(test)]
impl HelperOptions {
    /// For a test of one helper, with an origin that nothing answers for.
    fn of_test(cache: &std::path::Path, bytes_max: u64) -> Self {
        Self {
            origins: vec![OriginSettings::at("http://127.0.0.1:1")],
            spread: OriginSpread::default(),
            rules: Vec::new(),
            files: HandedFiles::none(),
            cache: cache.to_owned(),
            bytes_max,
            silent_max: Duration::from_secs(1),
            is_confined: false,
        }
    }
}

impl Helper {
    /// Opens the cache, and drops privileges that are not needed any more. Also returns the receiver of the messages to send.
    fn new(options: HelperOptions) -> io::Result<(Self, Receiver<Telling>)> {
        let HelperOptions {
            origins,
            spread,
            rules,
            files,
            cache,
            bytes_max,
            silent_max,
            is_confined,
        } = options;
        let (told, telling) = channel();
        // The server decides about cookies.
        let rules = PathRules::new(&rules, false);
        let sender = Sender::clone(&told);
        let origins = Origins::new((origins, files), (spread, silent_max), rules, sender);
        let mut origins = origins.map_err(io::Error::other)?;
        let addresses = || origins.all().iter().map(Origin::address);
        let roles = || origins.all().iter().filter_map(Origin::role);
        let ports = addresses().map(OriginAddress::port).chain(roles().map(BucketRole::port));
        let ports: Vec<u16> = ports.collect();
        let resolves =
            addresses().any(OriginAddress::is_named) || roles().any(BucketRole::is_named);
        let (store, objects) = Store::open(&cache)?;
        // Everything that is needed only once is open, and there is no other thread yet.
        let folders = [store.folder()];
        let needed = HelperNeeds { folders: &folders, ports: &ports, resolves, listens: None };
        if is_confined {
            origins.confine(sandbox::confine(&needed));
        }
        let mut space = CacheSpace::new(bytes_max);
        let mut known = Known::default();
        for object in objects {
            let bytes = object.stored_bytes() + OBJECT_BYTES;
            space.begin(object.number, &object.path, bytes, Instant::now());
            known.add(Arc::new(object));
        }
        let (known, space) = (Mutex::new(known), Mutex::new(space));
        let slots = Slots::new();
        let passing = Semaphore::new(passing::AT_ONCE_MAX);
        let helper = Self {
            origins: Arc::new(origins),
            store,
            told,
            known,
            space,
            full_disk: FullDisk::default(),
            slots,
            passing,
            growing: Arc::new(Semaphore::new(growing::AT_ONCE_MAX)),
            growing_responses: GrowingResponses::default(),
            viewers: Viewers::default(),
            passed_space: PassedSpace::new(bytes_max),
            responses: Mutex::default(),
            handed: Handed::default(),
            under_way: UnderWay::default(),
            arriving: Arriving::default(),
            alone: Paths::alone(),
            refreshed: Paths::refreshed(),
            purges_begun: Mutex::default(),
            reasons: RecentReasons::default(),
            large_films: LargeFilms::default(),
            ahead: Ahead::default(),
            silent_max,
        };
        Ok((helper, telling))
    }

    fn answer(self: &Arc<Self>, ask: EdgeAsk, runtime: &Runtime) {
        let helper = Arc::clone(self);
        match ask {
            EdgeAsk::Open { path, offset, asker, request } => {
                let is_new = helper.known().begin(&path);
                if is_new {
                    runtime.spawn(helper.open(path, offset, asker, *request));
                }
            }
            EdgeAsk::Bring { object, first, end } => {
                runtime.spawn(helper.bring(object, first..end));
            }
            EdgeAsk::Pass { path, ticket, asker, since, request } => {
                // Before the next message, which may be that it has left.
                let viewer = helper.viewers.begin(ticket);
                runtime.spawn(helper.pass(path, viewer, (asker, since.instant()), *request));
            }
            EdgeAsk::Ahead(hint) => helper.note_hint(*hint),
            EdgeAsk::Left { ticket } => helper.viewers.leave(ticket),
            EdgeAsk::Taken { ticket, bytes } => helper.viewers.take(ticket, bytes),
            EdgeAsk::Purge { ticket, purge } => helper.purge(ticket, purge, runtime.handle()),
            EdgeAsk::Inquire { ticket, inquiry } => {
                runtime.spawn_blocking(move || {
                    let findings = Box::new(helper.inquire(&inquiry));
                    helper.tell(EdgeTold::Found { ticket, findings });
                });
            }
            EdgeAsk::Used { objects } => {
                let (now, mut space) = (Instant::now(), helper.space());
                objects.into_iter().for_each(|object| space.use_of(object, now));
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no holder of this lock can panic")
    }

    fn space(&self) -> MutexGuard<'_, CacheSpace> {
        self.space.lock().expect("no holder of this lock can panic")
    }

    fn responses(&self) -> MutexGuard<'_, Responses> {
        self.responses.lock().expect("no holder of this lock can panic")
    }

    fn tell(&self, told: EdgeTold) {
        self.tell_with(told, None);
    }

    fn tell_with(&self, told: EdgeTold, descriptor: Option<OwnedFd>) {
        // If there is no receiver, the server is gone.
        let _ = self.told.send((told, descriptor));
    }

    /// Ends an object: it is no longer available at its path.
    fn end(&self, object: &Arc<Stored>, why: Trouble) {
        if self.hide(object, why) {
            self.remove(object);
        }
    }

    /// From now on, an object is not available at its path. Returns whether it was.
    fn hide(&self, object: &Arc<Stored>, why: Trouble) -> bool {
        let mut known = self.known();
        let is_current =
            known.by_path.get(&object.path).is_some_and(|now| Arc::ptr_eq(now, object));
        if is_current {
            known.by_path.remove(&object.path);
        }
        if known.by_number.remove(&object.number).is_none() {
            return false;
        }
        known.tags.remove(object.number, &object.said().terms.tags);
        drop(known);
        self.note_removed(&object.path, why);
        self.tell(EdgeTold::Ended { object: object.number, why });
        true
    }

    /// Notes why nothing is kept at a path any more.
    fn note_removed(&self, path: &str, why: Trouble) {
        let said = match why {
            Trouble::Evicted => "it was evicted: the cache needed its space",
            Trouble::Purged => "it was purged",
            Trouble::NotFound => "the origin doesn't have it any more, or refuses it",
            Trouble::Uncacheable => "the origin does not allow it to be kept as a film any more",
            Trouble::Changed => "the origin has another version",
            _ => "its file can't be used: see the log",
        };
        self.reasons.note(path, said, Instant::now());
    }

    /// Removes the files of an object that is hidden.
    fn remove(&self, object: &Stored) {
        object.end();
        self.ahead.remove(object.number);
        self.space().remove(object.number, Instant::now());
    }

    /// Whether blocks of an object are being fetched, or a response is arriving.
    fn is_busy(&self, number: u64) -> bool {
        if self.arriving.has(number) {
            return true;
        }
        let object = self.known().by_number.get(&number).cloned();
        object.is_some_and(|object| object.is_busy())
    }

    /// Makes room for `bytes` more of the object at `path`, without evicting `own`.
    fn make_room(&self, path: &str, own: Option<u64>, bytes: u64) -> Result<(), Refused> {
        let now = Instant::now();
        let is_busy = |number: u64| own == Some(number) || self.is_busy(number);
        let space = self.space();
        let gone = match space.make(bytes, now, is_busy) {
            Some(none) if none.is_empty() => none,
            // More than needed, so that the next writes find room at once.
            Some(few) => space.make(bytes + space.bytes_max() / 64, now, is_busy).unwrap_or(few),
            None => {
                let said = format!(
                    "{path}: the cache is full, and viewers use all of it; raise --cache-gib"
                );
                return Err((Trouble::Full, said));
            }
        };
        drop(space);
        self.evict(gone);
        Ok(())
    }

    fn evict(&self, gone: Vec<u64>) {
        for number in gone {
            let object = self.known().by_number.get(&number).cloned();
            match object {
                Some(object) => self.end(&object, Trouble::Evicted),
                None => {
                    if let Some(response) = self.responses().current(number) {
                        self.note_removed(&response.path, Trouble::Evicted);
                    }
                    self.forget_response(number);
                }
            }
        }
    }

    /// Writes a block, after making room for it.
    async fn write(&self, object: &Stored, block: u64, bytes: &BlockPieces) -> Result<(), Refused> {
        let (path, length) = (&object.path, bytes.len() as u64);
        // A slow disk must not block fetches of other objects.
        block_in_place(|| self.make_room(path, Some(object.number), length))?;
        let write = || {
            let written = block_in_place(|| object.write(block, &bytes.slices()));
            written.map_err(|trouble| match trouble {
                Trouble::Full => full_disk::full(path),
                _ => (trouble, format!("{path}: the cache cannot take it: {}", trouble.as_str())),
            })
        };
        self.fit(length, write).await?;
        self.space().add(object.number, length);
        Ok(())
    }
}

/// Keeps the credentials of a bucket's role valid.
async fn keep_role_current(origins: Arc<Origins>, number: usize) {
    origins.all()[number].keep_role_current().await;
}

/// Warns if an origin cannot be reached. The server starts all the same, because it can serve cached objects.
async fn look_for_origin(origins: Arc<Origins>, number: usize) {
    let origin = &origins.all()[number];
    if let Err(why) = origin.probe().await {
        let until = match origins.all().len() {
            1 => "viewers get only what is cached",
            _ => "requests go to the other origins",
        };
        eprintln!(
            "fullbore: the origin {} cannot be used: {}; until it can, {until}",
            origin.address(),
            shortened(&why)
        );
    }
}

/// Cuts a text for the operator to a length that always fits into a message.
fn shortened(said: &str) -> String {
    said.chars().take(SAID_CHARACTERS_MAX).collect()
}

/// How long a refusal remains valid before the origin is asked again.
fn refused_for(why: Trouble) -> Duration {
    match why {
        // The operator has to change something.
        Trouble::Uncacheable | Trouble::TooLarge => Duration::from_secs(10),
        Trouble::NotFound => ABSENT,
        _ => Duration::from_secs(1),
    }
}
