//! Heartbeats, which a node sends to its gateways every five seconds, and the answers.

use serde::{Deserialize, Serialize};

use crate::title::check_path;
use crate::{Digest, HeldTitle, Name, OutOfBounds, ServedAt, State, ViewerDigests};

/// Most receipts in one heartbeat: the others wait for the next one.
const RECEIPTS_MAX: usize = 1000;

/// Most silent nodes that a gateway asks one node about at a time.
pub const ASKS_MAX: usize = 8;

/// Sent every 5 s, with jitter, to every gateway that the node knows (at most five). It is never written to the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The version of this document: 1.
    pub version: u32,
    /// The sender. A name other than the one in its certificate is refused.
    pub node: Name,
    /// Drawn at each start of the agent.
    pub boot: String,
    /// Rises by one with each heartbeat of a boot; a gateway refuses one that is not newer than the last.
    pub sequence: u64,
    /// The node's clock, since 1970. Gateways report a difference of more than a second to operators.
    pub sent_unix_millis: u64,
    /// Whether it wants viewers.
    pub condition: Condition,
    /// Its load.
    pub load: Load,
    /// The digest of its inventory, so that the gateway can request an unknown one.
    pub inventory: Digest,
    /// The number of its snapshot from this gateway.
    pub snapshot: u64,
    /// Titles that it was instructed to remove, and the results.
    #[serde(default)]
    pub receipts: Vec<Receipt>,
    /// Copies that it still has to fetch; `None` if it has everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<FillProgress>,
    /// The most that it can fetch per day within its windows and at its rate; `None` if its rate is not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill_bytes_per_day: Option<u64>,
    /// How its server serves viewers, if that differs from the fleet's policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_at: Option<ServedAt>,
    /// Whether it reaches the nodes that this gateway asked about ([`HeartbeatAnswer::asks`]). Sent only to gateways that asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sightings: Vec<Sighting>,
}

/// Whether one node reaches another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sighting {
    /// The other node.
    pub node: Name,
    /// Whether its server accepted a connection on the viewers' port.
    pub is_reached: bool,
}

/// Progress of the copies that a node still has to fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillProgress {
    /// The title that it is fetching now.
    pub title: Option<String>,
    /// Bytes of that title that it has.
    pub done_bytes: u64,
    /// Total bytes of that title.
    pub title_bytes: u64,
    /// Number of titles that it lacks, including that one.
    pub missing_titles: u64,
    /// Bytes that it still has to fetch for them.
    pub missing_bytes: u64,
    /// Its fetch rate, averaged over some seconds.
    pub bytes_per_second: u64,
    /// Whether its window is open, or it has none.
    pub is_open: bool,
    /// Estimated time of completion, since 1970.
    pub done_unix_seconds: Option<u64>,
}

impl FillProgress {
    fn check(&self) -> Result<(), OutOfBounds> {
        if self.done_bytes > self.title_bytes {
            return Err(OutOfBounds("more of a title is there than it has"));
        }
        self.title.as_deref().map_or(Ok(()), check_path)
    }
}

/// Whether a node wants viewers, as determined by the node itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Its server is not up yet.
    Starting,
    /// It accepts new viewers.
    Ready,
    /// It accepts no new viewers, for these reasons. Present viewers stay unless a reason [moves them](SheddingReason::moves_viewers).
    NotMe(Vec<SheddingReason>),
}

/// Why a node accepts no new viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SheddingReason {
    /// Its load has reached its ceiling.
    AtCeiling,
    /// A disk returns errors.
    DiskErrors,
    /// Tasks wait for CPU, memory or disks (PSI) longer than they should.
    Pressure,
    /// The server has stopped accepting connections, because a resource is exhausted.
    AcceptPaused,
    /// Viewers report stalls.
    ViewersStall,
    /// The processor is throttled because of heat.
    Hot,
    /// The server does not answer its agent.
    ServerSilent,
    /// A reason from a later release.
    #[serde(other)]
    Other,
}

