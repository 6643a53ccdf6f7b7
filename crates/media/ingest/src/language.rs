//! Converts the language tags of media files: to a BCP 47 tag (RFC 5646), and to a display name.

/// Tags of ISO 639-2 as in media files (bibliographic and terminological), of ISO 639-1, and the English name. BCP 47 uses the shortest.
/// Languages that are not listed keep their own tag, which is right if there is no shorter one.
const LANGUAGES: &[(&str, &str, &str, &str)] = &[
    ("ara", "ara", "ar", "Arabic"),
    ("bul", "bul", "bg", "Bulgarian"),
    ("cat", "cat", "ca", "Catalan"),
    ("chi", "zho", "zh", "Chinese"),
    ("cze", "ces", "cs", "Czech"),
    ("dan", "dan", "da", "Danish"),
    ("dut", "nld", "nl", "Dutch"),
    ("eng", "eng", "en", "English"),
    ("est", "est", "et", "Estonian"),
    ("fin", "fin", "fi", "Finnish"),
    ("fre", "fra", "fr", "French"),
    ("ger", "deu", "de", "German"),
    ("gre", "ell", "el", "Greek"),
    ("heb", "heb", "he", "Hebrew"),
    ("hin", "hin", "hi", "Hindi"),
    ("hrv", "hrv", "hr", "Croatian"),
    ("hun", "hun", "hu", "Hungarian"),
    ("ice", "isl", "is", "Icelandic"),
    ("ind", "ind", "id", "Indonesian"),
    ("gle", "gle", "ga", "Irish"),
    ("ita", "ita", "it", "Italian"),
    ("jpn", "jpn", "ja", "Japanese"),
    ("kor", "kor", "ko", "Korean"),
    ("lav", "lav", "lv", "Latvian"),
    ("lit", "lit", "lt", "Lithuanian"),
    ("nor", "nor", "no", "Norwegian"),
    ("per", "fas", "fa", "Persian"),
    ("pol", "pol", "pl", "Polish"),
    ("por", "por", "pt", "Portuguese"),
    ("rum", "ron", "ro", "Romanian"),
    ("rus", "rus", "ru", "Russian"),
    ("slo", "slk", "sk", "Slovak"),
    ("slv", "slv", "sl", "Slovenian"),
    ("spa", "spa", "es", "Spanish"),
    ("srp", "srp", "sr", "Serbian"),
    ("swe", "swe", "sv", "Swedish"),
    ("tha", "tha", "th", "Thai"),
    ("tur", "tur", "tr", "Turkish"),
    ("ukr", "ukr", "uk", "Ukrainian"),
    ("vie", "vie", "vi", "Vietnamese"),
    ("wel", "cym", "cy", "Welsh"),
];

/// The tag of an unknown language (ISO 639-2).
const UNKNOWN: &str = "und";

/// Whether `tag` is a BCP 47 tag, or an ISO 639 tag as in media files. `und` counts: it means that the language is unknown.
pub fn is_language(tag: &str) -> bool {
    parts(tag).is_some()
}

/// The first part of `tag` in lower case, and the rest; `None` if it is not a tag.
fn parts(tag: &str) -> Option<(String, &str)> {
    let (primary, rest) = tag.split_once(['-', '_']).unwrap_or((tag, ""));
    let primary = primary.to_ascii_lowercase();
    let is_tag = (2..=8).contains(&primary.len())
        && primary.bytes().all(|byte| byte.is_ascii_lowercase())
        && rest.len() <= 32
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    is_tag.then_some((primary, rest))
}

/// `tag` in the form of BCP 47; `None` if it is not a tag, or means that the language is unknown.
///
/// The result has only letters, digits and hyphens, so it is safe in a file name, a playlist and a manifest.
pub(crate) fn bcp47(tag: &str) -> Option<String> {
    let (primary, rest) = parts(tag).filter(|(primary, _)| primary != UNKNOWN)?;
    let shortest = LANGUAGES
        .iter()
        .find(|(old, new, _, _)| *old == primary || *new == primary)
        .map_or(primary.as_str(), |(_, _, short, _)| short);
    let rest = rest.replace('_', "-");
    Some(if rest.is_empty() { shortest.to_owned() } else { format!("{shortest}-{rest}") })
}

/// The name of a language, by a tag that [`bcp47`] returned.
pub(crate) fn name(tag: &str) -> String {
    let primary = tag.split('-').next().unwrap_or(tag);
    let known = LANGUAGES.iter().find(|(_, _, short, _)| *short == primary);
    match known {
        Some((_, _, _, name)) if primary == tag => (*name).to_owned(),
        Some((_, _, _, name)) => format!("{name} ({tag})"),
        None => tag.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_media_files_become_the_shortest_of_bcp_47() {
        for (tag, expected) in [
            ("eng", Some("en")),
            ("ger", Some("de")),
            ("deu", Some("de")),
            ("DE", Some("de")),
            ("pt_BR", Some("pt-BR")),
            ("gsw", Some("gsw")),
            ("und", None),
            ("", None),
            ("e", None),
            ("e\"n", None),
            ("en/..", None),
        ] {
            assert_eq!(bcp47(tag).as_deref(), expected, "{tag}");
            assert_eq!(is_language(tag), expected.is_some() || tag == UNKNOWN, "{tag}");
        }
    }

    #[test]
    fn languages_have_names_and_those_that_do_not_keep_their_tag() {
        assert_eq!(name("de"), "German");
        assert_eq!(name("pt-BR"), "Portuguese (pt-BR)");
        assert_eq!(name("gsw"), "gsw");
    }
}
