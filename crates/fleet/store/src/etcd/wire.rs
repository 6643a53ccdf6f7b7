//! etcd's JSON: the requests that the store sends, and the response fields that it reads.
//!
//! It is the JSON form of Protocol Buffers: bytes are base64, 64-bit numbers are strings, and zero or empty fields are omitted. Field names are
//! those of etcd's `rpc.proto`.

use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::{Check, Write};

/// Encodes bytes the way etcd does.
pub(super) fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

fn number<'de, T: FromStr, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| serde::de::Error::custom("a number is invalid"))
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

/// The response to [`one`] and [`page`].
#[derive(Deserialize)]
pub(super) struct Range {
    pub(super) header: Header,
    #[serde(default)]
    pub(super) kvs: Vec<KeyValue>,
    #[serde(default)]
    pub(super) more: bool,
}

/// The response to [`transaction`].
#[derive(Deserialize)]
pub(super) struct Transaction {
    pub(super) header: Header,
    #[serde(default)]
    pub(super) succeeded: bool,
}

/// The response to granting or renewing a lease. An expired lease has no time to live.
#[derive(Deserialize)]
pub(super) struct Granted {
    #[serde(rename = "ID", default, deserialize_with = "number")]
    pub(super) id: i64,
    #[serde(rename = "TTL", default, deserialize_with = "number")]
    pub(super) ttl: i64,
}

/// One message of a stream.
#[derive(Deserialize)]
pub(super) struct Streamed<T> {
    pub(super) result: T,
}

/// A member's status: alarms, and a missing leader.
#[derive(Deserialize)]
pub(super) struct Status {
    #[serde(default)]
    pub(super) errors: Vec<String>,
}

/// The response to a login.
#[derive(Deserialize)]
pub(super) struct Login {
    pub(super) token: String,
}

/// An error response.
#[derive(Default, Deserialize)]
pub(super) struct Refusal {
    #[serde(default)]
    pub(super) error: String,
    #[serde(default)]
    pub(super) message: String,
    /// gRPC's status code.
    #[serde(default)]
    pub(super) code: i64,
}

/// The first key after all that begin with `prefix`: the last byte below 0xff is incremented, and the rest is cut off.
fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // No bound, for all keys: rpc.proto, `RangeRequest.range_end`.
    vec![0]
}

pub(super) fn one(key: &str) -> Value {
    json!({ "key": base64(key) })
}

/// `limit` entries from `first` on, among those that begin with `prefix`, at `revision` (0: now).
pub(super) fn page(first: &[u8], prefix: &str, limit: usize, revision: u64) -> Value {
    json!({
        "key": base64(first),
        "range_end": base64(after(prefix.as_bytes())),
        "limit": limit.to_string(),
        "revision": revision.to_string(),
    })
}

/// `key` maps the key of a check or a write to its full key in etcd.
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
