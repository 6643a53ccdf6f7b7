//! A store that asks again while etcd does not answer in time. An etcd that shares its disk with other tests may stop for seconds, and the store
//! rightly reports that.

use std::time::Duration;

use fullbore_store::{Check, Engine, Entry, EtcdStore, StoreAnswer, StoreError, Write};
use fullbore_tests::PATIENCE;
use tokio::time::{Instant, sleep};

/// For tests of an etcd of which no member dies.
pub(crate) struct Patient(pub(crate) EtcdStore);

/// Repeats a request that has changed nothing, because there was no quorum in time.
fn again<'a, T: Send + 'a>(
    ask: impl Fn() -> StoreAnswer<'a, T> + Send + Sync + 'a,
) -> StoreAnswer<'a, T> {
    Box::pin(async move {
        let ends = Instant::now() + PATIENCE;
        loop {
            let answer = ask().await;
            let is_late =
                matches!(&answer, Err(StoreError::Unavailable(text)) if text.contains("no quorum"));
            if !is_late || Instant::now() > ends {
                return answer;
            }
            sleep(Duration::from_millis(100)).await;
        }
    })
}

impl Engine for Patient {
    fn get<'a>(&'a self, key: &'a str) -> StoreAnswer<'a, Option<Entry>> {
        again(move || self.0.get(key))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreAnswer<'a, Vec<(String, Entry)>> {
        again(move || self.0.list(prefix))
    }

    fn commit<'a>(&'a self, checks: &'a [Check], writes: &'a [Write]) -> StoreAnswer<'a, u64> {
        again(move || self.0.commit(checks, writes))
    }

    fn revision(&self) -> StoreAnswer<'_, u64> {
        again(move || self.0.revision())
    }

    fn lease<'a>(
        &'a self,
        key: &'a str,
        owner: &'a str,
        seconds: u32,
    ) -> StoreAnswer<'a, Option<u64>> {
        again(move || self.0.lease(key, owner, seconds))
    }
}
