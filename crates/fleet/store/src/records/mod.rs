//! The records in the store: one type per kind of key. Decoding a record needs only its key and its bytes.
//!
//! | key | record |
//! |---|---|
//! | `fleet` | [`FleetRecord`] |
//! | `secret/ca`, `secret/signing` | [`SecretRecord`] |
//! | `secret/token/ID` | [`TokenKeyRecord`] |
//! | `site/NAME` | [`SiteRecord`] |
//! | `cluster/NAME` | [`ClusterRecord`] |
//! | `node/NAME` | [`NodeRecord`] |
//! | `revoked/NAME` | [`RevokedNameRecord`] |
//! | `certificate/NAME` | [`ViewerCertificateRecord`] |
//! | `gateway/NAME` | [`GatewayRecord`] |
//! | `invite/ID` | [`InviteRecord`] |
//! | `title/PATH` | [`TitleRecord`] |
//! | `pins/PATH` | [`PinsRecord`] |
//! | `placement` | [`PlacementRecord`] |
//! | `plan` | [`PlanRecord`] |
//! | `popularity` | [`PopularityRecord`] |
//! | `purges` | [`PurgesRecord`] |
//! | `snoozes` | [`SnoozesRecord`] |
//! | `unused/DIGEST` | [`UnusedRecord`] |
//! | `operator/ID` | [`OperatorRecord`] |
//! | `audit/TIME-RANDOM` | [`AuditRecord`] |
//! | `leader` | the owner of the lease, as plain text |
//!
//! Each is a JSON object with `"version":1`. A record of another version, or with an unknown field, is rejected: a gateway that rewrote it would
//! drop a newer release's data. In the parts that nodes get, such as the steering policy, unknown fields are ignored on reading, and only changing
//! the record is refused.
//!
//! Anything that must not come back from an old backup stays in the store as a tombstone: a revoked node or operator, a withdrawn version of a
//! title, a used invitation.

mod bounds;
mod form;

use std::collections::BTreeMap;

use fleet_protocol::{
    Announced, Digest, FleetPurge, Name, NodeKind, NodePlace, Prefix, PublishedTitle,
    SteeringPolicy,
};
use placement::PlacementPolicy;
use serde::{Deserialize, Serialize};

pub use bounds::{
    MANIFESTS_MAX, PINS_MAX, PURGE_REASON_BYTES_MAX, PURGES_BYTES_MAX, PURGES_MAX, SERIALS_MAX,
    SNOOZE_REASON_BYTES_MAX, SNOOZES_MAX, WITHDRAWN_MAX, WITHDRAWN_PUBLISHED_MAX,
};
pub(crate) use form::check_known_whole;
pub use form::lost_field;
pub use form::{BadRecord, PrivateBytes, StoreRecord, Stored, load, load_all};

/// The fleet itself: `fleet`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetRecord {
    /// Its name.
    pub name: Name,
    /// Rises when a backup is restored; nodes reject snapshots of an older epoch.
    pub epoch: u64,
    /// How gateways steer viewers.
    pub policy: SteeringPolicy,
    /// When the fleet was made, since 1970.
    pub made_unix_seconds: u64,
    /// The last restore, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<RestoredBackup>,
}

/// A restore. After it, only nodes may know what was withdrawn or revoked since the backup was made, so a gateway asks them before it steers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoredBackup {
    /// When the backup was made, since 1970.
    pub made_unix_seconds: u64,
    /// When it was restored, since 1970.
    pub restored_unix_seconds: u64,
    /// Whether nodes have been asked, and have had the time to answer.
    #[serde(default)]
    pub read_back: bool,
}

/// A private key with its certificate: `secret/ca`, `secret/signing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretRecord {
    /// The private key, PKCS #8 in DER.
    pub pkcs8: PrivateBytes,
    /// The certificate of that key, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_pem: Option<String>,
    /// When it was made, since 1970.
    pub made_unix_seconds: u64,
}

/// A key that signs viewers' tokens: `secret/token/ID`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenKeyRecord {
    /// The private key, PKCS #8 in DER.
    pub pkcs8: PrivateBytes,
    /// When it was made, since 1970.
    pub made_unix_seconds: u64,
    /// When it starts to sign. Nodes must have the public key first.
    pub signs_from_unix_seconds: u64,
    /// When nodes get it, since 1970; unset: immediately. A fleet's first key signs before nodes require signatures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_from_unix_seconds: Option<u64>,
    /// When nodes stop accepting its signatures, since 1970. Unset for the newest key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted_until_unix_seconds: Option<u64>,
}

