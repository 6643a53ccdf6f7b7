//! What is read again while the server runs: certificates, on request (SIGHUP) and when their files change, and the keys of
//! signed URLs, on request. Which files are not to be served, and whether the library is still there, is looked at in the same
//! rhythm.
//!
//! A thread of its own does that: reading waits for disks, and a network filesystem that hangs must not keep the main thread
//! from hearing that the server is to stop. What cannot be used is told once, and what is loaded already stays in use.

use crate::config::Config;
use crate::control::Control;
use crate::library_place::{LibraryPlace, LibraryTrouble};
use crate::own_files::OwnFiles;
use crate::server::load_keys;
use crypt::Tls;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often files are looked at for changes.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(2);

/// The thread's own.
pub(crate) struct Renewal {
    pub(crate) config: Arc<Config>,
    /// The certificates in use.
    pub(crate) tls: Option<Tls>,
    /// What is not to be served.
    pub(crate) own_files: OwnFiles,
    /// Where the library was, and what is wrong with it now.
    pub(crate) library: LibraryPlace,
    pub(crate) library_trouble: Arc<LibraryTrouble>,
    /// The workers'.
    pub(crate) controls: Vec<Arc<Control>>,
    /// What was last said of certificates that cannot be used; it is not said every time they are looked at.
    pub(crate) complaint: String,
}

impl Renewal {
    /// Starts the thread. Whatever is sent is a request to read everything again.
    pub(crate) fn start(self) -> io::Result<Sender<()>> {
        let (request, requests) = channel();
        std::thread::Builder::new().name("renewal".into()).spawn(move || self.run(&requests))?;
        Ok(request)
    }

    fn run(mut self, requests: &Receiver<()>) {
        loop {
            let request = requests.recv_timeout(LOOKED_AT_EVERY);
            // First, so that a new key is withheld before anything is signed with it.
            self.withhold_own_files();
            self.library.look_again(&self.library_trouble);
            match request {
                Ok(()) => {
                    self.complaint.clear();
                    self.renew_keys();
                    self.renew_certificates("on request");
                }
                Err(RecvTimeoutError::Timeout) => {
                    if self.tls.as_ref().is_some_and(Tls::changed_on_disk) {
                        self.renew_certificates("because they changed on disk");
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Keeps workers from serving the server's own files, also when others have taken their place.
    fn withhold_own_files(&mut self) {
        if self.own_files.look_again() {
            let inodes = self.own_files.inodes();
            self.controls.iter().for_each(|control| control.withhold(Arc::clone(&inodes)));
        }
    }

    /// Reads the certificates again; connections that exist keep theirs.
    fn renew_certificates(&mut self, why: &str) {
        let Some(current) = &self.tls else {
            eprintln!("fullbore: no certificates to reload: TLS is off");
            return;
        };
        match current.reload() {
            Ok(renewed) => {
                self.controls.iter().for_each(|control| control.renew(renewed.clone()));
                self.tls = Some(renewed);
                self.complaint.clear();
                eprintln!("fullbore: certificates reloaded {why}");
            }
            Err(error) => {
                let complaint = error.to_string();
                if complaint != self.complaint {
                    eprintln!("fullbore: {complaint}; the certificates already loaded stay in use");
                    self.complaint = complaint;
                }
            }
        }
    }

    /// Reads the keys of signed URLs again, if there are any.
    fn renew_keys(&self) {
        match load_keys(&self.config) {
            Ok(None) => {}
            Ok(Some(keys)) => {
                self.controls.iter().for_each(|control| control.renew_keys(Arc::clone(&keys)));
                eprintln!("fullbore: keys of signed URLs reloaded on request");
            }
            Err(error) => {
                eprintln!("fullbore: {error}; the keys already loaded stay in use");
            }
        }
    }
}
