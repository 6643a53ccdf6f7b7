//! Hexadecimal digits, percent-encoding and references in XML are written and read by one crate each. Copies by hand differed in what they accepted:
//! two took `+1` for two digits.

use crate::tree::File;

/// What a copy by hand contains, and what to use instead.
const COPIES: &[(&str, &str)] = &[
    ("byte:02x}", "data_encoding::HEXLOWER"),
    ("byte:02X}", "escape::percent, or data_encoding::HEXUPPER"),
    ("u8::from_str_radix(", "data_encoding::HEXLOWER, or HEXLOWER_PERMISSIVE"),
    (".to_digit(16)", "data_encoding or escape::percent"),
    ("\"&lt;\"", "escape::xml"),
];

/// Files that may contain it, each with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/core/escape/src/percent.rs", "this is the one for URLs"),
    ("crates/core/escape/src/xml.rs", "this is the one for XML"),
    ("crates/core/http/src/body.rs", "a chunk's size, digit by digit as it arrives"),
    ("crates/core/machine/src/mounts.rs", "octal digits"),
    ("crates/core/tls/src/config.rs", "a fingerprint as browsers show it, with colons"),
    ("crates/core/token/src/signatures.rs", "text that is encoded several times, in a log"),
    (
        "crates/media/ingest/src/ingest/subtitles/packets.rs",
        "ffprobe's dump, with blanks between digits",
    ),
    (
        "crates/media/ingest/src/ingest/subtitles/webvtt/payload.rs",
        "WebVTT's own rules: what is markup stays",
    ),
    ("crates/measure/bench/src/report/style.rs", "a test reads the colours of a style sheet"),
];

fn breaches(files: &[File]) -> Vec<String> {
    let is_allowed = |file: &File| ALLOWED.iter().any(|(path, _)| *path == file.path);
    let sources = files.iter().filter(|file| file.is_rust() && file.source_of().is_some());
    let mut breaches = Vec::new();
    for file in sources.filter(|file| !is_allowed(file)) {
        for (at, line) in file.text.lines().enumerate() {
            let copy = COPIES.iter().find(|(copy, _)| line.contains(copy));
            breaches.extend(copy.map(|(_, one)| format!("{}: use {one}", file.at(at))));
        }
    }
    breaches
}

#[test]
fn encodings_have_one_place_each() {
    crate::none(breaches(&crate::tree::files()));
}

#[test]
fn planted_copies_are_found() {
    let files = [
        File::planted("crates/core/a/src/a.rs", "\nwrite!(f, \"{byte:02x}\")\n"),
        File::planted("crates/core/a/src/b.rs", "char::from(byte).to_digit(16)\n"),
        File::planted("crates/core/a/tests/c.rs", "char::from(byte).to_digit(16)\n"),
        File::planted("crates/core/escape/src/percent.rs", "char::from(byte).to_digit(16)\n"),
    ];
    crate::found(&breaches(&files), &["a.rs:2: use data_encoding::HEXLOWER", "b.rs:1"]);
}
