//! The store in etcd, for gateways on several machines.
//!
//! It uses etcd's JSON gateway (`/v3/...`, on every member's client port since 3.4), which handles one request at a time and needs nothing but
//! HTTP. Nodes never contact etcd.
//!
//! - Every commit writes the key `PREFIX/changes`, so its revision is that of the last commit, whatever else this etcd stores.
//! - A read is linearizable while there is a quorum. Without one, it returns a member's local data, which may be stale. That is safe, because every
//!   change checks the revisions that it read.
//! - Before a change, a read verifies the quorum. So a change without a quorum is refused, and certainly not made.
//! - A lease is an etcd lease: the key vanishes when it expires.

mod address;
mod http;
mod wire;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::address::Address;
use self::http::{Failed, Kind, Members};
use self::wire::{
    Granted, KeyValue, Range, Status, Streamed, Transaction, base64, change, compare,
};
use super::bounds::check_commit;
use super::{Check, Engine, Entry, StoreAnswer, StoreError, Write};

/// Written with every commit. No record uses this key.
const CHANGES: &str = "changes";

/// Entries per response. Most are smaller than 2 kB.
const PAGE_ENTRIES_MAX: usize = 1000;

/// After a read failed for lack of a quorum, reads do not wait for one during this time.
const DOUBT: Duration = Duration::from_secs(2);

/// How often alarms are read from a member. It answers from its own memory.
const ALARMS_LOOK: Duration = Duration::from_secs(5);

/// A store in etcd.
pub struct EtcdStore {
    members: Members,
    prefix: String,
    /// Leases that this process holds, by their keys.
    leases: Mutex<HashMap<String, i64>>,
    /// When a read last failed for lack of a quorum; `None` if the last one succeeded.
    doubted: Mutex<Option<Instant>>,
    /// When alarms were last read from a member, and the problem that keeps etcd from accepting changes, if there was one.
    alarmed: Mutex<Option<(Instant, Option<String>)>>,
}

