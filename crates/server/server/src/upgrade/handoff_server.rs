//! The old server's side of an upgrade: answers requests at the upgrade socket, and hands over to the new server when that is ready.

use super::listener_set::ListenerSet;
use super::message::{PROTOCOL, ToNew, ToOld};
use super::socket::{accept, either, wait_at_most};
use crate::acme::AcmeLink;
use crate::admin::AdminControl;
use crate::control::Control;
use crate::edge::{KeyRules, PurgeFailed};
use crate::notify::notify;
use crate::signals::News;
use config::obstacle;
use config::{AcmeChallenge, Config};
use edge::inquiry::Inquiry;
use edge::purge::Purge;
use helper_process::packets;
use rustix::net::UCred;
use std::io;
use std::num::NonZeroI32;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How long a client may take to send its first message.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time that a new server may take to start, and to settle.
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// A pause when no descriptor is left for a client.
const PAUSE: Duration = Duration::from_secs(1);

/// The answer to requests for a caching edge, if this server is none.
const NO_EDGE: &str = "it is no caching edge: it was started without --origin";

/// Serves a running server's upgrade socket, on a thread of its own.
pub(crate) struct HandoffServer {
    pub(crate) socket: OwnedFd,
    pub(crate) listeners: Arc<ListenerSet>,
    pub(crate) controls: Vec<Arc<Control>>,
    pub(crate) admin: AdminControl,
    /// The helper for certificates, if there is one.
    pub(crate) acme: Option<Arc<AcmeLink>>,
    /// The configuration that this server was started with.
    pub(crate) config: Arc<Config>,
    /// Is notified when another server has taken over.
    pub(crate) news: Sender<News>,
}

/// Why this server stays: a line for the operator.
struct HandoffFailed(String);

