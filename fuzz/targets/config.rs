//! A configuration file with any text. The operator writes this file, not a peer, but he must be able to rely on `--check`.
//!
//! Checks that nothing panics; that a refusal has a message; and that a configuration that passes is the same after writing and reading it.

#![no_main]

use config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match toml::from_str::<Config>(text) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(config) => check(&config),
    }
});

fn check(config: &Config) {
    if let Err(error) = config.check() {
        return assert!(!error.to_string().is_empty());
    }
    let written = toml::to_string(config).expect("what was read can be written");
    let read: Config = toml::from_str(&written).expect("what was written can be read");
    assert_eq!(read, *config);
}
