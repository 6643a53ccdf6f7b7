//! The list of titles that the pages show. Listing a library waits for disks, and a worker must not. So a thread for each folder of the
//! library lists its titles, and a folder on a hanging disk delays no other.
//!
//! A request gets the latest list, and triggers a new one, but not sooner than two seconds after the last. Without
//! requests, no list is made. So a list is as old as the last visit, and the pages request it twice. A title's page requests it, too. The list is
//! bounded as [`catalog::shelf`] is.

use crate::folders::Folders;
use catalog::shelf::{Item, ShelfReader};
use catalog::{TITLES_MAX, is_held};
use disk::Names;
use escape::unicode::composed;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The pause between two listings: the largest library that is listed whole takes a fraction of a second.
const PAUSE: Duration = Duration::from_secs(2);

/// One worker's view of the list.
#[derive(Clone)]
pub struct TitleListing {
    list: Arc<Mutex<Arc<List>>>,
    /// A channel to each thread. It holds one request at most: more would not be served sooner.
    asking: Arc<[SyncSender<()>]>,
}

/// State shared by the threads.
struct Kept {
    folders: Arc<Folders>,
    titles: Mutex<Titles>,
    list: Arc<Mutex<Arc<List>>>,
}

/// The parts of the list.
#[derive(Default)]
struct Titles {
    /// The titles in each folder; none before the folder was listed.
    in_folders: BTreeMap<u16, Option<Vec<Item>>>,
    /// The folder that holds each name; none if there is only one folder.
    names: Option<Arc<Names>>,
}

/// The titles at one time.
#[derive(Debug)]
pub struct List {
    /// Each title's name on disk, and where it is in `json`.
    titles: Vec<(PathBuf, Range<usize>)>,
    is_complete: bool,
    /// The list as JSON, shared by all responses.
    pub json: Arc<[u8]>,
    /// The same in gzip's format (RFC 1952): a tenth of the size. A list that is shorter without has none, nor has that
    /// of some titles, because a worker makes it.
    pub gzip: Option<Arc<[u8]>>,
    /// The number in `titles` of the title with each composed name (NFC). The list of some titles has none.
    numbers: HashMap<Box<[u8]>, usize>,
    /// Its entity tag, with quotes.
    pub etag: String,
}

impl TitleListing {
    /// Starts listing the titles in `folders`.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn start(folders: &Arc<Folders>) -> io::Result<Self> {
        let list = Arc::new(Mutex::new(Arc::new(List::of(Vec::new(), false))));
        let kept = Arc::new(Kept {
            folders: Arc::clone(folders),
            titles: Mutex::new(Titles {
                in_folders: folders.present().map(|(index, _)| (index, None)).collect(),
                names: None,
            }),
            list: Arc::clone(&list),
        });
        let mut asking = Vec::new();
        for (index, path) in folders.present() {
            let (kept, path) = (Arc::clone(&kept), path.to_owned());
            let (ask, asked) = sync_channel(1);
            let keeper = std::thread::Builder::new().name("shelf".into());
            keeper.spawn(move || keep(&kept, index, &path, &asked))?;
            asking.push(ask);
        }
        Ok(Self { list, asking: asking.into() })
    }

    /// The latest list. The call triggers a new one.
    pub fn list(&self) -> Arc<List> {
        // Full: another request is waiting. Disconnected: the thread panicked, and the last list stays.
        for ask in &*self.asking {
            let _ = ask.try_send(());
        }
        Arc::clone(&self.list.lock().expect("no holder of this lock can panic"))
    }
}

