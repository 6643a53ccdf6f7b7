//! Reads Rust line by line, with just enough grammar: what is code, and where tests and functions are.

/// The text without comments and the contents of strings; line numbers stay the same.
pub(crate) fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let skipped = match next {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' => string_bytes(rest),
            'r' if !ends_in_word(&out) => raw_string_bytes(rest),
            '\'' => quote_bytes(rest),
            _ => 0,
        };
        if skipped == 0 {
            out.push(next);
            rest = &rest[next.len_utf8()..];
        } else {
            out.extend(rest[..skipped].chars().filter(|char| *char == '\n'));
            rest = &rest[skipped..];
        }
    }
    out
}

fn ends_in_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_of_word)
}

pub(crate) fn is_of_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// The words of a line, or of any text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char| !is_of_word(char)).filter(|word| !word.is_empty())
}

fn string_bytes(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, char) in text.char_indices().skip(1) {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Zero if there is none.
fn raw_string_bytes(text: &str) -> usize {
    let hashes = text[1..].chars().take_while(|char| *char == '#').count();
    let Some(body) = text[1 + hashes..].strip_prefix('"') else { return 0 };
    let end = format!("\"{}", "#".repeat(hashes));
    body.find(&end).map_or(text.len(), |at| 2 + hashes + at + end.len())
}

/// A character, such as `'"'`; zero for a lifetime.
fn quote_bytes(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next(), chars.next()) {
        (Some((_, '\\')), Some(_), Some((at, _))) => {
            text[at..].find('\'').map_or(0, |end| at + end + 1)
        }
        (Some((_, inner)), Some((at, '\'')), _) if inner != '\'' => at + 1,
        _ => 0,
    }
}

/// The functions of a file formatted by rustfmt: first line, name, number of lines.
pub(crate) fn functions(code: &str) -> Vec<(usize, String, usize)> {
    let lines: Vec<_> = code.lines().collect();
    let named = lines.iter().enumerate().filter_map(|(at, line)| Some((at, function_name(line)?)));
    let measured = named.filter_map(|(at, name)| {
        let indent = lines[at].len() - lines[at].trim_start().len();
        let body = lines[at..].iter().position(|line| line.ends_with(['{', ';', '}']))? + at;
        if !lines[body].ends_with('{') {
            return None;
        }
        let is_end = |line: &&str| line.trim_end() == format!("{}}}", " ".repeat(indent));
        let end = lines[body..].iter().position(is_end)? + body;
        Some((at, name.to_owned(), end - at + 1))
    });
    measured.collect()
}

/// The name of the function that begins in a line.
pub(crate) fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_qualifier = |word| {
        ["pub", "crate", "super", "in", "const", "async", "unsafe", "extern"].contains(&word)
    };
    words(before).all(is_qualifier).then(|| words(after).next())?
}

/// The names of the tests in a file, with their modules within the file.
pub(crate) fn tests(code: &str) -> Vec<String> {
    let (mut modules, mut tests) = (Vec::<(usize, &str)>::new(), Vec::new());
    let mut is_test = false;
    for line in code.lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if line == "}" {
            modules.retain(|(of, _)| *of < indent);
        }
        let opened = line.strip_suffix(" {").and_then(|line| line.split_once("mod "));
        modules.extend(opened.map(|(_, name)| (indent, name)));
        is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
        if let (true, Some(name)) = (is_test, function_name(line)) {
            let path = modules.iter().map(|(_, name)| *name).chain([name]);
            tests.push(path.collect::<Vec<_>>().join("::"));
            is_test = false;
        }
    }
    tests
}

#[test]
fn comments_and_strings_are_no_code() {
    let text = "a(\"// \\\" unsafe\"); // unsafe\nb('\"', r#\"unsafe\"\"#, 'x', '\\u{1}');\n/* unsafe */ fn c<'a>() {}\n";
    assert_eq!(code(text), "a(); \nb(, , , );\n fn c<'a>() {}\n");
}

#[test]
fn functions_and_tests_are_found() {
    let text = "impl A {\n    pub(crate) fn long(\n    ) {\n        x\n    }\n}\nmod tests {\n    #[test]\n    fn is_so() {\n    }\n}\n";
    assert_eq!(functions(text), [(1, "long".into(), 4), (8, "is_so".into(), 2)]);
    assert_eq!(tests(text), ["tests::is_so"]);
}
