//! Renews the node's certificate after two thirds of its lifetime. The last third is for retries: ten days of thirty.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fleet_protocol::{RenewAnswer, RenewRequest};
use identity::Credentials;
use tokio::time::sleep;

use super::Shared;
use crate::gateway::Gateway;
use crate::joining::now_unix_millis;

/// The clock may be set during a long sleep, so sleeps are short.
const SLEEP_MAX: Duration = Duration::from_secs(60);

const ANSWER_MAX: Duration = Duration::from_secs(20);

pub(super) async fn keep_renewed(shared: Arc<Shared>) {
    let mut failures = 0u32;
    loop {
        let credentials = shared.credentials();
        let certificate = credentials.certificate();
        let now = now_unix_seconds();
        let due = certificate.renew_unix_seconds();
        if now < due {
            sleep(Duration::from_secs(due - now).min(SLEEP_MAX)).await;
            continue;
        }
        match shared.renew(&credentials).await {
            Ok(()) => failures = 0,
            Err(why) => {
                failures += 1;
                // Do not log every attempt of ten days.
                if failures.is_power_of_two() {
                    let left = certificate.expires_unix_seconds.saturating_sub(now);
                    crate::tell(&complaint(&why, left));
                }
            }
        }
        // Wait after a success, too: if the clock is far ahead, the new certificate is due at once.
        let third_seconds = certificate.expires_unix_seconds.saturating_sub(due);
        sleep(again(third_seconds, fastrand::f64())).await;
    }
}

fn complaint(why: &str, seconds_left: u64) -> String {
    match seconds_left {
        0 => format!(
            "this node's certificate has expired and cannot be renewed ({why}): join again with a new invitation and a new name"
        ),
        seconds => {
            let hours = seconds as f64 / 3600.0;
            format!("cannot renew this node's certificate, which is valid for {hours:.1} h: {why}")
        }
    }
}

/// The wait before the next attempt: a hundredth of the last third of the lifetime, from a second to ten minutes, with some jitter.
fn again(third_seconds: u64, chance: f64) -> Duration {
    Duration::from_secs((third_seconds / 100).clamp(1, 600)).mul_f64(0.8 + 0.4 * chance)
}

fn now_unix_seconds() -> u64 {
    u64::try_from(now_unix_millis() / 1000).unwrap_or_default()
}

impl Shared {
    /// Asks the gateways one after the other.
    async fn renew(&self, credentials: &Arc<Credentials>) -> Result<(), String> {
        let request = RenewRequest { version: 1, request: credentials.request() };
        let gateways = self.gateways.borrow().clone();
        let mut troubles = Vec::new();
        for address in gateways {
            let asked = self.gateway().post(&address, "renew", &request, ANSWER_MAX).await;
            let taken = match asked {
                Ok(RenewAnswer { certificate, .. }) => self.take(credentials, certificate).await,
                Err(trouble) => Err(trouble.to_string()),
            };
            match taken {
                Ok(()) => return Ok(()),
                Err(why) => troubles.push(format!("{address}: {why}")),
            }
        }
        Err(troubles.join("; "))
    }

    /// Saves the new certificate, and presents it on new connections.
    async fn take(&self, credentials: &Arc<Credentials>, pem: String) -> Result<(), String> {
        let new = credentials.renewed(pem).map_err(|error| error.to_string())?;
        let gateway = Gateway::for_node(&new).map_err(|trouble| trouble.to_string())?;
        let (new, state_dir) = (Arc::new(new), self.state_dir.clone());
        let kept = Arc::clone(&new);
        let keeping = tokio::task::spawn_blocking(move || kept.keep_certificate(&state_dir));
        keeping
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| format!("cannot save the new certificate: {error}"))?;
        *self.credentials.write().unwrap_or_else(PoisonError::into_inner) = new;
        *self.gateway.write().unwrap_or_else(PoisonError::into_inner) = gateway;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_spread_over_what_is_left() {
        let ten_days = 10 * 24 * 3600;
        assert_eq!(again(ten_days, 0.5), Duration::from_secs(600));
        assert_eq!(again(100, 0.5), Duration::from_secs(1));
        assert_eq!(again(0, 0.5), Duration::from_secs(1));
        assert_eq!(again(30_000, 0.5), Duration::from_secs(300));
        assert!(again(ten_days, 0.0) < again(ten_days, 1.0));
    }

    #[test]
    fn an_expired_certificate_is_told_with_what_to_do() {
        assert!(complaint("no route", 0).contains("join again"));
        assert!(complaint("no route", 7200).contains("2.0 h"));
    }
}
