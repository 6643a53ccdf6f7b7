//! Compressed forms of a title's text files, made once so that a server only has to send them: `NAME.br` and `NAME.gz` next to `NAME`.
//!
//! They get the file's modification time, by which the server recognises the version that they belong to. The same text always gives the same bytes,
//! as a version's name comes from its files.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use brotli::enc::BrotliEncoderParams;
use brotli::enc::backward_references::BrotliEncoderMode;
use catalog::{BROTLI, GZIP};
use flate2::{Compression, GzBuilder};

use super::error::{Attempt, IngestError};
use super::{Ingest, Stop};

/// The extensions of a title's text files. `title.json` has no forms: it changes by itself, and viewers don't read it.
const EXTENSIONS: [&str; 3] = ["m3u8", "vtt", "json"];
/// Shorter text fits into one packet as it is, together with the response's head.
const BYTES_MIN: usize = 512;
/// A playlist of a film of two hours has 130 KB, for which Brotli's best level takes 0.2 s on one core; those of the longest films have 5 MB, and
/// take 12 s.
const BYTES_MAX: u64 = 16 << 20;
/// A form is kept if it has at most this part of the file's bytes.
const KEPT_PERCENT_MAX: usize = 95;
/// The best that Brotli has.
const BROTLI_QUALITY: i32 = 11;

impl Ingest<'_> {
    /// Makes the forms of all text files in the version's folder.
    pub(super) fn make_forms(&self, version: &Path) -> Result<(), IngestError> {
        for entry in fs::read_dir(version).attempt("list", version)? {
            let path = entry.attempt("list", version)?.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) {
                make(&path, self.stop)?;
            }
        }
        Ok(())
    }
}

/// Makes the forms of the text file at `path`, unless `stop` ends it, and returns the ends of their names. None if they would save too little.
pub(super) fn make(path: &Path, stop: &Stop) -> Result<Vec<&'static str>, IngestError> {
    let metadata = fs::metadata(path).attempt("look at", path)?;
    if metadata.len() > BYTES_MAX {
        return Ok(Vec::new());
    }
    let (text, modified) = (fs::read(path).attempt("read", path)?, metadata.modified());
    let modified = modified.attempt("look at", path)?;
    let mut made = Vec::new();
    for (suffix, compressed) in [(BROTLI, brotli(&text, stop)), (GZIP, gzip(&text))] {
        if stop.is_stopped() {
            return Err(IngestError::Interrupted);
        }
        let compressed = compressed.attempt("compress", path)?;
        if text.len() < BYTES_MIN || compressed.len() * 100 > text.len() * KEPT_PERCENT_MAX {
            continue;
        }
        let mut place = path.as_os_str().to_owned();
        place.push(suffix);
        let place = PathBuf::from(place);
        let write = || -> io::Result<()> {
            let mut form = File::create(&place)?;
            form.write_all(&compressed)?;
            form.set_modified(modified)?;
            form.sync_all()
        };
        write().attempt("write", &place)?;
        made.push(suffix);
    }
    Ok(made)
}

/// Text that ends with an error when `stop` is set. Brotli reads a few kilobytes at a time.
struct UntilStopped<'a> {
    text: &'a [u8],
    stop: &'a Stop,
}

impl Read for UntilStopped<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_stopped() {
            return Err(io::Error::other("stopped"));
        }
        self.text.read(buffer)
    }
}

fn brotli(text: &[u8], stop: &Stop) -> io::Result<Vec<u8>> {
    let params = BrotliEncoderParams {
        quality: BROTLI_QUALITY,
        mode: BrotliEncoderMode::BROTLI_MODE_TEXT,
        size_hint: text.len(),
        ..BrotliEncoderParams::default()
    };
    let mut compressed = Vec::new();
    brotli::BrotliCompress(&mut UntilStopped { text, stop }, &mut compressed, &params)?;
    Ok(compressed)
}

/// Without a name and a time in the header, so that only the text decides about the bytes.
fn gzip(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressor = GzBuilder::new().write(Vec::new(), Compression::best());
    compressor.write_all(text)?;
    compressor.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::{Duration, SystemTime};

    fn forms_of(text: &[u8]) -> Vec<(&'static str, Vec<u8>, SystemTime)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.m3u8");
        fs::write(&path, text).unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
        File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        let made = make(&path, &Stop::default()).unwrap();
        let read = |suffix: &'static str| {
            let place = folder.path().join(format!("a.m3u8{suffix}"));
            let modified = fs::metadata(&place).unwrap().modified().unwrap();
            assert_eq!(modified, long_ago);
            (suffix, fs::read(place).unwrap(), modified)
        };
        let count = fs::read_dir(&folder).unwrap().count();
        assert_eq!(count, 1 + made.len());
        made.into_iter().map(read).collect()
    }

    #[test]
    fn forms_hold_the_text_and_are_the_same_each_time() {
        let text: String = (0..300)
            .map(|index| format!("#EXTINF:4.0,\n#EXT-X-BYTERANGE:{}@0\na.mp4\n", index * 7919))
            .collect();
        let forms = forms_of(text.as_bytes());
        assert_eq!(forms, forms_of(text.as_bytes()));
        let [(BROTLI, brotli, _), (GZIP, gzip, _)] = &forms[..] else { panic!("{forms:?}") };
        assert!(brotli.len() < gzip.len() && gzip.len() < text.len() / 3);
        let mut read = String::new();
        flate2::read::GzDecoder::new(&gzip[..]).read_to_string(&mut read).unwrap();
        assert!(read == text);
        read.clear();
        brotli::Decompressor::new(&brotli[..], 4096).read_to_string(&mut read).unwrap();
        assert!(read == text);
    }

    #[test]
    fn a_stop_ends_it_before_all_is_read() {
        let stop = Stop::default();
        let mut text = UntilStopped { text: &[b'a'; 100], stop: &stop };
        assert_eq!(text.read(&mut [0; 60]).unwrap(), 60);
        stop.stop();
        assert!(text.read(&mut [0; 60]).is_err());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.m3u8");
        fs::write(&path, [b'a'; BYTES_MIN]).unwrap();
        assert!(matches!(make(&path, &stop), Err(IngestError::Interrupted)));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn what_saves_too_little_has_no_forms() {
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(5000)
        .collect();
        assert!(forms_of(&noise).is_empty());
        assert!(forms_of(&[b'a'; BYTES_MIN - 1]).is_empty());
        assert_eq!(forms_of(&[b'a'; BYTES_MIN]).len(), 2);
    }
}
