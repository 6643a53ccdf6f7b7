//! Other forms of a file that lie next to it: `a.m3u8.br` and `a.m3u8.gz` of `a.m3u8`.
//!
//! A form belongs to a file if both have the same modification time, to the nanosecond. `gzip -k` and `brotli -k` set it so when the form is
//! complete, and so does ingest; programs that copy times copy both. This is stricter than "not older than the file", which would take a form of a
//! newer version for one of an older file that came back (`cp -p`, `rsync -t`, an unpacked backup), and a form that is still being written. A form
//! whose time differs only costs bytes, because the file is sent as it is.

use crate::error::OpenError;
use crate::file::File;
use crate::files::Files;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long it is remembered that a file lacks a form: as long as an open file is used before its path is looked up again.
const LACKING_MAX: Duration = Duration::from_secs(1);

/// The forms that a file was found to lack, and when. Stays empty, without an allocation, for segments.
#[derive(Default)]
pub(crate) struct Lacking(RefCell<Vec<(&'static str, Instant)>>);

impl Lacking {
    fn has(&self, suffix: &str, now: Instant) -> bool {
        let is_it = |(lacked, since): &(&str, Instant)| {
            *lacked == suffix && now.saturating_duration_since(*since) < LACKING_MAX
        };
        self.0.borrow().iter().any(is_it)
    }

    fn note(&self, suffix: &'static str, now: Instant) {
        let mut lacking = self.0.borrow_mut();
        lacking.retain(|(lacked, _)| *lacked != suffix);
        lacking.push((suffix, now));
    }
}

impl Files {
    /// Opens the form of `file`, which was opened at `path`, whose name has `suffix` in addition. `None` if there is none of this version of the
    /// file. A file has few suffixes, each of which the caller knows.
    ///
    /// # Errors
    /// As [`Files::open`], for a form that may be there.
    pub async fn open_form(
        &self,
        file: &File,
        path: &[u8],
        suffix: &'static str,
    ) -> Result<Option<Rc<File>>, OpenError> {
        let now = reactor::now();
        if file.lacking().has(suffix, now) {
            return Ok(None);
        }
        let found = match self.open(&[path, suffix.as_bytes()].concat()).await {
            Ok(form) if is_of_version(&form, file) => return Ok(Some(form)),
            // Of another version, or not for viewers.
            Ok(_) | Err(OpenError::NotFound | OpenError::Denied | OpenError::Withheld) => Ok(None),
            Err(error) => Err(error),
        };
        file.lacking().note(suffix, now);
        found
    }
}

/// Whether `form` was made from `file`. Both must be in one folder of the library, as all files of a title.
fn is_of_version(form: &File, file: &File) -> bool {
    form.folder() == file.folder() && form.stamp().modified() == file.stamp().modified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_form_is_remembered_for_a_second_and_takes_one_place() {
        let (lacking, start) = (Lacking::default(), Instant::now());
        assert_eq!(lacking.0.borrow().capacity(), 0);
        assert!(!lacking.has(".br", start));
        lacking.note(".br", start);
        lacking.note(".br", start + LACKING_MAX / 2);
        assert_eq!(lacking.0.borrow().len(), 1);
        assert!(lacking.has(".br", start + LACKING_MAX) && !lacking.has(".gz", start));
        assert!(!lacking.has(".br", start + LACKING_MAX + LACKING_MAX / 2));
    }
}
