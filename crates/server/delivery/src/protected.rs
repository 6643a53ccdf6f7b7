//! A connection: a carrier and its protection. The only receive loop is here.

use crate::carrier::Carrier;
use crate::end::End;
use crate::link::Link;
use crate::outgoing::Outgoing;
use crate::sealing::Sealing;
use net::Socket;
use std::rc::Rc;
use tls::Alert;

/// A connection over a carrier, protected by a sealing.
pub struct Protected<S: Sealing<C>, C: Carrier = Socket> {
    pub(crate) link: Link<C>,
    pub(crate) sealing: S,
}

impl<C: Carrier, S: Sealing<C>> Protected<S, C> {
    /// Waits for bytes from the viewer and appends at least one to `input`.
    pub(crate) async fn receive(&mut self, input: &mut Vec<u8>) -> Result<(), End> {
        let Self { link, sealing } = self;
        let before = input.len();
        loop {
            sealing.open(link, input)?;
            if sealing.owes(link) {
                // Boxed: few viewers are owed anything, and all of them wait in this future for a request.
                Box::pin(sealing.give(link)).await?;
            }
            if input.len() > before {
                return Ok(());
            }
            if sealing.peer_finished() {
                return Err(End::PeerClosed);
            }
            sealing.before_waiting(link).await?;
            link.receive(sealing.arriving(input)).await?;
        }
    }

    pub(crate) async fn send(
        &mut self,
        outgoing: &Rc<Outgoing>,
        input: &mut Vec<u8>,
    ) -> Result<(), End> {
        self.sealing.send(&mut self.link, outgoing, input).await
    }

    pub(crate) async fn finish(&mut self, alerts: &[Alert]) -> Result<(), End> {
        self.sealing.before_goodbye(&self.link).await?;
        self.sealing.say(&self.link, alerts);
        self.link.socket.finish();
        Ok(())
    }

    pub(crate) async fn settle(&mut self) -> Result<(), End> {
        self.sealing.settle(&self.link).await
    }
}
