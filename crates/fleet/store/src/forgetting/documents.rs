//! Removing documents that no title needs any more, because titles were withdrawn or replaced by another version.
//!
//! A document is marked as unused in the commit that removes its title, and before it is written for a title that is about to be published. A week
//! later it is removed, unless a title needs it by then. So a document that is being published is never removed, whatever crashes in between, and
//! objects need never be listed.

use std::collections::BTreeSet;

use fleet_protocol::{Digest, PublishedTitle};

use crate::records::{
    BadRecord, PlanRecord, StoreRecord, TitleRecord, UnusedRecord, load, load_all,
};
use crate::{Check, Engine, Objects, StoreError, Write};

/// How long an unneeded document stays, in case a title was withdrawn by mistake.
pub const UNUSED_SECONDS: u64 = 7 * 24 * 3600;

/// Attempts at a claim when other requests interfere.
const ATTEMPTS: usize = 5;

/// The documents of a published title.
fn documents(title: &PublishedTitle) -> [Digest; 3] {
    [title.record.sha256, title.hls.sha256, title.dash.sha256]
}

/// The changes of marks that go with a change of a title from `before` to `after`; `None` stands for unpublished.
///
/// # Errors
/// None: a mark is always within its bounds.
pub fn unused(
    before: Option<&PublishedTitle>,
    after: Option<&PublishedTitle>,
    now_unix_seconds: u64,
) -> Result<Vec<Write>, BadRecord> {
    let needed: BTreeSet<_> = after.into_iter().flat_map(documents).collect();
    let gone: BTreeSet<_> = before.into_iter().flat_map(documents).collect();
    let mark = UnusedRecord { since_unix_seconds: now_unix_seconds, is_going: false };
    let marks = gone.difference(&needed).map(|digest| mark.put(&digest.to_string()));
    let claimed = needed.iter().map(|digest| Write::Delete(key(digest)));
    marks.chain(claimed.map(Ok)).collect()
}

fn key(digest: &Digest) -> String {
    UnusedRecord::key(&digest.to_string())
}

/// Marks documents that are about to be written and published. The commit that publishes them removes the marks ([`unused`]).
///
/// # Errors
/// Those of the store, and if one of the documents is just being removed.
pub async fn claim(
    engine: &dyn Engine,
    documents: &[Digest],
    now_unix_seconds: u64,
) -> Result<(), StoreError> {
    let documents: BTreeSet<_> = documents.iter().collect();
    let mark = UnusedRecord { since_unix_seconds: now_unix_seconds, is_going: false };
    for _ in 0..ATTEMPTS {
        let (mut checks, mut writes) = (Vec::new(), Vec::new());
        for digest in &documents {
            let name = digest.to_string();
            let known = load::<UnusedRecord>(engine, &name).await?;
            if known.as_ref().is_some_and(|known| known.record.is_going) {
                return Err(StoreError::Unavailable(
                    "a document of the title is just being removed: try again in a minute"
                        .to_owned(),
                ));
            }
            checks.push(match known {
                Some(known) => Check::At(key(digest), known.revision),
                None => Check::Absent(key(digest)),
            });
            writes.push(mark.put(&name)?);
        }
        match engine.commit(&checks, &writes).await {
            Err(StoreError::Conflict) => {}
            made => return made.map(drop),
        }
    }
    Err(StoreError::Conflict)
}

/// Removes documents that no title has needed for [`UNUSED_SECONDS`], and returns how many. `fence` holds while this gateway leads.
///
/// # Errors
/// Those of the store and of the objects; and a title that cannot be read, since its documents are unknown.
pub async fn sweep_documents(
    engine: &dyn Engine,
    objects: &Objects,
    fence: &[Check],
    now_unix_seconds: u64,
) -> Result<usize, StoreError> {
    // Marks are read first: a document published after that has another revision of its mark, or none.
    let (marks, _) = load_all::<UnusedRecord>(engine).await?;
    let is_due = |mark: &UnusedRecord| {
        mark.is_going || mark.since_unix_seconds.saturating_add(UNUSED_SECONDS) <= now_unix_seconds
    };
    let due: Vec<_> = marks.into_iter().filter(|mark| is_due(&mark.record)).collect();
    if due.is_empty() {
        return Ok(0);
    }
    let (titles, bad) = load_all::<TitleRecord>(engine).await?;
    if let Some(bad) = bad.into_iter().next() {
        return Err(bad.into());
    }
    let published = titles.iter().filter_map(|title| title.record.published.as_ref());
    let mut needed: BTreeSet<_> = published.flat_map(documents).collect();
    let plan = load::<PlanRecord>(engine, "").await?;
    needed.extend(plan.and_then(|plan| plan.record.manifests).into_iter().flatten());
    let mut removed = 0;
    for mark in due {
        let Ok(digest) = mark.name.parse::<Digest>() else { continue };
        let change = async |revision: u64, write: Write| {
            let checks = [fence, &[Check::At(key(&digest), revision)]].concat();
            match engine.commit(&checks, &[write]).await {
                // The document is being published, or another gateway leads.
                Err(StoreError::Conflict) => Ok(None),
                made => made.map(Some),
            }
        };
        if needed.contains(&digest) {
            change(mark.revision, Write::Delete(key(&digest))).await?;
            continue;
        }
        // From here on, it cannot be published until it is gone.
        let going = UnusedRecord { is_going: true, ..mark.record };
        let Some(revision) = change(mark.revision, going.put(&mark.name)?).await? else { continue };
        objects.remove(&digest).await?;
        change(revision, Write::Delete(key(&digest))).await?;
        removed += 1;
    }
    Ok(removed)
}
