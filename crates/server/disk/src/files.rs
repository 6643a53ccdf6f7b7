//! Opens files of the library and keeps them open for reuse.
//!
//! A library is one folder, or several: one for each disk. With several, each name at the top (a title's folder, a film) belongs entirely to one
//! folder, which [`Names`] gives. So a path costs one `openat2` however many folders there are, a path in no folder costs none, and no folder waits
//! for another one's disk.

use crate::error::OpenError;
use crate::file::File;
use crate::inode::Inode;
use crate::root::Root;
use crate::stamp::Stamp;
use reactor::op;
use rustix::fs::{Mode, OFlags};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a remembered file is used before its path is looked up again. `fstat` notices at once if a file was written to, removed or replaced. This
/// limit covers what `fstat` cannot see, such as a renamed directory.
const LOOKED_UP_MAX: Duration = Duration::from_secs(1);

/// A remembered file without viewers is closed after this time. Looking it up again costs an `openat2`, as it does after [`LOOKED_UP_MAX`] anyway. An
/// open file also shows a program that removes titles that viewers use it, or did a moment ago.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// Maps each name at the library's top to its folder, by the folder's place in the configured order.
pub type Names = HashMap<Arc<[u8]>, u16>;

/// The roots of the library's folders, and its open files. One per worker.
pub struct Files {
    /// By the folders' places in the configured order; `None` for a missing folder.
    roots: Vec<Option<Root>>,
    /// `None` if there is one folder, which then holds every name.
    names: RefCell<Option<Arc<Names>>>,
    /// For names that a copy holds: the original's folder.
    originals: RefCell<Arc<Names>>,
    open: RefCell<HashMap<Box<[u8]>, Remembered>>,
    open_max: usize,
    /// Every file with a lease, remembered or not: writers wait for all of them.
    held: RefCell<Vec<Weak<File>>>,
    open_for_writing: Cell<u64>,
    withheld: RefCell<Arc<[Inode]>>,
    /// Disks that rotate, by device number.
    rotating: Arc<[u64]>,
}

struct Remembered {
    file: Rc<File>,
    looked_up: Instant,
    used: Instant,
}

