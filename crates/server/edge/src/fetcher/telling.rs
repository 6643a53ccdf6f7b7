//! Sends messages to the server.

use super::leaving::Viewers;
use crate::contract::{EdgeTold, Trouble};
use helper_process::packets;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::Receiver;

/// A message to the server, with an optional descriptor.
pub(super) type Telling = (EdgeTold, Option<OwnedFd>);

/// The thread that sends messages to the server, and blocks if the server is slow. It ends only with the server: if a message cannot be sent, a
/// refusal takes its place, so that no viewer waits for it.
pub(super) fn tell(socket: &OwnedFd, telling: &Receiver<Telling>, viewers: &Viewers) {
    while let Ok((told, descriptor)) = telling.recv() {
        let Err(error) = packets::send(socket, &told, descriptor.as_ref().map(AsFd::as_fd)) else {
            continue;
        };
        if packets::is_gone(&error) {
            return;
        }
        // Unless it is too large, the system is out of memory, or too many descriptors are on their way.
        let why = if packets::is_too_large(&error) { Trouble::Wrong } else { Trouble::Full };
        let said = format!("the edge's helper cannot report a response to the server: {error}");
        if let EdgeTold::Passed { ticket, .. } = &told {
            // The rest would arrive for a viewer who gets nothing of it.
            viewers.leave(*ticket);
        }
        let sent = match told.instead(why, said.clone()) {
            Some(instead) => packets::send(socket, &instead, None),
            None => Err(error),
        };
        match sent {
            Err(error) if packets::is_gone(&error) => return,
            Err(_) => eprintln!("fullbore: {said}"),
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::PassedResponse;
    use crate::http_cache::Fields;
    use std::sync::mpsc::channel;

    #[test]
    fn a_message_that_cannot_be_sent_is_replaced_by_a_refusal_and_the_next_one_is_sent() {
        let (ours, servers) = packets::pair().unwrap();
        let (told, telling) = channel();
        let fields = Fields::of(&[("A", &"a".repeat(packets::PACKET_BYTES_MAX))]);
        let response = PassedResponse {
            object: 1 << 63,
            status: 200,
            fields,
            size: Some(1),
            is_complete: true,
            ..PassedResponse::default()
        };
        let too_large = EdgeTold::Passed { ticket: 7, response: Box::new(response) };
        let path = "a".repeat(packets::PACKET_BYTES_MAX);
        for message in [too_large, EdgeTold::Invalid { path, object: None }, EdgeTold::Began] {
            told.send((message, None)).unwrap();
        }
        drop(told);
        let viewers = Viewers::default();
        let (refused, other) = (viewers.begin(7), viewers.begin(8));
        tell(&ours, &telling, &viewers);
        assert!(refused.has_left() && !other.has_left(), "nothing more is fetched for it");
        let received = || packets::receive::<EdgeTold>(&servers, &mut Vec::new()).unwrap();
        let (refusal, _) = received().unwrap();
        assert!(
            matches!(refusal, EdgeTold::NotPassed { ticket: 7, why: Trouble::Wrong, .. }),
            "{refusal:?}"
        );
        assert_eq!(received().unwrap().0, EdgeTold::Began);
    }
}
