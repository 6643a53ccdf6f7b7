//! A configuration file of any text. The operator writes it, not a peer; but `--check` is there to be trusted.
//!
//! Must hold: no panic; a refusal says something; and what passes the check is the same when it is written and read again.

#![no_main]

use appliance::Config;
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
