//! Backup and restore: the entire store, and the objects that it refers to, in one file.
//!
//! Read first: [`file`] for the file format, `tombstones` for what a restore must never bring back, then [`restore`].

mod file;
mod restore;
mod tombstones;

use std::collections::BTreeSet;
use std::path::Path;

use fleet_protocol::Digest;

use self::file::{Head, Writer};
use super::records::{
    FleetRecord, PlanRecord, PopularityRecord, SiteRecord, StoreRecord, TitleRecord, load,
};
use super::{Engine, LEADER, Objects, StoreError};

pub use file::BackupError;
pub use restore::{Restored, check, check_restored, restore};
pub use tombstones::{Tombstones, bury, raise_epoch};

/// Contents of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// Entries of the store.
    pub entries: usize,
    /// Objects.
    pub objects: usize,
    /// Objects that could not be read, with the reason. The titles that need them must be published again after a restore.
    pub lacking: Vec<String>,
}

/// Writes the entire store, and the objects that its records refer to, to `to`. The file contains the fleet's secrets, so only its owner can read
/// it. It appears only when it is complete.
///
/// # Errors
/// If the store cannot be read or the file cannot be written.
pub async fn back_up(
    engine: &dyn Engine,
    objects: &Objects,
    to: &Path,
    now_unix_seconds: u64,
) -> Result<BackedUp, BackupError> {
    check_restored(engine).await?;
    let Some(fleet) = load::<FleetRecord>(engine, "").await? else {
        let text = "there is no fleet in the store: nothing to back up".to_owned();
        return Err(StoreError::NotUsable(text).into());
    };
    let entries = engine.list("").await?;
    let mut writer = Writer::create(to)?;
    writer.head(&Head {
        fullbore_backup: file::VERSION,
        fleet: fleet.record.name,
        epoch: fleet.record.epoch,
        made_unix_seconds: now_unix_seconds,
    })?;
    let mut done = BackedUp { entries: 0, objects: 0, lacking: Vec::new() };
    let mut needed = BTreeSet::new();
    for (key, entry) in entries.iter().filter(|(key, _)| key != LEADER) {
        writer.entry(key, &entry.value)?;
        needed.extend(documents(key, &entry.value));
        done.entries += 1;
    }
    for digest in needed {
        match objects.get(&digest).await {
            Ok(bytes) => {
                writer.object(&bytes)?;
                done.objects += 1;
            }
            Err(error) => done.lacking.push(error.to_string()),
        }
    }
    writer.finish()?;
    Ok(done)
}

/// The objects that a record refers to: of a title, a site, the plan or the popularity.
fn documents(key: &str, value: &[u8]) -> Vec<Digest> {
    if let Ok(kept) = PopularityRecord::read(key, value) {
        return vec![kept.sha256];
    }
    if let Ok(plan) = PlanRecord::read(key, value) {
        return plan.manifests.unwrap_or_default();
    }
    if let Ok(site) = SiteRecord::read(key, value) {
        return site.announced_file.map(|file| file.sha256).into_iter().collect();
    }
    let published = TitleRecord::read(key, value).ok().and_then(|title| title.published);
    published.map_or_else(Vec::new, |title| {
        vec![title.record.sha256, title.hls.sha256, title.dash.sha256]
    })
}
