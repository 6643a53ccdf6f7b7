//! Changes of the store: each one adds a line to the audit log in the same commit.

use super::Gateway;
use crate::api::ApiError;
use store::records::{AuditRecord, StoreRecord, load};
use store::{Check, StoreError, Write};

/// Attempts at a change when other requests interfere.
const ATTEMPTS: usize = 5;

/// The author and the kind of a change: a line of the audit log.
#[derive(Clone, Debug)]
pub struct By {
    /// An operator, a node or a gateway.
    pub who: String,
    /// The action.
    pub what: &'static str,
    /// Details, such as the reason.
    pub detail: String,
}

impl By {
    /// The line in the gateway's log.
    pub(crate) fn line(&self, subject: &str) -> String {
        let line = format!("{} by {}: {subject} {}", self.what, self.who, self.detail);
        line.trim_end().to_owned()
    }
}

impl Gateway {
    /// Changes the record of `name` to the result of `edit`. `edit` may be called several times.
    ///
    /// # Errors
    /// Those of `edit` and of the store.
    pub(crate) async fn change<R: StoreRecord>(
        &self,
        by: &By,
        name: &str,
        edit: impl Fn(Option<R>) -> Result<R, ApiError>,
    ) -> Result<R, ApiError> {
        self.change_with(by, name, |before| Ok((edit(before)?, Vec::new()))).await
    }

    /// Like [`change`](Self::change), with further changes in the same commit.
    ///
    /// # Errors
    /// Those of `edit` and of the store.
    pub(crate) async fn change_with<R: StoreRecord>(
        &self,
        by: &By,
        name: &str,
        edit: impl Fn(Option<R>) -> Result<(R, Vec<Write>), ApiError>,
    ) -> Result<R, ApiError> {
        for _ in 0..ATTEMPTS {
            let stored = load::<R>(self.engine(), name).await?;
            let check = match &stored {
                Some(stored) => Check::At(R::key(name), stored.revision),
                None => Check::Absent(R::key(name)),
            };
            let (record, more) = edit(stored.map(|stored| stored.record))?;
            let mut writes = vec![record.put(name)?];
            writes.extend(more);
            match self.commit(by, &R::key(name), &[check], writes).await {
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => {
                    // Applies the change immediately, instead of at the next poll.
                    self.read_store().await?;
                    return Ok(record);
                }
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Removes the record of `name`.
    ///
    /// # Errors
    /// If it does not exist, and those of the store.
    pub(crate) async fn remove<R: StoreRecord>(&self, by: &By, name: &str) -> Result<(), ApiError> {
        let key = R::key(name);
        let kind = R::FOLDER.trim_end_matches('/');
        let missing = || ApiError::NotFound(format!("there is no {kind} {name:?}"));
        let entry = self.engine().get(&key).await?.ok_or_else(missing)?;
        let writes = vec![Write::Delete(key.clone())];
        let check = Check::At(key.clone(), entry.revision);
        self.commit(by, &key, &[check], writes).await?;
        Ok(self.read_store().await?)
    }

    /// Makes changes with a line in the audit log, and logs them afterwards: a change that the store refuses is not logged.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn commit(
        &self,
        by: &By,
        subject: &str,
        checks: &[Check],
        mut writes: Vec<Write>,
    ) -> Result<(), StoreError> {
        let unix_millis = self.now().unix_millis;
        let record = AuditRecord {
            who: by.who.clone(),
            what: by.what.to_owned(),
            subject: subject.to_owned(),
            detail: by.detail.clone(),
            unix_millis,
        };
        writes.push(record.put(&AuditRecord::name(unix_millis, random_number()))?);
        self.engine().commit(checks, &writes).await?;
        self.tell(&by.line(subject));
        Ok(())
    }
}

fn random_number() -> u64 {
    u64::from_be_bytes(super::first_start::random())
}
