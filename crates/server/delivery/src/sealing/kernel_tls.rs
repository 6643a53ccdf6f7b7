//! TLS in the kernel: plaintext goes into the socket, by `sendfile` or from a buffer, and the kernel sends records.
//!
//! The cost of a byte: with `sendfile`, the kernel reads it once from the page cache and writes it once, sealed. From a buffer, the disk or the page
//! cache has first written it to the buffer. Sealing in user space does the same work and one more copy, of sealed bytes into the socket. But on most
//! machines user space has the faster sealing code, and a stalled viewer's bytes do not stay in memory. Kernels seal synchronously on the sending
//! thread, so either way the work takes this CPU's time.
//!
//! Records that wait in the kernel are copies, so a change of the file does not affect them. A record that is not full yet refers to the file's pages
//! until more is sent. When the socket is closed, such a record is discarded, not sent. So the read lease is held to the end of the response, and no
//! longer.
//!
//! The viewer's records are opened here. They are few, and a kernel can follow a viewer's key changes only from Linux 6.14 on, and would skip empty
//! records for as long as they arrive.
//!
//! **A NIC.** If the connection leaves by a NIC that encrypts, the kernel may pass the keys on, and the NIC seals what it sends. Retransmitted bytes
//! are sealed again. With `TLS_TX_ZEROCOPY_RO` the NIC reads a film's own pages for that, at any time until the viewer has acknowledged them, so the
//! lease is held until then: a change would make a record that does not open, and seal two plaintexts under one nonce.
//!
//! A viewer that requests new keys gets them if the kernel can change them, also in the middle of a response. Otherwise the connection is closed in
//! an orderly way, after the response.

use super::{Abilities, Sealing, UserTls};
use crate::channel::Channel;
use crate::end::End;
use crate::handover::Offer;
use crate::inbound::Records;
use crate::leased::{Leased, SentPages};
use crate::link::Link;
use crate::offload::KernelOffload;
use crate::offload_history::Got;
use crate::outgoing::Outgoing;
use crate::protected::Protected;
use crate::receive_half::ReceiveHalf;
use crate::resources::Resources;
use crate::retransmissions::{WINDOW_BYTES, Watch};
use crate::sendfile::Sendfile;
use crate::unsent::SEALED;
use net::tls::{Cipher, KernelTlsKeys};
use net::{Socket, Window};
use std::io;
use std::rc::Rc;
use telemetry::Family;
use tls::kernel::{ControlRecord, KernelKeys, KernelSealer, alert, key_update_message};
use tls::{Alert, SessionInfo, Suite, TlsVersion};

/// Records made by the kernel, or by a NIC that the kernel passes the keys to.
pub struct KernelTls {
    keys: KernelHalves,
    /// State of a connection that a NIC seals. Boxed, because few have it.
    nic: Option<Box<OnNic>>,
}

/// The keys of both directions.
pub(crate) struct KernelHalves {
    sealer: KernelSealer,
    receive_half: ReceiveHalf,
}

/// State of a connection that a NIC seals.
struct OnNic {
    /// If the NIC reads a film's pages in place: their lease is held until the viewer has them.
    pages: Option<SentPages>,
    watching: Watching,
}

/// Watches how many bytes had to be sent again.
struct Watching {
    /// The viewer's number ([`tls::SessionInfo::viewer`]).
    viewer: u64,
    nic: u32,
    watch: Watch,
    /// Bytes taken since the last check.
    unwatched_bytes: u64,
}

impl KernelTls {
    /// Gives the kernel the keys of a connection that `user_tls` sealed so far. If the kernel refuses them, the refusal is counted, and user space
    /// goes on sealing.
    pub(crate) fn hand_over(
        mut link: Link,
        user_tls: UserTls,
        info: &SessionInfo,
        offer: Offer,
    ) -> Channel {
        let (sealer, receive_half) = user_tls.into_halves();
        let sealer = sealer.into_kernel();
        let before = link.resources.handover.before(offer);
        match link.socket.attach_tls().and_then(|()| give_keys(&link.socket, &sealer)) {
            Ok(()) => {
                let offload = link.resources.offload;
                if offload.sends_files {
                    link.window = Window::new(link.resources.limits.sendfile_bytes_max);
                }
                let kind = (info.version, info.suite);
                let got = link.resources.handover.after(before, kind, &link.resources.numbers);
                let got = got.filter(|(_, got)| *got != Got::Cpu);
                let keys = KernelHalves { sealer, receive_half };
                let nic = got.map(|got| Box::new(OnNic::new(&link, got, info.viewer)));
                let sealing = Self { keys, nic };
                Channel::KernelTls(Box::new(Protected { link, sealing }))
            }
            Err(error) => {
                link.resources.numbers.count(Family::KernelTlsRefusals, refusal(&error));
                let sealing = UserTls::of_halves(sealer.take_back(), receive_half);
                Channel::UserTls(Box::new(Protected { link, sealing }))
            }
        }
    }

