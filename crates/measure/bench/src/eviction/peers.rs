//! The other side: libcachesim, run by Python.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::outcome::Missed;

const SCRIPT: &str = include_str!("../../peers/eviction.py");

/// What the other policies miss of a trace, in caches of these sizes, or why libcachesim can't say.
pub(super) fn replayed(
    trace: &Path,
    warm_up: usize,
    scratch: &Path,
    cache_mib: &[u64],
) -> Result<Vec<Missed>, String> {
    let out = scratch.join("missed");
    let mut python = Command::new("python3");
    python.arg("-c").arg(SCRIPT).arg(trace).arg(warm_up.to_string()).arg(&out);
    python.args(cache_mib.iter().map(u64::to_string));
    // It logs there.
    python.stdout(Stdio::null());
    let output = python.output().map_err(|error| format!("cannot run python3: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(said.trim().lines().last().unwrap_or("python3 failed").to_owned());
    }
    let lines = fs::read_to_string(&out).map_err(|error| error.to_string())?;
    lines.lines().map(|line| read(line, cache_mib.len())).collect()
}

fn read(line: &str, count: usize) -> Result<Missed, String> {
    let mut fields = line.split('\t');
    let policy = fields.next().unwrap_or_default().to_owned();
    let ratios: Vec<f64> = fields.filter_map(|ratio| ratio.parse().ok()).collect();
    match ratios.len() == count {
        true => Ok(Missed { policy, ratios, refused_bytes: 0 }),
        false => Err(format!("libcachesim's figures can't be read: {line}")),
    }
}
