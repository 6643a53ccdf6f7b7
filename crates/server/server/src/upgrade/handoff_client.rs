//! The new server's side of an upgrade: requests the old one's listeners, and takes over when it has started.

use super::message::{PROTOCOL, ToLauncher, ToNew, ToOld};
use super::socket::{connect_to, wait_at_most};
use super::{ListenerSet, UpgradeError};
use config::Config;
use config::obstacle;
use helper_process::packets;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long the old server may take to answer. It does so at once, unless its machine is very busy.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// The server that this one replaces.
pub struct HandoffClient {
    line: OwnedFd,
    /// The command that started this server, and waits for the outcome.
    launcher: OwnedFd,
    process: u32,
    settle_seconds: f64,
    inherited: Inherited,
}

/// Everything that it hands over.
#[derive(Default)]
pub(crate) struct Inherited {
    pub(crate) viewers: Vec<OwnedFd>,
    pub(crate) admin: Option<OwnedFd>,
    pub(crate) plain: Option<OwnedFd>,
    pub(crate) socket: Option<OwnedFd>,
}

impl HandoffClient {
    /// Requests the listeners of the server at `socket`, which continues until `take_over`.
    ///
    /// # Errors
    /// If there is none, or it refuses.
    pub fn ask(
        socket: &Path,
        config: &Config,
        launcher: OwnedFd,
        ready_seconds: u64,
        settle_seconds: f64,
    ) -> Result<Self, UpgradeError> {
        if let Some(why) = obstacle(config) {
            return Err(UpgradeError::Obstacle(why));
        }
        let no_server = |why| UpgradeError::NoServer { socket: socket.to_owned(), why };
        let line = connect_to(socket).map_err(no_server)?;
        // If the command is gone, the message no longer matters.
        let _ = packets::send(&launcher, &ToLauncher::Asked, None);
        wait_at_most(&line, ANSWER_TIMEOUT).map_err(UpgradeError::Line)?;
        let ask = ToOld::Ask { protocol: PROTOCOL, ready_seconds };
        packets::send(&line, &ask, None).map_err(UpgradeError::Line)?;
        let (process, inherited) = receive_all(&line)?;
        Ok(Self { line, launcher, process, settle_seconds, inherited })
    }

    /// Everything that it hands over; can be taken once.
    pub(crate) fn inherited(&mut self) -> Inherited {
        std::mem::take(&mut self.inherited)
    }

    /// Reports that this server cannot start.
    pub(crate) fn fail(&self, why: &dyn std::fmt::Display) {
        // If the old server is gone, the message no longer matters.
        let _ = packets::send(&self.line, &ToOld::Failed { why: why.to_string() }, None);
    }

    /// Returns once this server accepts.
    ///
    /// # Errors
    /// If the other one does not stop accepting.
    pub(crate) fn take_over(&self) -> Result<(), UpgradeError> {
        let ready = ToOld::Ready { settle_seconds: self.settle_seconds };
        packets::send(&self.line, &ready, None).map_err(|_| UpgradeError::Gone)?;
        match packets::receive(&self.line, &mut Vec::new()) {
            Ok(Some((ToNew::Go, _))) => {
                let _ = packets::send(&self.launcher, &ToLauncher::Accepts, None);
                Ok(())
            }
            Ok(Some((ToNew::Refused { why, .. }, _))) => Err(UpgradeError::Refused(why)),
            _ => Err(UpgradeError::Gone),
        }
    }

    /// Waits, on a thread of its own, until the old server can no longer take over again, and reports it to the launcher.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn await_settled(self, listeners: Arc<ListenerSet>) -> io::Result<()> {
        let wait = move || {
            // Whether it confirms, is gone or stays silent for too long: it does not accept any more. It accepts again only if this process ends.
            let timeout = Duration::try_from_secs_f64(self.settle_seconds).unwrap_or_default();
            let _ = wait_at_most(&self.line, timeout + ANSWER_TIMEOUT)
                .and_then(|()| packets::receive::<ToNew>(&self.line, &mut Vec::new()));
            listeners.share(false);
            let _ = packets::send(&self.launcher, &ToLauncher::Settled { old: self.process }, None);
        };
        std::thread::Builder::new().name("settling".into()).spawn(wait).map(drop)
    }
}

/// The old server's process, and everything that it hands over.
fn receive_all(line: &OwnedFd) -> Result<(u32, Inherited), UpgradeError> {
    let mut inherited = Inherited::default();
    let mut buffer = Vec::new();
    loop {
        let received = packets::receive(line, &mut buffer).map_err(UpgradeError::Line)?;
        match received.ok_or(UpgradeError::Gone)? {
            (ToNew::Viewers, Some(listener)) => inherited.viewers.push(listener),
            (ToNew::Admin, listener) => inherited.admin = listener,
            (ToNew::Plain, listener) => inherited.plain = listener,
            (ToNew::Door, socket) => inherited.socket = socket,
            (ToNew::All { process }, _) => return Ok((process, inherited)),
            (ToNew::Refused { why, .. }, _) => return Err(UpgradeError::Refused(why)),
            (
                ToNew::Viewers
                | ToNew::Go
                | ToNew::Settled
                | ToNew::Config { .. }
                | ToNew::Purged { .. }
                | ToNew::Purges { .. }
                | ToNew::Found { .. },
                _,
            ) => return Err(UpgradeError::Gone),
        }
    }
}

/// Tells the server at `socket`, if there is one, that an upgrade failed before it was contacted. Returns whether there is one.
pub fn give_up(socket: &Path, why: &str) -> bool {
    let Ok(line) = connect_to(socket) else { return false };
    let _ = packets::send(&line, &ToOld::Failed { why: why.to_owned() }, None);
    true
}
