//! Removing expired invitations, used or not. In an old backup they are useless, too.

use crate::records::{InviteRecord, StoreRecord, load_all};
use crate::{COMMIT_OPERATIONS_MAX, Check, Engine, StoreError, Write};

/// How long an expired invitation stays, so that an operator can find out why a machine could not join. No gateway's clock is off by that much.
pub const EXPIRED_SECONDS: u64 = 7 * 24 * 3600;

/// Removes invitations that expired more than [`EXPIRED_SECONDS`] ago, and returns how many. `fence` holds while this gateway leads.
///
/// # Errors
/// Those of the store.
pub async fn forget_invites(
    engine: &dyn Engine,
    fence: &[Check],
    now_unix_seconds: u64,
) -> Result<usize, StoreError> {
    // An unreadable one stays: the gateway reports it whenever it reads the store.
    let (invites, _) = load_all::<InviteRecord>(engine).await?;
    let is_old = |record: &InviteRecord| {
        record.expires_unix_seconds.saturating_add(EXPIRED_SECONDS) <= now_unix_seconds
    };
    let old = invites.into_iter().filter(|invite| is_old(&invite.record));
    let deletes: Vec<_> =
        old.map(|invite| Write::Delete(InviteRecord::key(&invite.name))).collect();
    for some in deletes.chunks(COMMIT_OPERATIONS_MAX) {
        engine.commit(fence, some).await?;
    }
    Ok(deletes.len())
}
