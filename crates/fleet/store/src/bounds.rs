//! Limits that every engine checks before it does any work.

use std::collections::BTreeSet;

use super::{
    COMMIT_BYTES_MAX, COMMIT_OPERATIONS_MAX, Check, KEY_BYTES_MAX, StoreError, VALUE_BYTES_MAX,
    Write,
};

/// Checks a commit against the limits on sizes and counts.
pub(super) fn check_commit(checks: &[Check], writes: &[Write]) -> Result<(), StoreError> {
    let too_large = |text: String| Err(StoreError::TooLarge(text));
    if checks.len() > COMMIT_OPERATIONS_MAX || writes.len() > COMMIT_OPERATIONS_MAX {
        return too_large(format!(
            "{} checks and {} changes at once are more than the store takes ({COMMIT_OPERATIONS_MAX} of each)",
            checks.len(),
            writes.len()
        ));
    }
    checks.iter().map(Check::key).chain(writes.iter().map(Write::key)).try_for_each(check_key)?;
    let mut keys = BTreeSet::new();
    if let Some(twice) = writes.iter().map(Write::key).find(|key| !keys.insert(*key)) {
        return too_large(format!("{twice:?} is changed twice at once"));
    }
    for write in writes {
        if let Write::Put(key, value) = write {
            if value.len() > VALUE_BYTES_MAX {
                return too_large(format!(
                    "{key:?} has {} bytes, more than the store takes ({VALUE_BYTES_MAX})",
                    value.len()
                ));
            }
        }
    }
    let bytes: usize = writes.iter().map(Write::bytes).sum();
    if bytes > COMMIT_BYTES_MAX {
        return too_large(format!(
            "{bytes} bytes at once are more than the store takes ({COMMIT_BYTES_MAX})"
        ));
    }
    Ok(())
}

fn check_key(key: &str) -> Result<(), StoreError> {
    let fits = (1..=KEY_BYTES_MAX).contains(&key.len()) && !key.chars().any(char::is_control);
    if fits {
        return Ok(());
    }
    Err(StoreError::TooLarge(format!(
        "{key:?} cannot be a key: it has 1 to {KEY_BYTES_MAX} bytes and no control character"
    )))
}