    /// Returns true if a NIC seals the connection. Then it cannot leave its thread: the leases on pages that the NIC may read again are held there.
    pub(crate) fn is_on_nic(&self) -> bool {
        self.nic.is_some()
    }

    /// Returns true if the connection costs its NIC too much work.
    pub(crate) fn is_costly(&self) -> bool {
        self.nic.as_ref().is_some_and(|nic| nic.watching.watch.verdict().is_some())
    }

    /// Takes it apart, if no NIC seals it.
    pub(crate) fn into_halves(self) -> KernelHalves {
        self.keys
    }

    pub(crate) fn of_halves(keys: KernelHalves) -> Self {
        Self { keys, nic: None }
    }
}

impl KernelHalves {
    /// Computed when needed, so that an idle viewer does not carry it.
    fn can(&self, link: &Link) -> Abilities {
        let KernelOffload { sends_files, changes_keys, .. } = link.resources.offload;
        let changes_keys = changes_keys && self.sealer.version() == TlsVersion::Tls13;
        Abilities { sends_files, changes_keys, lends_pages: false }
    }

    /// Changes the keys that the kernel seals with.
    async fn update_key(&mut self, link: &Link) -> Result<(), End> {
        if !self.can(link).changes_keys {
            return Err(End::KeysFixed);
        }
        // The wait may be interrupted. Nothing has changed until the message is sent, and nothing waits after that.
        let message = key_update_message(false);
        while !link.socket.send_record(ControlRecord::Handshake as u8, &message)? {
            if link.socket.is_writable() {
                link.back_off().await?;
            } else {
                link.pull().await?;
            }
        }
        self.receive_half.owes_keys = false;
        self.sealer.key_update().map_err(|_| End::KeysExhausted)?;
        // The viewer now expects the new keys. If the kernel does not take them, the viewer cannot open anything that the kernel seals.
        give_keys(&link.socket, &self.sealer).map_err(|_| End::KeysExhausted)?;
        link.resources.numbers.key_updates_sent_total.add(1);
        Ok(())
    }

    /// Counts the bytes that the kernel took, and changes the keys when they are due.
    async fn count_taken(&mut self, link: &Link, taken: usize) -> Result<(), End> {
        self.sealer.count_taken(taken);
        if self.sealer.is_exhausted() {
            return Err(End::KeysExhausted);
        }
        let key_records_max = link.resources.limits.key_records_max;
        if self.sealer.needs_key_update(key_records_max) && self.can(link).changes_keys {
            self.update_key(link).await?;
        }
        Ok(())
    }
}

impl OnNic {
    fn new(link: &Link, (nic, got): (u32, Got), viewer: u64) -> Self {
        let lends = got == Got::Nic && link.resources.offload.lends_pages();
        let lends = lends && link.socket.lend_pages().is_ok();
        let watching = Watching { viewer, nic, watch: Watch::default(), unwatched_bytes: 0 };
        Self { pages: lends.then(|| SentPages::new(link)), watching }
    }
}

impl Watching {
    fn count_taken(&mut self, link: &Link, taken: usize) {
        self.unwatched_bytes += taken as u64;
        if self.unwatched_bytes >= WINDOW_BYTES {
            self.look(link);
        }
    }

    fn look(&mut self, link: &Link) {
        self.unwatched_bytes = 0;
        let Some(progress) = link.socket.send_progress() else { return };
        let Resources { handover, numbers, .. } = &*link.resources;
        handover.watch(&mut self.watch, progress, (&link.socket, self.nic, self.viewer), numbers);
    }
}

/// Waits until the viewer has the pages of the last film, before a NIC reads another film's pages.
async fn settle_another(
    pages: &mut SentPages,
    link: &Link,
    outgoing: &Outgoing,
) -> Result<(), End> {
    let is_another = pages.leased.is_some() && !outgoing.is_of(pages.leased.file());
    if is_another { pages.leased.settle(link).await } else { Ok(()) }
}

impl Sealing<Socket> for KernelTls {
    fn open(&mut self, link: &Link, input: &mut Vec<u8>) -> Result<(), End> {
        Ok(self.keys.receive_half.open(input, &link.resources.numbers)?)
    }

    fn arriving<'a>(&'a mut self, _input: &'a mut Vec<u8>) -> &'a mut Vec<u8> {
        &mut self.keys.receive_half.sealed
    }

    fn peer_finished(&self) -> bool {
        self.keys.receive_half.peer_finished
    }

