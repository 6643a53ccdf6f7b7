//! Rewrites a TOML parser's message about an invalid value into one line of plain words.
//!
//! The parser draws the location over several lines, of which logs keep one, and it names Rust types (`expected usize`). The operator needs
//! to know what to write instead.

/// The longest line of a file to show.
const LINE_CHARS_MAX: usize = 120;

/// The parser's message in one line: the location, and the reason in plain words. Unknown messages stay unchanged.
pub fn in_plain_words(said: &str) -> String {
    let said = said.trim_end();
    let Some((drawn, reason)) = said.rsplit_once('\n') else {
        return plain(said).unwrap_or_else(|| said.to_owned());
    };
    let Some(place) = place(drawn) else { return said.to_owned() };
    format!("{place}: {}", plain(reason).unwrap_or_else(|| reason.to_owned()))
}

/// The location, which the parser draws as the line with marks below it.
fn place(drawn: &str) -> Option<String> {
    let (at, lines) = drawn.strip_prefix("TOML parse error at ")?.split_once('\n')?;
    let number = at.strip_prefix("line ")?.split_once(',')?.0;
    let mut lines = lines.lines().filter_map(|line| line.split_once(" | "));
    let (_, line) = lines.find(|(before, _)| before.trim() == number)?;
    let shown: String = line.trim().chars().take(LINE_CHARS_MAX).collect();
    Some(format!("{at}, `{shown}`"))
}

fn plain(reason: &str) -> Option<String> {
    if reason == "invalid socket address syntax" {
        return Some(format!("this is not an address with a port; write {ADDRESS}"));
    }
    if let Some(unknown) = reason.strip_prefix("unknown field ") {
        let (name, known) = unknown.split_once(", expected ")?;
        return Some(format!("there is no setting {name} here, only {}", listed(known)));
    }
    if let Some(unknown) = reason.strip_prefix("unknown variant ") {
        let (value, known) = unknown.split_once(", expected ")?;
        return Some(format!("this cannot be {value}, only {}", listed(known)));
    }
    let kinds = ["invalid type: ", "invalid value: "];
    let rest = kinds.iter().find_map(|kind| reason.strip_prefix(kind))?;
    // The last occurrence, because the value may be a text that contains these words.
    let (found, wanted) = rest.rsplit_once(", expected ")?;
    Some(format!("this is {}; write {}", value(found), kind(wanted)?))
}

/// The names, without serde's words around them.
fn listed(known: &str) -> String {
    known.strip_prefix("one of ").unwrap_or(known).replace("` or `", "`, `")
}

/// A value, without serde's type in front of it.
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

/// The value to write where serde expects this type.
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
    fn the_place_is_in_the_same_line() {
        let drawn = "TOML parse error at line 12, column 11\n   |\n12 | workers = true\n   |           ^^^^\n\
            invalid type: boolean `true`, expected usize\n";
        assert_eq!(
            in_plain_words(drawn),
            "line 12, column 11, `workers = true`: this is `true`; write a whole number from 0 on, without quotes"
        );
        let pipes =
            "TOML parse error at line 1, column 3\n  |\n1 | a | b\n  |   ^\nkey with no value";
        assert_eq!(in_plain_words(pipes), "line 1, column 3, `a | b`: key with no value");
        let long = format!(
            "TOML parse error at line 1, column 1\n  |\n1 | {}\n  | ^\nno",
            "x".repeat(900)
        );
        assert!(in_plain_words(&long).len() < 200);
    }

    #[test]
    fn what_is_unknown_stands_beside_what_is_known() {
        for (said, words) in [
            (
                "unknown field `a`, expected one of `b`, `c`, `d`",
                "there is no setting `a` here, only `b`, `c`, `d`",
            ),
            (
                "unknown field `a`, expected `b` or `c`",
                "there is no setting `a` here, only `b`, `c`",
            ),
            (
                "unknown variant `9`, expected one of `1.2`, `1.3`",
                "this cannot be `9`, only `1.2`, `1.3`",
            ),
        ] {
            assert_eq!(in_plain_words(said), words);
        }
    }

    #[test]
    fn whatever_is_not_known_stays() {
        for said in ["missing field `cpus`", "unknown field `a`, there are no fields", "", "a\nb"] {
            assert_eq!(in_plain_words(said), said);
        }
    }
}
