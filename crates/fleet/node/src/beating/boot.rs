//! The boot name under which an agent sends heartbeats. It is drawn at each start, and again when a gateway has newer data of this node.
//!
//! That happens when a virtual machine is reset to a snapshot, because its count of heartbeats is reset, too, and when a second machine
//! runs with a copy of the state folder. With the old name the gateway would refuse everything that follows, and the node would be lost for
//! good.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between log lines: two machines with one node's name alternate forever.
const TELL_PAUSE: Duration = Duration::from_secs(600);

/// The name, and when a new one was last logged.
pub(super) struct Boot(Mutex<(String, Option<Instant>)>);

impl Boot {
    pub(super) fn draw() -> Self {
        Self(Mutex::new((draw(), None)))
    }

    /// The current name.
    pub(super) fn name(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Draws another name, unless another gateway's answer has already done that. Returns whether to log it.
    pub(super) fn renew(&self, used: &str, now: Instant) -> bool {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if own.0 != used {
            return false;
        }
        own.0 = draw();
        let is_due = own.1.is_none_or(|told| now.duration_since(told) >= TELL_PAUSE);
        if is_due {
            own.1 = Some(now);
        }
        is_due
    }
}

/// 128 random bits: no two agents of a fleet draw the same name.
pub(crate) fn draw() -> String {
    format!("{:032x}", fastrand::u128(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overtaken_name_is_replaced_once_and_the_operator_is_told_now_and_then() {
        let (boot, now) = (Boot::draw(), Instant::now());
        let first = boot.name();
        assert!(boot.renew(&first, now));
        let second = boot.name();
        assert_ne!(first, second);
        assert!(!boot.renew(&first, now), "the answer of a second gateway to the same name");
        assert_eq!(boot.name(), second);
        assert!(!boot.renew(&second, now), "told just now");
        assert_ne!(boot.name(), second);
        assert!(boot.renew(&boot.name(), now + TELL_PAUSE));
    }
}
