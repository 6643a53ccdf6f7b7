//! What a node tells its gateways every five seconds, and what they answer.

use serde::{Deserialize, Serialize};

use crate::title::check_path;
use crate::{Digest, HeldTitle, Name, OutOfBounds, ServedAt, State, ViewerDigests};

/// Most receipts in one heartbeat: the rest waits for the next one.
const RECEIPTS_MAX: usize = 1000;

/// Most silent nodes that a gateway asks one node about at a time.
pub const ASKS_MAX: usize = 8;

/// Sent every 5 s, with jitter, to every gateway that the node knows (at most five). Nothing of it is written to the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The version of this form: 1.
    pub version: u32,
    /// Who sends it: the name in its certificate, or it is refused.
    pub node: Name,
    /// Drawn anew at each start of the agent.
    pub boot: String,
    /// Rises by one with each heartbeat of a boot; a gateway ignores one that is not newer than the last.
    pub sequence: u64,
    /// The node's clock, since 1970. Gateways tell operators when it differs from theirs by more than a second.
    pub sent_unix_millis: u64,
    /// Whether it wants viewers.
    pub condition: Condition,
    /// What it carries.
    pub load: Load,
    /// Digest of its inventory, so that the gateway can ask for one that it lacks.
    pub inventory: Digest,
    /// The number of the snapshot that it has, of this gateway.
    pub snapshot: u64,
    /// Titles that it was told to remove, and how far that is.
    #[serde(default)]
    pub receipts: Vec<Receipt>,
    /// What it still has to bring; `None` if it has everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<FillProgress>,
    /// What its windows and its rate let it bring within a day; `None` if its rate is not bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill_bytes_per_day: Option<u64>,
    /// How its server serves viewers, if the fleet's policy sends them there otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_at: Option<ServedAt>,
    /// Whether it reaches the nodes that this gateway asked about ([`HeartbeatAnswer::asks`]). Only gateways that ask get any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sightings: Vec<Sighting>,
}

/// Whether one node reaches another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sighting {
    /// The other one.
    pub node: Name,
    /// Whether its server took a connection where viewers come.
    pub is_reached: bool,
}

/// What a node still has to bring, and how far that is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillProgress {
    /// The title that it brings now.
    pub title: Option<String>,
    /// How much of that title is there.
    pub done_bytes: u64,
    /// All of it.
    pub title_bytes: u64,
    /// Titles that it lacks, that one among them.
    pub missing_titles: u64,
    /// What they have, without what is there.
    pub missing_bytes: u64,
    /// What it brings, averaged over some seconds.
    pub bytes_per_second: u64,
    /// Its window is open, or it has none.
    pub is_open: bool,
    /// When it has everything, as far as it can tell, since 1970.
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

/// Whether a node wants viewers, by its own control loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Its server is not up yet.
    Starting,
    /// It takes new viewers.
    Ready,
    /// It takes no new viewers, and says why. Those that play stay unless a reason [moves them](NotMe::moves_viewers).
    NotMe(Vec<NotMe>),
}

/// Why a node takes no new viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotMe {
    /// It carries what its ceiling allows.
    AtCeiling,
    /// A disk returns errors.
    DiskErrors,
    /// Tasks wait for CPU, memory or disks (PSI) longer than they should.
    Pressure,
    /// The server has stopped accepting connections for want of something.
    AcceptPaused,
    /// Viewers report stalls.
    ViewersStall,
    /// The processor is throttled for heat.
    Hot,
    /// The server does not answer its agent.
    ServerSilent,
    /// A reason of a later release.
    #[serde(other)]
    Other,
}

impl NotMe {
    /// Whether viewers who play should leave, too.
    pub fn moves_viewers(self) -> bool {
        matches!(self, Self::DiskErrors | Self::ViewersStall | Self::ServerSilent)
    }

    /// As it is written in metrics.
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

/// What a node carries, averaged over some seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// What its server sends.
    pub bits_per_second: u64,
    /// What it may send.
    pub ceiling_bits_per_second: u64,
    /// Connections to its server.
    pub connections: u64,
    /// CPU time of all its processors, in thousandths.
    pub cpu_permille: u16,
    /// Free room for titles.
    pub free_bytes: u64,
}

impl Load {
    /// Load beside ceiling, in thousandths; 0 without a ceiling.
    pub fn permille(&self) -> u16 {
        let share = u128::from(self.bits_per_second) * 1000;
        let share = share.checked_div(u128::from(self.ceiling_bits_per_second)).unwrap_or(0);
        u16::try_from(share).unwrap_or(u16::MAX)
    }
}

/// What became of a withdrawn title on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// What was withdrawn.
    pub held: HeldTitle,
    /// How far its removal is.
    pub state: ReceiptState,
}

/// How far a removal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptState {
    /// The node no longer serves it and has removed its files.
    Removed,
    /// The node never had it.
    Absent,
    /// It could not be removed; the node's log says why.
    Failed,
}

/// A gateway's answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeartbeatAnswer {
    /// The gateway's clock, since 1970.
    pub now_unix_millis: u64,
    /// What the gateway takes the node for.
    pub state: State,
    /// Why it is to drain, if it is.
    pub reason: Option<String>,
    /// Digest of what the node shall hold; it asks for it if that is news.
    pub desired: Digest,
    /// Digest of the fleet's public keys for tokens; likewise.
    pub keys: Digest,
    /// The number of the gateway's snapshot; likewise.
    pub snapshot: u64,
    /// The gateway does not know the inventory of that digest: send it.
    pub wants_inventory: bool,
    /// A backup was restored, and the gateway asks what the node knows to be gone.
    #[serde(default)]
    pub wants_gone: bool,
    /// What the fleet has of the certificate that viewers see of the node.
    #[serde(default)]
    pub certificate: ViewerDigests,
    /// Silent nodes that this node should try to reach. Empty except while many are silent at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<Name>,
}

impl Heartbeat {
    /// Checks what serde does not.
    ///
    /// # Errors
    /// The field that is out of its bounds.
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

/// What an agent draws at its start.
pub(crate) fn check_boot(boot: &str) -> Result<(), OutOfBounds> {
    let fits = (1..=64).contains(&boot.len());
    if fits && boot.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(());
    }
    Err(OutOfBounds("boot is not 1 to 64 letters and digits"))
}
