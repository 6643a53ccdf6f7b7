//! The list of titles that the pages show. A thread of its own keeps it, because listing a library waits for disks, and a worker must not.
//!
//! A request gets the list as it was last made, and has it made again, but not sooner than two seconds after the last time. While nobody
//! asks, no list is made. So a list is as old as the last visit, and the pages ask twice. The list is bounded as [`catalog::shelf`] is.

use catalog::shelf::{Item, shelf};
use serde_json::json;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The pause between two listings: the largest library that is listed whole takes a fraction of a second.
const PAUSE: Duration = Duration::from_secs(2);

/// One worker's view of the list.
#[derive(Clone)]
pub struct Shelf {
    list: Arc<Mutex<Arc<List>>>,
    /// Holds one request at most: more would not be served sooner.
    asking: SyncSender<()>,
}

/// The titles at one time.
#[derive(Debug)]
pub struct List {
    items: Vec<Item>,
    is_complete: bool,
    /// The list as JSON, shared by all responses.
    pub json: Arc<[u8]>,
    /// Its entity tag, with quotes.
    pub etag: String,
}

impl Shelf {
    /// Starts listing the titles in the folder `library`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(library: PathBuf) -> io::Result<Self> {
        let list = Arc::new(Mutex::new(Arc::new(List::of(Vec::new(), false))));
        let (asking, asked) = sync_channel(1);
        let kept = Arc::clone(&list);
        let keeper = std::thread::Builder::new().name("shelf".into());
        keeper.spawn(move || keep(&library, &kept, &asked))?;
        Ok(Self { list, asking })
    }

    /// The list as it was last made. Calling this has it made again.
    pub fn list(&self) -> Arc<List> {
        // Full: another request is waiting. Disconnected: the thread panicked, and the last list is all there is.
        let _ = self.asking.try_send(());
        Arc::clone(&self.list.lock().expect("no holder of this lock can panic"))
    }
}

/// The thread's life: it ends with the last worker.
fn keep(library: &Path, list: &Mutex<Arc<List>>, asked: &Receiver<()>) {
    let mut complaint = String::new();
    loop {
        match shelf(library) {
            Ok(items) => {
                complaint.clear();
                let made = List::of(items, true);
                let mut list = list.lock().expect("no holder of this lock can panic");
                // Responses under way and those to come share one copy of an equal list.
                if list.json != made.json {
                    *list = Arc::new(made);
                }
            }
            Err(error) => {
                let what = format!("cannot list the titles in {}: {error}", library.display());
                if what != complaint {
                    let told = library::shown(&what);
                    eprintln!("fullbore: {told}; the shelf keeps showing the last list");
                    complaint = what;
                }
            }
        }
        std::thread::sleep(PAUSE);
        if asked.recv().is_err() {
            return;
        }
    }
}

impl List {
    /// The list of only those titles, named as on disk, that `is_wanted`. If that is all of them, it is the same list.
    pub fn only(self: Arc<Self>, mut is_wanted: impl FnMut(&Path) -> bool) -> Arc<Self> {
        let wanted = self.items.iter().filter(|item| is_wanted(&item.location));
        let wanted: Vec<_> = wanted.cloned().collect();
        if wanted.len() == self.items.len() {
            return self;
        }
        Arc::new(Self::of(wanted, self.is_complete))
    }

    fn of(items: Vec<Item>, is_complete: bool) -> Self {
        let json = json!({
            "version": 1,
            "kind": "titles",
            "is_complete": is_complete,
            "titles": &items,
        });
        let json = json.to_string().into_bytes();
        let mut hasher = DefaultHasher::new();
        hasher.write(&json);
        let etag = format!("\"{:016x}\"", hasher.finish());
        Self { items, is_complete, json: json.into(), etag }
    }
}
