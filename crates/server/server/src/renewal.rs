//! Reloads files while the server runs: certificates, the keys of signed URLs, the address lists and the files of an edge's origins, on request
//! (SIGHUP) and when their files change. On request it also reopens the access log. In the same rhythm it checks which files must not be served, and
//! reports trouble with the library's folders to the operator.
//!
//! This has a thread of its own, because reading waits for disks: a hanging network filesystem must not keep the main
//! thread from noticing a signal to stop. An unusable file is reported once, and the previously loaded version stays in use.

use crate::access_log::LogReopener;
use crate::address_lists::AddressLists;
use crate::control::Control;
use crate::folders::AllFolders;
use crate::open_privileged::load_keys;
use crate::reloads::{ReloadComplaints, Reloaded};
use config::Config;
use config::own_files::OwnFiles;
use edge::origin_files::{FilesRead, OriginFilesLink};
use files::FileStamp;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tls::TlsContext;
use token::{CopyRing, KeyRing};

/// How often files are checked for changes.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(2);

/// The most reports of the keeper at one look.
const REPORTS_MAX: usize = 16;

/// How long the keeper may take to read the files of origins. If it takes longer, what came of it is noted at the next look.
const ORIGIN_FILES_WITHIN: Duration = Duration::from_secs(2);

/// The thread's state.
pub(crate) struct Renewal {
    pub(crate) config: Arc<Config>,
    /// The certificates in use.
    pub(crate) tls: Option<TlsContext>,
    /// The keys of signed URLs in use.
    pub(crate) keys: Option<Arc<KeyRing>>,
    /// The keys of nodes' copies in use; none if they cannot be read, because the library can be served without them.
    pub(crate) copies: Option<Arc<CopyRing>>,
    /// The address lists in use.
    pub(crate) lists: Arc<AddressLists>,
    /// The keeper that reads the files of an edge's origins, if they have any.
    pub(crate) origin_files: Option<OriginFilesLink>,
    /// The access log, if it is a file.
    pub(crate) log: Option<LogReopener>,
    /// The files that must not be served.
    pub(crate) own_files: OwnFiles,
    /// The libraries' folders, for reporting their trouble to the operator.
    pub(crate) folders: Arc<AllFolders>,
    /// The workers' controls.
    pub(crate) controls: Vec<Arc<Control>>,
    /// Failed reloads.
    pub(crate) complaints: ReloadComplaints,
    /// The state of the lists' files when their text was invalid; empty if it was not.
    pub(crate) refused_lists: Vec<FileStamp>,
}

impl Renewal {
    /// Starts the thread. A message sent to it is a request to reload everything.
    pub(crate) fn start(self) -> io::Result<Sender<()>> {
        let (request, requests) = channel();
        std::thread::Builder::new().name("renewal".into()).spawn(move || self.run(&requests))?;
        Ok(request)
    }