/// A thread's loop: it ends with the last worker.
fn keep(kept: &Kept, folder: u16, path: &Path, asked: &Receiver<()>) {
    let mut complaint = String::new();
    let mut reader = ShelfReader::default();
    loop {
        match reader.list(path) {
            Ok(items) => {
                complaint.clear();
                kept.take(folder, items);
            }
            Err(error) => {
                let what = format!("cannot list the titles in {}: {error}", path.display());
                if what != complaint {
                    let told = ingest::shown(&what);
                    eprintln!(
                        "fullbore: {told}; check its disk and its permissions. The shelf keeps showing the last list"
                    );
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

impl Kept {
    /// Stores the current titles in `folder`, and rebuilds the list of all titles.
    fn take(&self, folder: u16, items: Vec<Item>) {
        let names = self.folders.names();
        let mut titles = self.titles.lock().expect("no holder of this lock can panic");
        if !titles.change(folder, items, names) {
            return;
        }
        let made = titles.list();
        let list = || self.list.lock().expect("no holder of this lock can panic");
        // Current and future responses share one copy of an equal list.
        if list().json != made.json {
            let made = Arc::new(made.finished());
            *list() = made;
        }
    }
}

impl Titles {
    /// Stores the current titles in `folder`, and returns whether that may change the list.
    fn change(&mut self, folder: u16, items: Vec<Item>, names: Option<Arc<Names>>) -> bool {
        let are_same = match (&self.names, &names) {
            (Some(known), Some(names)) => Arc::ptr_eq(known, names),
            (known, names) => known.is_none() && names.is_none(),
        };
        let items = Some(items);
        if are_same && self.in_folders.get(&folder) == Some(&items) {
            return false;
        }
        self.in_folders.insert(folder, items);
        self.names = names;
        true
    }

    /// The list of the titles that are served, each from the folder that holds it.
    fn list(&self) -> List {
        let is_served = |folder, item: &Item| {
            self.names.as_ref().is_none_or(|names| is_held(names, folder, &item.location))
        };
        let mut all = Vec::new();
        for (folder, items) in &self.in_folders {
            all.extend(items.iter().flatten().filter(|item| is_served(*folder, item)));
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let shown = all.into_iter().take(TITLES_MAX).cloned().collect();
        List::of(shown, self.in_folders.values().all(Option::is_some))
    }
}

impl List {
    /// The list of only those titles, named as on disk, that `is_wanted` accepts. If it accepts all of them, it is the same list. It is made of the
    /// text of this one, because a worker makes it for each request.
    pub fn only(self: Arc<Self>, mut is_wanted: impl FnMut(&Path) -> bool) -> Arc<Self> {
        let wanted: Vec<_> = self.titles.iter().filter(|(name, _)| is_wanted(name)).collect();
        if wanted.len() == self.titles.len() {
            return self;
        }
        let texts = wanted
            .into_iter()
            .map(|(name, place)| (name.clone(), Cow::Borrowed(&self.json[place.clone()])));
        Arc::new(Self::of_texts(texts, self.is_complete))
    }

    fn of(items: Vec<Item>, is_complete: bool) -> Self {
        let texts = items.into_iter().map(|item| {
            let text = serde_json::to_vec(&item).expect("text and numbers are JSON");
            (item.location, Cow::Owned(text))
        });
        Self::of_texts(texts, is_complete)
    }

    /// The list of titles, each by its name on disk and as JSON.
    fn of_texts<'a>(
        texts: impl Iterator<Item = (PathBuf, Cow<'a, [u8]>)>,
        is_complete: bool,
    ) -> Self {
        let head =
            format!(r#"{{"version":1,"kind":"titles","is_complete":{is_complete},"titles":["#);
        let (mut json, mut titles) = (head.into_bytes(), Vec::new());
        for (name, text) in texts {
            if !titles.is_empty() {
                json.push(b',');
            }
            let start = json.len();
            json.extend_from_slice(&text);
            titles.push((name, start..json.len()));
        }
        json.extend_from_slice(b"]}");
        let mut hasher = DefaultHasher::new();
        hasher.write(&json);
        let etag = format!("\"{:016x}\"", hasher.finish());
        let numbers = HashMap::new();
        Self { titles, is_complete, json: json.into(), gzip: None, numbers, etag }
    }

    /// Adds what takes long, and what only the list of all titles needs.
    fn finished(self) -> Self {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        let written = gzip.write_all(&self.json).and_then(|()| gzip.finish());
        let gzip = written.expect("memory takes all that is written");
        // A list of one title is shorter as it is.
        let gzip = (gzip.len() < self.json.len()).then(|| gzip.into());
        let mut numbers = HashMap::new();
        for (number, (name, _)) in self.titles.iter().enumerate() {
            let name = name.as_os_str().as_bytes();
            let composed = composed(name);
            // A composed name goes before others, as for files.
            if *composed == *name || !numbers.contains_key(&*composed) {
                numbers.insert(composed.as_ref().into(), number);
            }
        }
        Self { gzip, numbers, ..self }
    }

    /// The title at this place of the library, by either form of its name: the place as it is on disk, and the title as JSON.
    pub fn title(&self, place: &[u8]) -> Option<(&Path, &[u8])> {
        let (name, range) = self.titles.get(*self.numbers.get(&*composed(place))?)?;
        Some((name, &self.json[range.clone()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_some_titles_is_made_of_the_text_of_all() {
        let item = |name: &str| Item {
            name: name.into(),
            path: format!("{name}/"),
            location: name.into(),
            hls: None,
            dash: None,
            file: Some("a.mp4".into()),
            facts: None,
        };
        let items = ["a", "b \"quoted\"", "c"].map(item);
        let list_of = |wanted: &[usize]| {
            let wanted = wanted.iter().map(|index| items[*index].clone());
            List::of(wanted.collect(), true)
        };
        let all = Arc::new(list_of(&[0, 1, 2]));
        for wanted in [&[][..], &[0], &[1, 2], &[0, 2], &[0, 1, 2]] {
            let names: Vec<_> = wanted.iter().map(|index| &items[*index].location).collect();
            let some = Arc::clone(&all).only(|name| names.iter().any(|one| *one == name));
            let expected = list_of(wanted);
            assert_eq!((&some.json, &some.etag), (&expected.json, &expected.etag), "{wanted:?}");
            let read: serde_json::Value = serde_json::from_slice(&some.json).unwrap();
            let titles = read["titles"].as_array().unwrap();
            let shown: Vec<_> =
                titles.iter().map(|title| title["name"].as_str().unwrap()).collect();
            let expected: Vec<_> = wanted.iter().map(|index| &*items[*index].name).collect();
            assert_eq!(shown, expected);
            assert_eq!(read["is_complete"], true);
        }
    }
}
