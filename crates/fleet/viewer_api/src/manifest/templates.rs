//! Cache of parsed templates, by the digest of their document.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fleet_protocol::Digest;

use super::{DocumentError, ManifestKind, ManifestTemplate};

/// Memory for templates: enough for some ten thousand titles. When it is full, the cache is cleared: parsing a template again takes 20 us.
const BYTES_MAX: usize = 64 << 20;

/// Memory of an entry in addition to its template.
const ENTRY_BYTES: usize = 128;

type Known = Result<Arc<ManifestTemplate>, DocumentError>;

/// A shared cache. Invalid documents are cached as well, so that requests cannot make us parse them again and again.
#[derive(Default)]
pub(crate) struct Templates(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_document: HashMap<(ManifestKind, Digest), Known>,
    bytes: usize,
}

impl Templates {
    /// The template of the document with this digest, which `read` provides if it is not cached. `None` if there is no such document.
    pub(crate) fn get(
        &self,
        kind: ManifestKind,
        digest: &Digest,
        read: impl FnOnce() -> Option<bytes::Bytes>,
    ) -> Option<Known> {
        let key = (kind, *digest);
        if let Some(known) = self.kept().by_document.get(&key) {
            return Some(known.clone());
        }
        let known = ManifestTemplate::parse(kind, &read()?).map(Arc::new);
        let bytes = ENTRY_BYTES + known.as_ref().map_or(0, |template| template.memory_bytes());
        let mut kept = self.kept();
        if kept.bytes + bytes > BYTES_MAX {
            *kept = Kept::default();
        }
        if kept.by_document.insert(key, known.clone()).is_none() {
            kept.bytes += bytes;
        }
        Some(known)
    }

    /// After a panic elsewhere the map is still consistent: entries are added by a single call.
    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_once_even_if_it_cannot_be_used() {
        let templates = Templates::default();
        let digest = Digest::of(b"x");
        assert!(templates.get(ManifestKind::Hls, &digest, || None).is_none());
        let broken = || Some(bytes::Bytes::from_static(b"x"));
        assert!(matches!(templates.get(ManifestKind::Hls, &digest, broken), Some(Err(_))));
        let again = templates.get(ManifestKind::Hls, &digest, || panic!("it was read"));
        assert!(matches!(again, Some(Err(_))));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let templates = Templates::default();
        let text = format!(
            "#EXTM3U\n#EXT-X-X:{}\n#EXT-X-STREAM-INF:BANDWIDTH=1\na.m3u8\n",
            "x".repeat(200_000)
        );
        for number in 0..700_u32 {
            let digest = Digest::of(&number.to_be_bytes());
            let read = || Some(bytes::Bytes::from(text.clone()));
            assert!(matches!(templates.get(ManifestKind::Hls, &digest, read), Some(Ok(_))));
            assert!(templates.kept().bytes <= BYTES_MAX);
        }
        let kept = templates.kept();
        assert!(kept.by_document.len() > 1 && kept.by_document.len() < 400);
    }
}