impl HandoffServer {
    /// Starts the thread.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(self) -> io::Result<()> {
        std::thread::Builder::new().name("door".into()).spawn(move || self.run()).map(drop)
    }

    fn run(self) {
        let mut buffer = Vec::new();
        loop {
            let Ok((line, who)) = accept(&self.socket) else {
                std::thread::sleep(PAUSE);
                continue;
            };
            match self.answer(&line, who, &mut buffer) {
                Ok(true) => return,
                Ok(false) => {}
                Err(HandoffFailed(why)) => eprintln!("fullbore: {why}; this server continues"),
            }
        }
    }

    /// Handles a client's request. Returns whether another server has taken over for good.
    fn answer(
        &self,
        line: &OwnedFd,
        who: UCred,
        buffer: &mut Vec<u8>,
    ) -> Result<bool, HandoffFailed> {
        let process = who.pid.as_raw_nonzero();
        let cannot = |why: io::Error| {
            HandoffFailed(format!("process {process} connected without a request ({why})"))
        };
        wait_at_most(line, FIRST_MESSAGE_TIMEOUT).map_err(cannot)?;
        let asked = packets::receive(line, buffer).map_err(cannot)?;
        if who.uid != rustix::process::geteuid() {
            refuse(
                line,
                "only the user who runs it may upgrade it, or look into its cache and purge it: become that user, for example with sudo -u",
            );
            let user = who.uid.as_raw();
            return Err(HandoffFailed(format!(
                "process {process} of user {user} may not upgrade this server or purge its cache"
            )));
        }
        let ready_seconds = match asked {
            Some((ToOld::Ask { protocol: PROTOCOL, ready_seconds }, _)) => ready_seconds,
            Some((ToOld::Show, _)) => return self.show(line).map(|()| false).map_err(cannot),
            Some((ToOld::Purge { purge }, _)) => {
                self.purge(line, purge, process);
                return Ok(false);
            }
            Some((ToOld::Inquire { inquiry }, _)) => {
                self.inquire(line, inquiry);
                return Ok(false);
            }
            Some((ToOld::Purges, _)) => return self.purges(line).map(|()| false).map_err(cannot),
            Some((ToOld::Failed { why }, _)) => {
                return Err(HandoffFailed(format!("an upgrade failed: {}", one_line(&why))));
            }
            Some(_) => {
                refuse(line, "it is of a version that cannot hand over to this one: restart it");
                return Err(HandoffFailed(format!(
                    "process {process} speaks another version of the protocol"
                )));
            }
            None => {
                return Err(HandoffFailed(format!(
                    "process {process} connected and left without a request"
                )));
            }
        };
        if let Some(why) = self.refusal() {
            refuse(line, why);
            return Err(HandoffFailed(format!(
                "the upgrade by process {process} was refused: {why}"
            )));
        }
        eprintln!("fullbore: process {process} starts in place of this server");
        let failed =
            |why: String| HandoffFailed(format!("the upgrade by process {process} failed: {why}"));
        self.hand_over(line).map_err(|why| failed(why.to_string()))?;
        let timeout = Duration::from_secs(ready_seconds).min(TIMEOUT_MAX);
        let settle = self.await_ready(line, Instant::now() + timeout, buffer).map_err(failed)?;
        self.leave_with_helper(|| self.leave(line, settle, buffer)).map_err(failed)?;
        eprintln!("fullbore: process {process} has taken over from this server");
        // Only now, because systemd takes the end of a main process for the end of its service.
        notify(&format!("MAINPID={process}"));
        // The main thread lives as long as the process.
        let _ = self.news.send(News::Succeeded);
        Ok(true)
    }

    /// Sends the configuration.
    fn show(&self, line: &OwnedFd) -> io::Result<()> {
        let text = toml::to_string(&*self.config).map_err(|why| {
            refuse(line, &format!("its configuration cannot be written as text ({why})"));
            io::Error::other(why)
        })?;
        for part in parts(&text) {
            packets::send(line, &ToNew::Config { part: part.to_owned() }, None)?;
        }
        packets::send(line, &ToNew::All { process: std::process::id() }, None)
    }

    /// Carries out a purge. If the client has gone, the log has the outcome.
    fn purge(&self, line: &OwnedFd, purge: Purge, process: NonZeroI32) {
        let Some(edge) = self.admin.edge() else { return refuse(line, NO_EDGE) };
        match edge.purge(purge, &format!("process {process}"), &KeyRules::of(&self.config)) {
            Ok(purged) => drop(packets::send(line, &ToNew::Purged { purged }, None)),
            Err(why @ PurgeFailed::Misused(_)) => refuse_misuse(line, &why.to_string()),
            Err(why) => refuse(line, &why.to_string()),
        }
    }

    /// Sends the latest purges.
    fn purges(&self, line: &OwnedFd) -> io::Result<()> {
        match self.admin.edge() {
            Some(edge) => {
                packets::send(line, &ToNew::Purges { purges: edge.recent_purges() }, None)
            }
            None => {
                refuse(line, NO_EDGE);
                Ok(())
            }
        }
    }

    /// Answers a question about what is stored.
    fn inquire(&self, line: &OwnedFd, inquiry: Inquiry) {
        let Some(edge) = self.admin.edge() else { return refuse(line, NO_EDGE) };
        match edge.inquire(inquiry, &KeyRules::of(&self.config)) {
            Ok(findings) => {
                let found = ToNew::Found { findings: Box::new(findings) };
                drop(packets::send(line, &found, None));
            }
            Err(why) => refuse(line, &why),
        }
    }

    fn refusal(&self) -> Option<&'static str> {
        if self.listeners.is_shared() {
            return Some("it has just taken over from another server: try again in a few seconds");
        }
        if self.listeners.is_ending() {
            return Some("it is ending: start the new one when it is gone");
        }
        obstacle(&self.config)
    }

    /// Hands the new server everything that it needs to replace this one.
    fn hand_over(&self, line: &OwnedFd) -> io::Result<()> {
        for listener in &self.listeners.viewers {
            packets::send(line, &ToNew::Viewers, Some(listener.as_fd()))?;
        }
        packets::send(line, &ToNew::Admin, Some(self.listeners.admin.as_fd()))?;
        if let Some(plain) = &self.listeners.plain {
            packets::send(line, &ToNew::Plain, Some(plain.listener().as_fd()))?;
        }
        packets::send(line, &ToNew::Door, Some(self.socket.as_fd()))?;
        packets::send(line, &ToNew::All { process: std::process::id() }, None)
    }

    /// Waits for the new process to report ready and returns how long to keep running. Other clients are refused meanwhile.
    fn await_ready(
        &self,
        line: &OwnedFd,
        deadline: Instant,
        buffer: &mut Vec<u8>,
    ) -> Result<Duration, String> {
        loop {
            match either(line, &self.socket, deadline) {
                Ok(Some([true, _])) => break,
                Ok(Some(_)) => {
                    if let Ok((other, _)) = accept(&self.socket) {
                        refuse_second(&other, buffer);
                    }
                }
                Ok(None) => return Err("it was not ready in time".into()),
                Err(why) => return Err(why.to_string()),
            }
        }
        match packets::receive(line, buffer) {
            Ok(Some((ToOld::Ready { settle_seconds }, _))) => {
                let settle = Duration::try_from_secs_f64(settle_seconds);
                Ok(settle.unwrap_or_default().clamp(Duration::from_millis(1), TIMEOUT_MAX))
            }
            Ok(Some((ToOld::Failed { why }, _))) => Err(one_line(&why)),
            Ok(Some(_)) => Err("it did not report that it was ready".into()),
            Ok(None) => Err("it ended before it was ready".into()),
            Err(why) => Err(why.to_string()),
        }
    }

    /// Hands over by `leave`, so that an authority that checks a proof at the viewers' port meets the server that has it.
    fn leave_with_helper(&self, leave: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let wanted = self.config.tls.acme.as_ref();
        let is_by_tls = wanted.is_some_and(|wanted| wanted.challenge == AcmeChallenge::Tls);
        let Some(acme) = self.acme.as_ref().filter(|_| is_by_tls) else { return leave() };
        acme.hand_over_place();
        let left = leave();
        match left {
            Ok(()) => acme.leave_place(),
            Err(_) => acme.keep_place(),
        }
        left
    }

    /// Stops accepting, and accepts again if the new server ends within `settle`.
    fn leave(&self, line: &OwnedFd, settle: Duration, buffer: &mut Vec<u8>) -> Result<(), String> {
        // First this, then the check: the main thread sets `is_ending` and then checks this, so at least one of the two notices the other.
        self.listeners.share(true);
        let told = match self.listeners.is_ending() {
            true => Err("this server is ending".to_owned()),
            false => packets::send(line, &ToNew::Go, None).map_err(|why| why.to_string()),
        };
        if told.is_err() {
            self.listeners.share(false);
            return told;
        }
        self.set_standby(true);
        let seconds = settle.as_secs_f64();
        eprintln!(
            "fullbore: it accepts now; this server takes over again if it ends within {seconds} s"
        );
        let gone =
            wait_at_most(line, settle).and_then(|()| packets::receive::<ToOld>(line, buffer));
        let why = match gone {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                // If the new server has just ended, its supervisor will notice.
                let _ = packets::send(line, &ToNew::Settled, None);
                return Ok(());
            }
            Ok(Some((ToOld::Failed { why }, _))) => one_line(&why),
            _ => format!("it ended within {seconds} s"),
        };
        self.listeners.share(false);
        if let Err(why) = self.listeners.receive() {
            eprintln!(
                "fullbore: the listeners keep the new server's settings: {why}; restart this server when you can"
            );
        }
        self.set_standby(false);
        eprintln!("fullbore: this server accepts again");
        Err(why)
    }

    fn set_standby(&self, is_standby: bool) {
        self.controls.iter().for_each(|control| control.set_standby(is_standby));
        self.admin.set_standby(is_standby);
    }
}

