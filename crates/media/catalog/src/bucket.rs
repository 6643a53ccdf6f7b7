//! The names of a title's files in a bucket, or in any other object store.
//!
//! The layout of a library is the same as on a disk: `TITLE/title.json`, `TITLE/master.m3u8`, `TITLE/v-0123456789ab/video-720.mp4`. So any
//! tool that copies or serves the one works for the other. Files of a version never change, because the name of its folder is derived from
//! their bytes. The record and the manifests change with each new version; so each also has a second name, with the SHA-256 that the record
//! states of itself: `.versions/VERSION/title.json`. So a reader of a certain version finds all of it, whatever was published since.

use crate::name::TitlePath;

/// The object's name for the file at `path` in the title's folder.
pub fn object_key(title: &TitlePath, path: &str) -> String {
    format!("{title}/{path}")
}

/// The object's name for a document of a version: its record, or a manifest.
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
