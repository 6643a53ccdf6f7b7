//! Compares responses by SHA-256: with the file that the server reads, or with the first response to the same request.

use crate::film::{Ask, Film};
use crate::options::{Against, Verify};
use crate::trouble::Trouble;
use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// How many first responses to remember. Responses to other requests are not compared after that.
const SEEN_MAX: usize = 1 << 16;

/// Bytes of the file to read at once.
const CHUNK_BYTES: usize = 64 << 10;

type Request = (String, Option<Range<u64>>);

/// Chooses the responses to compare, and remembers the first ones.
#[derive(Debug)]
pub(crate) struct Verifier {
    verify: Verify,
    seen: Mutex<HashMap<Request, [u8; 32]>>,
}

impl Verifier {
    pub(crate) fn new(verify: Verify) -> Self {
        Self { verify, seen: Mutex::default() }
    }

    /// Returns true if the thread's response of this number must be compared; the first one always is.
    pub(crate) fn is_due(&self, number: u64) -> bool {
        matches!(self.verify, Verify::OneIn { n, .. } if number % n == 0)
    }

    /// Begins to compare a response with `range` of the file (up to its end, if `None`).
    pub(crate) fn begin(&self, film: &Film, ask: &Ask) -> Result<Check, Trouble> {
        let reference = match &self.verify {
            Verify::OneIn { against: Against::Directory(directory), .. } => {
                let url = film.url.resolve(&ask.path).unwrap_or_else(|_| film.url.clone());
                let path = url.file_below(directory).unwrap_or_else(|| directory.join(url.path()));
                let file =
                    File::open(&path).map_err(|error| Trouble::NoReference(path.clone(), error))?;
                Some(Reference { file, path, context: Context::new(&SHA256) })
            }
            _ => None,
        };
        let start = ask.range.as_ref().map_or(0, |range| range.start);
        Ok(Check { came: Context::new(&SHA256), came_bytes: 0, start, reference })
    }

    /// Finishes the comparison of a complete response.
    pub(crate) fn end(&self, check: Check, ask: Ask) -> Result<(), Trouble> {
        let came: [u8; 32] = digest(check.came);
        let (against, expected) = match check.reference {
            Some(reference) => (
                "is what the file has",
                reference.digest(check.start, check.came_bytes, ask.range)?,
            ),
            None => ("came the first time", self.first_seen(ask, came)),
        };
        if came == expected {
            return Ok(());
        }
        Err(Trouble::WrongBytes {
            against,
            came: HEXLOWER.encode(&came),
            expected: HEXLOWER.encode(&expected),
        })
    }

    fn first_seen(&self, ask: Ask, came: [u8; 32]) -> [u8; 32] {
        // The map is valid whatever happened to the last holder of the lock.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let request = (ask.path, ask.range);
        match seen.get(&request) {
            Some(first) => *first,
            None => {
                if seen.len() < SEEN_MAX {
                    seen.insert(request, came);
                }
                came
            }
        }
    }
}

/// A comparison in progress.
pub(crate) struct Check {
    came: Context,
    came_bytes: u64,
    start: u64,
    reference: Option<Reference>,
}

impl Check {
    /// Takes the next bytes of the body.
    pub(crate) fn update(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.came.update(bytes);
        let offset = self.start + self.came_bytes;
        self.came_bytes += bytes.len() as u64;
        match &mut self.reference {
            Some(reference) => reference.hash(offset, bytes.len() as u64),
            None => Ok(()),
        }
    }
}

/// The file that the response should be a part of. It is read along with the body, so that no single read takes long.
struct Reference {
    file: File,
    path: PathBuf,
    context: Context,
}

impl Reference {
    fn hash(&mut self, mut offset: u64, bytes: u64) -> Result<(), Trouble> {
        let end = offset + bytes;
        let mut chunk = [0; CHUNK_BYTES];
        while offset < end {
            let want = (end - offset).min(CHUNK_BYTES as u64) as usize;
            match self.file.read_at(&mut chunk[..want], offset) {
                // The file ends before the body, so the digests will differ.
                Ok(0) => return Ok(()),
                Ok(read) => {
                    self.context.update(&chunk[..read]);
                    offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Trouble::NoReference(self.path.clone(), error)),
            }
        }
        Ok(())
    }

    /// The digest of what should have arrived, even if less did.
    fn digest(
        mut self,
        start: u64,
        came_bytes: u64,
        range: Option<Range<u64>>,
    ) -> Result<[u8; 32], Trouble> {
        let metadata = self.file.metadata();
        let file_bytes =
            metadata.map_err(|error| Trouble::NoReference(self.path.clone(), error))?.len();
        let end = range.map_or(file_bytes, |range| range.end.min(file_bytes));
        let came_to = start + came_bytes;
        if came_to < end {
            self.hash(came_to, end - came_to)?;
        }
        Ok(digest(self.context))
    }
}

fn digest(context: Context) -> [u8; 32] {
    let digest = context.finish();
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verify(verifier: &Verifier, range: Option<Range<u64>>, body: &[u8]) -> Result<(), Trouble> {
        let film = Film::new("http://h/film.mp4".parse().expect("a URL"), 0, Vec::new());
        let ask = Ask { path: "/film.mp4".into(), range };
        let mut check = verifier.begin(&film, &ask)?;
        for part in body.chunks(7) {
            check.update(part)?;
        }
        verifier.end(check, ask)
    }

    fn kind(result: Result<(), Trouble>) -> &'static str {
        result.map_or_else(|trouble| trouble.as_str(), |()| "right")
    }

    #[test]
    fn a_body_is_compared_with_the_very_range_of_the_file() {
        let directory = tempfile::tempdir().expect("a folder");
        std::fs::write(directory.path().join("film.mp4"), b"0123456789").expect("written");
        let against = Against::Directory(directory.path().to_owned());
        let verifier = Verifier::new(Verify::OneIn { n: 1, against });
        assert_eq!(kind(verify(&verifier, None, b"0123456789")), "right");
        assert_eq!(kind(verify(&verifier, Some(2..5), b"234")), "right");
        assert_eq!(kind(verify(&verifier, Some(8..20), b"89")), "right");
        assert_eq!(kind(verify(&verifier, Some(2..5), b"244")), "wrong_bytes");
        assert_eq!(kind(verify(&verifier, None, b"012345678")), "wrong_bytes");
        assert_eq!(kind(verify(&verifier, None, b"01234567890")), "wrong_bytes");
        std::fs::remove_file(directory.path().join("film.mp4")).expect("removed");
        assert_eq!(kind(verify(&verifier, None, b"0123456789")), "no_reference");
    }

    #[test]
    fn without_a_directory_the_first_answer_is_the_measure() {
        let verifier = Verifier::new(Verify::OneIn { n: 1, against: Against::FirstSeen });
        assert_eq!(kind(verify(&verifier, Some(0..3), b"abc")), "right");
        assert_eq!(kind(verify(&verifier, Some(3..6), b"def")), "right");
        assert_eq!(kind(verify(&verifier, Some(0..3), b"abc")), "right");
        assert_eq!(kind(verify(&verifier, Some(0..3), b"abd")), "wrong_bytes");
    }

    #[test]
    fn one_response_in_n_is_compared_and_the_first_is_among_them() {
        let verifier = Verifier::new(Verify::OneIn { n: 3, against: Against::FirstSeen });
        let due: Vec<_> = (0..7).filter(|number| verifier.is_due(*number)).collect();
        assert_eq!(due, [0, 3, 6]);
        assert!(!Verifier::new(Verify::Nothing).is_due(0));
    }
}
