//! Converts the language tags of media files: to a BCP 47 tag (RFC 5646), and to a display name.
//!
//! Media files have tags of ISO 639-2 in both forms (`ger`, `deu`), BCP 47 tags (`pt-BR`), and sometimes a name in English (`German`).

mod iso_639;

use iso_639::{LANGUAGES, Language, REPLACED};

/// The tag of an unknown language (ISO 639-2).
const UNKNOWN: &str = "und";

/// The longest subtag (RFC 5646 section 2.1).
const SUBTAG_LETTERS_MAX: usize = 8;

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

/// `tag` in the form of BCP 47, with the shortest code of its language; `None` if it is not a tag, or means that the language is unknown.
///
/// The result has only letters, digits and hyphens, so it is safe in a file name, a playlist and a manifest.
pub(crate) fn bcp47(tag: &str) -> Option<String> {
    let (primary, rest) = parts(tag).filter(|(primary, _)| primary != UNKNOWN)?;
    let replaced = REPLACED.iter().find(|(old, _)| *old == primary).map(|(_, new)| *new);
    let known = LANGUAGES.iter().find(|one| is_for(one, &primary)).map(|one| one.two);
    let shortest = replaced.or(known).unwrap_or(&primary);
    let subtags: Vec<_> = rest.split(['-', '_']).filter(|subtag| !subtag.is_empty()).collect();
    if subtags.iter().any(|subtag| subtag.len() > SUBTAG_LETTERS_MAX) {
        return Some(shortest.to_owned());
    }
    Some(
        subtags
            .into_iter()
            .fold(shortest.to_owned(), |tag, subtag| format!("{tag}-{}", cased(subtag))),
    )
}

fn is_for(language: &Language, primary: &str) -> bool {
    let Language { two, terminological, bibliographic, name } = *language;
    [two, terminological, bibliographic].contains(&primary) || name.eq_ignore_ascii_case(primary)
}

/// A subtag in the letters that RFC 5646 section 2.1.1 recommends: scripts like `Hant`, regions like `BR`, others small.
fn cased(subtag: &str) -> String {
    match subtag.len() {
        2 => subtag.to_ascii_uppercase(),
        4 if subtag.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            subtag[..1].to_ascii_uppercase() + &subtag[1..].to_ascii_lowercase()
        }
        _ => subtag.to_ascii_lowercase(),
    }
}

/// The name of a language, by a tag that [`bcp47`] returned.
pub(crate) fn name(tag: &str) -> String {
    let primary = tag.split('-').next().unwrap_or(tag);
    match LANGUAGES.iter().find(|one| one.two == primary) {
        Some(known) if primary == tag => known.name.to_owned(),
        Some(known) => format!("{} ({tag})", known.name),
        None => tag.to_owned(),
    }
}

/// The three letters that a tag from [`bcp47`] has in the header of an MP4 track (ISO/IEC 14496-12 section 8.4.2.3), which has no room for
/// more; `und` for the few tags that have none.
pub(crate) fn three_letters(tag: &str) -> &str {
    let primary = tag.split('-').next().unwrap_or(tag);
    match LANGUAGES.iter().find(|one| one.two == primary) {
        Some(known) => known.terminological,
        None if primary.len() == 3 => primary,
        None => UNKNOWN,
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
            ("por-br", Some("pt-BR")),
            ("zh-hant", Some("zh-Hant")),
            ("ZH-HANT-tw", Some("zh-Hant-TW")),
            ("es-419", Some("es-419")),
            ("en-", Some("en")),
            ("en--GB", Some("en-GB")),
            ("en-abcdefghi", Some("en")),
            ("tam", Some("ta")),
            ("may", Some("ms")),
            ("msa", Some("ms")),
            ("baq", Some("eu")),
            ("eus", Some("eu")),
            ("nob", Some("nb")),
            ("tib", Some("bo")),
            ("hbs", Some("sh")),
            ("scr", Some("hr")),
            ("iw", Some("he")),
            ("German", Some("de")),
            ("mul", Some("mul")),
            ("zxx", Some("zxx")),
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
    fn every_code_of_a_language_gives_its_two_letters() {
        let twos: Vec<_> = LANGUAGES.iter().map(|one| one.two).collect();
        assert!(twos.is_sorted_by(|a, b| a < b), "sorted, and each once");
        for one in &LANGUAGES {
            for tag in [one.two, one.terminological, one.bibliographic] {
                assert_eq!(bcp47(tag).as_deref(), Some(one.two), "{tag}");
            }
            assert_eq!(name(one.two), one.name);
        }
        let both = LANGUAGES.iter().filter(|one| one.terminological != one.bibliographic).count();
        assert_eq!(both, 20, "ISO 639-2 has 20 languages with two codes");
        for (old, new) in REPLACED {
            assert_eq!((bcp47(old).as_deref(), twos.contains(&new)), (Some(new), true));
        }
    }

    #[test]
    fn a_track_header_gets_three_letters() {
        for (tag, expected) in [
            ("de", "deu"),
            ("pt-BR", "por"),
            ("gsw", "gsw"),
            ("zh-Hant-TW", "zho"),
            ("german", UNKNOWN),
        ] {
            assert_eq!(three_letters(tag), expected, "{tag}");
        }
    }

    #[test]
    fn languages_have_names_and_those_that_do_not_keep_their_tag() {
        assert_eq!(name("de"), "German");
        assert_eq!(name("pt-BR"), "Portuguese (pt-BR)");
        assert_eq!(name("gsw"), "gsw");
    }
}
