//! Translates SQLite's errors into messages for the operator.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::StoreError;

/// Why an operation failed.
pub(super) enum Fault {
    /// An error of SQLite.
    Sqlite(rusqlite::Error),
    /// The file's content is not what was written.
    Damaged(String),
    /// A newer release made the file.
    Newer,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Fault {
    /// Whether the database is locked by another process.
    pub(super) fn is_busy(&self) -> bool {
        let Self::Sqlite(error) = self else { return false };
        matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        )
    }

    /// Converts the fault into an error of the store in `file`.
    pub(super) fn told(self, file: &Path) -> StoreError {
        let file = file.display();
        let damaged = |why: &str| {
            StoreError::Damaged(format!(
                "the store {file} is damaged ({why}): stop all gateways, keep a copy of its folder, then restore a backup into an empty one: fullbore control restore"
            ))
        };
        let error = match self {
            Self::Damaged(why) => return damaged(&why),
            Self::Newer => {
                return StoreError::NotUsable(format!(
                    "a newer release made the store {file}: update this gateway"
                ));
            }
            Self::Sqlite(error) => error,
        };
        let unavailable = |why: &str| StoreError::Unavailable(format!("the store {file} {why}"));
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                damaged(&error.to_string())
            }
            Some(ErrorCode::DiskFull) => unavailable(
                "cannot be changed: its disk is full. Nothing was changed; make room there",
            ),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => unavailable(
                "was busy for 5 seconds with another process's change. Nothing was changed; try again",
            ),
            Some(ErrorCode::ReadOnly) => unavailable("cannot be changed: it can only be read here"),
            _ => unavailable(&format!("cannot be used: {error}")),
        }
    }
}
