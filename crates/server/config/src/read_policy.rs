//! How files are read, from two settings that belong together: `disk` and `off`.

use super::Config;
use crate::switch::Switch;
use disk::{Policy, ReadMode};

impl Config {
    /// How files are read. Both switches are parts of `disk = "auto"`.
    pub fn read_policy(&self) -> Policy {
        match Policy::from(self.disk) {
            Policy::Auto if !self.is_on(Switch::Heat) => Policy::Always(ReadMode::Buffered),
            Policy::Auto if !self.is_on(Switch::Resident) => Policy::Heat,
            policy => policy,
        }
    }
}
