//! Asks a running server for the configuration that it was started with.
//!
//! The server answers only its own user. A configuration has no secrets: keys are in files of their own, which it only names.

use super::UpgradeError;
use super::handoff_client::ANSWER_TIMEOUT;
use super::message::{ToNew, ToOld};
use super::socket::{connect_to, wait_at_most};
use config::Config;
use helper_process::packets;
use std::path::Path;

/// The configuration of the server at `socket`, with its defaults and flags.
///
/// # Errors
/// If there is none, it refuses, or it is of another version.
pub fn running_config(socket: &Path) -> Result<Config, UpgradeError> {
    let no_server = |why| UpgradeError::NoServer { socket: socket.to_owned(), why };
    let line = connect_to(socket).map_err(no_server)?;
    wait_at_most(&line, ANSWER_TIMEOUT).map_err(UpgradeError::Line)?;
    packets::send(&line, &ToOld::Show, None).map_err(UpgradeError::Line)?;
    let (mut text, mut buffer) = (String::new(), Vec::new());
    loop {
        let received = packets::receive(&line, &mut buffer).map_err(UpgradeError::Line)?;
        match received {
            Some((ToNew::Config { part }, _)) => text.push_str(&part),
            Some((ToNew::All { .. }, _)) => break,
            Some((ToNew::Refused { why, .. }, _)) => return Err(UpgradeError::Refused(why)),
            // An earlier version does not know the question.
            _ => return Err(UpgradeError::Mute),
        }
    }
    toml::from_str(&text).map_err(|why| UpgradeError::OtherSettings(Box::new(why)))
}
