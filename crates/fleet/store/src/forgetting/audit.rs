//! Trimming the audit log, which is bounded in lines and in age. Lines are exported before they are removed.

use std::time::Duration;

use crate::records::{AuditRecord, StoreRecord};
use crate::{COMMIT_OPERATIONS_MAX, Check, Engine, StoreError, Write};

/// How much of the audit log stays in the store.
#[derive(Clone, Copy, Debug)]
pub struct AuditBounds {
    /// Most lines: the newest stay.
    pub lines_max: usize,
    /// Maximum age.
    pub age_max: Duration,
}

/// A line has some 300 bytes, so the full log has 15 MB, which etcd keeps in memory and gateways read as a whole. A fleet of 1,000 nodes whose
/// certificates renew after 20 days writes 18,000 lines a year. 400 days: a year, plus time for people to ask about it.
impl Default for AuditBounds {
    fn default() -> Self {
        Self { lines_max: 50_000, age_max: Duration::from_secs(400 * 24 * 3600) }
    }
}

/// Removes the lines beyond `bounds` from the log, oldest first, and returns how many. `keep` gets them first, one line of JSON each. Lines that
/// were passed to `keep` but could not be removed are passed again. `fence` holds while this gateway leads.
///
/// # Errors
/// Those of the store and of `keep`.
pub async fn trim_audit(
    engine: &dyn Engine,
    fence: &[Check],
    bounds: AuditBounds,
    now_unix_millis: u64,
    mut keep: impl FnMut(&str) -> Result<(), StoreError>,
) -> Result<usize, StoreError> {
    let lines = engine.list(AuditRecord::FOLDER).await?;
    let age_max = u64::try_from(bounds.age_max.as_millis()).unwrap_or(u64::MAX);
    // Keys sort by time.
    let first = AuditRecord::key(&AuditRecord::name(now_unix_millis.saturating_sub(age_max), 0));
    let too_old = lines.partition_point(|(key, _)| *key < first);
    let too_many = lines.len().saturating_sub(bounds.lines_max);
    let going = &lines[..too_old.max(too_many)];
    for some in going.chunks(COMMIT_OPERATIONS_MAX) {
        let mut text = String::new();
        for (_, entry) in some {
            // JSON has line breaks only between tokens.
            text.push_str(&String::from_utf8_lossy(&entry.value).replace(['\n', '\r'], " "));
            text.push('\n');
        }
        keep(&text)?;
        let deletes: Vec<_> = some.iter().map(|(key, _)| Write::Delete(key.clone())).collect();
        engine.commit(fence, &deletes).await?;
    }
    Ok(going.len())
}