impl SheddingReason {
    /// Whether present viewers should leave, too.
    pub fn moves_viewers(self) -> bool {
        matches!(self, Self::DiskErrors | Self::ViewersStall | Self::ServerSilent)
    }

    /// Its name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AtCeiling => "at_ceiling",
            Self::DiskErrors => "disk_errors",
            Self::Pressure => "pressure",
            Self::AcceptPaused => "accept_paused",
            Self::ViewersStall => "viewers_stall",
            Self::Hot => "hot",
            Self::ServerSilent => "server_silent",
            Self::Other => "other",
        }
    }
}

/// A node's load, averaged over some seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The rate at which its server sends.
    pub bits_per_second: u64,
    /// The most that it may send.
    pub ceiling_bits_per_second: u64,
    /// Connections to its server.
    pub connections: u64,
    /// CPU time of all its processors, in thousandths.
    pub cpu_permille: u16,
    /// Free space for titles.
    pub free_bytes: u64,
}

impl Load {
    /// Load relative to the ceiling, in thousandths; 0 without a ceiling.
    pub fn permille(&self) -> u16 {
        let share = u128::from(self.bits_per_second) * 1000;
        let share = share.checked_div(u128::from(self.ceiling_bits_per_second)).unwrap_or(0);
        u16::try_from(share).unwrap_or(u16::MAX)
    }
}

/// The result of removing a withdrawn title on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The withdrawn version.
    pub held: HeldTitle,
    /// The result of its removal.
    pub state: ReceiptState,
}

/// The result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptState {
    /// The node no longer serves it and has removed its files.
    Removed,
    /// The node never had it.
    Absent,
    /// Its removal failed; the node's log has the reason.
    Failed,
}

/// A gateway's answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeartbeatAnswer {
    /// The gateway's clock, since 1970.
    pub now_unix_millis: u64,
    /// The node's state, as determined by the gateway.
    pub state: State,
    /// Why it should drain, if it should.
    pub reason: Option<String>,
    /// Digest of the list of what the node should hold; the node fetches the list if the digest is new.
    pub desired: Digest,
    /// Digest of the fleet's public keys for tokens, which the node fetches in the same way.
    pub keys: Digest,
    /// Number of the gateway's snapshot, which the node fetches in the same way.
    pub snapshot: u64,
    /// The gateway does not have the inventory with that digest: the node should send it.
    pub wants_inventory: bool,
    /// A backup was restored, and the gateway requests the node's list of revocations and withdrawals.
    #[serde(default)]
    pub wants_gone: bool,
    /// Digests of the node's certificate for viewers, and of the request for it, as the fleet has them.
    #[serde(default)]
    pub certificate: ViewerDigests,
    /// Silent nodes that this node should try to reach. Empty except while many are silent at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<Name>,
}

impl Heartbeat {
    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        if self.version != 1 {
            return Err(OutOfBounds(
                "version is not 1: gateway and node are of different releases",
            ));
        }
        check_boot(&self.boot)?;
        if self.receipts.len() > RECEIPTS_MAX {
            return Err(OutOfBounds("there are more than 1000 receipts"));
        }
        if self.sightings.len() > ASKS_MAX {
            return Err(OutOfBounds("there are more than 8 sightings"));
        }
        if matches!(&self.condition, Condition::NotMe(reasons) if reasons.is_empty() || reasons.len() > 16)
        {
            return Err(OutOfBounds("not_me has no reason, or more than 16"));
        }
        self.fill.as_ref().map_or(Ok(()), FillProgress::check)?;
        self.served_at.as_ref().map_or(Ok(()), ServedAt::check)?;
        self.receipts.iter().try_for_each(|receipt| check_path(&receipt.held.path))
    }
}

/// Checks the identifier that an agent draws at each start.
pub(crate) fn check_boot(boot: &str) -> Result<(), OutOfBounds> {
    let fits = (1..=64).contains(&boot.len());
    if fits && boot.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(());
    }
    Err(OutOfBounds("boot is not 1 to 64 letters and digits"))
}
