//! What else than the film decides whether it becomes a title: the options, ffmpeg, and this program. A failure is final only under the same
//! conditions: one that says "leave --copy out" or "try a newer ffmpeg" must not outlast that.

use std::process::Command;

use catalog::sha256;

use crate::confined::Bounds;
use crate::ingest::Options;

/// A digest of the conditions of a watch with `options`.
pub(super) fn of(options: &Options) -> String {
    let mut options = options.clone();
    if options.bounds.memory_bytes_max == Bounds::default().memory_bytes_max {
        // It follows the machine's memory, of which another kernel has a little more or less.
        options.bounds.memory_bytes_max = 0;
    }
    // All options, also those that are added later. If a new version of this program shows them in another form, failures are tried once more.
    let options = format!("{options:?}");
    // The version and how it was built, such as with libzimg. Without ffmpeg, no film is tried.
    let ffmpeg = Command::new("ffmpeg").arg("-version").output();
    let ffmpeg = ffmpeg.map(|output| output.stdout).unwrap_or_default();
    let own = env!("CARGO_PKG_VERSION");
    sha256::of_parts([options.as_bytes(), &ffmpeg[..], own.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::{BurnIn, Channels};

    #[test]
    fn each_option_counts() {
        let same = Options::default;
        assert_eq!(of(&same()), of(&same()));
        let mut bounds = same().bounds;
        bounds.memory_bytes_max += 1;
        for other in [
            Options { copy: true, ..same() },
            Options { channels: Channels::Stereo, ..same() },
            Options { burn_in: BurnIn::parse("en"), ..same() },
            Options { bounds, ..same() },
        ] {
            assert_ne!(of(&other), of(&same()), "{other:?}");
        }
    }
}
