//! The use of network cards that encrypt (`tls.nic`).

use super::{Config, ConfigError, Route, Versions, within};
use serde::{Deserialize, Serialize};

/// The use of network cards that encrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nic {
    /// On the kernel route, those that a card accepts.
    Auto,
    /// As many as a card accepts; without such a card the server does not start.
    On,
    /// None.
    Off,
}

impl Config {
    /// Checks how cards may be used, and the loss at which a card gets no further connections of a viewer.
    pub(crate) fn check_nic(&self) -> Result<(), ConfigError> {
        for (setting, percent) in [
            ("tls.nic_lost_bytes_percent", self.tls.nic_lost_bytes_percent),
            ("tls.nic_lost_segments_percent", self.tls.nic_lost_segments_percent),
        ] {
            within(setting, percent, 0.0..=100.0, "0 to 100")?;
        }
        let has_no_kernel = matches!(self.route, Route::Userspace | Route::Bypass);
        if self.tls.enabled && self.tls.nic == Nic::On && has_no_kernel {
            return Err(ConfigError::NicWithoutKernel);
        }
        let gets_none = match self.tls.nic {
            Nic::On => false,
            Nic::Auto => self.route != Route::Kernel,
            Nic::Off => true,
        };
        let is_asked_for = self.tls.enabled && self.tls.versions == Versions::Card;
        match is_asked_for && gets_none {
            true => Err(ConfigError::not_of_kind(
                "tls.versions",
                "card",
                "\"both\" where network cards get no connections: they do with tls.nic = \"on\", or with route = \"kernel\"",
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::refusal;

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
    fn tls12_for_cards_needs_cards_that_get_connections() {
        let refused = |rest: &str| refusal(&format!("{rest}\nversions = \"card\""));
        for taken in ["[tls]\nnic = \"on\"", "route = \"kernel\"\n[tls]"] {
            assert_eq!(refused(taken), None, "{taken}");
        }
        for wrong in ["[tls]", "[tls]\nnic = \"off\"", "route = \"kernel\"\n[tls]\nnic = \"off\""] {
            let refused = refused(wrong).unwrap_or_default();
            assert!(refused.contains("tls.versions") && refused.contains("tls.nic"), "{refused}");
        }
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