/// A site: `site/NAME`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteRecord {
    /// Its region.
    pub region: Name,
    /// Degrees north, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latitude: Option<f64>,
    /// Degrees east, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longitude: Option<f64>,
    /// The partner who runs it, unless the fleet's operator does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<Name>,
    /// The only prefixes that are accepted for this site, from any source.
    #[serde(default)]
    pub allowed: Vec<Prefix>,
    /// Prefixes that the site's record announces. Those of a routing feed are not stored here.
    #[serde(default)]
    pub announced: Vec<Announced>,
    /// A file with further announced prefixes, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announced_file: Option<AnnouncedFile>,
}

/// A file of prefixes. It is an object, because a record only has room for a few thousand prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnnouncedFile {
    /// The object.
    pub sha256: Digest,
    /// Number of prefixes in it.
    pub prefixes: u32,
    /// When it was set, since 1970.
    pub since_unix_seconds: u64,
}

/// A cluster: `cluster/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterRecord {
    /// Its site.
    pub site: Name,
    /// The titles that its nodes hold.
    pub titles: ClusterTitles,
}

/// The titles that the nodes of a cluster hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterTitles {
    /// Every published title.
    All,
}

/// A node: `node/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRecord {
    /// Its place in the fleet.
    pub place: NodePlace,
    /// Its kind.
    pub kind: NodeKind,
    /// The host of its addresses: a name or an IP address.
    pub host: String,
    /// Its capacity as the operator or the invitation states it; 0 if neither does.
    pub ceiling_bits_per_second: u64,
    /// Serial numbers of its accepted certificates, in lower-case hex, newest last.
    pub serials: Vec<String>,
    /// Whether it should get viewers.
    pub wanted: Wanted,
    /// When it joined, since 1970.
    pub joined_unix_seconds: u64,
    /// Set once it has been revoked. Revocation is permanent, and its name is never reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
}

/// Whether a node should get viewers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", deny_unknown_fields)]
pub enum Wanted {
    /// It gets viewers.
    Serving,
    /// It gets no new viewers, and its present ones leave.
    Drained {
        /// Why.
        reason: String,
        /// When it was drained, since 1970.
        since_unix_seconds: u64,
        /// When it returns to service by itself, since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        returns_unix_seconds: Option<u64>,
    },
}

/// Why and when a node or an operator was revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revoked {
    /// Why.
    pub reason: String,
    /// When, since 1970.
    pub since_unix_seconds: u64,
}

/// A gateway: `gateway/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayRecord {
    /// Where nodes reach it: `https://HOST:PORT`.
    pub machines: String,
    /// Lifetime of the tokens that it signs.
    #[serde(default)]
    pub token_seconds: u64,
}

/// The name of a revoked node about which nothing else is known, because its record was lost and a backup lacks it: `revoked/NAME`. No machine gets
/// the name again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokedNameRecord {
    /// When and why.
    pub revoked: Revoked,
}

/// The certificate that a node shows to viewers: `certificate/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewerCertificateRecord {
    /// The node's request, in PEM. Its key never leaves the node.
    pub request: String,
    /// When it arrived, since 1970.
    pub requested_unix_seconds: u64,
    /// The chain that an authority issued for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<IssuedChain>,
}

/// A chain that an authority issued for a node's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuedChain {
    /// Certificates in PEM, the node's first.
    pub pem: String,
    /// When an operator uploaded it, since 1970.
    pub put_unix_seconds: u64,
    /// When it expires, since 1970.
    pub expires_unix_seconds: u64,
}

/// An invitation to join: `invite/ID`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InviteRecord {
    /// SHA-256 of the invitation's secret: the store does not contain the secret.
    pub sha256: Digest,
    /// The new node's place.
    pub place: NodePlace,
    /// Its kind.
    pub kind: NodeKind,
    /// Its name, if the operator chose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Name>,
    /// The host of its addresses, if the operator chose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its capacity; 0 if the operator has not stated it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ceiling_bits_per_second: u64,
    /// When it was made, since 1970.
    pub made_unix_seconds: u64,
    /// When it expires, since 1970.
    pub expires_unix_seconds: u64,
    /// The node that used it. An invitation works once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<UsedInvite>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The node that used an invitation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsedInvite {
    /// The node that joined with it.
    pub node: Name,
    /// Digest of its public key: the same machine may ask again if the answer got lost.
    pub key: Digest,
    /// When, since 1970.
    pub used_unix_seconds: u64,
}

/// A title: `title/PATH`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TitleRecord {
    /// The version that viewers get, if it is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<PublishedTitle>,
    /// Nodes fetch it immediately, even outside their windows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// The series that it belongs to: its next title is expected to get the demand that this one had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// Versions that must not be served any more, oldest first.
    #[serde(default)]
    pub withdrawn: Vec<WithdrawnVersion>,
}

/// A version that must not be served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithdrawnVersion {
    /// The version.
    pub version: Digest,
    /// When it was withdrawn, since 1970.
    pub since_unix_seconds: u64,
}