impl Files {
    /// Opens the root of a library of one folder. Remembers at most `open_max` open files; 0 remembers none.
    ///
    /// # Errors
    /// If `root` is not a readable directory.
    pub fn new(root: &Path, open_max: usize) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty())?;
        Ok(Self::of_folders(vec![Some(root)], None, open_max))
    }

    /// A library in the folders `roots`, where a missing one keeps its place. Without `names`, all files are in the first.
    pub fn of_folders(
        roots: Vec<Option<OwnedFd>>,
        names: Option<Arc<Names>>,
        open_max: usize,
    ) -> Self {
        Self {
            roots: roots.into_iter().map(|root| root.map(|root| Root::new(root.into()))).collect(),
            names: RefCell::new(names),
            originals: RefCell::default(),
            open: RefCell::default(),
            open_max,
            held: RefCell::default(),
            open_for_writing: Cell::new(0),
            withheld: RefCell::default(),
            rotating: Arc::default(),
        }
    }

    /// The same, where files on these disks, by device number, are read as [`File::rotates`] says.
    pub fn with_rotating(self, disks: Arc<[u64]>) -> Self {
        Self { rotating: disks, ..self }
    }

    /// Replaces the map of names.
    pub fn renew_names(&self, names: Arc<Names>) {
        *self.names.borrow_mut() = Some(names);
    }

    /// Sets the folders of the originals. If a file under one of these names cannot be opened in its folder, which holds a copy, it is opened in the
    /// original's folder, where its bytes are the same. Call it together with [`Self::renew_names`].
    pub fn fall_back_on(&self, originals: Arc<Names>) {
        *self.originals.borrow_mut() = originals;
    }

    /// Refuses to serve any of `inodes`, under any name. This replaces the list before. The caller keeps these files open, so that their inode
    /// numbers cannot be reused for other files.
    pub fn withhold(&self, inodes: Arc<[Inode]>) {
        *self.withheld.borrow_mut() = inodes;
        self.open.borrow_mut().retain(|_, known| !self.is_withheld(&known.file));
    }

    fn is_withheld(&self, file: &File) -> bool {
        let Stamp { device, inode, .. } = file.stamp();
        self.withheld.borrow().contains(&Inode { device, inode })
    }

    /// Opens `path`, relative to its folder's root, or returns the file if it is already open.
    ///
    /// # Errors
    /// [`OpenError::NotFound`] for everything except regular files below the root, also for symlinks that lead out of it; [`OpenError::Withheld`] for
    /// a [withheld](Self::withhold) file; [`OpenError::Hangs`] if there are several folders and this one's disk hangs.
    pub async fn open(&self, path: &[u8]) -> Result<Rc<File>, OpenError> {
        let now = reactor::now();
        if let Some(file) = self.remembered(path, now) {
            return Ok(file);
        }
        let opened = self.look_up(path).await;
        if self.open_max == 0 {
            return opened.inspect(|file| self.note_writers(file));
        }
        let mut open = self.open.borrow_mut();
        let file = match opened {
            Ok(file) => file,
            Err(error) => {
                open.remove(path);
                return Err(error);
            }
        };
        // The same version as before: keep the descriptor that viewers already share.
        let file = match open.get(path) {
            Some(known) if known.serves_as_well_as(&file) => Rc::clone(&known.file),
            _ => {
                self.note_writers(&file);
                file
            }
        };
        if open.len() >= self.open_max && !open.contains_key(path) {
            forget_oldest(&mut open);
        }
        open.insert(path.into(), Remembered { file: Rc::clone(&file), looked_up: now, used: now });
        Ok(file)
    }

    /// The folder of `path`, by its place in the configured order; none if no folder has it.
    pub fn folder_of(&self, path: &[u8]) -> Option<u16> {
        self.root_of(path).map(|(folder, _)| folder)
    }

    /// Counts the remembered files.
    pub fn remembered_count(&self) -> usize {
        self.open.borrow().len()
    }

    /// Forgets the files without viewers, to free their descriptors.
    pub fn forget_unused(&self) {
        self.open.borrow_mut().retain(|_, known| Rc::strong_count(&known.file) > 1);
    }

    /// Forgets the files that a program waits to write to, and gives their leases back unless the kernel still refers to their pages. Also closes
    /// files that have had no viewer for some seconds. Call it about every second: the writer waits until then.
    pub fn forget_recalled(&self) {
        self.held
            .borrow_mut()
            .retain(|file| file.upgrade().is_some_and(|file| !file.give_way() || file.is_held()));
        let now = reactor::now();
        self.open.borrow_mut().retain(|_, known| !known.file.is_recalled() && !known.is_idle(now));
    }

    /// Counts how often a lease was refused because a program had the file open for writing.
    pub fn open_for_writing(&self) -> u64 {
        self.open_for_writing.get()
    }

    fn note_writers(&self, file: &File) {
        self.open_for_writing
            .set(self.open_for_writing.get() + u64::from(file.is_open_for_writing()));
    }

    fn remembered(&self, path: &[u8], now: Instant) -> Option<Rc<File>> {
        let mut open = self.open.borrow_mut();
        let known = open.get_mut(path)?;
        if !self.is_in_its_folder(path, &known.file)
            || known.file.is_suspect()
            || now.duration_since(known.looked_up) > LOOKED_UP_MAX
            || known.file.check_unchanged().is_err()
            || known.file.is_recalled()
        {
            return None;
        }
        known.used = now;
        Some(Rc::clone(&known.file))
    }

    /// Returns true if `file` came from the folder that now holds `path`. A title must not be a mix of two folders' files, not even for the second
    /// that a file is remembered.
    fn is_in_its_folder(&self, path: &[u8], file: &File) -> bool {
        self.names.borrow().is_none() || self.folder_of(path) == Some(file.folder())
    }

    async fn look_up(&self, path: &[u8]) -> Result<Rc<File>, OpenError> {
        let (folder, root) = self.root_of(path).ok_or(OpenError::NotFound)?;
        // A copy may be removed, or its disk fail, a moment before the names are renewed. Look the original up now, because they may be renewed
        // meanwhile.
        let original = self.original_of(path);
        match (self.look_up_in(folder, root, path).await, original) {
            (Err(OpenError::Withheld), _) => Err(OpenError::Withheld),
            (Err(_), Some((folder, root))) => self.look_up_in(folder, root, path).await,
            (found, _) => found,
        }
    }

    async fn look_up_in(
        &self,
        folder: u16,
        root: &Root,
        path: &[u8],
    ) -> Result<Rc<File>, OpenError> {
        let name = CString::new(path).map_err(|_| OpenError::NotFound)?;
        // With one folder there are no others to protect.
        if self.roots.len() > 1 && root.hangs(reactor::now()) {
            return Err(OpenError::Hangs);
        }
        // NONBLOCK: opening a pipe in the library must not block. The pipe is refused afterwards, because it is not a regular file.
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
        let resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS;
        let (result, _opening) = op::open_at(root.fd(), name, flags, resolve).await;
        let fd = op::opened(result)
            .map_err(|error| OpenError::from_errno(error.raw_os_error().unwrap_or(0)))?;
        let file = Rc::new(File::held(fd, folder)?.spelled(path).on_one_of(&self.rotating));
        if self.is_withheld(&file) {
            return Err(OpenError::Withheld);
        }
        if file.is_held() {
            self.held.borrow_mut().push(Rc::downgrade(&file));
        }
        Ok(file)
    }

    /// The folder of `path` and its root; none if no folder has it.
    fn root_of(&self, path: &[u8]) -> Option<(u16, &Root)> {
        let folder = match &*self.names.borrow() {
            Some(names) => *names.get(first_segment(path))?,
            None => 0,
        };
        Some((folder, self.roots.get(usize::from(folder))?.as_ref()?))
    }

    /// The original's folder and its root, if a copy holds the name.
    fn original_of(&self, path: &[u8]) -> Option<(u16, &Root)> {
        let folder = *self.originals.borrow().get(first_segment(path))?;
        Some((folder, self.roots.get(usize::from(folder))?.as_ref()?))
    }
}

fn first_segment(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'/').next().unwrap_or(path)
}

impl Remembered {
    /// Returns true if it has had no viewer for a while.
    fn is_idle(&self, now: Instant) -> bool {
        Rc::strong_count(&self.file) == 1 && now.duration_since(self.used) > IDLE_MAX
    }

    /// Returns true if it is the same version as `file`, which was just opened, and serves as well.
    fn serves_as_well_as(&self, file: &File) -> bool {
        let known = &self.file;
        !known.is_suspect()
            && !known.is_recalled()
            && known.check_unchanged().is_ok()
            && known.stamp() == file.stamp()
            && known.folder() == file.folder()
            && (known.is_held() || !file.is_held())
    }
}

fn forget_oldest(open: &mut HashMap<Box<[u8]>, Remembered>) {
    let oldest = open.iter().min_by_key(|(_, known)| known.used).map(|(path, _)| path.clone());
    if let Some(path) = oldest {
        open.remove(&path);
    }
}
