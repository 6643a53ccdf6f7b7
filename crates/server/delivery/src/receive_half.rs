//! Receives from the viewer: sealed records, which are opened here, whatever seals our own.

use crate::end::End;
use telemetry::Numbers;
use tls::{Content, OpenRecordError, Opened, Opener};

/// The receiving half of a connection with TLS.
pub(crate) struct ReceiveHalf {
    opener: Opener,
    /// Received and not opened yet: at most a record and the bytes that arrived with its end.
    pub(crate) sealed: Vec<u8>,
    /// The viewer has sent close_notify: it makes no more requests, but still waits for the answers to earlier ones.
    pub(crate) peer_finished: bool,
    /// The viewer has requested new keys of ours and has none yet. They are sent before anything else. One answer is enough, however often the viewer
    /// asked (RFC 8446 section 4.6.3). The flag stays set until the answer is sent, because the wait for that may be interrupted.
    pub(crate) owes_keys: bool,
    /// Set when nothing more will arrive.
    pub(crate) has_ended: bool,
    /// A record was wrong, so nothing after it is opened.
    failed: Option<OpenRecordError>,
}

/// Why no more records are opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A record was wrong: an alert should report it to the viewer.
    Wrong(OpenRecordError),
    /// The viewer reported an error by an alert.
    PeerAlert,
}

impl From<Stop> for End {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Wrong(error) => Self::Record(error),
            Stop::PeerAlert => Self::PeerAlert,
        }
    }
}

impl ReceiveHalf {
    /// Takes over after a handshake. `sealed` holds the bytes that arrived after its last record.
    pub(crate) fn new(opener: Opener, sealed: Vec<u8>) -> Self {
        Self {
            opener,
            sealed,
            peer_finished: false,
            owes_keys: false,
            has_ended: false,
            failed: None,
        }
    }

    /// Returns true if any meaningful record may still follow.
    pub(crate) fn expects_more(&self) -> bool {
        !self.has_ended && !self.peer_finished && self.failed.is_none()
    }

    /// Returns the first error in the records opened so far.
    ///
    /// # Errors
    /// [`Stop::Wrong`].
    pub(crate) fn check(&self) -> Result<(), Stop> {
        self.failed.map_or(Ok(()), |error| Err(Stop::Wrong(error)))
    }

    /// Allows the viewer one more change of its keys, because it has taken a part of a response.
    pub(crate) fn allow_key_update(&mut self) {
        self.opener.allow_key_update();
    }

    /// Opens every whole record that has arrived, and appends its content to `input`.
    pub(crate) fn open(&mut self, input: &mut Vec<u8>, numbers: &Numbers) -> Result<(), Stop> {
        self.check()?;
        let mut opened_bytes = 0;
        // Records after a close_notify are ignored (RFC 8446 section 6.1).
        while !self.peer_finished {
            let rest = &mut self.sealed[opened_bytes..];
            let opened = self.opener.open(rest).inspect_err(|error| self.failed = Some(*error));
            match opened.map_err(Stop::Wrong)? {
                Opened::Partial { .. } => break,
                Opened::Record { consumed_bytes, content } => {
                    opened_bytes += consumed_bytes;
                    if let Content::Data(range) = &content {
                        input.extend_from_slice(&rest[range.clone()]);
                    }
                    self.heed(&content, numbers)?;
                }
            }
        }
        self.sealed.drain(..opened_bytes);
        if self.sealed.is_empty() {
            // An idle viewer keeps no buffer.
            self.sealed = Vec::new();
        }
        Ok(())
    }

    fn heed(&mut self, content: &Content, numbers: &Numbers) -> Result<(), Stop> {
        match *content {
            // Only servers send tickets; a server connection's opener reports none.
            Content::Data(_) | Content::Tickets(_) | Content::Ignored => {}
            Content::Alert { fatal: false, .. } => {}
            Content::Alert { fatal: true, .. } => return Err(Stop::PeerAlert),
            Content::CloseNotify => self.peer_finished = true,
            Content::KeyUpdate { peer_requests_answer } => {
                numbers.key_updates_received_total.add(1);
                self.owes_keys |= peer_requests_answer;
            }
        }
        Ok(())
    }
}
