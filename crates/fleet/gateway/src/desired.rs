//! Builds the desired state of the fleet from the store's records.
//!
//! A gateway reads all records when the store has changed. It saves a copy on its own disk, so that it also starts without the store: both are
//! decoded in the same way.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use fleet_protocol::{
    Digest, FleetTombstones, GATEWAYS_MAX, HeldTitle, Name, PublishedTitle, SigningKey, Site,
    ViewerDigests, ViewerKeys,
};
use placement::{Pin, PinScope, PlacementPolicy};
use serde::{Deserialize, Serialize};

use crate::live::{AllowList, JoinedNode, WantedDrain, WantedNode, World};
use crate::token_keys::{Signer, TokenKeys};
use store::backup::Tombstones;
use store::records::{
    FleetRecord, GatewayRecord, NodeRecord, OperatorRecord, PinnedScope, PinsRecord,
    PlacementRecord, PlanRecord, PrivateBytes, PurgesRecord, RevokedNameRecord, Role, SecretRecord,
    SiteRecord, SnoozesRecord, StoreRecord, TitleRecord, TokenKeyRecord, ViewerCertificateRecord,
    Wanted,
};
use store::{Engine, Entry, StoreError};

/// The kinds of records that a gateway needs, including secrets: it serves machines without the store, too.
const FOLDERS: [&str; 14] = [
    FleetRecord::FOLDER,
    SiteRecord::FOLDER,
    NodeRecord::FOLDER,
    RevokedNameRecord::FOLDER,
    TitleRecord::FOLDER,
    PinsRecord::FOLDER,
    PlacementRecord::FOLDER,
    PlanRecord::FOLDER,
    OperatorRecord::FOLDER,
    GatewayRecord::FOLDER,
    SecretRecord::FOLDER,
    ViewerCertificateRecord::FOLDER,
    PurgesRecord::FOLDER,
    SnoozesRecord::FOLDER,
];

/// The records of the store that a gateway steers by, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Records {
    texts: BTreeMap<String, String>,
    /// The revision of the last change of a title. Records of withdrawn titles stay, so it never falls within an epoch.
    titles_revision: u64,
    /// The revision of the plan's last change. The record stays when a plan is undone, so it never falls within an epoch either.
    #[serde(default)]
    plan_revision: u64,
    /// The revision of the last change of a key that signs viewers' tokens. The newest key stays, so it never falls within an epoch.
    #[serde(default)]
    token_keys_revision: u64,
}

/// The desired state, as derived from [`Records`].
pub(crate) struct Wishes {
    /// Desired state for nodes and viewers. It does not yet have the announcements in [`files`](Self::files), and allow-lists are not yet applied.
    pub world: World,
    /// The files of prefixes, by site.
    pub files: BTreeMap<Name, Digest>,
    /// The plan that nodes follow, without its manifests, which are read later. `None`: every node holds every title.
    pub plan: Option<PlanRecord>,
    /// The fleet's name.
    pub fleet: Name,
    /// The users of the operator's API.
    pub operators: Operators,
    /// The key that signs viewers' addresses now, if signing is on.
    pub signer: Option<Arc<Signer>>,
    /// When another key starts to sign, or the set of keys that nodes get changes.
    pub keys_change_at: Option<u64>,
    /// The key that signs snapshots, PKCS #8.
    pub signing: PrivateBytes,
    /// The fleet's authority.
    pub authority: SecretRecord,
    /// Unusable records, with the reason.
    pub problems: Vec<String>,
}

/// A user of the operator's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Their name.
    pub id: String,
    /// Their permissions.
    pub role: Role,
}

/// All users of the operator's API.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operators {
    by_token: HashMap<Digest, Operator>,
    by_name: HashMap<String, Operator>,
}

impl Operators {
    /// The operator whose token has this digest.
    pub(crate) fn of_token(&self, sha256: &Digest) -> Option<&Operator> {
        self.by_token.get(sha256)
    }

    /// The operator with this name.
    pub(crate) fn of_name(&self, name: &str) -> Option<&Operator> {
        self.by_name.get(name)
    }
}

/// Sites, their allow-lists, and the files of their announcements.
#[derive(Default)]
struct AllSites {
    sites: BTreeMap<Name, Site>,
    allowed: BTreeMap<Name, AllowList>,
    files: BTreeMap<Name, Digest>,
}

