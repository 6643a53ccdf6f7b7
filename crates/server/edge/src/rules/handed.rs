//! The rules on their way from the server to its helper, through the keeper: in the environment, which only this user can read.

use super::EdgeRule;
use std::io;
use std::process::Command;

const HANDED: &str = "FULLBORE_EDGE_RULES";

/// The most bytes of all rules as text. A variable of the environment has at most 128 KiB.
pub const RULES_BYTES_MAX: usize = 96 << 10;

/// The bytes of these rules as text.
pub fn text_bytes(rules: &[EdgeRule]) -> usize {
    serde_json::to_string(rules).map_or(usize::MAX, |text| text.len())
}

/// Adds the rules to the environment of a keeper that `command` starts.
///
/// # Errors
/// If they can't be written as text.
pub fn hand_on(rules: &[EdgeRule], command: &mut Command) -> io::Result<()> {
    command.env(HANDED, serde_json::to_string(rules)?);
    Ok(())
}

/// The rules in a helper.
///
/// # Errors
/// If the variable is missing, or was set by another program.
pub fn handed_on() -> io::Result<Vec<EdgeRule>> {
    let missing = |_| io::Error::other(format!("{HANDED} is not set"));
    Ok(serde_json::from_str(&std::env::var(HANDED).map_err(missing)?)?)
}