impl EtcdStore {
    /// The store at `address`: `etcd://[USER@]HOST:PORT[,HOST:PORT...][/PREFIX][?ca=FILE][&certificate=FILE&key=FILE][&password-file=FILE]`.
    /// It does not contact etcd yet.
    ///
    /// # Errors
    /// If the address is invalid, or a file that it names cannot be read.
    pub fn open(address: &str) -> Result<Self, StoreError> {
        let address = Address::parse(address)?;
        let members = Members::new(&address)?;
        let (leases, doubted, alarmed) = Default::default();
        Ok(Self { members, prefix: address.prefix, leases, doubted, alarmed })
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn key64(&self, name: &str) -> String {
        base64(self.key(name))
    }

    /// Checks that no alarm blocks changes. Reads continue under an alarm, so nothing else reveals it before a change is refused.
    async fn check_alarms(&self) -> Result<(), StoreError> {
        let known = self.alarmed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let problem = match known {
            Some((at, problem)) if at.elapsed() < ALARMS_LOOK => problem,
            _ => {
                let asked =
                    self.members.ask("/v3/maintenance/status", &json!({}), Kind::Read).await;
                // A member that does not answer this may still accept changes.
                let status = asked.unwrap_or(Status { errors: Vec::new() });
                let problem = status.errors.iter().find_map(|error| told_alarm(error));
                let mut alarmed = self.alarmed.lock().unwrap_or_else(PoisonError::into_inner);
                *alarmed = Some((Instant::now(), problem.clone()));
                problem
            }
        };
        problem.map_or(Ok(()), |problem| Err(StoreError::Unavailable(problem)))
    }

    /// A linearizable read.
    async fn read_now(&self, body: &Value) -> Result<Range, StoreError> {
        let answer = self.members.ask("/v3/kv/range", body, Kind::Read).await;
        let doubt = matches!(answer, Err(Failed::NotDone(_) | Failed::Unknown(_)));
        *self.doubted.lock().unwrap_or_else(PoisonError::into_inner) = doubt.then(Instant::now);
        answer.map_err(no_quorum)
    }

    /// A linearizable read if there is a quorum, otherwise a member's local data, which may be stale.
    async fn read(&self, mut body: Value) -> Result<Range, StoreError> {
        let doubted = *self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        if doubted.is_none_or(|at| at.elapsed() > DOUBT) {
            match self.read_now(&body).await {
                Err(StoreError::Unavailable(_)) => {}
                answer => return answer,
            }
        }
        body["serializable"] = true.into();
        self.members.ask("/v3/kv/range", &body, Kind::Read).await.map_err(no_quorum)
    }

    async fn entry(&self, key: &str, now: bool) -> Result<Option<KeyValue>, StoreError> {
        let body = wire::one(&self.key(key));
        let range = if now { self.read_now(&body).await? } else { self.read(body).await? };
        Ok(range.kvs.into_iter().next())
    }

    /// All pages of a list, at the revision of the first one.
    async fn pages(&self, prefix: &str) -> Result<Vec<(String, Entry)>, StoreError> {
        let whole = self.key(prefix);
        let (mut first, mut revision, mut list) = (whole.clone().into_bytes(), 0, Vec::new());
        loop {
            let page = wire::page(&first, &whole, PAGE_ENTRIES_MAX, revision);
            let range = self.read(page).await?;
            revision = if revision == 0 { range.header.revision } else { revision };
            if let Some(last) = range.kvs.last() {
                // The smallest possible next key: the last one with a zero byte appended.
                first = [last.key.as_slice(), &[0]].concat();
            }
            for kv in range.kvs {
                let name = String::from_utf8(kv.key).ok();
                let name = name.as_deref().and_then(|key| key.strip_prefix(&self.prefix));
                let name = name.ok_or_else(|| foreign(&self.prefix))?.to_owned();
                if name != CHANGES {
                    list.push((name, Entry { value: kv.value, revision: kv.mod_revision }));
                }
            }
            if !range.more {
                return Ok(list);
            }
        }
    }

    /// Makes changes if every condition in `compare` holds.
    async fn change(
        &self,
        compare: Vec<Value>,
        mut success: Vec<Value>,
    ) -> Result<Option<u64>, StoreError> {
        success.push(change(&Write::Put(CHANGES.to_owned(), Vec::new()), |name| self.key64(name)));
        let body = wire::transaction(compare, success);
        let answer = self.members.ask::<Transaction>("/v3/kv/txn", &body, Kind::Change).await;
        let answer = answer.map_err(|failed| match failed {
            Failed::Unknown(text) => StoreError::Unavailable(format!(
                "etcd did not confirm the change, so it may have been made or not: look before you try again ({text})"
            )),
            failed => no_quorum(failed),
        })?;
        Ok(answer.succeeded.then_some(answer.header.revision))
    }

    /// Renews the lease that this process holds on `key`. Returns its term, or `None` if it holds none or the lease has expired.
    async fn renew(&self, key: &str) -> Result<Option<u64>, StoreError> {
        let leases = || self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(id) = leases().get(key).copied() else { return Ok(None) };
        let body = json!({ "ID": id.to_string() });
        let answer =
            self.members.ask::<Streamed<Granted>>("/v3/lease/keepalive", &body, Kind::Read);
        let granted = answer.await.map_err(no_quorum)?.result;
        let held = self.entry(key, true).await?.filter(|held| granted.ttl > 0 && held.lease == id);
        if held.is_none() {
            leases().remove(key);
        }
        Ok(held.map(|held| held.mod_revision))
    }

    async fn take(&self, key: &str, owner: &str, seconds: u32) -> Result<Option<u64>, StoreError> {
        if let Some(term) = self.renew(key).await? {
            return Ok(Some(term));
        }
        let held = self.entry(key, true).await?;
        let check = match held {
            Some(held) if held.value != owner.as_bytes() => return Ok(None),
            Some(held) => Check::At(key.to_owned(), held.mod_revision),
            None => Check::Absent(key.to_owned()),
        };
        let body = json!({ "TTL": seconds.to_string() });
        let granted = self.members.ask::<Granted>("/v3/lease/grant", &body, Kind::Change).await;
        let id = granted.map_err(no_quorum)?.id;
        let put = json!({ "request_put": {
            "key": self.key64(key), "value": base64(owner), "lease": id.to_string()
        } });
        let term = self.change(vec![compare(&check, |name| self.key64(name))], vec![put]).await?;
        if term.is_some() {
            let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
            leases.insert(key.to_owned(), id);
        } else {
            // If this fails, the lease expires by itself.
            let body = json!({ "ID": id.to_string() });
            let _ = self.members.ask::<Value>("/v3/lease/revoke", &body, Kind::Change).await;
        }
        Ok(term)
    }
}

/// The operator's message for an alarm. etcd writes `memberID:1234 alarm:NOSPACE`.
fn told_alarm(error: &str) -> Option<String> {
    if error.contains("alarm:NOSPACE") {
        return Some(format!(
            "etcd takes no changes: its database is full ({}). Compact and defragment it or raise --quota-backend-bytes, then run etcdctl alarm disarm",
            error.trim()
        ));
    }
    let is_alarm = error.contains("alarm:");
    is_alarm.then(|| format!("etcd takes no changes: {}. See etcdctl alarm list", error.trim()))
}

/// The error for a request that no member could answer.
fn no_quorum(failed: Failed) -> StoreError {
    StoreError::Unavailable(match failed {
        Failed::NotDone(text) | Failed::Unknown(text) => format!(
            "the store cannot be changed now: etcd has no quorum or cannot be reached. Nothing was changed; try again when it is back ({text})"
        ),
        Failed::Refused(text) => format!("etcd refuses the request. Nothing was changed ({text})"),
    })
}

fn foreign(prefix: &str) -> StoreError {
    StoreError::Damaged(format!(
        "below {prefix} in etcd is a key that is not UTF-8, so it was not written by a gateway"
    ))
}

impl Engine for EtcdStore {
    fn get<'a>(&'a self, key: &'a str) -> StoreAnswer<'a, Option<Entry>> {
        Box::pin(async move {
            let kv = self.entry(key, false).await?;
            Ok(kv.map(|kv| Entry { value: kv.value, revision: kv.mod_revision }))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreAnswer<'a, Vec<(String, Entry)>> {
        Box::pin(self.pages(prefix))
    }

    fn commit<'a>(&'a self, checks: &'a [Check], writes: &'a [Write]) -> StoreAnswer<'a, u64> {
        Box::pin(async move {
            check_commit(checks, writes)?;
            self.revision().await?;
            let compare = checks.iter().map(|check| compare(check, |name| self.key64(name)));
            let success = writes.iter().map(|write| change(write, |name| self.key64(name)));
            let made = self.change(compare.collect(), success.collect()).await?;
            made.ok_or(StoreError::Conflict)
        })
    }

    fn revision(&self) -> StoreAnswer<'_, u64> {
        Box::pin(async {
            let last = self.entry(CHANGES, true).await?;
            self.check_alarms().await?;
            Ok(last.map_or(0, |last| last.mod_revision))
        })
    }

    fn lease<'a>(
        &'a self,
        key: &'a str,
        owner: &'a str,
        seconds: u32,
    ) -> StoreAnswer<'a, Option<u64>> {
        Box::pin(self.take(key, owner, seconds))
    }
}
