//! Encoding and decoding of records, and reading them from the store.

use std::fmt::{self, Debug, Formatter};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::{Engine, StoreError, VALUE_BYTES_MAX, Write};

/// The version of all records.
const VERSION: u64 = 1;

/// A record that cannot be read or written. The text names the key and the fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRecord(String);

impl From<BadRecord> for StoreError {
    fn from(bad: BadRecord) -> Self {
        Self::Damaged(bad.0)
    }
}

/// Common behaviour of all records.
pub trait StoreRecord: Serialize + DeserializeOwned {
    /// The key's prefix before the name; the full key for records without a name.
    const FOLDER: &'static str;

    /// Checks the constraints that serde does not. `name` is the key without [`FOLDER`](Self::FOLDER).
    ///
    /// # Errors
    /// The fault.
    fn check(&self, name: &str) -> Result<(), &'static str>;

    /// The key of the record called `name`.
    fn key(name: &str) -> String {
        format!("{}{name}", Self::FOLDER)
    }

    /// Decodes the record of `key`.
    ///
    /// # Errors
    /// If the bytes are not a record of this kind and version, or violate its bounds.
    fn read(key: &str, bytes: &[u8]) -> Result<Self, BadRecord> {
        let bad = |why: &str| BadRecord(format!("the store's {key:?} cannot be read: {why}"));
        let name = key.strip_prefix(Self::FOLDER).ok_or_else(|| bad("it is of another kind"))?;
        if bytes.len() > VALUE_BYTES_MAX {
            return Err(bad("it is larger than 1 MiB"));
        }
        let mut value: Value = serde_json::from_slice(bytes)
            .map_err(|error| bad(&format!("it is not JSON: {error}")))?;
        let version = value.as_object_mut().and_then(|fields| fields.remove("version"));
        match version.as_ref().and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(other) => {
                return Err(bad(&format!(
                    "it has version {other}, this release reads version {VERSION}: update this gateway"
                )));
            }
            None => return Err(bad("it has no version")),
        }
        let record: Self =
            serde_json::from_value(value).map_err(|error| bad(&error.to_string()))?;
        record.check(name).map_err(bad)?;
        Ok(record)
    }

    /// The write that stores this record under `name`.
    ///
    /// # Errors
    /// If it violates its bounds.
    fn put(&self, name: &str) -> Result<Write, BadRecord> {
        let key = Self::key(name);
        let bad = |why: &str| BadRecord(format!("{key:?} cannot be written: {why}"));
        self.check(name).map_err(bad)?;
        let mut value = serde_json::to_value(self).map_err(|error| bad(&error.to_string()))?;
        let fields = value.as_object_mut().ok_or_else(|| bad("it is not an object"))?;
        fields.insert("version".to_owned(), VERSION.into());
        let bytes = value.to_string().into_bytes();
        if bytes.len() > VALUE_BYTES_MAX {
            Err(bad("it is larger than 1 MiB"))
        } else {
            Ok(Write::Put(key, bytes))
        }
    }
}

/// A record with its place in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored<R> {
    /// The key without the kind's folder.
    pub name: String,
    /// The record.
    pub record: R,
    /// The revision of its last change, for `Check::At`.
    pub revision: u64,
}

/// The path of a field of `before` that `after` lacks, such as one added by a newer release; `None` if every such field has its default value.
/// Gateways and nodes accept unknown fields in the messages that they exchange (see the crate `fleet_protocol`), and parts of those messages are
/// in records, too.
pub fn lost_field(before: &Value, after: &Value) -> Option<String> {
    let within = |name: &str, below: String| match below.is_empty() {
        true => name.to_owned(),
        false => format!("{name}.{below}"),
    };
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            before.iter().find_map(|(name, field)| match after.get(name) {
                Some(kept) => lost_field(field, kept).map(|below| within(name, below)),
                None => (!is_default(field)).then(|| name.clone()),
            })
        }
        (Value::Array(before), Value::Array(after)) => {
            before.iter().zip(after).find_map(|(before, after)| lost_field(before, after))
        }
        _ => None,
    }
}

