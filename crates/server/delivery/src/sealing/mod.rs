//! Ways to protect a connection's bytes: none, or records made here, by the kernel, or by the library that did the handshake.
//!
//! A sealing reads the response, seals it or has it sealed, and passes it to its carrier. It also opens what arrives. A NIC's sealing is the
//! kernel's: the kernel passes the keys on. A new sealing is another implementation of [`Sealing`] and another variant of [`crate::Channel`].

mod kernel_tls;
mod plaintext;
mod rustls_tls;
mod user_tls;

pub(crate) use kernel_tls::KernelHalves;
pub use kernel_tls::KernelTls;
pub use plaintext::Plaintext;
pub use rustls_tls::RustlsTls;
pub use user_tls::UserTls;

use crate::ahead::Ahead;
use crate::end::End;
use crate::inbound::Inbound;
use crate::link::Link;
use crate::outgoing::Outgoing;
use crate::unsent::UnsentLimit;
use net::Socket;
use std::future::{Future, ready};
use std::rc::Rc;
use tls::Alert;

/// The abilities of one connection's sealing. Two connections of one server may differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// The kernel may send parts of files by itself.
    pub sends_files: bool,
    /// These parts remain the file's own pages until the viewer has acknowledged them: they are never copied.
    pub lends_pages: bool,
    /// Our keys can be changed.
    pub changes_keys: bool,
}

/// A way to protect a connection over a carrier.
pub trait Sealing<C> {
    /// Opens everything that has arrived, and appends the content to `input`.
    ///
    /// # Errors
    /// If an arrived record was wrong. The connection must end.
    fn open(&mut self, link: &Link<C>, input: &mut Vec<u8>) -> Result<(), End>;

    /// The buffer for arriving bytes until they are opened.
    fn arriving<'a>(&'a mut self, input: &'a mut Vec<u8>) -> &'a mut Vec<u8>;

    /// Returns true if the viewer has announced that it makes no more requests.
    fn peer_finished(&self) -> bool {
        false
    }

    /// Returns true if the viewer must get something before anything else, such as new keys.
    fn owes(&self, _link: &Link<C>) -> bool {
        false
    }

    /// Sends the viewer what it is owed. The caller may cancel at any time: nothing may be lost or done twice because of that.
    fn give(&mut self, _link: &mut Link<C>) -> impl Future<Output = Result<(), End>> {
        ready(Ok(()))
    }

    /// Does what has to happen before waiting for the viewer's next bytes.
    fn before_waiting(&mut self, _link: &Link<C>) -> impl Future<Output = Result<(), End>> {
        ready(Ok(()))
    }

    /// Sends all of `outgoing`, as fast as the viewer takes it. What the viewer sends meanwhile is appended to `input`, up to a bound.
    fn send(
        &mut self,
        link: &mut Link<C>,
        outgoing: &Rc<Outgoing>,
        input: &mut Vec<u8>,
    ) -> impl Future<Output = Result<(), End>>;

    /// Does what has to happen before a closing alert can be sent.
    fn before_goodbye(&self, _link: &Link<C>) -> impl Future<Output = Result<(), End>> {
        ready(Ok(()))
    }

    /// Sends `alerts`, if TCP takes them. Does not wait for a viewer who is leaving.
    fn say(&mut self, link: &Link<C>, alerts: &[Alert]);

    /// Waits, after the sending side was closed, until closing cannot harm what was sent.
    fn settle(&mut self, _link: &Link<C>) -> impl Future<Output = Result<(), End>> {
        ready(Ok(()))
    }
}

/// Waits until TCP takes bytes, and reads what the viewer sends meanwhile. If the wait is long, gives up the buffers that were read ahead.
async fn await_pull(
    link: &Link,
    limit: &mut UnsentLimit,
    ahead: &mut Ahead,
    inbound: &mut impl Inbound<Socket>,
) -> Result<(), End> {
    if !link.pulls_soon(limit, inbound).await? {
        ahead.give_up();
        link.pull_reading(inbound).await?;
        limit.woken(link);
    }
    Ok(())
}
