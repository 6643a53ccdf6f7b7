//! What protects a connection's bytes: nothing, records made here, by the kernel, or by the library that shook hands.
//!
//! A sealing brings what is to be sent, seals it or has it sealed, and gives it to its carrier; and opens what arrives. Another one,
//! such as a card's, is another implementation of [`Sealing`] and another variant of [`crate::Channel`].

mod by_kernel;
mod by_library;
mod by_us;
mod unsealed;

pub use by_kernel::ByKernel;
pub use by_library::ByLibrary;
pub use by_us::ByUs;
pub use unsealed::Unsealed;

use crate::end::End;
use crate::link::Link;
use crate::outgoing::Outgoing;
use crypt::Alert;
use std::future::{Future, ready};
use std::rc::Rc;

/// What one connection's sealing can do. Two connections of one server may differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// The kernel may be left to send parts of files by itself.
    pub sends_files: bool,
    /// Our keys can be changed.
    pub changes_keys: bool,
}

/// One way to protect a connection over a carrier.
pub trait Sealing<C> {
    /// Opens all that has arrived, and appends what was in it to `input`.
    ///
    /// # Errors
    /// When it was wrong: the connection must end.
    fn open(&mut self, link: &Link<C>, input: &mut Vec<u8>) -> Result<(), End>;

    /// Where what arrives is put until it is opened.
    fn arriving<'a>(&'a mut self, input: &'a mut Vec<u8>) -> &'a mut Vec<u8>;

    /// Whether the viewer has said that it asks for nothing more.
    fn peer_finished(&self) -> bool {
        false
    }

    /// Whether something goes to the viewer before anything else, such as new keys.
    fn owes(&self, _link: &Link<C>) -> bool {
        false
    }

    /// Gives the viewer what it is owed. Whoever waits for this may lose patience at any time: nothing may be lost by that, and nothing
    /// be done twice.
    fn give(&mut self, _link: &mut Link<C>) -> impl Future<Output = Result<(), End>> {
        ready(Ok(()))
    }

    /// What has to happen before the viewer's next bytes are waited for.
    fn before_waiting(&mut self, _link: &Link<C>) -> impl Future<Output = Result<(), End>> {
        ready(Ok(()))
    }

    /// Sends all of `outgoing`, as fast as the viewer pulls.
    fn send(
        &mut self,
        link: &mut Link<C>,
        outgoing: &Rc<Outgoing>,
    ) -> impl Future<Output = Result<(), End>>;

    /// What has to happen before a goodbye can be said.
    fn before_goodbye(&self, _link: &Link<C>) -> impl Future<Output = Result<(), End>> {
        ready(Ok(()))
    }

    /// Says `alerts`, if TCP takes them: nobody waits for a viewer who is leaving.
    fn say(&mut self, link: &Link<C>, alerts: &[Alert]);

    /// Waits, after the goodbye, until closing does no harm to what was sent.
    fn settle(&mut self, _link: &Link<C>) -> impl Future<Output = Result<(), End>> {
        ready(Ok(()))
    }

    /// The connection is about to be closed, whatever became of it.
    fn close(&mut self, _link: &Link<C>) {}
}
