//! File names as URL paths.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `path` as the path of a URL: separators stay, and every byte that RFC 3986 section 2.3 does not list as unreserved is percent-encoded.
///
/// This works on the bytes of the name, so names that are not UTF-8 decode to their exact bytes on disk. No leading slash is added.
pub fn encode_path(path: &Path) -> String {
    escape::percent::encode_path(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn names_that_are_not_utf8_keep_their_bytes() {
        assert_eq!(encode_path(Path::new(OsStr::from_bytes(b"\xff\n.ts"))), "%FF%0A.ts");
    }
}
