//! Checks whether this box can reach nodes that a gateway no longer hears: a second opinion, before the gateway declares them lost.
//!
//! A node is reached if its server accepts a connection on the viewers' port. Addresses come from the signed snapshot, so a gateway can
//! only ask about nodes of the fleet.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet_protocol::{ASKS_MAX, Name, Sighting};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::box_state::BoxState;

/// Longer than a lost packet and its retransmission take (RFC 6298: one second), and short compared with the time between heartbeats.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Results for one gateway that have not been sent yet.
#[derive(Debug, Default)]
pub(super) struct Sightings(Arc<Mutex<Looking>>);

#[derive(Debug, Default)]
struct Looking {
    is_under_way: bool,
    seen: Vec<Sighting>,
}

impl Sightings {
    fn looking(looking: &Mutex<Looking>) -> MutexGuard<'_, Looking> {
        looking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks these nodes, in a task of its own. One check runs at a time.
    pub(super) fn look(&self, state: &Arc<dyn BoxState>, asked: &[Name]) {
        let mut looking = Self::looking(&self.0);
        if asked.is_empty() || looking.is_under_way {
            return;
        }
        looking.is_under_way = true;
        let named = |node: &Name| Some((node.clone(), state.address_of(node)?));
        // This box has no opinion on a node that it does not know.
        let known: Vec<_> = asked.iter().take(ASKS_MAX).filter_map(named).collect();
        let result = Arc::clone(&self.0);
        tokio::spawn(async move {
            let seen = see(known).await;
            *Self::looking(&result) = Looking { is_under_way: false, seen };
        });
    }

    /// Whether there are results to send.
    pub(super) fn are_there(&self) -> bool {
        !Self::looking(&self.0).seen.is_empty()
    }

    /// The results to send.
    pub(super) fn take(&self) -> Vec<Sighting> {
        std::mem::take(&mut Self::looking(&self.0).seen)
    }
}

/// Connects to all of them at the same time.
async fn see(nodes: Vec<(Name, (String, u16))>) -> Vec<Sighting> {
    let mut looks = JoinSet::new();
    for (node, (host, port)) in nodes {
        looks.spawn(async move {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let connected = timeout(CONNECT_MAX, TcpStream::connect((host, port))).await;
            Sighting { node, is_reached: matches!(connected, Ok(Ok(_))) }
        });
    }
    looks.join_all().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_node_is_reached_if_its_server_takes_connections() {
        let name = |text: &str| text.parse::<Name>().expect("a name");
        let there = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        // It refuses connections, and keeps its port from others.
        let gone = tokio::net::TcpSocket::new_v4().unwrap();
        gone.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let there_port = there.local_addr().unwrap().port();
        let gone_port = gone.local_addr().unwrap().port();
        let mut seen = see(vec![
            (name("n1"), ("127.0.0.1".to_owned(), there_port)),
            (name("n2"), ("127.0.0.1".to_owned(), gone_port)),
        ])
        .await;
        seen.sort_by(|one, next| one.node.cmp(&next.node));
        assert_eq!(
            seen,
            [
                Sighting { node: name("n1"), is_reached: true },
                Sighting { node: name("n2"), is_reached: false }
            ]
        );
    }
}
