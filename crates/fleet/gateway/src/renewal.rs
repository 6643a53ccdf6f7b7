//! Reloads the certificates of the gateway's listeners when their files change and on SIGHUP. An invalid file is logged once, and the certificates
//! loaded before stay in use.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tls::Certificates;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// How often files are checked for changes: as often as in the video server.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(2);

/// The certificates of one listener.
pub(crate) struct Renewed {
    /// The listener's name in log lines.
    pub(crate) listener: &'static str,
    pub(crate) certificates: Arc<Certificates>,
    /// The last error, so that it is not logged again at every check.
    complaint: String,
}

impl Renewed {
    pub(crate) fn new(listener: &'static str, certificates: Arc<Certificates>) -> Self {
        Self { listener, certificates, complaint: String::new() }
    }

    /// Reloads the certificates if the files changed, or on request.
    fn renew(&mut self, is_asked: bool, log: fn(&str)) {
        if is_asked {
            self.complaint.clear();
        } else if !self.certificates.changed_on_disk() {
            return;
        }
        let listener = self.listener;
        match self.certificates.reload() {
            Ok(()) => {
                self.complaint.clear();
                let why = if is_asked { "on request" } else { "because they changed on disk" };
                log(&format!("{listener}: certificates reloaded {why}"));
            }
            Err(error) => {
                let complaint = error.to_string();
                if complaint != self.complaint {
                    log(&format!(
                        "{listener}: {complaint}; the certificates already loaded stay in use"
                    ));
                    self.complaint = complaint;
                }
            }
        }
    }
}

/// Checks and reloads forever.
///
/// # Errors
/// If the signal handler cannot be installed.
pub(crate) async fn renew(mut all: Vec<Renewed>, log: fn(&str)) -> io::Result<()> {
    let mut asked = signal(SignalKind::hangup())?;
    loop {
        let is_asked = tokio::select! {
            _ = asked.recv() => true,
            () = sleep(LOOKED_AT_EVERY) => false,
        };
        if is_asked && all.is_empty() {
            log("no certificates to reload: TLS is off");
        }
        // A hanging disk must not block the async runtime.
        let looked = spawn_blocking(move || {
            all.iter_mut().for_each(|renewed| renewed.renew(is_asked, log));
            all
        });
        all = looked.await.map_err(io::Error::other)?;
    }
}
