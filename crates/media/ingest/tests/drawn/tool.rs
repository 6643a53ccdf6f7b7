//! Runs ffmpeg and ffprobe.

use std::path::Path;
use std::process::Command;

/// Runs ffmpeg with `arguments` in `folder`. Returns its messages if it failed.
pub(crate) fn ffmpeg(folder: &Path, arguments: &[String]) -> Result<(), String> {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-v", "error", "-y"]).args(arguments);
    let output = command.current_dir(folder).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// ffprobe's answer about `file`, as JSON.
pub(crate) fn ffprobe(file: &Path, arguments: &str) -> Result<serde_json::Value, String> {
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-of", "json", "-probesize", "100M", "-analyzeduration", "100M"]);
    command.args(arguments.split_whitespace()).arg(file);
    let output = command.output().map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{command:?}: {error}"))
}

/// Splits a phrase whose words contain no spaces.
pub(crate) fn words(phrase: &str) -> Vec<String> {
    phrase.split_whitespace().map(str::to_owned).collect()
}
