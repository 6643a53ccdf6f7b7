//! TLS in the kernel: plaintext goes into the socket, by `sendfile` or from a buffer, and the kernel sends records.
//!
//! What a byte costs: with `sendfile`, the kernel reads it once from the page cache and writes it once, sealed. From a
//! buffer, the disk or the page cache has first written it to the buffer. Sealing in user space does the same work and
//! one more copy, of sealed bytes into the socket. But on most machines user space has the faster sealing code, and a
//! stalled viewer's bytes do not stay in memory. Kernels seal synchronously on the sending thread, so either way the
//! work takes this CPU's time.
//!
//! Records that wait in the kernel are copies, so a change of the file does not affect them. A record that is not full
//! yet refers to the file's pages until more is sent. When the socket is closed, such a record is discarded, not sent.
//! So the file is held still to the end of the response, and no longer.
//!
//! What a viewer sends is opened here. It is little, and a kernel can follow a viewer's key changes only from Linux
//! 6.14 on, and would skip empty records for as long as they arrive.
//!
//! A viewer that asks for new keys gets them if the kernel can change them. Otherwise the connection is closed in an
//! orderly way.

use super::{Abilities, ByUs, Sealing};
use crate::channel::Channel;
use crate::end::End;
use crate::leased::Leased;
use crate::link::Link;
use crate::outgoing::Outgoing;
use crate::protected::Protected;
use crate::receive_half::ReceiveHalf;
use crate::sendfile::Sendfile;
use crate::unsent::SEALED;
use crypt::kernel::{ControlRecord, KernelKeys, KernelSealer, alert, key_update_message};
use crypt::{Alert, Established, Suite, Version};
use net::tls::{Cipher, Keys};
use net::{Socket, Window};
use std::io;
use std::rc::Rc;
use telemetry::Family;

/// Records made by the kernel.
pub struct ByKernel {
    sealer: KernelSealer,
    receive_half: ReceiveHalf,
    can: Abilities,
}

impl ByKernel {
    /// Gives the kernel the keys of a connection whose handshake is complete and sent. If the kernel refuses them, that
    /// is counted, and the connection is sealed in user space.
    pub(crate) fn hand_over(
        mut link: Link,
        established: Established,
        sealed_input: Vec<u8>,
    ) -> Channel {
        let Established { sealer, opener, info } = established;
        let sealer = sealer.into_kernel();
        match link.socket.attach_tls().and_then(|()| give_keys(&link.socket, &sealer)) {
            Ok(()) => {
                let receive_half = ReceiveHalf::new(opener, sealed_input);
                let offload = link.resources.offload;
                if offload.sends_files {
                    link.window = Window::new(link.resources.limits.sendfile_bytes_max);
                }
                let can = Abilities {
                    sends_files: offload.sends_files,
                    changes_keys: offload.changes_keys && sealer.version() == Version::Tls13,
                };
                let sealing = Self { sealer, receive_half, can };
                Channel::ByKernel(Box::new(Protected { link, sealing }))
            }
            Err(error) => {
                link.resources.numbers.count(Family::KernelTlsRefusals, refusal(&error));
                let established = Established { sealer: sealer.take_back(), opener, info };
                let sealing = ByUs::new(established, sealed_input);
                Channel::ByUs(Box::new(Protected { link, sealing }))
            }
        }
    }

    /// Changes the keys that the kernel seals with.
    async fn update_key(&mut self, link: &Link) -> Result<(), End> {
        if !self.can.changes_keys {
            return Err(End::KeysFixed);
        }
        // The wait may be interrupted. Until the message was sent, nothing has changed, and after that nothing waits.
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
        // The viewer now expects the new keys. If the kernel does not take them, the viewer cannot open anything it seals.
        give_keys(&link.socket, &self.sealer).map_err(|_| End::KeysExhausted)?;
        link.resources.numbers.key_updates_sent_total.add(1);
        Ok(())
    }
}

impl Sealing<Socket> for ByKernel {
    fn open(&mut self, link: &Link, input: &mut Vec<u8>) -> Result<(), End> {
        Ok(self.receive_half.open(input, &link.resources.numbers)?)
    }

    fn arriving<'a>(&'a mut self, _input: &'a mut Vec<u8>) -> &'a mut Vec<u8> {
        &mut self.receive_half.sealed
    }

    fn peer_finished(&self) -> bool {
        self.receive_half.peer_finished
    }

    fn owes(&self, _link: &Link) -> bool {
        self.receive_half.owes_keys
    }

    async fn give(&mut self, link: &mut Link) -> Result<(), End> {
        self.update_key(link).await
    }

    async fn send(&mut self, link: &mut Link, outgoing: &Rc<Outgoing>) -> Result<(), End> {
        let key_records_max = link.resources.limits.key_records_max;
        if self.owes(link) || self.sealer.needs_key_update(key_records_max) {
            self.update_key(link).await?;
        }
        let mut leased = Leased::default();
        let mut sendfile = Sendfile::new(link, outgoing, self.can, SEALED);
        while let Some(taken) = sendfile.step(link, &mut leased).await? {
            self.sealer.count_taken(taken);
            if self.sealer.is_exhausted() {
                return Err(End::KeysExhausted);
            }
            if self.sealer.needs_key_update(key_records_max) && self.can.changes_keys {
                self.update_key(link).await?;
            }
        }
        sendfile.end(link);
        Ok(())
    }

    /// Waits until TCP has everything that was sealed, so that a goodbye can be sent.
    ///
    /// Sealed bytes that TCP had no room for wait in the kernel. They are lost if TCP is told to finish before it has
    /// room (`tls_sw_release_resources_tx`, net/tls/tls_sw.c; seen on Linux 6.1), and nothing reports whether any wait.
    /// But the next record pushes them all out, if there is room for it, and there is room once everything has arrived.
    async fn before_goodbye(&self, link: &Link) -> Result<(), End> {
        link.acknowledged(|| Ok(())).await
    }

    fn say(&mut self, link: &Link, alerts: &[Alert]) {
        for what in alerts {
            let _ = link.socket.send_record(ControlRecord::Alert as u8, &alert(*what));
        }
    }
}

fn give_keys(socket: &Socket, sealer: &KernelSealer) -> io::Result<()> {
    socket.seal_with(&laid_out(&sealer.keys()))
}

fn laid_out(keys: &KernelKeys) -> Keys<'_> {
    Keys {
        is_tls13: keys.version() == Version::Tls13,
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
