//! Types of a fleet, and messages between gateways and nodes. No I/O and no clock.
//!
//! Everything here may come from a faulty or hostile peer, so each type that a peer writes has bounds, and the reader checks them: [`Name`] and
//! [`Digest`] during parsing, the others in a `check` that the reader calls before it trusts anything.
//!
//! # Releases that differ
//! Gateways and nodes are updated one at a time, and rolled back, so each release can read the documents of adjacent releases:
//! - Unknown fields are ignored, at any depth. A new field has a default for readers of documents that lack it.
//! - A field keeps its meaning, its unit and its bounds forever. Data with another meaning gets another field; the old one is still written as
//!   long as a release that needs it is supported.
//! - A change that readers must not ignore raises `version`, which every reader compares. A release reads both versions before the next one writes
//!   the new one.
//! - The values of an enumeration are fixed, and a new one raises `version`, except for [`SheddingReason`]: an unknown reason is
//!   [`SheddingReason::Other`].
//!
//! `tests/versions` checks this with documents that the release of 27 November 2026 wrote. Records in the store follow another rule: a gateway
//! writes them back, so it refuses those with unknown parts.

mod announced;
mod copy_keys;
mod digest;
mod evicting;
mod experience_report;
mod grant;
mod heartbeat;
mod host;
mod inventory;
mod joining;
mod name;
mod node;
mod origin_root;
mod prefix;
mod purging;
mod routes;
mod runs;
mod served_at;
mod signed;
mod snapshot;
mod title;
mod tombstones;
mod viewer_certificate;
mod viewer_keys;
mod watch_report;

pub use announced::{AnnouncedError, FILE_PREFIXES_MAX};
pub use copy_keys::CopyKeys;
pub use digest::{Digest, DigestError};
pub use evicting::{EVICTIONS_MAX, EvictionLeave, EvictionRequest};
pub use experience_report::ExperienceReport;
pub use grant::{FillGrant, FillGrantRequest, GRANT_SECONDS};
pub use heartbeat::{
    ASKS_MAX, Condition, FillProgress, Heartbeat, HeartbeatAnswer, Load, Receipt, ReceiptState,
    SheddingReason, Sighting,
};
pub use host::{check_node_host, host_of_url, is_own_machine, plain_host};
pub use inventory::{Desired, Inventory};
pub use joining::{
    GATEWAYS_MAX, JoinAnswer, JoinRequest, Keys, RenewAnswer, RenewRequest, check_gateways,
};
pub use name::{BadName, Name};
pub use node::{NodeKind, NodePlace, State};
pub use origin_root::{BadOrigin, OriginKind, OriginRoot};
pub use prefix::{Prefix, PrefixError};
pub use purging::{
    EDGE_RECEIPTS_MAX, EDGE_TEXT_BYTES_MAX, EdgeProgress, EdgeReceipt, EdgeReport, FleetPurge,
    ORDERS_PER_ANSWER_MAX, PurgeOrder, PurgeOrders, PurgeTarget,
};
pub use qoe::SumsCell;
pub use routes::{ROUTES_MAX, RoutesAnswer, RoutesUpdate, route_changes};
pub use served_at::ServedAt;
pub use signed::{PublicKey, Signed, SigningKey, SigningKeyError, UnsignedError};
pub use snapshot::{Announced, FleetSnapshot, Site, SnapshotError, SnapshotNode, SteeringPolicy};
pub use title::{HeldTitle, PublishedTitle, TitleDocument};
pub use tombstones::{FleetTombstones, ReturnedTombstones};
pub use viewer_certificate::{CHAIN_BYTES_MAX, ViewerChain, ViewerDigests, ViewerRequest};
pub use viewer_keys::ViewerKeys;
pub use watch_report::{REPORT_TITLES_MAX, WatchCount, WatchReport, WatchedTitle};

/// Why data from a peer is refused. The text names the field and its bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OutOfBounds(pub(crate) &'static str);
