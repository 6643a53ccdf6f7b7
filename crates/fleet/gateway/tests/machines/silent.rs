//! Nodes that fall silent at once, and a real agent's reports on them when its gateway asks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::{
    Condition, Desired, Digest, HeartbeatAnswer, Inventory, Keys, Load, Name, Receipt, Signed,
    State,
};
use identity::{Credentials, NODE_LIFETIME};
use node::BoxState;
use node::beating::{self, BeatingOptions};
use node::joining::{Wish, join};
use tokio::net::TcpSocket;

use crate::gateway::{Gateway, name};
use crate::speaking::beat;

/// A node that knows the ports of the others.
struct Neighbour {
    inventory: Arc<Inventory>,
    ports: Vec<(Name, u16)>,
}

impl BoxState for Neighbour {
    fn condition(&self) -> Condition {
        Condition::Ready
    }

    fn load(&self) -> Load {
        Load::default()
    }

    fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.inventory)
    }

    fn receipts(&self) -> Vec<Receipt> {
        vec![]
    }

    fn address_of(&self, node: &Name) -> Option<(String, u16)> {
        let known = self.ports.iter().find(|(other, _)| other == node);
        known.map(|(_, port)| ("127.0.0.1".to_owned(), *port))
    }

    fn handle_answer(&self, _gateway: &str, _answer: &HeartbeatAnswer, _ahead: i64) {}

    fn handle_desired(&self, _desired: Desired) -> bool {
        true
    }

    fn handle_keys(&self, _keys: Keys) {}

    fn handle_snapshot(&self, _gateway: &str, _signed: Signed) -> Option<usize> {
        Some(1)
    }

    fn missing_documents(&self) -> Vec<Digest> {
        vec![]
    }

    fn handle_document(&self, _bytes: Vec<u8>) {}
}

/// Three of four nodes fall silent at once. Two of them still serve their viewers, as the fourth can see, and stay; the third is dead, and is lost.
#[tokio::test(flavor = "multi_thread")]
async fn the_node_that_others_do_not_reach_is_lost_and_those_that_they_reach_stay() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let [n2, n3] = ["127.0.0.1:0"; 2].map(|any| std::net::TcpListener::bind(any).unwrap());
    // It refuses connections, and keeps its port from others.
    let n4 = TcpSocket::new_v4().unwrap();
    n4.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let addresses = [n2.local_addr(), n3.local_addr(), n4.local_addr()];
    let port = |(node, address): (&str, std::io::Result<SocketAddr>)| {
        (name(node), address.unwrap().port())
    };
    let ports = ["n2", "n3", "n4"].into_iter().zip(addresses).map(port).collect();
    for node in ["n2", "n3", "n4"] {
        gateway.node(node).await;
        gateway.live.handle_heartbeat(&name(node), beat(node, 1), gateway.now()).unwrap();
    }
    let token = gateway.invite(None, 60, 0).await;
    let folder = tempfile::tempdir().unwrap();
    let host = "n1.example".to_owned();
    let wish = Wish { node: name("n1"), host, ceiling_bits_per_second: 0 };
    let joined = join(&gateway.here(), &token, wish, folder.path()).await.unwrap();
    let inventory = Arc::new(Inventory::new(name("n1"), vec![]));
    let own = Arc::new(Neighbour { inventory, ports });
    let options = BeatingOptions { interval: Duration::from_millis(200), ..Default::default() };
    let credentials = Credentials::read(folder.path()).unwrap();
    let place = folder.path().to_owned();
    let _beating = beating::start(joined.membership, credentials, place, own, options).unwrap();
    // Four times a second, as a gateway does.
    let states = || ["n1", "n2", "n3", "n4"].map(|node| gateway.live.state_of(&name(node)));
    for _ in 0..480 {
        if states()[3] == State::Lost {
            break;
        }
        gateway.live.tick(gateway.now());
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert_eq!(states(), [State::Serving, State::Serving, State::Serving, State::Lost]);
    assert!(gateway.live.view(gateway.now()).frozen.is_some());
}
