//! Limits on what ffmpeg and ffprobe may use of the machine for one film.

use std::fmt::{self, Display, Formatter};

/// Reading a film's head takes well under a second. This leaves room for a head at the end of a file on a slow network.
const PROBE_SECONDS: u64 = 60;
/// For one size of one film. Feature films in AV1 at the best quality take hours.
const RUN_SECONDS: u64 = 24 * 60 * 60;
/// Encoding 2160 lines with HEVC or AV1 takes some gigabytes.
const MEMORY_BYTES: u64 = 8_000_000_000;
/// A title of many sizes, from a source that is compressed better than ours, is some ten times as large as the source.
const OUTPUT_PER_SOURCE: u64 = 20;
/// Added for short films and for still pictures.
const OUTPUT_BYTES: u64 = 256_000_000;

/// Limits for one film. Ingest gives up a film that exceeds one, with an [`IngestError`](crate::ingest::IngestError) that names the limit.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How long examining a film may take.
    pub probe_seconds_max: u64,
    /// How long making one part of a title may take: one size of the video, or one audio track.
    pub run_seconds_max: u64,
    /// How much resident memory ffmpeg may have.
    pub memory_bytes_max: u64,
    /// How large all files of the title may become together. `None`: derived from the source's size.
    pub output_bytes_max: Option<u64>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            probe_seconds_max: PROBE_SECONDS,
            run_seconds_max: RUN_SECONDS,
            memory_bytes_max: MEMORY_BYTES.min(machine_memory_bytes() / 2),
            output_bytes_max: None,
        }
    }
}

impl Bounds {
    /// How large a title may become, by the size of its source in bytes.
    pub(crate) fn output_bytes(&self, source_bytes: u64) -> u64 {
        let by_source = source_bytes.saturating_mul(OUTPUT_PER_SOURCE).saturating_add(OUTPUT_BYTES);
        self.output_bytes_max.unwrap_or(by_source)
    }
}

/// From proc_meminfo(5). If it cannot be read, the default is that of a large machine.
fn machine_memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.map_or(u64::MAX, |kibibytes| kibibytes.saturating_mul(1024))
}

/// A limit that was exceeded, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// [`Bounds::probe_seconds_max`].
    ProbeSeconds(u64),
    /// [`Bounds::run_seconds_max`].
    RunSeconds(u64),
    /// [`Bounds::memory_bytes_max`].
    MemoryBytes(u64),
    /// [`Bounds::output_bytes_max`].
    OutputBytes(u64),
}

impl Bound {
    pub(super) fn value(self) -> u64 {
        match self {
            Self::ProbeSeconds(value)
            | Self::RunSeconds(value)
            | Self::MemoryBytes(value)
            | Self::OutputBytes(value) => value,
        }
    }
}

impl Display for Bound {
    /// The end of a sentence that begins with "it took", with the flag that raises the limit.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
        let (most, flag) = match *self {
            Self::ProbeSeconds(seconds) => (format!("{seconds} s"), "--probe-seconds-max"),
            Self::RunSeconds(seconds) => (format!("{seconds} s"), "--run-seconds-max"),
            Self::MemoryBytes(bytes) => {
                (format!("{} MB of memory", megabytes(bytes)), "--memory-mb-max")
            }
            Self::OutputBytes(bytes) => {
                (format!("{} MB of disk", megabytes(bytes)), "--output-mb-max")
            }
        };
        write!(f, "more than {most}, the limit; if you trust this file, raise it with {flag}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_may_be_some_times_as_large_as_its_source_unless_told_otherwise() {
        let bounds = Bounds::default();
        assert_eq!(bounds.output_bytes(0), 256_000_000);
        assert_eq!(bounds.output_bytes(1_000_000_000), 20_256_000_000);
        assert_eq!(bounds.output_bytes(u64::MAX), u64::MAX);
        assert_eq!(Bounds { output_bytes_max: Some(5), ..bounds }.output_bytes(1000), 5);
    }

    #[test]
    fn half_of_the_machines_memory_is_the_most() {
        assert!(Bounds::default().memory_bytes_max <= machine_memory_bytes() / 2);
        assert!(Bounds::default().memory_bytes_max > 0);
    }

    #[test]
    fn a_bound_names_its_value_and_its_flag() {
        assert_eq!(
            Bound::MemoryBytes(8_000_000_000).to_string(),
            "more than 8000 MB of memory, the limit; if you trust this file, raise it with --memory-mb-max"
        );
        assert!(Bound::RunSeconds(60).to_string().contains("60 s"));
    }
}
