//! File names as URL paths.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `path` as the path of a URL: separators stay, and every byte that RFC 3986 section 2.3 does not list as unreserved is percent-encoded.
///
/// This works on the bytes of the name, so names that are not UTF-8 decode to their exact bytes on disk. No leading slash is added.
pub fn encode_path(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let mut encoded = String::with_capacity(bytes.len());
    for &byte in bytes {
        if is_plain(byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn plain_names_stay_as_they_are() {
        assert_eq!(encode_path(Path::new("a/B-1_2.mp4~")), "a/B-1_2.mp4~");
    }

    #[test]
    fn what_a_url_would_read_otherwise_is_encoded() {
        assert_eq!(
            encode_path(Path::new("50% off?#1 &é.mp4")),
            "50%25%20off%3F%231%20%26%C3%A9.mp4"
        );
    }

    #[test]
    fn names_that_are_not_utf8_keep_their_bytes() {
        assert_eq!(encode_path(Path::new(OsStr::from_bytes(b"\xff\n.ts"))), "%FF%0A.ts");
    }
}
