//! Bit rates of a track, as HLS and DASH define them.

use super::{Segment, Track};

impl Track {
    /// The mean rate, without the head and the index.
    pub(crate) fn bits_per_second(&self) -> u64 {
        let media = self.bytes - self.index.end;
        (media as f64 * 8.0 / self.seconds()).ceil() as u64
    }

    /// HLS's peak rate (RFC 8216 section 4.1): the highest of any run of segments that lasts 0.5 to 1.5 target durations. A track with no such
    /// run, because it is shorter, has its mean rate.
    pub(crate) fn bits_per_second_max(&self, target_seconds: u32) -> u64 {
        let bytes: Vec<_> = self.segments.iter().map(|one| one.bytes).collect();
        self.rate_max(&bytes, target_seconds).max(self.bits_per_second())
    }

    /// HLS's peak rate if only these `bytes` of each segment are played.
    pub(crate) fn rate_max(&self, bytes: &[u64], target_seconds: u32) -> u64 {
        let target = u64::from(target_seconds) * u64::from(self.timescale);
        let mut most = 0.0_f64;
        // A run has few segments: ingest makes none shorter than half a second, except at the end.
        for begin in 0..self.segments.len() {
            let (mut ticks, mut sum) = (0_u64, 0_u64);
            for (segment, bytes) in self.segments[begin..].iter().zip(&bytes[begin..]) {
                ticks += u64::from(segment.ticks);
                sum += bytes;
                if ticks * 2 > target * 3 {
                    break;
                }
                if ticks * 2 >= target {
                    most = most.max(sum as f64 / ticks as f64);
                }
            }
        }
        (most * 8.0 * f64::from(self.timescale)).ceil() as u64
    }

    /// DASH's rate (ISO/IEC 23009-1 section 5.3.5.2, `Representation@bandwidth`): the least at which a player that starts at any segment,
    /// receives at this rate and begins to play after `buffer_seconds` (`MPD@minBufferTime`) has each segment before it plays it.
    pub(crate) fn bits_per_second_buffered(&self, buffer_seconds: f64) -> u64 {
        let (mut least, mut most) = (0, 1_u64);
        while !self.plays_at(most, buffer_seconds) {
            (least, most) = (most, most.saturating_mul(2));
        }
        while most - least > 1 {
            let middle = least + (most - least) / 2;
            if self.plays_at(middle, buffer_seconds) {
                most = middle;
            } else {
                least = middle;
            }
        }
        most.max(self.bits_per_second())
    }

    /// Whether a player at this rate has each segment in time, wherever it started.
    fn plays_at(&self, rate: u64, buffer_seconds: f64) -> bool {
        // The bits ahead of the clock: what was received before a start is missing afterwards, so the worst start is the one where least was.
        let rate = rate as f64;
        let (mut ahead, mut ahead_min) = (0.0_f64, f64::INFINITY);
        self.segments.iter().all(|segment: &Segment| {
            ahead_min = ahead_min.min(ahead);
            let bits = segment.bytes as f64 * 8.0;
            let is_in_time = ahead + bits - ahead_min <= rate * buffer_seconds;
            ahead += bits - rate * self.seconds_of(segment);
            is_in_time
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A track of segments with these seconds and bytes.
    fn track(segments: &[(u32, u64)]) -> Track {
        let mut offset = 100;
        let mut one = |&(seconds, bytes): &(u32, u64)| {
            let segment = Segment { offset, bytes, ticks: seconds * 1000 };
            offset += bytes;
            segment
        };
        let segments: Vec<_> = segments.iter().map(&mut one).collect();
        Track {
            head_bytes: 50,
            index: 50..100,
            timescale: 1000,
            begins_ticks: 0,
            segments,
            key_frames: None,
            is_independent: true,
            codec: "avc1.64001f".into(),
            channel_configuration: None,
            colours: None,
            bytes: offset,
        }
    }

    #[test]
    fn the_peak_of_hls_counts_short_segments_together() {
        // The second to fourth segments are each too short, but together they are the peak.
        let vary = track(&[(12, 1200), (4, 4000), (4, 2000), (4, 6000)]);
        assert_eq!(vary.bits_per_second_max(12), 12_000 * 8 / 12);
        // Any two of these are within 6 to 18 seconds; three are as well.
        let vary = track(&[(12, 1200), (4, 1000), (4, 5000), (4, 5000)]);
        assert_eq!(vary.bits_per_second_max(12), 10_000);
    }

    #[test]
    fn a_run_longer_than_one_and_a_half_targets_does_not_count() {
        // One segment of 4 s is at the rate of 8 kb/s; a burst of 1 s counts only within runs of 2 to 6 s.
        let burst = track(&[(4, 4000), (1, 4000), (4, 4000)]);
        assert_eq!(burst.bits_per_second_max(4), 8000 * 8 / 5);
        let short = track(&[(1, 1000)]);
        assert_eq!(short.bits_per_second_max(4), 8000, "its mean");
    }

    #[test]
    fn playing_at_the_rate_of_dash_never_waits_and_at_less_it_does() {
        for segments in [
            &[(4, 4000), (4, 4000)][..],
            &[(12, 1200), (4, 4000), (4, 2000), (4, 6000)],
            &[(4, 100), (4, 9000), (4, 9000), (4, 9000), (4, 100)],
            &[(1, 9000)],
        ] {
            let track = track(segments);
            let buffer = track.longest_seconds();
            let rate = track.bits_per_second_buffered(buffer);
            assert!(waits(segments, rate, buffer).is_none(), "{segments:?} at {rate}");
            let less = rate - 1;
            let is_mean = rate == track.bits_per_second();
            assert!(is_mean || waits(segments, less, buffer).is_some(), "{segments:?} at {less}");
        }
    }

    /// The start and the segment at which a player waits: a direct simulation of each start.
    fn waits(segments: &[(u32, u64)], rate: u64, buffer: f64) -> Option<(usize, usize)> {
        (0..segments.len()).find_map(|start| {
            let (mut bits, mut played) = (0.0, 0.0);
            let is_late = |(seconds, bytes): &(u32, u64)| {
                bits += *bytes as f64 * 8.0;
                let due = buffer + played;
                played += f64::from(*seconds);
                bits / rate as f64 > due + 1e-9
            };
            segments[start..].iter().position(is_late).map(|at| (start, at))
        })
    }
}