    fn owes(&self, _link: &Link) -> bool {
        self.keys.receive_half.owes_keys
    }

    async fn give(&mut self, link: &mut Link) -> Result<(), End> {
        self.keys.update_key(link).await
    }

    async fn before_waiting(&mut self, link: &Link) -> Result<(), End> {
        let pages = self.nic.as_mut().and_then(|nic| nic.pages.as_mut());
        if let Some(pages) = pages.filter(|pages| pages.leased.is_some()) {
            // Boxed: it lasts a round trip, and every idle viewer waits in this future for a request.
            Box::pin(pages.await_request_or_acknowledgement(link)).await?;
        }
        Ok(())
    }

    async fn send(
        &mut self,
        link: &mut Link,
        outgoing: &Rc<Outgoing>,
        input: &mut Vec<u8>,
    ) -> Result<(), End> {
        let Self { keys, nic } = self;
        let key_records_max = link.resources.limits.key_records_max;
        if keys.receive_half.owes_keys || keys.sealer.needs_key_update(key_records_max) {
            keys.update_key(link).await?;
        }
        let (pages, mut watching) = match nic.as_deref_mut() {
            Some(OnNic { pages, watching }) => (pages.as_mut(), Some(watching)),
            None => (None, None),
        };
        let lends_pages = pages.is_some();
        let mut copied = Leased::default();
        let leased = match pages {
            Some(pages) => {
                settle_another(pages, link, outgoing).await?;
                &mut pages.leased
            }
            None => &mut copied,
        };
        let can = Abilities { lends_pages, ..keys.can(link) };
        let mut sendfile = Sendfile::new(link, outgoing, can, SEALED);
        // Where keys cannot be changed, the response ends with the present ones, and then the connection.
        let gives_keys = can.changes_keys;
        loop {
            let mut inbound = Records::new(&mut keys.receive_half, input, gives_keys);
            let Some(taken) = sendfile.step(link, leased, &mut inbound).await? else { break };
            keys.receive_half.check()?;
            if keys.receive_half.owes_keys && gives_keys {
                keys.update_key(link).await?;
            }
            keys.count_taken(link, taken).await?;
            if taken > 0 {
                keys.receive_half.allow_key_update();
            }
            leased.drop_acknowledged(link);
            if let Some(watching) = &mut watching {
                watching.count_taken(link, taken);
            }
        }
        if let Some(watching) = watching {
            watching.look(link);
        }
        sendfile.end(link);
        Ok(())
    }

    /// Waits until TCP has everything that was sealed, so that a closing alert can be sent.
    ///
    /// Sealed bytes that TCP had no room for wait in the kernel. They are lost if TCP is asked to finish before it has room
    /// (`tls_sw_release_resources_tx`, net/tls/tls_sw.c; seen on Linux 6.1), and nothing reports whether any wait. But the next record pushes them
    /// all out, if there is room for it, and there is room once everything has arrived.
    async fn before_goodbye(&self, link: &Link) -> Result<(), End> {
        link.acknowledged(|| Ok(())).await
    }

    fn say(&mut self, link: &Link, alerts: &[Alert]) {
        for what in alerts {
            let _ = link.socket.send_record(ControlRecord::Alert as u8, &alert(*what));
        }
    }

    async fn settle(&mut self, link: &Link) -> Result<(), End> {
        match self.nic.as_mut().and_then(|nic| nic.pages.as_mut()) {
            Some(pages) => pages.leased.settle(link).await,
            None => Ok(()),
        }
    }
}

fn give_keys(socket: &Socket, sealer: &KernelSealer) -> io::Result<()> {
    socket.seal_with(&laid_out(&sealer.keys()))
}

fn laid_out(keys: &KernelKeys) -> KernelTlsKeys<'_> {
    KernelTlsKeys {
        is_tls13: keys.version() == TlsVersion::Tls13,
        cipher: match keys.suite() {
            Suite::Aes128Gcm => Cipher::Aes128Gcm,
            Suite::Aes256Gcm => Cipher::Aes256Gcm,
            Suite::ChaCha20Poly1305 => Cipher::ChaCha20Poly1305,
        },
        key: keys.key(),
        salt: keys.salt(),
        iv: keys.iv(),
        sequence: keys.sequence(),
    }
}

/// Why the kernel refused a connection's keys, as a counter's label.
fn refusal(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        // The module is missing when the socket is prepared; a cipher is missing when it gets keys.
        Some(libc::ENOENT) => "not_there",
        Some(libc::EINVAL | libc::EOPNOTSUPP) => "version_or_cipher",
        Some(libc::ENOTCONN) => "peer_gone",
        Some(libc::ENOMEM | libc::ENOBUFS) => "memory",
        _ => "other",
    }
}
