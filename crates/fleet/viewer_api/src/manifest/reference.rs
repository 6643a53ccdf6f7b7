//! References in a title's manifest: each must stay in the title's folder.

use super::DocumentError;

/// Refuses references that are absolute, begin with a slash, go up with `..`, or have characters that no URL has.
pub(super) fn check(reference: &str) -> Result<(), DocumentError> {
    let path = reference.split(['?', '#']).next().unwrap_or("");
    let first = path.split('/').next().unwrap_or("");
    // Browsers treat a backslash as a slash.
    let is_odd = |letter: char| letter.is_control() || " \"<>\\".contains(letter);
    if path.starts_with('/')
        || first.contains(':')
        || reference.contains(is_odd)
        || path.split('/').any(climbs)
    {
        return Err(DocumentError::Outside(reference.chars().take(200).collect()));
    }
    if path.is_empty() {
        return Err(DocumentError::Malformed("a reference is empty".into()));
    }
    Ok(())
}

/// Browsers decode `%2e` before they resolve dots.
fn climbs(segment: &str) -> bool {
    segment.to_ascii_lowercase().replace("%2e", ".") == ".."
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn only_what_stays_in_the_folder_passes() {
        for good in ["a.m3u8", "v-1/video-720.m3u8", "./a", "a..b/c", "a?x=/..", "é.mp4", "a/b:c"]
        {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "#x",
            "?x",
            "/a",
            "//host/a",
            "https://host/a",
            "HTTP:a",
            "data:x",
            "..",
            "../a",
            "a/../../b",
            "%2e%2E/a",
            ".%2e/a",
            "\\\\host\\a",
            "a b",
            "a\"b",
            "a\nb",
            "a<b",
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }
}
