//! What network cards that encrypt may do (`tls.nic`).

use super::{Config, ConfigError, Route, within};
use serde::{Deserialize, Serialize};

/// Whether network cards that encrypt get connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nic {
    /// On the kernel route, those that a card takes.
    Auto,
    /// As many as a card takes, and no start without a card.
    On,
    /// None.
    Off,
}

impl Config {
    /// Checks what cards may do, and when a connection costs one too much.
    pub(super) fn check_nic(&self) -> Result<(), ConfigError> {
        for (setting, percent) in [
            ("tls.nic_lost_bytes_percent", self.tls.nic_lost_bytes_percent),
            ("tls.nic_lost_segments_percent", self.tls.nic_lost_segments_percent),
        ] {
            within(setting, percent, 0.0..=100.0, "0 to 100")?;
        }
        let has_no_kernel = matches!(self.route, Route::Userspace | Route::Bypass);
        match self.tls.enabled && self.tls.nic == Nic::On && has_no_kernel {
            true => Err(ConfigError::NicWithoutKernel),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::refusal;

    #[test]
    fn a_card_needs_a_route_on_which_the_kernel_may_get_keys() {
        for taken in [
            "[tls]\nnic = \"on\"",
            "route = \"kernel\"\n[tls]\nnic = \"on\"",
            "route = \"userspace\"\n[tls]\nnic = \"off\"",
            "route = \"userspace\"\n[tls]\nnic = \"on\"\nenabled = false",
        ] {
            assert_eq!(refusal(taken), None, "{taken}");
        }
        let refused = refusal("route = \"userspace\"\n[tls]\nnic = \"on\"").unwrap_or_default();
        assert!(refused.contains("--route kernel or auto"), "{refused}");
    }

    #[test]
    fn limits_are_percentages() {
        for limit in ["nic_lost_bytes_percent", "nic_lost_segments_percent"] {
            for taken in ["0.0", "0.5", "100.0"] {
                assert_eq!(refusal(&format!("[tls]\n{limit} = {taken}")), None, "{taken}");
            }
            for wrong in ["-0.1", "100.1", "nan"] {
                let refused = refusal(&format!("[tls]\n{limit} = {wrong}")).unwrap_or_default();
                assert!(refused.contains(limit) && refused.contains("0 to 100"), "{refused}");
            }
        }
    }
}
