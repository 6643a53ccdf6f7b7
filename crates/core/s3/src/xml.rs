//! A minimal XML parser for S3: elements with text, nested a level or two. Anything unreadable counts as absent.
//!
//! roxmltree, which reads DASH manifests, would reject some answers as a whole: one that is not quite XML, or one after the blanks that S3 sends
//! while it assembles an object.

/// The text of the first element with this name.
pub(crate) fn element(xml: &str, name: &str) -> Option<String> {
    inner(xml, name).map(unescaped)
}

/// The raw content of the first element with this name.
fn inner<'x>(xml: &'x str, name: &str) -> Option<&'x str> {
    let after = xml.split_once(&format!("<{name}>"))?.1;
    after.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

/// The raw content of each element with this name.
pub(crate) fn elements<'x>(xml: &'x str, name: &str) -> Vec<&'x str> {
    let begin = format!("<{name}>");
    xml.split(begin.as_str())
        .skip(1)
        .filter_map(|part| part.split_once(&format!("</{name}>")))
        .map(|(text, _)| text)
        .collect()
}

/// Replaces references by the characters that they stand for (XML 1.0 sections 4.1 and 4.6). Invalid references stay unchanged.
fn unescaped(mut text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    while let Some((before, rest)) = text.split_once('&') {
        plain.push_str(before);
        text = match rest.split_once(';').and_then(|(name, rest)| Some((referred(name)?, rest))) {
            Some((character, rest)) => {
                plain.push(character);
                rest
            }
            None => {
                plain.push('&');
                rest
            }
        };
    }
    plain.push_str(text);
    plain
}

/// The character that `&name;` stands for: one of the five that are predefined in all documents, or a numeric one.
fn referred(name: &str) -> Option<char> {
    let number = match name {
        "quot" => return Some('"'),
        "apos" => return Some('\''),
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "amp" => return Some('&'),
        _ => name.strip_prefix('#')?,
    };
    let (digits, radix) = match number.strip_prefix('x') {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    // `from_str_radix` would accept a sign as well.
    let is_number = digits.chars().all(|digit| digit.is_digit(radix));
    let code = u32::from_str_radix(digits, radix).ok().filter(|_| is_number)?;
    char::from_u32(code).filter(|character| *character != '\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_and_texts_are_plain() {
        let xml = "<A><Part><N>1</N><E>&quot;x&amp;lt;&quot;</E></Part><Part><N>2</N></Part></A>";
        let parts = elements(xml, "Part");
        assert_eq!(parts.len(), 2);
        assert_eq!(element(parts[0], "E").as_deref(), Some("\"x&lt;\""));
        assert_eq!(element(parts[1], "N").as_deref(), Some("2"));
        assert_eq!(element(xml, "None"), None);
        assert_eq!(element("<Part>cut", "Part"), None);
        let escaped = escape::xml::escape_attribute("a<b>&\"c\"'");
        assert_eq!(unescaped(&escaped), "a<b>&\"c\"'");
    }

    #[test]
    fn references_by_number_are_read_and_what_is_none_stays() {
        for (text, plain) in [
            ("&#39;a&#34;", "'a\""),
            ("&#x27;a&#x2F;&#xe9;", "'a/é"),
            ("a&#38;lt;", "a&lt;"),
            ("&amp;#39;", "&#39;"),
            ("&#128512;&#x1F600;", "😀😀"),
            ("&#13;&#10;", "\r\n"),
            ("&#; &#x; &#+39; &#-1; &#0;", "&#; &#x; &#+39; &#-1; &#0;"),
            ("&#xD800; &#1114112; &#99999999999;", "&#xD800; &#1114112; &#99999999999;"),
            ("a & b; &unknown; &", "a & b; &unknown; &"),
            ("&&lt;", "&<"),
        ] {
            assert_eq!(unescaped(text), plain, "{text}");
        }
    }
}
