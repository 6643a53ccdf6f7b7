//! Where a title's files are in a bucket, or in any store of objects by name.
//!
//! A library is there as it is on a disk: `TITLE/title.json`, `TITLE/master.m3u8`, `TITLE/v-0123456789ab/video-720.mp4`. So what copies the one
//! copies the other, and what serves files serves both. Files of a version never change, because the name of its folder is derived from their
//! bytes. The record and the manifests do, with each new version; so they are in a second place, too, which is named by the SHA-256 that the
//! record states of itself: `.versions/VERSION/title.json`. Whoever wants a certain version finds all of it, whatever was published since.

use crate::name::TitlePath;

/// The name of the file at `path` in the title's folder.
pub fn object_key(title: &TitlePath, path: &str) -> String {
    format!("{title}/{path}")
}

/// The name of a document of a version: of its record, or of a manifest.
pub fn document_key(version: &str, path: &str) -> String {
    format!(".versions/{version}/{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_there_as_it_is_on_a_disk() {
        let title = TitlePath::new("films/a b").unwrap();
        assert_eq!(object_key(&title, "v-0/x.mp4"), "films/a b/v-0/x.mp4");
        assert_eq!(document_key("01ab", "title.json"), ".versions/01ab/title.json");
    }
}