/// Nodes, the certificates that identify them, and names that must not be reused.
#[derive(Default)]
struct AllNodes {
    nodes: BTreeMap<Name, WantedNode>,
    joined: BTreeMap<Name, JoinedNode>,
    revoked_names: BTreeSet<Name>,
}

/// Titles that nodes hold, those that they fetch immediately, and versions that must not be served.
#[derive(Default)]
struct AllTitles {
    titles: Vec<PublishedTitle>,
    at_once: Vec<HeldTitle>,
    series: BTreeMap<String, String>,
    withdrawn: Vec<HeldTitle>,
}

impl Records {
    /// Reads the records from the store.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn load(engine: &dyn Engine) -> Result<Self, StoreError> {
        let mut records = Self::default();
        for folder in FOLDERS {
            for (key, entry) in engine.list(folder).await? {
                if folder == TitleRecord::FOLDER {
                    records.titles_revision = records.titles_revision.max(entry.revision);
                }
                if key == PlanRecord::FOLDER {
                    records.plan_revision = entry.revision;
                }
                if key.starts_with(TokenKeyRecord::FOLDER) {
                    records.token_keys_revision = records.token_keys_revision.max(entry.revision);
                }
                // Invalid UTF-8 is not a valid record; decoding it later reports the fault.
                records.texts.insert(key, String::from_utf8_lossy(&entry.value).into_owned());
            }
        }
        Ok(records)
    }

    /// The record of the gateway with this name, from which nodes learn its address.
    pub(crate) fn gateway(&self, name: &Name) -> Option<GatewayRecord> {
        let key = GatewayRecord::key(name.as_str());
        let text = self.texts.get(&key)?;
        GatewayRecord::read(&key, text.as_bytes()).ok()
    }

    /// The fleet's own record, if it can be decoded.
    pub(crate) fn fleet(&self) -> Option<FleetRecord> {
        let text = self.texts.get(FleetRecord::FOLDER)?;
        FleetRecord::read(FleetRecord::FOLDER, text.as_bytes()).ok()
    }

    /// Revisions of the last changes of titles, the plan and the keys of viewers' tokens. None of these falls within an epoch.
    pub(crate) fn revisions(&self) -> [u64; 3] {
        [self.titles_revision, self.plan_revision, self.token_keys_revision]
    }

    /// The revocations and withdrawals among the records.
    pub(crate) fn tombstones(&self) -> Tombstones {
        let entry = |(key, text): (&String, &String)| {
            (key.clone(), Entry { value: text.as_bytes().to_vec(), revision: 0 })
        };
        Tombstones::of_entries(&self.texts.iter().map(entry).collect::<Vec<_>>())
    }

    fn all<R: StoreRecord>(&self, problems: &mut Vec<String>) -> Vec<(String, R)> {
        let below = self.texts.range(R::FOLDER.to_owned()..);
        let below = below.take_while(|(key, _)| key.starts_with(R::FOLDER));
        let mut read = Vec::new();
        for (key, text) in below {
            match R::read(key, text.as_bytes()) {
                Ok(record) => read.push((key[R::FOLDER.len()..].to_owned(), record)),
                Err(error) => problems.push(error.to_string()),
            }
        }
        read
    }

    /// Combines the records. Unusable records do not affect the others.
    ///
    /// # Errors
    /// If there is no fleet, or its secrets are missing.
    pub(crate) fn wishes(&self, now_unix_seconds: u64) -> Result<Wishes, String> {
        let mut problems = Vec::new();
        let fleet = self.all::<FleetRecord>(&mut problems).pop();
        let (_, fleet) = fleet.ok_or_else(|| missing("the fleet's own record", &problems))?;
        let signing = self.secret("signing")?.pkcs8;
        let authority = self.secret("ca")?;
        let operators = self.operators(&mut problems);
        let AllSites { sites, allowed, files } = self.sites(&operators, &mut problems);
        let AllNodes { nodes, joined, revoked_names } = self.nodes(&sites, &mut problems);
        let AllTitles { titles, at_once, series, withdrawn } = self.titles(&mut problems);
        let keys = self.all::<TokenKeyRecord>(&mut problems);
        let keys = TokenKeys::new(keys, &mut problems);
        let now = now_unix_seconds;
        let gateways = self.gateways(&mut problems);
        let mut world = World {
            epoch: fleet.epoch,
            policy: fleet.policy,
            sites,
            allowed,
            refused: BTreeMap::new(),
            nodes,
            joined,
            revoked_names,
            titles_revision: self.titles_revision.max(self.plan_revision),
            titles,
            at_once,
            series,
            pins: self.pins(&mut problems),
            placement: self.placement(&mut problems),
            placed: None,
            withdrawn,
            viewer_keys: ViewerKeys::new(keys.told(now)).into(),
            viewer_keys_revision: self.token_keys_revision,
            certificates: self.certificates(&mut problems),
            gateways,
            purges: self.purges(&mut problems),
            snoozes: self.snoozes(&mut problems),
            gone_signature: Vec::new(),
            is_restored: fleet.restored.is_some(),
            is_read_back: fleet.restored.is_some_and(|restored| restored.read_back),
        };
        let key = SigningKey::from_pkcs8(signing.reveal()).map_err(|error| error.to_string())?;
        world.gone_signature =
            key.sign(FleetTombstones::CONTEXT, world.gone().to_bytes()).signature;
        let plan = self.all::<PlanRecord>(&mut problems).pop().map(|(_, plan)| plan);
        let plan = plan.filter(|plan| plan.manifests.is_some());
        let (signer, keys_change_at) = (keys.signer(now).map(Arc::new), keys.changes_at(now));
        let fleet = fleet.name;
        Ok(Wishes {
            world,
            files,
            plan,
            fleet,
            operators,
            signer,
            keys_change_at,
            signing,
            authority,
            problems,
        })
    }

    fn secret(&self, name: &str) -> Result<SecretRecord, String> {
        let key = SecretRecord::key(name);
        let text = self.texts.get(&key).ok_or_else(|| missing(&key, &[]))?;
        SecretRecord::read(&key, text.as_bytes()).map_err(|error| error.to_string())
    }

    fn sites(&self, operators: &Operators, problems: &mut Vec<String>) -> AllSites {
        let partners = operators.by_name.values().filter_map(|operator| match &operator.role {
            Role::Partner(sites) => Some(sites),
            _ => None,
        });
        let of_partners: BTreeSet<&Name> = partners.flatten().collect();
        let mut all = AllSites::default();
        for (name, record) in self.all::<SiteRecord>(problems) {
            let Ok(name) = name.parse::<Name>() else { continue };
            all.allowed.insert(name.clone(), allow_list(&record, of_partners.contains(&name)));
            all.files.extend(record.announced_file.map(|file| (name.clone(), file.sha256)));
            let SiteRecord { region, latitude, longitude, announced, .. } = record;
            all.sites.insert(name.clone(), Site { name, region, latitude, longitude, announced });
        }
        all
    }

    fn nodes(&self, sites: &BTreeMap<Name, Site>, problems: &mut Vec<String>) -> AllNodes {
        let mut all = AllNodes::default();
        let names = self.all::<RevokedNameRecord>(problems).into_iter();
        all.revoked_names.extend(names.filter_map(|(name, _)| name.parse().ok()));
        for (name, mut record) in self.all::<NodeRecord>(problems) {
            let Ok(name) = name.parse::<Name>() else { continue };
            if !sites.contains_key(&record.place.site) {
                // After a restore, the site of a revoked node may be missing.
                if record.revoked.is_some() {
                    all.revoked_names.insert(name);
                    continue;
                }
                problems
                    .push(format!("node {name} is at {}, which is not a site", record.place.site));
                continue;
            }
            let serials = std::mem::take(&mut record.serials);
            let unix_seconds = record.joined_unix_seconds;
            all.joined.insert(name.clone(), JoinedNode { unix_seconds, serials });
            all.nodes.insert(name, wanted(record));
        }
        all
    }

    fn titles(&self, problems: &mut Vec<String>) -> AllTitles {
        let AllTitles { mut titles, mut at_once, mut series, mut withdrawn } = AllTitles::default();
        for (path, record) in self.all::<TitleRecord>(problems) {
            let published = record.published.as_ref().filter(|_| record.at_once);
            at_once.extend(published.map(PublishedTitle::held));
            series.extend(record.series.map(|series| (path.clone(), series)));
            titles.extend(record.published);
            withdrawn.extend(
                record
                    .withdrawn
                    .iter()
                    .map(|gone| HeldTitle { path: path.clone(), version: gone.version }),
            );
        }
        titles.sort_by(|one, other| one.path.cmp(&other.path));
        withdrawn.sort();
        AllTitles { titles, at_once, series, withdrawn }
    }

    fn placement(&self, problems: &mut Vec<String>) -> PlacementPolicy {
        let record = self.all::<PlacementRecord>(problems).pop();
        record.map(|(_, record)| record.policy).unwrap_or_default()
    }

    fn purges(&self, problems: &mut Vec<String>) -> Arc<PurgesRecord> {
        let record = self.all::<PurgesRecord>(problems).pop();
        record.map(|(_, record)| record).unwrap_or_default().into()
    }

    fn snoozes(&self, problems: &mut Vec<String>) -> Arc<SnoozesRecord> {
        let record = self.all::<SnoozesRecord>(problems).pop();
        record.map(|(_, record)| record).unwrap_or_default().into()
    }

    fn pins(&self, problems: &mut Vec<String>) -> BTreeMap<String, Vec<Pin>> {
        let all = self.all::<PinsRecord>(problems).into_iter();
        let pinned = all.filter(|(_, record)| !record.pins.is_empty());
        pinned
            .map(|(path, record)| {
                let pins = record.pins.into_iter().map(|pin| Pin {
                    scope: match pin.scope {
                        PinnedScope::Everywhere => PinScope::Everywhere,
                        PinnedScope::Region(region) => PinScope::Region(region),
                        PinnedScope::Site(site) => PinScope::Site(site),
                    },
                    copies: pin.copies,
                });
                (path, pins.collect())
            })
            .collect()
    }

    /// The addresses at which nodes reach gateways. Nodes accept at most [`GATEWAYS_MAX`].
    fn gateways(&self, problems: &mut Vec<String>) -> Vec<String> {
        let mut gateways = self.all::<GatewayRecord>(problems);
        if gateways.len() > GATEWAYS_MAX {
            let names: Vec<_> = gateways.drain(GATEWAYS_MAX..).map(|(name, _)| name).collect();
            problems.push(format!(
                "nodes accept at most {GATEWAYS_MAX} gateways, so they do not get {}: remove old gateways (fullbore control gateways remove NAME)",
                names.join(", ")
            ));
        }
        gateways.into_iter().map(|(_, gateway)| gateway.machines).collect()
    }

    fn certificates(&self, problems: &mut Vec<String>) -> BTreeMap<Name, ViewerDigests> {
        let all = self.all::<ViewerCertificateRecord>(problems).into_iter();
        let digests = |record: ViewerCertificateRecord| ViewerDigests {
            request: Some(Digest::of(record.request.as_bytes())),
            chain: record.chain.map(|chain| Digest::of(chain.pem.as_bytes())),
        };
        all.filter_map(|(name, record)| Some((name.parse().ok()?, digests(record)))).collect()
    }

    fn operators(&self, problems: &mut Vec<String>) -> Operators {
        let mut operators = Operators::default();
        let all = self.all::<OperatorRecord>(problems).into_iter();
        for (id, record) in all.filter(|(_, record)| record.revoked.is_none()) {
            let operator = Operator { id: id.clone(), role: record.role };
            if let Some(sha256) = record.sha256 {
                operators.by_token.insert(sha256, operator.clone());
            }
            operators.by_name.insert(id, operator);
        }
        operators
    }
}

fn missing(what: &str, problems: &[String]) -> String {
    match problems.first() {
        Some(problem) => format!("{what} cannot be read from the store: {problem}"),
        None => format!("the store lacks {what}"),
    }
}

/// The prefixes that a site may announce. Without a list, a site of the fleet's own operator may announce any prefix, and a partner's site none.
fn allow_list(record: &SiteRecord, is_partners: bool) -> AllowList {
    match record.operator.is_none() && !is_partners && record.allowed.is_empty() {
        true => AllowList::open(),
        false => AllowList::within(&record.allowed),
    }
}

fn wanted(record: NodeRecord) -> WantedNode {
    WantedNode {
        place: record.place,
        kind: record.kind,
        host: record.host,
        // 0 means that the operator has not set it.
        ceiling_bits_per_second: Some(record.ceiling_bits_per_second)
            .filter(|ceiling| *ceiling > 0),
        drain: match record.wanted {
            Wanted::Serving => None,
            Wanted::Drained { reason, returns_unix_seconds, .. } => {
                Some(WantedDrain { reason, returns_unix_seconds })
            }
        },
        is_revoked: record.revoked.is_some(),
    }
}
