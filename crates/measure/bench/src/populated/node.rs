//! One simulated node: a certificate, a connection, and heartbeats like an agent's.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ::fleet_protocol::{Condition, Digest, Heartbeat, HeartbeatAnswer, Inventory, Load, Name};
use identity::{Credentials, NODE_LIFETIME, NodeKey, SigningRequest, client_config};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::crowd::Shared;
use super::http::{HttpAnswer, exchange, request};
use super::records::node_name;

/// The random share of the time between heartbeats, as in agents.
const JITTER: f64 = 0.2;

/// The least time between a node's inventories, as in agents.
const INVENTORY_INTERVAL: Duration = Duration::from_secs(10);

/// Time limit for an inventory or a snapshot.
const LARGE_MAX: Duration = Duration::from_secs(120);

/// The rate at which a node may send.
const CEILING: u64 = 40_000_000_000;

/// A node.
pub(super) struct Node {
    name: Name,
    connector: TlsConnector,
    line: Option<TlsStream<TcpStream>>,
    boot: String,
    sequence: u64,
    inventory: Digest,
    inventory_at: Option<Instant>,
    is_known: bool,
    snapshot: u64,
    snapshot_at: Instant,
}

fn unix_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

/// Limits how long `work` may take.
async fn within<T>(time: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(time, work).await.unwrap_or_else(|_| Err(late()))
}

impl Node {
    /// Sends heartbeats until the task is aborted.
    pub(super) async fn live(shared: Arc<Shared>, number: u32) {
        let interval = shared.options.interval;
        sleep(interval.mul_f64(fastrand::f64())).await;
        let mut node = match Self::make(&shared, number) {
            Ok(node) => node,
            // The caller sees that a node is missing, and why.
            Err(error) => {
                shared.tally.note(&error);
                return std::future::pending().await;
            }
        };
        loop {
            if let Err(error) = node.beat(&shared).await {
                shared.tally.count_lost(&error);
                node.line = None;
            }
            sleep(interval.mul_f64(1.0 - JITTER + 2.0 * JITTER * fastrand::f64())).await;
        }
    }

    fn make(shared: &Shared, number: u32) -> io::Result<Self> {
        let name: Name = node_name(number).parse().map_err(io::Error::other)?;
        let key = NodeKey::draw();
        let wish = SigningRequest::check(&key.request(&name), &name).map_err(io::Error::other)?;
        let now = unix_millis() / 1000;
        let issued = shared.authority.sign_node(&wish, NODE_LIFETIME, now);
        let (pem, authority) =
            (issued.map_err(io::Error::other)?.pem, shared.authority.certificate_pem().to_owned());
        let credentials = Credentials::new(key, pem, authority).map_err(io::Error::other)?;
        let config = client_config(&credentials).map_err(io::Error::other)?;
        let inventory = Inventory::new(name.clone(), shared.held.to_vec()).digest();
        // Spread the nodes, so that they do not fetch all at once.
        let snapshots = shared.options.snapshots.unwrap_or_default();
        let now = Instant::now();
        Ok(Self {
            name,
            connector: TlsConnector::from(Arc::new(config)),
            line: None,
            boot: format!("{:032x}", fastrand::u128(..)),
            sequence: 0,
            inventory,
            inventory_at: None,
            is_known: false,
            snapshot: 0,
            snapshot_at: now.checked_sub(snapshots.mul_f64(fastrand::f64())).unwrap_or(now),
        })
    }

    async fn beat(&mut self, shared: &Arc<Shared>) -> io::Result<()> {
        self.sequence += 1;
        let interval = shared.options.interval;
        let answer = match self.line.is_some() {
            true => within(interval, self.say(shared)).await?,
            false => {
                // Until the answer arrives, the gateway may count this as an unknown client's handshake.
                let turn = shared.handshakes.acquire().await.map_err(io::Error::other)?;
                let answer = within(interval, self.connect_and_say(shared)).await?;
                drop(turn);
                answer
            }
        };
        if answer.wants_inventory {
            return self.send_inventory(shared).await;
        }
        self.count_known(shared);
        self.fetch_snapshot(shared, answer.snapshot);
        Ok(())
    }

