//! What no restore may bring back: revoked nodes and withdrawn versions of titles.
//!
//! They are read from the store that is restored over, if it can still be read, from the gateway's folder, and afterwards from nodes: each keeps
//! what the fleet told it to be gone, signed.

use std::collections::BTreeMap;

use fleet::{Digest, Gone, HeldTitle, Name};

use crate::store::records::{
    FleetRecord, NodeRecord, Revoked, StoreRecord, TitleRecord, WITHDRAWN_MAX, WithdrawnVersion,
    load,
};
use crate::store::{Check, Engine, Entry, StoreError, Write};

/// How often a change is tried again that somebody else's came before.
const TRIES: u32 = 5;

/// What no restore may bring back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tombstones {
    /// The newest epoch that was seen.
    pub epoch: u64,
    /// Nodes that may not take part any more.
    pub revoked: BTreeMap<Name, Revoked>,
    /// Versions that nobody may serve any more, by the titles' paths.
    pub withdrawn: BTreeMap<String, Vec<WithdrawnVersion>>,
}

impl Tombstones {
    /// Those of a store's entries. Records that cannot be read say nothing.
    pub fn of_entries(entries: &[(String, Entry)]) -> Self {
        let mut own = Self::default();
        for (key, entry) in entries {
            if let Ok(fleet) = FleetRecord::read(key, &entry.value) {
                own.epoch = fleet.epoch;
            } else if let Ok(node) = NodeRecord::read(key, &entry.value) {
                let name = key[NodeRecord::FOLDER.len()..].parse().ok();
                own.revoked.extend(name.zip(node.revoked));
            } else if let Ok(title) = TitleRecord::read(key, &entry.value) {
                let path = &key[TitleRecord::FOLDER.len()..];
                for withdrawn in title.withdrawn {
                    own.withdraw(path, withdrawn);
                }
            }
        }
        own
    }

    /// Adds what a node gave back. Its signature has been checked: whoever could forge it could revoke any node.
    pub fn add_gone(&mut self, gone: &Gone, now_unix_seconds: u64) {
        self.epoch = self.epoch.max(gone.epoch);
        for node in &gone.revoked {
            self.revoked.entry(node.clone()).or_insert_with(|| Revoked {
                reason: "revoked before a backup was restored".to_owned(),
                since_unix_seconds: now_unix_seconds,
            });
        }
        self.add_withdrawn(&gone.withdrawn, now_unix_seconds);
    }

    /// Adds what a node was told to remove.
    pub fn add_withdrawn(&mut self, held: &[HeldTitle], since_unix_seconds: u64) {
        for held in held {
            self.withdraw(
                &held.path,
                WithdrawnVersion { version: held.version, since_unix_seconds },
            );
        }
    }

    fn withdraw(&mut self, path: &str, withdrawn: WithdrawnVersion) {
        let all = self.withdrawn.entry(path.to_owned()).or_default();
        if all.iter().all(|known| known.version != withdrawn.version) {
            all.push(withdrawn);
        }
    }

    /// A node's record, with what is known of it.
    pub(super) fn on_node(&self, name: &str, node: &mut NodeRecord) {
        let known = name.parse().ok().and_then(|name: Name| self.revoked.get(&name));
        if node.revoked.is_none() {
            node.revoked = known.cloned();
        }
    }

    /// A title's record, with what is known of it.
    pub(super) fn on_title(&self, path: &str, title: &mut TitleRecord) {
        for known in self.withdrawn.get(path).into_iter().flatten() {
            if title.withdrawn.iter().all(|withdrawn| withdrawn.version != known.version) {
                title.withdrawn.push(*known);
            }
        }
        let excess = title.withdrawn.len().saturating_sub(WITHDRAWN_MAX);
        title.withdrawn.drain(..excess);
        let is_withdrawn = |version: &Digest| {
            title.withdrawn.iter().any(|withdrawn| withdrawn.version == *version)
        };
        if title.published.as_ref().is_some_and(|published| is_withdrawn(&published.version)) {
            title.published = None;
        }
    }
}

/// Writes into the store what nodes knew and the store did not: after a restore, and before a gateway steers. Returns how many records changed.
///
/// # Errors
/// Those of the store.
pub async fn bury(engine: &dyn Engine, tombstones: &Tombstones) -> Result<usize, StoreError> {
    let mut changed = 0;
    for name in tombstones.revoked.keys() {
        let on_node = |node: &mut NodeRecord| tombstones.on_node(name.as_str(), node);
        changed += usize::from(change(engine, name.as_str(), None, on_node).await?);
    }
    for path in tombstones.withdrawn.keys() {
        let on_title = |title: &mut TitleRecord| tombstones.on_title(path, title);
        let new = Some(TitleRecord::default());
        changed += usize::from(change(engine, path, new, on_title).await?);
    }
    Ok(changed)
}

/// Makes the fleet's epoch at least `epoch`.
///
/// # Errors
/// Those of the store.
pub async fn raise_epoch(engine: &dyn Engine, epoch: u64) -> Result<(), StoreError> {
    let raise = |fleet: &mut FleetRecord| fleet.epoch = fleet.epoch.max(epoch);
    change(engine, "", None, raise).await.map(drop)
}

/// Changes a record, or `new` if there is none. Says whether that changed anything.
async fn change<R: StoreRecord + Clone + PartialEq>(
    engine: &dyn Engine,
    name: &str,
    new: Option<R>,
    to: impl Fn(&mut R),
) -> Result<bool, StoreError> {
    for _ in 0..TRIES {
        let (before, check) = match load::<R>(engine, name).await? {
            Some(stored) => (stored.record, Check::At(R::key(name), stored.revision)),
            None => match new.clone() {
                Some(new) => (new, Check::Absent(R::key(name))),
                None => return Ok(false),
            },
        };
        let mut after = before.clone();
        to(&mut after);
        if after == before {
            return Ok(false);
        }
        let write: Write = after.put(name)?;
        match engine.commit(&[check], &[write]).await {
            Ok(_) => return Ok(true),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Conflict)
}