/// Whether omitting the field means the same.
fn is_default(field: &Value) -> bool {
    match field {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Reads the record of `name`, if it exists, in order to change it and write it back.
///
/// # Errors
/// Those of the store, and [`StoreError::Damaged`] for a record that cannot be decoded, or has a field that writing it back would lose.
pub async fn load<R: StoreRecord>(
    engine: &dyn Engine,
    name: &str,
) -> Result<Option<Stored<R>>, StoreError> {
    let key = R::key(name);
    let Some(entry) = engine.get(&key).await? else { return Ok(None) };
    let record = R::read(&key, &entry.value)?;
    check_known_whole(&key, &entry.value, &record)?;
    Ok(Some(Stored { name: name.to_owned(), record, revision: entry.revision }))
}

/// Checks that writing `record` back loses nothing of `bytes`, which it was decoded from.
///
/// # Errors
/// The field that would be lost.
pub(crate) fn check_known_whole<R: StoreRecord>(
    key: &str,
    bytes: &[u8],
    record: &R,
) -> Result<(), BadRecord> {
    let bad = |why: &str| BadRecord(format!("the store's {key:?} cannot be changed: {why}"));
    let before: Value = serde_json::from_slice(bytes).map_err(|error| bad(&error.to_string()))?;
    let mut after = serde_json::to_value(record).map_err(|error| bad(&error.to_string()))?;
    after["version"] = VERSION.into();
    match lost_field(&before, &after) {
        None => Ok(()),
        Some(field) => Err(bad(&format!(
            "a newer gateway has written {field}, which this one does not know: update this gateway"
        ))),
    }
}

/// Reads all records of a kind. An unreadable one does not hide the others: it goes into the second list.
///
/// # Errors
/// Those of the store.
pub async fn load_all<R: StoreRecord>(
    engine: &dyn Engine,
) -> Result<(Vec<Stored<R>>, Vec<BadRecord>), StoreError> {
    let (mut records, mut bad) = (Vec::new(), Vec::new());
    for (key, entry) in engine.list(R::FOLDER).await? {
        let name = key[R::FOLDER.len()..].to_owned();
        match R::read(&key, &entry.value) {
            Ok(record) => records.push(Stored { name, record, revision: entry.revision }),
            Err(error) => bad.push(error),
        }
    }
    Ok((records, bad))
}

/// Bytes that only gateways may see: they are kept out of logs, and their memory is wiped. In JSON they are base64.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PrivateBytes(Zeroizing<Vec<u8>>);

impl PrivateBytes {
    /// Wraps the bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Exposes the bytes.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl Debug for PrivateBytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateBytes({} bytes)", self.0.len())
    }
}

impl TryFrom<String> for PrivateBytes {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        STANDARD.decode(text).map(Self::new).map_err(|_| "a secret is not base64")
    }
}

impl From<PrivateBytes> for String {
    fn from(bytes: PrivateBytes) -> Self {
        STANDARD.encode(bytes.reveal())
    }
}

#[cfg(test)]
mod tests {
    use fleet_protocol::SteeringPolicy;

    use super::*;
    use crate::records::FleetRecord;

    #[test]
    fn what_a_newer_release_wrote_within_a_record_is_steered_by_and_not_written_over() {
        let fleet = FleetRecord {
            name: "films".parse().expect("a name"),
            epoch: 1,
            policy: SteeringPolicy::default(),
            made_unix_seconds: 1,
            restored: None,
        };
        let Ok(Write::Put(key, value)) = fleet.put("") else { panic!("within its bounds") };
        assert_eq!(check_known_whole(&key, &value, &fleet), Ok(()));
        let newer = String::from_utf8(value).expect("JSON");
        let newer = newer.replace("\"ttl_seconds\"", "\"shares\":{\"west\":2},\"ttl_seconds\"");
        let read = FleetRecord::read(&key, newer.as_bytes()).expect("steering goes on");
        assert_eq!(read, fleet);
        let error = check_known_whole(&key, newer.as_bytes(), &read).expect_err("it would be lost");
        let error = error.to_string();
        assert!(
            error.contains("policy.shares") && error.contains("update this gateway"),
            "{error}"
        );
    }
}
