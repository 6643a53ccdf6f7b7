//! Documents that are parsed once for all viewers: manifests, playlists, indexes.
//!
//! Every viewer fetches its own copy, as players do. If its bytes are the same as an earlier copy from the same address, the viewers share
//! the parsed result.

use super::failed::Failed;
use super::servers::{self, Place};
use player::steering::Answer;
use player::{Document, PlayerRequest, Presentation, RequestKind, Segments, Source, Url};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Limit on the memory of all kept documents. Beyond it all of them are dropped, and parsed again when needed.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// Memory of a listed segment with its URL: an estimate.
const SEGMENT_BYTES: usize = 256;

/// The documents of a run.
pub(crate) struct Documents {
    also_at: Vec<Place>,
    kept: Mutex<Kept>,
}

/// What a document was requested as, and from where: a media playlist may be the manifest of its title, too.
type Key = (RequestKind, Url, Option<Range<u64>>);

#[derive(Default)]
struct Kept {
    documents: HashMap<Key, Parsed>,
    bytes: usize,
}

#[derive(Clone)]
struct Parsed {
    from: Arc<[u8]>,
    document: Document,
}

impl Parsed {
    /// Its memory: its own bytes, and the segments that it lists. A short template can list very many.
    fn bytes(&self) -> usize {
        let listed = match &self.document {
            Document::Segments(segments) => segments.list.len(),
            Document::Presentation(presentation) => {
                let renditions = presentation.tracks.iter().flat_map(|track| &track.renditions);
                let sources = renditions.flat_map(|rendition| &rendition.sources);
                let listed = sources.map(|source| match source {
                    Source::Listed(segments) => segments.list.len(),
                    _ => 0,
                });
                listed.sum()
            }
            Document::Steering(_) => 0,
        };
        self.from.len() + listed * SEGMENT_BYTES
    }
}

impl Documents {
    /// Starts without documents. All titles are also on these further servers.
    pub(crate) fn new(also_at: Vec<Place>) -> Self {
        Self { also_at, kept: Mutex::default() }
    }

    /// The parsed answer to `request`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn read(&self, request: &PlayerRequest, bytes: &[u8]) -> Result<Document, Failed> {
        if request.kind == RequestKind::Steering {
            return self.parse(request, bytes);
        }
        let key = (request.kind, request.address().clone(), request.range.clone());
        let known = self.lock().documents.get(&key).cloned();
        if let Some(known) = known.filter(|known| *known.from == *bytes) {
            return Ok(known.document);
        }
        let document = self.parse(request, bytes)?;
        self.keep(key, Parsed { from: bytes.into(), document: document.clone() });
        Ok(document)
    }

    fn keep(&self, key: Key, parsed: Parsed) {
        let mut kept = self.lock();
        if kept.bytes + parsed.bytes() > KEPT_BYTES_MAX {
            *kept = Kept::default();
        }
        kept.bytes += parsed.bytes();
        if let Some(replaced) = kept.documents.insert(key, parsed) {
            kept.bytes -= replaced.bytes();
        }
    }

    fn parse(&self, request: &PlayerRequest, bytes: &[u8]) -> Result<Document, Failed> {
        let url = request.address();
        let unreadable = |why: String| Failed::Unreadable(why);
        match request.kind {
            RequestKind::Steering => Answer::parse(url, bytes)
                .map(|answer| Document::Steering(Arc::new(answer)))
                .map_err(|error| unreadable(error.to_string())),
            RequestKind::Manifest => {
                let mut presentation = Presentation::parse(url, bytes)
                    .map_err(|error| unreadable(error.to_string()))?;
                servers::add(&mut presentation, url, &self.also_at);
                Ok(Document::Presentation(Arc::new(presentation)))
            }
            _ => {
                let source = request.source().expect("a rendition's document has a source");
                let segments = Segments::parse(source, url, bytes);
                let segments = segments.map_err(|error| unreadable(error.to_string()))?;
                Ok(Document::Segments(Arc::new(segments)))
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use player::{Player, PlayerOptions};
    use std::time::Duration;

    const MASTER: &str = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=400000\nlow.m3u8\n";

    fn read(documents: &Documents, text: &str) -> Result<Arc<Presentation>, Failed> {
        let url = "http://h/film/master.m3u8".parse().expect("a URL");
        let mut player = Player::new(PlayerOptions::default(), url, Duration::ZERO);
        let request = player.poll_request(Duration::ZERO).expect("a player asks for its manifest");
        match documents.read(&request, text.as_bytes())? {
            Document::Presentation(presentation) => Ok(presentation),
            _ => panic!("a manifest is a presentation"),
        }
    }

    #[test]
    fn viewers_share_a_document_as_long_as_its_bytes_are_the_same() {
        let documents = Documents::new(Vec::new());
        let one = read(&documents, MASTER).expect("a manifest");
        let other = read(&documents, MASTER).expect("a manifest");
        assert!(Arc::ptr_eq(&one, &other));
        let changed = read(&documents, &MASTER.replace("400000", "500000")).expect("a manifest");
        assert_eq!(changed.tracks[0].renditions[0].bits_per_second, 500_000);
        assert_eq!(documents.lock().bytes, MASTER.len());
        // A list of segments takes more memory than its text.
        let list = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\na.ts\n#EXTINF:2,\nb.ts\n#EXT-X-ENDLIST\n";
        read(&documents, list).expect("a playlist by itself");
        assert_eq!(documents.lock().bytes, list.len() + 2 * SEGMENT_BYTES);
    }

    #[test]
    fn what_cannot_be_read_is_refused_each_time_and_not_kept() {
        let documents = Documents::new(Vec::new());
        for _ in 0..2 {
            let refused = read(&documents, "hello");
            assert!(matches!(refused, Err(Failed::Unreadable(_))), "{refused:?}");
        }
        assert_eq!(documents.lock().bytes, 0);
    }
}