    async fn connect_and_say(&mut self, shared: &Shared) -> io::Result<HeartbeatAnswer> {
        self.line = Some(connect(&self.connector, shared).await?);
        self.say(shared).await
    }

    async fn say(&mut self, shared: &Shared) -> io::Result<HeartbeatAnswer> {
        let beat = Heartbeat {
            version: 1,
            node: self.name.clone(),
            boot: self.boot.clone(),
            sequence: self.sequence,
            sent_unix_millis: unix_millis(),
            condition: Condition::Ready,
            load: Load {
                bits_per_second: if shared.options.varies {
                    fastrand::u64(0..CEILING / 2)
                } else {
                    CEILING / 4
                },
                ceiling_bits_per_second: CEILING,
                connections: 1000,
                cpu_permille: 300,
                free_bytes: 1 << 40,
            },
            inventory: self.inventory,
            snapshot: self.snapshot,
            receipts: Vec::new(),
            fill: None,
            fill_bytes_per_day: None,
            served_at: None,
            sightings: Vec::new(),
        };
        let body = serde_json::to_vec(&beat)?;
        let began = Instant::now();
        let answer = self.ask(shared, "POST", "/machine/v1/heartbeat", &body).await?;
        let answer = accepted(answer)?;
        shared.tally.count_answer(began.elapsed());
        Ok(serde_json::from_slice(&answer.body)?)
    }

    async fn send_inventory(&mut self, shared: &Shared) -> io::Result<()> {
        if self.inventory_at.is_some_and(|at| at.elapsed() < INVENTORY_INTERVAL) {
            return Ok(());
        }
        let inventory = Inventory::new(self.name.clone(), shared.held.to_vec());
        let body = serde_json::to_vec(&inventory)?;
        let answer =
            within(LARGE_MAX, self.ask(shared, "PUT", "/machine/v1/inventory", &body)).await?;
        // A gateway reads four inventories at a time. The others are sent with a later heartbeat.
        if answer.status == 503 {
            return Ok(());
        }
        accepted(answer)?;
        self.inventory_at = Some(Instant::now());
        shared.tally.count_inventory();
        self.count_known(shared);
        Ok(())
    }

    /// Counts this node once the gateway knows it and its inventory.
    fn count_known(&mut self, shared: &Shared) {
        if !self.is_known {
            self.is_known = true;
            shared.tally.count_known();
        }
    }

    async fn ask(
        &mut self,
        shared: &Shared,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> io::Result<HttpAnswer> {
        let line = self.line.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let asked = request(method, path, &[], body);
        let answer = exchange(line, &asked).await?;
        shared.tally.count_traffic(asked.len(), answer.bytes);
        Ok(answer)
    }

    /// Fetches the snapshot on a separate connection, as agents do, so that a heartbeat does not wait for it.
    fn fetch_snapshot(&mut self, shared: &Arc<Shared>, number: u64) {
        let is_due =
            shared.options.snapshots.is_some_and(|after| self.snapshot_at.elapsed() >= after);
        if !is_due || number == self.snapshot {
            return;
        }
        (self.snapshot, self.snapshot_at) = (number, Instant::now());
        let (shared, connector) = (Arc::clone(shared), self.connector.clone());
        tokio::spawn(async move {
            let fetched = within(LARGE_MAX, async {
                let mut line = connect(&connector, &shared).await?;
                let asked = request("GET", "/machine/v1/snapshot", &[], b"");
                accepted(exchange(&mut line, &asked).await?)
            });
            match fetched.await {
                Ok(answer) => shared.tally.count_snapshot(answer.bytes),
                Err(error) => shared.tally.note(&error),
            }
        });
    }
}

async fn connect(connector: &TlsConnector, shared: &Shared) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(shared.gateway).await?;
    stream.set_nodelay(true)?;
    // Nodes identify gateways by certificate, not by address.
    connector.connect(ServerName::from(shared.gateway.ip()), stream).await
}

/// The answer, unless it is a refusal.
fn accepted(answer: HttpAnswer) -> io::Result<HttpAnswer> {
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    let said = String::from_utf8_lossy(&answer.body);
    Err(io::Error::other(format!("the gateway answered {}: {said}", answer.status)))
}