    fn run(mut self, requests: &Receiver<()>) {
        if self.copies.is_none() {
            // Reports why workers started without them.
            self.renew_copies();
        }
        loop {
            let request = requests.recv_timeout(LOOKED_AT_EVERY);
            // First, so that a new key file is withheld before anything is signed with it.
            self.withhold_own_files();
            self.folders.tell();
            self.note_origin_files();
            match request {
                Ok(()) => {
                    self.complaints.forget();
                    self.reopen_log();
                    self.renew_keys("on request");
                    self.renew_copies();
                    self.renew_lists("on request");
                    self.renew_certificates("on request");
                    self.renew_origin_files();
                }
                Err(RecvTimeoutError::Timeout) => {
                    if self.keys.as_ref().is_some_and(|keys| keys.changed_on_disk()) {
                        self.renew_keys("because they changed on disk");
                    }
                    if self.copies.as_ref().is_none_or(|copies| copies.changed_on_disk()) {
                        self.renew_copies();
                    }
                    if self.lists.is_worth_reading(&self.refused_lists) {
                        self.renew_lists("because they changed on disk");
                    }
                    if self.tls.as_ref().is_some_and(TlsContext::changed_on_disk) {
                        self.renew_certificates("because they changed on disk");
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Keeps workers from serving the server's own files, including files that have replaced them.
    fn withhold_own_files(&mut self) {
        if self.own_files.look_again() {
            let inodes = self.own_files.inodes();
            self.controls.iter().for_each(|control| control.withhold(Arc::clone(&inodes)));
        }
    }

    /// Makes the access log start a new file, if the old one was renamed. The writer reports when it does.
    fn reopen_log(&self) {
        let Some(log) = &self.log else { return };
        if let Err(error) = log.reopen() {
            let file = log.path().display();
            let advice = match error.kind() {
                // The sandbox keeps the server from creating files next to files that it reads.
                io::ErrorKind::PermissionDenied => {
                    " (it needs a folder of its own, and the server's user must be able to write there: see docs/operate.md)"
                }
                _ => "",
            };
            eprintln!(
                "fullbore: cannot reopen the access log {file}: {error}{advice}; the one already open stays in use"
            );
        }
    }

    /// Reloads the certificates; existing connections keep theirs.
    fn renew_certificates(&mut self, why: &str) {
        let Some(current) = &self.tls else {
            eprintln!("fullbore: no certificates to reload: TLS is off");
            return;
        };
        match current.reload() {
            Ok(renewed) => {
                self.controls.iter().for_each(|control| control.renew(renewed.clone()));
                self.tls = Some(renewed);
                self.complaints.clear(Reloaded::Certificates);
                eprintln!("fullbore: certificates reloaded {why}");
            }
            Err(error) => self.complaints.tell(Reloaded::Certificates, error.to_string()),
        }
    }

    /// Reloads the keys of signed URLs, if there are any; tokens verified with the old ones are verified again.
    fn renew_keys(&mut self, why: &str) {
        match load_keys(&self.config) {
            Ok(None) => {}
            // A truncated file must neither open the library to everyone nor refuse all holders of our own tokens.
            Ok(Some(keys)) if self.keys.as_ref().is_some_and(|old| keys.has_lost_keys(old)) => {
                let complaint = "the key files hold no key any more".to_owned();
                self.complaints.tell(Reloaded::SigningKeys, complaint);
            }
            Ok(Some(keys)) => {
                self.controls.iter().for_each(|control| control.renew_keys(Arc::clone(&keys)));
                self.keys = Some(keys);
                self.complaints.clear(Reloaded::SigningKeys);
                eprintln!("fullbore: keys of signed URLs reloaded {why}");
            }
            Err(error) => self.complaints.tell(Reloaded::SigningKeys, error.to_string()),
        }
    }

    /// Reloads the keys of nodes' copies, if there is such a file. They change each day, so that is not logged.
    fn renew_copies(&mut self) {
        let Some(file) = &self.config.signing.copies else { return };
        match CopyRing::read(file) {
            Ok(ring) => {
                let ring = Arc::new(ring);
                self.controls.iter().for_each(|control| control.renew_copies(Arc::clone(&ring)));
                self.copies = Some(ring);
                self.complaints.clear(Reloaded::CopyKeys);
            }
            Err(error) => self.complaints.tell(Reloaded::CopyKeys, error.to_string()),
        }
    }

    /// Reloads the address lists, if there are any; open connections stay open.
    fn renew_lists(&mut self, why: &str) {
        if self.config.access.files().next().is_none() {
            return;
        }
        // Before they are read, so that a change in between is noticed later instead of missed.
        let tried = AddressLists::stamps(&self.config.access);
        match AddressLists::read(&self.config.access) {
            Ok(lists) => {
                self.lists = Arc::new(lists);
                let lists = &self.lists;
                self.controls.iter().for_each(|control| control.renew_lists(Arc::clone(lists)));
                self.refused_lists.clear();
                self.complaints.clear(Reloaded::AddressLists);
                eprintln!("fullbore: lists of addresses reloaded {why}: {lists}");
            }
            Err(error) => {
                // A list may be long, and a fault in its text stays until the file is written again, so don't read it until then.
                self.refused_lists = if error.is_of_text() { tried } else { Vec::new() };
                self.complaints.tell(Reloaded::AddressLists, error.to_string());
            }
        }
    }

    /// Has the files of an edge's origins read at once.
    fn renew_origin_files(&mut self) {
        let Some(link) = &self.origin_files else { return };
        link.request();
        if let Some(read) = link.report(ORIGIN_FILES_WITHIN) {
            self.note_read(read);
        }
    }

    /// Notes what came of reading the files of an edge's origins, which the keeper does when they change.
    fn note_origin_files(&mut self) {
        let reports = || self.origin_files.as_ref()?.report(Duration::ZERO);
        // A keeper that reports more is not worth waiting for.
        let latest = std::iter::from_fn(reports).take(REPORTS_MAX).last();
        latest.into_iter().for_each(|read| self.note_read(read));
    }

    fn note_read(&mut self, read: FilesRead) {
        match read.failed {
            None => self.complaints.clear(Reloaded::OriginFiles),
            Some(why) => self.complaints.tell(Reloaded::OriginFiles, why),
        }
    }
}