/// Refuses a second upgrade at the same time.
fn refuse_second(line: &OwnedFd, buffer: &mut Vec<u8>) {
    // A socket that is closed with unread data resets the other end, which then does not read the answer.
    let _ = wait_at_most(line, FIRST_MESSAGE_TIMEOUT)
        .and_then(|()| packets::receive::<ToOld>(line, buffer));
    refuse(line, "another upgrade is under way: try again when it has ended");
    eprintln!("fullbore: a second upgrade at the same time was refused");
}

/// The bytes of a text in one message: few enough for a packet, even with a backslash before each.
const PART_BYTES_MAX: usize = 16 << 10;

/// The parts of a text, split between characters.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.len().min(PART_BYTES_MAX);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (part, behind) = rest.split_at(end);
        rest = behind;
        (!part.is_empty()).then_some(part)
    })
}

/// Another process's text, for the log.
fn one_line(said: &str) -> String {
    let words: Vec<_> = said.split_whitespace().collect();
    ingest::shown(&words.join(" ")).into_owned()
}

/// Sends a refusal. If the client has gone, it no longer matters.
fn refuse(line: &OwnedFd, why: &str) {
    let _ = packets::send(line, &ToNew::Refused { why: why.to_owned(), is_misuse: false }, None);
}

/// As [`refuse`], for a request that would be refused again.
fn refuse_misuse(line: &OwnedFd, why: &str) {
    let _ = packets::send(line, &ToNew::Refused { why: why.to_owned(), is_misuse: true }, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_its_characters() {
        for text in ["", "short", &"\u{1f37f}".repeat(10_001), &"x".repeat(PART_BYTES_MAX)] {
            let cut: Vec<_> = parts(text).collect();
            assert_eq!(cut.concat(), *text);
            assert!(cut.iter().all(|part| (1..=PART_BYTES_MAX).contains(&part.len())));
        }
    }
}