/// Where a title must be, regardless of demand: `pins/PATH`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinsRecord {
    /// The pins; empty after they have been removed.
    pub pins: Vec<PinnedCopies>,
}

/// A number of copies at each site of a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedCopies {
    /// Which sites.
    pub scope: PinnedScope,
    /// Copies at each of them.
    pub copies: u16,
}

/// Which sites a pin is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinnedScope {
    /// All sites.
    Everywhere,
    /// The sites of a region.
    Region(Name),
    /// One site.
    Site(Name),
}

/// Placement policy: `placement`. A store without this record uses the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementRecord {
    /// Bounds and weights.
    pub policy: PlacementPolicy,
}

/// Which titles nodes hold: `plan`. Without this record, every node holds every title.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRecord {
    /// The objects with the manifests of all clusters; `None`: every node holds every title again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifests: Option<Vec<Digest>>,
    /// When demand was last used to place titles, since 1970. Repairs between two plans do not count.
    pub planned_unix_seconds: u64,
}

/// Titles' popularity, as the leading gateway last saved it: `popularity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PopularityRecord {
    /// The object.
    pub sha256: Digest,
    /// When it was made, since 1970.
    pub made_unix_seconds: u64,
}

/// The latest purges of caching edges: `purges`. A fleet that has never ordered one has no such record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PurgesRecord {
    /// The number of the latest order.
    pub last: u64,
    /// The orders that are kept, in sequence, up to the latest one.
    pub orders: Vec<OrderedPurge>,
}

/// A purge that an operator has ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderedPurge {
    /// What edges purge.
    pub purge: FleetPurge,
    /// The operator.
    pub by: String,
    /// Why, in the operator's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When it was ordered, since 1970.
    pub unix_seconds: u64,
}

/// The issues that operators have snoozed: `snoozes`. A fleet in which none ever was has no such record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnoozesRecord {
    /// By the ID. They are dropped some time after they have ended.
    pub snoozes: BTreeMap<String, Snooze>,
}

/// How long an issue is snoozed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snooze {
    /// Until when, since 1970.
    pub until_unix_seconds: u64,
    /// The operator.
    pub by: String,
    /// Why, in the operator's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A document that no title needs, or that is about to be published: `unused/DIGEST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnusedRecord {
    /// When it was marked, since 1970.
    pub since_unix_seconds: u64,
    /// It is being removed, and cannot be published until this record is gone.
    #[serde(default)]
    pub is_going: bool,
}

/// A user of the operator's API: `operator/ID`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorRecord {
    /// Their permissions.
    pub role: Role,
    /// SHA-256 of their token: the store does not contain the token. Operators without one authenticate with a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
    /// When they were added, since 1970.
    pub made_unix_seconds: u64,
    /// Set once they have been revoked. Revocation is permanent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
}

/// The permissions of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Read only.
    Read,
    /// Also drain, publish and withdraw.
    Operate,
    /// All operations.
    Admin,
    /// See and drain the nodes of these sites only.
    Partner(Vec<Name>),
}

/// An entry of the audit log: `audit/TIME-RANDOM`, where TIME is in milliseconds since 1970, with 15 digits, so that keys sort by time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRecord {
    /// The actor: an operator, a node or a gateway.
    pub who: String,
    /// The action: `drain`, `publish`.
    pub what: String,
    /// Its object: a key in the store.
    pub subject: String,
    /// Further details.
    #[serde(default)]
    pub detail: String,
    /// When, since 1970.
    pub unix_millis: u64,
}

impl PurgesRecord {
    /// Orders up to this number are no longer kept.
    pub fn dropped(&self) -> u64 {
        self.last.saturating_sub(self.orders.len() as u64)
    }

    /// The orders after the one with this number, with their numbers.
    pub fn after(&self, number: u64) -> impl DoubleEndedIterator<Item = (u64, &OrderedPurge)> {
        let first = self.dropped().saturating_add(1);
        let skipped =
            usize::try_from(number.saturating_add(1).saturating_sub(first)).unwrap_or(usize::MAX);
        let kept = self.orders.get(skipped..).unwrap_or_default().iter();
        let numbered = kept.enumerate();
        numbered.map(move |(at, order)| (first + (skipped + at) as u64, order))
    }

    /// The order with this number, if it is kept.
    pub fn order(&self, number: u64) -> Option<&OrderedPurge> {
        let mut from = self.after(number.checked_sub(1)?);
        from.next().filter(|(found, _)| *found == number).map(|(_, order)| order)
    }

    /// Bytes of all orders' URLs, prefixes and tags.
    pub fn bytes(&self) -> usize {
        self.orders.iter().map(|order| order.purge.bytes()).sum()
    }
}

impl AuditRecord {
    /// The name of a new entry.
    pub fn name(unix_millis: u64, random: u64) -> String {
        format!("{unix_millis:015}-{random:016x}")
    }
}

#[cfg(test)]
mod tests;
