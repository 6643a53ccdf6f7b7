//! etcd's JSON: the requests that the store makes, and the fields of answers that it reads.
//!
//! It is the JSON form of Protocol Buffers: bytes are base64, 64-bit numbers are texts, and what is zero or empty is left out. Field names
//! are those of etcd's `rpc.proto`.

use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::store::{Check, Write};

/// Bytes as etcd writes them.
pub(super) fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

fn number<'de, T: FromStr, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| serde::de::Error::custom("a number is none"))
}

/// A key with its value.
#[derive(Deserialize)]
pub(super) struct KeyValue {
    #[serde(deserialize_with = "bytes")]
    pub(super) key: Vec<u8>,
    #[serde(default, deserialize_with = "bytes")]
    pub(super) value: Vec<u8>,
    #[serde(deserialize_with = "number")]
    pub(super) mod_revision: u64,
    #[serde(default, deserialize_with = "number")]
    pub(super) lease: i64,
}

#[derive(Deserialize)]
pub(super) struct Header {
    #[serde(default, deserialize_with = "number")]
    pub(super) revision: u64,
}

/// The answer to [`one`] and [`page`].
#[derive(Deserialize)]
pub(super) struct Range {
    pub(super) header: Header,
    #[serde(default)]
    pub(super) kvs: Vec<KeyValue>,
    #[serde(default)]
    pub(super) more: bool,
}

/// The answer to [`transaction`].
#[derive(Deserialize)]
pub(super) struct Transaction {
    pub(super) header: Header,
    #[serde(default)]
    pub(super) succeeded: bool,
}

/// The answer to a request for a lease, and to its renewal. A lease that has ended has no time to live.
#[derive(Deserialize)]
pub(super) struct Granted {
    #[serde(rename = "ID", default, deserialize_with = "number")]
    pub(super) id: i64,
    #[serde(rename = "TTL", default, deserialize_with = "number")]
    pub(super) ttl: i64,
}

/// What streams send.
#[derive(Deserialize)]
pub(super) struct Streamed<T> {
    pub(super) result: T,
}

/// What a member says of itself: alarms among it, and that there is no leader.
#[derive(Deserialize)]
pub(super) struct Status {
    #[serde(default)]
    pub(super) errors: Vec<String>,
}

/// The answer to a login.
#[derive(Deserialize)]
pub(super) struct Login {
    pub(super) token: String,
}

/// A refusal.
#[derive(Default, Deserialize)]
pub(super) struct Refusal {
    #[serde(default)]
    pub(super) error: String,
    #[serde(default)]
    pub(super) message: String,
    /// gRPC's.
    #[serde(default)]
    pub(super) code: i64,
}

/// The first key after all that begin with `prefix`: its last byte that can be is one higher.
fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // All keys: rpc.proto, RangeRequest.range_end.
    vec![0]
}

pub(super) fn one(key: &str) -> Value {
    json!({ "key": base64(key) })
}

/// `limit` entries from `first` on, of those that begin with `prefix`, as they were at `revision` (0: now).
pub(super) fn page(first: &[u8], prefix: &str, limit: usize, revision: u64) -> Value {
    json!({
        "key": base64(first),
        "range_end": base64(after(prefix.as_bytes())),
        "limit": limit.to_string(),
        "revision": revision.to_string(),
    })
}

/// `key` stands for the whole key of a check or a write.
pub(super) fn compare(check: &Check, key: impl Fn(&str) -> String) -> Value {
    match check {
        Check::Absent(name) => {
            json!({ "key": key(name), "target": "CREATE", "result": "EQUAL", "create_revision": "0" })
        }
        Check::At(name, revision) => {
            json!({ "key": key(name), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string() })
        }
    }
}

pub(super) fn change(write: &Write, key: impl Fn(&str) -> String) -> Value {
    match write {
        Write::Put(name, value) => {
            json!({ "request_put": { "key": key(name), "value": base64(value) } })
        }
        Write::Delete(name) => json!({ "request_delete_range": { "key": key(name) } }),
    }
}

pub(super) fn transaction(compare: Vec<Value>, success: Vec<Value>) -> Value {
    json!({ "compare": compare, "success": success })
}

#[cfg(test)]
mod tests {
    use super::{Range, after};

    #[test]
    fn what_comes_after_a_prefix() {
        assert_eq!(after(b"/a/"), b"/a0");
        assert_eq!(after(b"a\xff"), b"b");
        assert_eq!(after(b""), [0]);
    }

    #[test]
    fn what_etcd_leaves_out_is_zero_or_empty() {
        let range: Range = serde_json::from_str(
            r#"{"header":{"cluster_id":"1","revision":"7"},"kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"5","version":"1"}],"count":"1"}"#,
        )
        .expect("an answer");
        let one = &range.kvs[0];
        assert_eq!((one.key.as_slice(), one.value.as_slice()), (b"a".as_slice(), b"".as_slice()));
        assert_eq!(
            (one.mod_revision, one.lease, range.header.revision, range.more),
            (5, 0, 7, false)
        );
    }
}
