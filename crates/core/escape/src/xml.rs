//! References in XML (XML 1.0 section 4.6). The caller handles characters that XML does not allow at all.

/// `text` as the content of an element.
pub fn escape_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// `text` as an attribute's value, in quotes of either kind; also valid as the content of an element, and in HTML.
pub fn escape_attribute(text: &str) -> String {
    escape_text(text).replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_would_read_is_escaped_once() {
        assert_eq!(escape_text("a<b>&amp;\"'"), "a&lt;b&gt;&amp;amp;\"'");
        assert_eq!(escape_attribute("a<b>&amp;\"'"), "a&lt;b&gt;&amp;amp;&quot;&#39;");
    }
}
