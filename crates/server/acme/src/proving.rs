//! Makes the server prove names over TLS (TLS-ALPN-01, RFC 8737): the authority connects to the viewers' port, which only the server has.

use crate::obtain::NotObtained;
use crate::{AcmePacket, AcmeProof, AcmeTrouble};
use helper_process::packets;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// The server answers within milliseconds, unless the machine is busy.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// The names that the server proves for the current order.
pub(crate) struct AtServer {
    socket: OwnedFd,
    /// The number of the server's last answer.
    answered: watch::Receiver<u64>,
    proofs: Mutex<Vec<AcmeProof>>,
}

impl AtServer {
    /// For the server at the other end of `socket`, whose answers arrive through `answered`.
    pub(crate) fn new(socket: OwnedFd, answered: watch::Receiver<u64>) -> Self {
        Self { socket, answered, proofs: Mutex::default() }
    }

    fn proofs(&self) -> MutexGuard<'_, Vec<AcmeProof>> {
        self.proofs.lock().expect("no holder of this lock can panic")
    }

    /// Makes the server prove one more name, and returns when it does.
    pub(crate) async fn prove(&self, proof: AcmeProof) -> Result<(), NotObtained> {
        {
            let mut proofs = self.proofs();
            proofs.retain(|known| known.name != proof.name);
            proofs.push(proof);
        }
        self.bring_up_to_date().await
    }

    /// Stops the server from proving `name`.
    pub(crate) async fn withdraw(&self, name: &str) -> Result<(), NotObtained> {
        self.proofs().retain(|known| known.name != name);
        self.bring_up_to_date().await
    }

    /// Sends the server the current names to prove, initially none: an earlier helper may have left some.
    pub(crate) async fn bring_up_to_date(&self) -> Result<(), NotObtained> {
        let number = fastrand::u64(1..);
        let proofs = self.proofs().clone();
        let packet = AcmePacket::Prove { number, proofs };
        let mut answered = self.answered.clone();
        let told = packets::send(&self.socket, &packet, None);
        let proves = async {
            told?;
            let heard = timeout(ANSWERED_WITHIN, answered.wait_for(|last| *last == number)).await;
            match heard {
                Ok(Ok(_)) => Ok(()),
                _ => Err(io::Error::from(io::ErrorKind::TimedOut)),
            }
        };
        proves.await.map_err(|error| {
            let said = format!("the server does not answer the authority over TLS: {error}");
            NotObtained::Told(AcmeTrouble::Listen, said)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(name: &str) -> AcmeProof {
        AcmeProof { name: name.into(), digest: [7; 32] }
    }

    #[tokio::test]
    async fn the_server_is_told_all_that_is_to_be_proved_and_waited_for() {
        let (ours, theirs) = packets::pair().unwrap();
        let (answer, answered) = watch::channel(0);
        let server = std::thread::spawn(move || {
            let (mut buffer, mut told) = (Vec::new(), Vec::new());
            while let Some((packet, _)) = packets::receive(&theirs, &mut buffer).unwrap() {
                let AcmePacket::Prove { number, proofs } = packet else { panic!("{packet:?}") };
                told.push(proofs.into_iter().map(|proof| proof.name).collect::<Vec<_>>());
                answer.send(number).unwrap();
            }
            told
        });
        let at_server = AtServer::new(ours, answered);
        at_server.bring_up_to_date().await.unwrap();
        at_server.prove(proof("a.example")).await.unwrap();
        at_server.prove(proof("b.example")).await.unwrap();
        at_server.prove(proof("a.example")).await.unwrap();
        at_server.withdraw("b.example").await.unwrap();
        at_server.withdraw("a.example").await.unwrap();
        drop(at_server);
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected = [
            names(&[]),
            names(&["a.example"]),
            names(&["a.example", "b.example"]),
            names(&["b.example", "a.example"]),
            names(&["a.example"]),
            names(&[]),
        ];
        assert_eq!(server.join().unwrap(), expected);
    }

    #[tokio::test]
    async fn a_server_that_is_gone_is_told() {
        let (ours, theirs) = packets::pair().unwrap();
        drop(theirs);
        let (_answer, answered) = watch::channel(0);
        let error = AtServer::new(ours, answered).prove(proof("a.example")).await.unwrap_err();
        let NotObtained::Told(AcmeTrouble::Listen, said) = error else { panic!("{error:?}") };
        assert!(said.contains("does not answer the authority"), "{said}");
    }
}
