//! The records in the store, one type for each kind of key. A record is read from its key and its bytes alone.
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
//! | `unused/DIGEST` | [`UnusedRecord`] |
//! | `operator/ID` | [`OperatorRecord`] |
//! | `audit/TIME-RANDOM` | [`AuditRecord`] |
//! | `leader` | the owner of the lease, as plain text |
//!
//! Each is a JSON object with `"version":1`. A record of another version, or with a field that this release does not know, is refused: a
//! gateway that rewrote it would drop what a newer release put there. Within what nodes get, too, such as the steering policy, unknown fields are
//! read over, and only changing the record is refused.
//!
//! Whatever must not come back with an old backup stays in the store as a record that says so: a revoked node or operator, a withdrawn
//! version of a title, a used invitation.

mod bounds;
mod form;

use fleet::{Announced, Digest, Name, NodeKind, NodePlace, Prefix, PublishedTitle, SteeringPolicy};
use placement::PlacementPolicy;
use serde::{Deserialize, Serialize};

pub use bounds::{MANIFESTS_MAX, PINS_MAX, SERIALS_MAX, WITHDRAWN_MAX, WITHDRAWN_PUBLISHED_MAX};
pub use form::{BadRecord, PrivateBytes, StoreRecord, Stored, load, load_all};
pub(crate) use form::{check_known_whole, lost_field};

/// The fleet itself: `fleet`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetRecord {
    /// Its name.
    pub name: Name,
    /// Rises when a backup is restored; nodes take no snapshot of an older epoch.
    pub epoch: u64,
    /// How viewers are answered.
    pub policy: SteeringPolicy,
    /// When the fleet was made, since 1970.
    pub made_unix_seconds: u64,
    /// The last restore, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<RestoredBackup>,
}

/// A restore: what was withdrawn or revoked after the backup was made may be known only to nodes, so a gateway asks them before it steers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoredBackup {
    /// When the backup was made, since 1970.
    pub made_unix_seconds: u64,
    /// When it was restored, since 1970.
    pub restored_unix_seconds: u64,
    /// Nodes were asked, and had the time to answer.
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
    /// From when on it signs: nodes must know it first.
    pub signs_from_unix_seconds: u64,
    /// When nodes are told of it, since 1970; unset: at once. A fleet's first key signs before nodes ask for signatures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_from_unix_seconds: Option<u64>,
    /// When nodes stop taking its signatures, since 1970. Unset for the newest key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted_until_unix_seconds: Option<u64>,
}

/// A site: `site/NAME`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteRecord {
    /// The region that it is in.
    pub region: Name,
    /// Degrees north, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latitude: Option<f64>,
    /// Degrees east, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longitude: Option<f64>,
    /// The partner who runs it, if it is not the fleet's operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<Name>,
    /// Only prefixes within these are believed of this site, whoever announces them.
    #[serde(default)]
    pub allowed: Vec<Prefix>,
    /// What the site's record itself announces. What a routing feed announces is not kept here.
    #[serde(default)]
    pub announced: Vec<Announced>,
    /// The file of what it announces besides, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announced_file: Option<AnnouncedFile>,
}

/// A file of prefixes. It is an object, because a record has room for some thousand prefixes only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnnouncedFile {
    /// The object.
    pub sha256: Digest,
    /// How many prefixes it has.
    pub prefixes: u32,
    /// Since when, since 1970.
    pub since_unix_seconds: u64,
}

/// A cluster: `cluster/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterRecord {
    /// The site that it is at.
    pub site: Name,
    /// What its nodes hold.
    pub titles: ClusterTitles,
}

/// What the nodes of a cluster hold.
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
    /// Where it is.
    pub place: NodePlace,
    /// What it is built for.
    pub kind: NodeKind,
    /// The host of its addresses: a name or an IP address.
    pub host: String,
    /// What it may carry, as the operator or the invitation says; 0 if neither does.
    pub ceiling_bits_per_second: u64,
    /// Serial numbers of its certificates that are accepted, in lower-case hex, newest last.
    pub serials: Vec<String>,
    /// Whether it shall get viewers.
    pub wanted: Wanted,
    /// When it joined, since 1970.
    pub joined_unix_seconds: u64,
    /// That it may not take part any more. It stays so for ever: its name is not given again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
}

/// Whether a node shall get viewers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", deny_unknown_fields)]
pub enum Wanted {
    /// It shall.
    Serving,
    /// It shall get no new ones, and its own leave.
    Drained {
        /// Why.
        reason: String,
        /// When that was said, since 1970.
        since_unix_seconds: u64,
        /// When it serves again by itself, since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        returns_unix_seconds: Option<u64>,
    },
}

/// Why and since when somebody may not take part any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revoked {
    /// Why.
    pub reason: String,
    /// Since when, since 1970.
    pub since_unix_seconds: u64,
}

