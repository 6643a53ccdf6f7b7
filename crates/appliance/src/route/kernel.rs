//! TLS in the kernel: plaintext goes into the socket, by `sendfile` or from a buffer (`pour`), and records come
//! out of it.
//!
//! What a byte costs: by `sendfile`, the kernel reads it once where it lies in the page cache and writes it once, sealed;
//! from a buffer, the disk or the page cache has written it to the buffer before. The user-space route does the same work
//! and one copy more, of sealed bytes into the socket; but it seals with the faster code of the two on most machines, and
//! a stalled viewer's bytes do not stay in memory. Kernels seal synchronously on the sending thread, so both take the
//! processor's time here.
//!
//! Records that wait in the kernel are copies: what becomes of the file afterwards does not touch them. A record that is
//! not full yet refers to the file's pages until more is sent; it is thrown away, not sent, when the socket is closed. So
//! the file is held still to the end of the response, and no longer.
//!
//! What a viewer sends is opened here (`incoming`): it is little, and a kernel would follow a viewer that changes its keys only from
//! Linux 6.14 on, and pass over empty records for as long as they come.
//!
//! A viewer that asks for new keys of ours gets them where the kernel can change them; elsewhere the connection is closed
//! in an orderly way.

use super::incoming::Incoming;
use super::link::Link;
use super::pour::{Lent, Pour};
use super::userspace::Userspace;
use super::{Channel, in_kernel};
use crate::end::End;
use crate::outgoing::Outgoing;
use crypt::kernel::{ControlRecord, KernelKeys, KernelSealer, alert, key_update_message};
use crypt::{Alert, Established, Suite, Version};
use net::Socket;
use net::tls::{Cipher, Keys};
use std::io;
use telemetry::Family;

/// A connection with TLS whose records the kernel makes.
pub struct Kernel {
    pub(super) link: Link,
    sealer: KernelSealer,
    incoming: Incoming,
}

/// Gives the kernel the keys of a connection whose handshake is done and sent. A connection that it does not take is
/// sealed for in user space, and counted.
pub fn hand_over(link: Link, established: Established, sealed_input: Vec<u8>) -> Channel {
    let Established { sealer, opener, info } = established;
    let sealer = sealer.into_kernel();
    match link.socket.attach_tls().and_then(|()| give_keys(&link.socket, &sealer)) {
        Ok(()) => {
            let incoming = Incoming::new(opener, sealed_input);
            Channel::Kernel(Box::new(Kernel { link, sealer, incoming }))
        }
        Err(error) => {
            let label = in_kernel::refusal(&error);
            link.worker.numbers.count(Family::KernelTlsRefusals, label);
            let established = Established { sealer: sealer.take_back(), opener, info };
            Channel::Userspace(Box::new(Userspace::new(link, established, sealed_input)))
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

impl Kernel {
    pub(super) async fn receive(&mut self, input: &mut Vec<u8>) -> Result<(), End> {
        let before = input.len();
        loop {
            self.incoming.open(input, &self.link.worker.numbers)?;
            if self.incoming.owes_keys {
                // Boxed: hardly anybody asks for this, and everybody waits in this future for a request.
                Box::pin(self.update_key()).await?;
            }
            if input.len() > before {
                return Ok(());
            }
            if self.incoming.peer_finished {
                return Err(End::PeerClosed);
            }
            self.link.receive(&mut self.incoming.sealed).await?;
        }
    }

    /// Changes the keys that the kernel seals with.
    async fn update_key(&mut self) -> Result<(), End> {
        if !self.link.worker.in_kernel.changes_keys {
            return Err(End::KeysFixed);
        }
        // Whoever waits for this may lose patience: until the message has left, nothing has changed, and behind that nothing waits.
        let message = key_update_message(false);
        while !self.link.socket.send_record(ControlRecord::Handshake as u8, &message)? {
            if self.link.socket.is_writable() {
                self.link.back_off().await?;
            } else {
                self.link.pull().await?;
            }
        }
        self.incoming.owes_keys = false;
        self.sealer.key_update().map_err(|_| End::KeysExhausted)?;
        // The viewer now expects keys that the kernel must have: if it has not, nothing it seals can be opened.
        give_keys(&self.link.socket, &self.sealer).map_err(|_| End::KeysExhausted)?;
        self.link.worker.numbers.key_updates_sent_total.add(1);
        Ok(())
    }

    /// Waits until TCP has all that was sealed, so that a goodbye can be said.
    ///
    /// What TCP had no room for waits in the kernel, sealed, and is lost if TCP is told to finish before it has room
    /// (`tls_sw_release_resources_tx`, net/tls/tls_sw.c; seen on Linux 6.1). Nothing tells whether something waits. But
    /// the next record takes all of it along, if there is room for it, as there is when everything has arrived.
    pub(super) async fn emptied(&self) -> Result<(), End> {
        self.link.acknowledged(|| Ok(())).await
    }

    pub(super) fn finish(&mut self, alerts: &[Alert]) {
        for what in alerts {
            let _ = self.link.socket.send_record(ControlRecord::Alert as u8, &alert(*what));
        }
        self.link.socket.finish();
    }

    pub(super) async fn send(&mut self, outgoing: &Outgoing) -> Result<(), End> {
        let key_records_max = self.link.worker.key_records_max;
        if self.incoming.owes_keys || self.sealer.needs_key_update(key_records_max) {
            self.update_key().await?;
        }
        let mut lent = Lent::default();
        let mut pour = Pour::new(&self.link.worker, outgoing);
        while let Some(taken) = pour.step(&mut self.link, &mut lent).await? {
            self.sealer.count_taken(taken);
            if self.sealer.is_exhausted() {
                return Err(End::KeysExhausted);
            }
            let is_due = self.sealer.needs_key_update(key_records_max);
            if is_due && self.link.worker.in_kernel.changes_keys {
                self.update_key().await?;
            }
        }
        Ok(())
    }
}
