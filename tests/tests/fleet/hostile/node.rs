//! A box that has joined the fleet and is controlled by an attacker. It has no agent and no viewers.

use super::line::{Line, Source, connected};
use crate::house::Fleet;
use fleet_protocol::{Announced, Digest, HeldTitle, Inventory, RoutesUpdate};
use fullbore_tests::tls::Offer;
use fullbore_tests::{eventually, program, until};
use rustls::ClientConfig;
use serde_json::{Value, json};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Its name, and the one of an honest node.
const NAME: &str = "liar";
const HONEST: &str = "node-1";

const HEARTBEAT: &str = "POST /machine/v1/heartbeat";
const INVENTORY: &str = "PUT /machine/v1/inventory";
const ROUTES: &str = "POST /machine/v1/routes";
const WATCHED: &str = "PUT /machine/v1/watched";

/// The attack's name, and the node's actions.
type Attack = (&'static str, fn(&mut HostileNode));

/// Its attacks, one after the other.
pub(super) const ATTACKS: [Attack; 9] = [
    ("lies in each field of a heartbeat", HostileNode::lie),
    ("words in another node's name", HostileNode::forge),
    ("replays", HostileNode::replay),
    ("the claim to hold all, and to carry more than anybody", HostileNode::boast),
    ("an inventory of titles that do not exist", HostileNode::invent),
    ("routes to the whole internet, and views that no viewer had", HostileNode::mislead),
    ("large bodies that trickle", HostileNode::trickle),
    ("a flood of heartbeats", HostileNode::flood),
    ("connections that say nothing", HostileNode::occupy),
];

/// Trickling and silent connections: more than the gateway has turns, fewer than its places for nodes.
const TRICKLES: usize = 7;
const SILENT: usize = 100;

/// The box.
pub(super) struct HostileNode {
    config: Arc<ClientConfig>,
    gateway: SocketAddr,
    /// The titles of honest nodes.
    film: HeldTitle,
    beats: u64,
    trickling: Vec<Line>,
    silent: Vec<TcpStream>,
}

fn unix_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

impl HostileNode {
    /// Joins as any box does.
    pub(super) fn join(fleet: &Fleet) -> Self {
        let invite = fleet.control(&["invite", "--cluster", "h-1", "--site", "h", "--region", "r"]);
        let token = invite["token"].as_str().unwrap_or_else(|| panic!("{invite}"));
        let (state, machines) = (fleet.path(NAME), fleet.machines());
        let host = format!("127.{}.99.99", 64 + std::process::id() % 64);
        let mut join = Command::new(program());
        join.args(["join", &format!("https://{machines}"), "--token", token, "--host", &host]);
        let joined = join.args(["--name", NAME]).arg("--state").arg(&state).output().unwrap();
        assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
        let own = ["node.pem", "node.key"].map(|name| state.join(name));
        let record = catalog::Record::read(&fleet.path("origin/film")).expect("a record");
        let version = record.sha256.parse().expect("a digest");
        Self {
            config: Offer::default().config_showing(&own[0], &own[1]),
            gateway: machines.parse().expect("an address"),
            film: HeldTitle { path: "film".to_owned(), version },
            beats: 0,
            trickling: Vec::new(),
            silent: Vec::new(),
        }
    }

    /// Continues the earlier attacks.
    pub(super) fn go_on(&mut self) {
        // The gateway may have closed them.
        self.trickling.retain_mut(|line| line.send(b" ").is_ok());
    }

    fn line(&self) -> Line {
        eventually("the gateway to take a connection", || {
            Line::open(&self.config, self.gateway).ok()
        })
    }

    /// Sends a request on a connection of its own. Returns the status once it needn't retry; 0 if it is cut off each time.
    fn say(&self, request: &str, body: &Value) -> u16 {
        let body = body.to_string();
        let mut cut_off = 0;
        let status = eventually("an answer", || match self.line().ask(request, body.as_bytes()) {
            Ok((429 | 503, _)) => None,
            Ok((status, _)) => Some(status),
            Err(_) => {
                cut_off += 1;
                (cut_off == 3).then_some(0)
            }
        });
        assert!(status < 500, "{request} got {status}: {}", body.get(..300).unwrap_or(&body));
        status
    }

    fn inventory(&self) -> Inventory {
        Inventory::new(NAME.parse().expect("a name"), vec![self.film.clone()])
    }

    /// A heartbeat like an honest node's, with a boot id of its own.
    fn beat(&mut self) -> Value {
        self.beats += 1;
        json!({
            "version": 1, "node": NAME, "boot": format!("boot{}", self.beats), "sequence": 1,
            "sent_unix_millis": unix_millis(), "condition": "ready", "snapshot": 0, "receipts": [],
            "load": {
                "bits_per_second": 0, "ceiling_bits_per_second": 1_000_000_000_u64, "connections": 0,
                "cpu_permille": 0, "free_bytes": 0
            },
            "inventory": self.inventory().digest(),
        })
    }

    fn lie(&mut self) {
        let most = u64::MAX;
        let fill = json!({
            "title": "../film", "done_bytes": most, "title_bytes": 0, "missing_titles": most, "missing_bytes": most,
            "bytes_per_second": most, "is_open": true, "done_unix_seconds": most
        });
        let receipt = json!({ "held": self.film, "state": "removed" });
        let lies = [
            ("/version", json!(2)),
            ("/boot", json!("")),
            ("/boot", json!("b".repeat(60_000))),
            ("/sequence", json!(most)),
            ("/sequence", json!(-1)),
            ("/sent_unix_millis", json!(0)),
            ("/sent_unix_millis", json!(most)),
            ("/condition", json!("starting")),
            ("/condition", json!({ "not_me": ["viewers_stall", "disk_errors", "hot"] })),
            ("/condition", json!({ "not_me": [] })),
            ("/load/bits_per_second", json!(most)),
            ("/load/ceiling_bits_per_second", json!(0)),
            ("/load/ceiling_bits_per_second", json!(most)),
            ("/load/connections", json!(most)),
            ("/load/cpu_permille", json!(65_535)),
            ("/load/cpu_permille", json!(65_536)),
            ("/load/free_bytes", json!(most)),
            ("/inventory", json!(Digest::of(b"nothing"))),
            ("/snapshot", json!(most)),
            ("/receipts", json!([receipt])),
            ("/receipts", json!(vec![receipt.clone(); 1001])),
            ("/fill", fill),
            ("/fill_bytes_per_day", json!(0)),
            ("/fill_bytes_per_day", json!(most)),
            ("/served_at", json!({ "scheme": "gopher", "port": 0 })),
            ("/of_another_release", json!([[[[]]]])),
        ];
        for (field, lie) in lies {
            let mut beat = self.beat();
            match beat.pointer_mut(field) {
                Some(value) => *value = lie,
                None => beat[field.trim_start_matches('/')] = lie,
            }
            self.say(HEARTBEAT, &beat);
        }
        let honest = self.beat();
        assert_eq!(self.say(HEARTBEAT, &honest), 200, "it may speak for itself");
    }

    fn forge(&mut self) {
        let mut beat = self.beat();
        beat["node"] = json!(HONEST);
        let inventory = Inventory::new(HONEST.parse().expect("a name"), vec![]);
        for (request, body) in [
            (HEARTBEAT, beat),
            (INVENTORY, json!(inventory)),
            (ROUTES, self.routes(HONEST)),
            (WATCHED, self.watched(HONEST)),
        ] {
            assert_eq!(self.say(request, &body), 403, "{request}");
        }
    }

    fn replay(&mut self) {
        let beat = self.beat();
        assert_eq!(self.say(HEARTBEAT, &beat), 200);
        assert_eq!(self.say(HEARTBEAT, &beat), 409);
    }

    /// From now on, viewers may be sent to it, although nothing listens there.
    fn boast(&mut self) {
        let mut beat = self.beat();
        beat["load"]["ceiling_bits_per_second"] = json!(u64::MAX);
        beat["load"]["free_bytes"] = json!(u64::MAX);
        assert_eq!(self.say(HEARTBEAT, &beat), 200);
        assert_eq!(self.say(INVENTORY, &json!(self.inventory())), 204);
    }

    fn invent(&mut self) {
        let version = Digest::of(b"nothing");
        let held = |number| HeldTitle { path: format!("invented/{number:06}"), version };
        let all = Inventory::new(NAME.parse().expect("a name"), (0..20_000).map(held).collect());
        self.say(INVENTORY, &json!(all));
        self.say(INVENTORY, &json!(self.inventory()));
    }

    fn routes(&self, node: &str) -> Value {
        let update = RoutesUpdate {
            version: 1,
            node: node.parse().expect("a name"),
            boot: "boot".to_owned(),
            number: self.beats,
            base: None,
            announced: Announced::read_file("0.0.0.0/0").expect("a prefix"),
            withdrawn: Vec::new(),
        };
        json!(update)
    }

    fn watched(&self, node: &str) -> Value {
        let titles = json!([{ "path": "film", "starts": u64::MAX, "bytes": u64::MAX }]);
        let rest = json!({ "starts": u64::MAX, "bytes": u64::MAX });
        json!({ "version": 1, "node": node, "boot": "boot", "number": self.beats, "seconds": 60, "titles": titles, "rest": rest })
    }

    fn mislead(&mut self) {
        self.say(ROUTES, &self.routes(NAME));
        self.say(WATCHED, &self.watched(NAME));
    }

    /// Until it is cut off, then on.
    fn flood(&mut self) {
        let mut line = self.line();
        let mut after = None;
        until("the flood to be cut", || {
            for _ in 0..50 {
                let beat = self.beat().to_string();
                match line.ask(HEARTBEAT, beat.as_bytes()) {
                    Ok((429, _)) => after = after.or(Some(self.beats)),
                    Ok((status, _)) => assert!(status < 500, "{status}"),
                    Err(_) => line = self.line(),
                }
            }
            after.is_some_and(|after| self.beats > after + 100)
        });
    }

    fn trickle(&mut self) {
        for _ in 0..TRICKLES {
            let mut line = self.line();
            // If it is refused at once, there is no connection to trickle on.
            if line.begin(INVENTORY, 1_000_000, b"{").is_ok() {
                self.trickling.push(line);
            }
        }
    }

    fn occupy(&mut self) {
        self.silent.extend((0..SILENT).map_while(|_| connected(Source::Node, self.gateway).ok()));
        for stream in &mut self.silent {
            // A part of a hello; closed connections send no more.
            let _ = stream.write_all(&[22, 3, 1]);
        }
        self.go_on();
    }
}