/// A gateway: `gateway/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayRecord {
    /// Where nodes reach it: `https://HOST:PORT`.
    pub machines: String,
    /// How long the tokens that it signs work.
    #[serde(default)]
    pub token_seconds: u64,
}

/// The name of a revoked node of which nothing else is known, because its record was lost and a backup lacks it: `revoked/NAME`. No box gets the
/// name again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokedNameRecord {
    /// Since when, and why.
    pub revoked: Revoked,
}

/// The certificate that viewers see of a node: `certificate/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewerCertificateRecord {
    /// The node's request, in PEM. Its key never leaves the node.
    pub request: String,
    /// When it came, since 1970.
    pub requested_unix_seconds: u64,
    /// What an authority has issued for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<IssuedChain>,
}

/// What an authority has issued for a node's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuedChain {
    /// Certificates in PEM, the node's first.
    pub pem: String,
    /// When an operator put it, since 1970.
    pub put_unix_seconds: u64,
    /// When it ends, since 1970.
    pub expires_unix_seconds: u64,
}

/// An invitation to join: `invite/ID`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InviteRecord {
    /// SHA-256 of the invitation's secret: the store cannot tell the secret.
    pub sha256: Digest,
    /// Where the new node will be.
    pub place: NodePlace,
    /// What it is built for.
    pub kind: NodeKind,
    /// Its name, if the operator chose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Name>,
    /// The host of its addresses, if the operator chose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What it may carry; 0 if the operator has not said.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ceiling_bits_per_second: u64,
    /// When it was made, since 1970.
    pub made_unix_seconds: u64,
    /// Until when it works, since 1970.
    pub expires_unix_seconds: u64,
    /// The node that used it. It works once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<UsedInvite>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Who used an invitation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsedInvite {
    /// The node that joined by it.
    pub node: Name,
    /// Digest of its public key: the same box may ask again if the answer got lost.
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
    /// Nodes bring it at once, whatever their windows say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// The series that it belongs to: the next title of it is expected to be watched as this one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// Versions that nobody may serve any more, oldest first.
    #[serde(default)]
    pub withdrawn: Vec<WithdrawnVersion>,
}

/// A version that nobody may serve any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithdrawnVersion {
    /// The version.
    pub version: Digest,
    /// Since when, since 1970.
    pub since_unix_seconds: u64,
}

/// Where a title must be, whatever is watched: `pins/PATH`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinsRecord {
    /// Pins; none once they were taken away.
    pub pins: Vec<PinnedCopies>,
}

/// So many copies at each site of a scope.
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

/// How titles are placed: `placement`. A store without it has the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementRecord {
    /// Bounds, and what things are worth.
    pub policy: PlacementPolicy,
}

/// Which titles nodes hold: `plan`. A store without it says that every node holds everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRecord {
    /// The objects that are the manifests of all clusters; `None`: every node holds everything again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifests: Option<Vec<Digest>>,
    /// When titles were last placed by what is watched, since 1970. What is put right between two plans does not count.
    pub planned_unix_seconds: u64,
}

/// What viewers watched, as the gateway that leads has kept it last: `popularity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PopularityRecord {
    /// The object.
    pub sha256: Digest,
    /// When it was made, since 1970.
    pub made_unix_seconds: u64,
}

/// A document that no title needs, or that is about to be published: `unused/DIGEST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnusedRecord {
    /// Since when, since 1970.
    pub since_unix_seconds: u64,
    /// It is being removed: nobody may publish it until this record is gone.
    #[serde(default)]
    pub is_going: bool,
}

/// Somebody who may use the operator's API: `operator/ID`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorRecord {
    /// What they may do.
    pub role: Role,
    /// SHA-256 of their token: the store cannot tell the token. Who has none comes with a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
    /// When they were added, since 1970.
    pub made_unix_seconds: u64,
    /// That they may do nothing any more. It stays so for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
}

/// What an operator may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Read,
    /// Also drain, publish and withdraw.
    Operate,
    /// Everything.
    Admin,
    /// See and drain the nodes of these sites, and nothing else.
    Partner(Vec<Name>),
}

/// Who changed what: `audit/TIME-RANDOM`, where TIME is in milliseconds since 1970, with 15 digits, so that keys are in the order of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRecord {
    /// Who did it: an operator, a node, a gateway.
    pub who: String,
    /// What they did: `drain`, `publish`.
    pub what: String,
    /// To what: a key in the store.
    pub subject: String,
    /// What else they said.
    #[serde(default)]
    pub detail: String,
    /// When, since 1970.
    pub unix_millis: u64,
}

impl AuditRecord {
    /// The name of a new entry of the log.
    pub fn name(unix_millis: u64, random: u64) -> String {
        format!("{unix_millis:015}-{random:016x}")
    }
}

#[cfg(test)]
mod tests;
