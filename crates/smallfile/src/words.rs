//! What a reader of TOML says of a wrong value, in the operator's words.
//!
//! The reader names types of Rust (`expected usize`). The operator has to know what to write instead.

/// The reader's text with its last line, the reason, in words. Whatever is not known here stays as it is.
pub fn in_plain_words(said: &str) -> String {
    let said = said.trim_end();
    let (place, reason) = said.rsplit_once('\n').map_or(("", said), |(place, why)| (place, why));
    let gap = if place.is_empty() { "" } else { "\n" };
    let reason = plain(reason).unwrap_or_else(|| reason.to_owned());
    format!("{place}{gap}{reason}")
}

fn plain(reason: &str) -> Option<String> {
    if reason == "invalid socket address syntax" {
        return Some(format!("this is no address with a port; write {ADDRESS}"));
    }
    let kinds = ["invalid type: ", "invalid value: "];
    let rest = kinds.iter().find_map(|kind| reason.strip_prefix(kind))?;
    // The last one, because the value may be a text that has these words.
    let (found, wanted) = rest.rsplit_once(", expected ")?;
    Some(format!("this is {}; write {}", value(found), kind(wanted)?))
}

/// A value, which serde introduces by its type.
fn value(found: &str) -> String {
    let named = [
        ("string ", "the text "),
        ("integer ", "the number "),
        ("floating point ", "the number "),
        ("boolean ", ""),
    ];
    let known = named.iter().find_map(|(name, word)| Some((word, found.strip_prefix(name)?)));
    match (known, found) {
        (Some((word, value)), _) => format!("{word}{value}"),
        (None, "sequence") => "a list".to_owned(),
        (None, "map") => "a section of settings".to_owned(),
        (None, other) => other.to_owned(),
    }
}

const ADDRESS: &str = "an IP address and a port in quotes, such as \"127.0.0.1:8443\"";

/// What to write where serde expects this type.
fn kind(wanted: &str) -> Option<String> {
    let whole_to = |most: u32| format!("a whole number from 0 to {most}, without quotes");
    Some(match wanted {
        "usize" | "u64" => "a whole number from 0 on, without quotes".to_owned(),
        "u32" => whole_to(u32::MAX),
        "u16" => whole_to(u16::MAX.into()),
        "u8" => whole_to(u8::MAX.into()),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number, without quotes".to_owned(),
        "f32" | "f64" => "a number without quotes, such as 1.5".to_owned(),
        "a boolean" => "true or false, without quotes".to_owned(),
        "a string" => "a text in quotes".to_owned(),
        "path string" => "a path in quotes".to_owned(),
        "a sequence" => "a list in brackets, such as [\"one\", \"two\"]".to_owned(),
        "socket address" => ADDRESS.to_owned(),
        _ if wanted.starts_with("struct ") => "settings, in a section of their own".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::in_plain_words;

    #[test]
    fn types_become_what_to_write() {
        for (said, words) in [
            (
                "invalid type: string \"two\", expected usize",
                "this is the text \"two\"; write a whole number from 0 on, without quotes",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "this is the number `-1`; write a whole number from 0 to 4294967295, without quotes",
            ),
            (
                "invalid type: floating point `1.5`, expected u16",
                "this is the number `1.5`; write a whole number from 0 to 65535, without quotes",
            ),
            (
                "invalid type: boolean `true`, expected f64",
                "this is `true`; write a number without quotes, such as 1.5",
            ),
            (
                "invalid type: string \"on\", expected struct Tls",
                "this is the text \"on\"; write settings, in a section of their own",
            ),
            ("invalid type: sequence, expected a string", "this is a list; write a text in quotes"),
            (
                "invalid type: string \"a, expected usize\", expected a boolean",
                "this is the text \"a, expected usize\"; write true or false, without quotes",
            ),
        ] {
            assert_eq!(in_plain_words(said), words);
        }
    }

    #[test]
    fn the_place_and_whatever_is_not_known_stay() {
        let place =
            "TOML parse error at line 2, column 10\n  |\n2 | workers = true\n  |           ^^^^";
        let said = format!("{place}\ninvalid type: boolean `true`, expected usize\n");
        let words = in_plain_words(&said);
        assert_eq!(
            words.strip_prefix(place),
            Some("\nthis is `true`; write a whole number from 0 on, without quotes")
        );
        for said in ["unknown field `a`, expected `b`", "missing field `cpus`", "", "a\nb"] {
            assert_eq!(in_plain_words(said), said);
        }
    }
}
