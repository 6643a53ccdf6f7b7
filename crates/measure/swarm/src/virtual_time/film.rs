//! Films as numbers: bit rates, segment lengths and sizes. There are no files.

use crate::random::{log_normal, mix};
use fastrand::Rng;
use player::presentation::{
    Format, Pathway, Presentation, Reference, Rendition, Segment, Segments, Source, Track,
    TrackKind,
};
use player::url::{Url, UrlError};
use std::sync::Arc;
use std::time::Duration;

/// Properties of a library's films. Each has pictures with their sound in the same segments.
#[derive(Clone, Debug, PartialEq)]
pub struct Films {
    /// Bit rates of each film, lowest first; at least one.
    pub rungs: Vec<u64>,
    /// Playing time of a segment.
    pub segment: Duration,
    /// Playing time of a film.
    pub duration: Duration,
}

impl Default for Films {
    fn default() -> Self {
        Self {
            // Our own choice, within what Apple's authoring specification recommends for H.264; the lowest is that of the test film.
            rungs: vec![400_000, 800_000, 1_600_000, 3_000_000, 5_000_000, 8_000_000],
            // As in Apple's specification.
            segment: Duration::from_secs(6),
            duration: Duration::from_secs(90 * 60),
        }
    }
}

/// Segments of a film differ in size, equally at all bit rates: the deviation of the logarithm, and the limits. Our own choice; the same
/// specification allows a peak of twice the average.
const SIZE_SIGMA: f64 = 0.2;
const SIZE_MIN: f64 = 0.5;
const SIZE_MAX: f64 = 2.0;

impl Films {
    /// Number of segments in a film.
    pub(crate) fn segments(&self) -> usize {
        let count = self.duration.as_secs_f64() / self.segment.as_secs_f64();
        count.ceil() as usize
    }

    /// The bytes of a segment, the same on all servers.
    pub(crate) fn bytes(&self, title: usize, rung: usize, segment: usize) -> u64 {
        let mut random = Rng::with_seed(mix(mix(title as u64) ^ segment as u64));
        let factor = log_normal(&mut random, 1.0, SIZE_SIGMA).clamp(SIZE_MIN, SIZE_MAX);
        let bits = self.rungs[rung] as f64 * self.length(segment).as_secs_f64();
        ((bits * factor / 8.0) as u64).max(1)
    }

    /// Playing time of a segment: the last one may be shorter.
    fn length(&self, segment: usize) -> Duration {
        self.segment.min(self.duration.saturating_sub(self.begin(segment)))
    }

    fn begin(&self, segment: usize) -> Duration {
        self.segment * u32::try_from(segment).unwrap_or(u32::MAX)
    }

    /// The segments of a title on a server, for each rung.
    pub(crate) fn segment_lists(
        &self,
        title: usize,
        server: usize,
    ) -> Result<Vec<Arc<Segments>>, UrlError> {
        (0..self.rungs.len())
            .map(|rung| self.segment_list(title, server, rung).map(Arc::new))
            .collect()
    }

    fn segment_list(&self, title: usize, server: usize, rung: usize) -> Result<Segments, UrlError> {
        let base = format!("{}/{}", title_url(title, server), self.rungs[rung]);
        let reference = |name: &str| -> Result<Reference, UrlError> {
            Ok(Reference { url: format!("{base}/{name}").parse()?, range: None })
        };
        let segment = |index: usize| -> Result<Segment, UrlError> {
            Ok(Segment {
                begin: self.begin(index),
                duration: self.length(index),
                reference: reference(&format!("{}.m4s", index + 1))?,
                start: None,
            })
        };
        Ok(Segments {
            start: Some(reference("init.mp4")?),
            list: (0..self.segments()).map(segment).collect::<Result<_, _>>()?,
            first_number: 1,
            ..Segments::default()
        })
    }

    /// A title's manifest with these servers as its pathways. `lists` has the results of [`Films::segment_lists`], by server.
    pub(crate) fn presentation(
        &self,
        servers: &[usize],
        lists: &[Vec<Arc<Segments>>],
    ) -> Presentation {
        let rendition = |(rung, bits_per_second): (usize, &u64)| Rendition {
            id: bits_per_second.to_string(),
            bits_per_second: *bits_per_second,
            sources: servers
                .iter()
                .map(|server| Source::Listed(Arc::clone(&lists[*server][rung])))
                .collect(),
        };
        Presentation {
            format: Format::Dash,
            duration: Some(self.duration),
            pathways: servers.iter().map(|server| Pathway { id: name(*server) }).collect(),
            steering: None,
            tracks: vec![Track {
                kind: TrackKind::Pictures,
                renditions: self.rungs.iter().enumerate().map(rendition).collect(),
            }],
            reload_after: None,
        }
    }
}

/// A server's name, which is its pathway's.
pub(crate) fn name(server: usize) -> String {
    format!("server-{}", server + 1)
}

fn title_url(title: usize, server: usize) -> String {
    // A domain that no one can own (RFC 2606).
    format!("https://{}.test/title-{}", name(server), title + 1)
}

/// The URL of a title's manifest.
pub(crate) fn manifest_url(title: usize, server: usize) -> Result<Url, UrlError> {
    format!("{}/manifest.mpd", title_url(title, server)).parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_have_their_bit_rate_on_average_and_differ() {
        let films = Films::default();
        for rung in [0, 5] {
            let bytes: u64 =
                (0..films.segments()).map(|segment| films.bytes(3, rung, segment)).sum();
            let bits_per_second = bytes as f64 * 8.0 / films.duration.as_secs_f64();
            // The mean of a log-normal law is e^(sigma^2 / 2) times its median: 2% more.
            let expected = films.rungs[rung] as f64 * 1.02;
            assert!((bits_per_second / expected - 1.0).abs() < 0.03, "{bits_per_second}");
        }
        assert_ne!(films.bytes(0, 0, 0), films.bytes(0, 0, 1));
        assert_eq!(films.bytes(0, 0, 7), films.bytes(0, 0, 7));
    }

    #[test]
    fn the_last_segment_ends_with_the_film() {
        let films = Films { duration: Duration::from_secs(20), ..Films::default() };
        let lists = films.segment_lists(0, 0).expect("good addresses");
        let list = &lists[0].list;
        assert_eq!((list.len(), list[3].duration), (4, Duration::from_secs(2)));
        assert_eq!(lists[0].duration(), films.duration);
        assert!(films.bytes(0, 0, 3) < films.bytes(0, 0, 2));
    }
}
