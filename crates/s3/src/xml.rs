//! What little XML S3 speaks: elements with text, nested a level or two. What cannot be read is as good as absent.

/// The text of the first element of that name.
pub(crate) fn element(xml: &str, name: &str) -> Option<String> {
    inner(xml, name).map(unescaped)
}

/// What is inside the first element of that name, as it is.
fn inner<'x>(xml: &'x str, name: &str) -> Option<&'x str> {
    let after = xml.split_once(&format!("<{name}>"))?.1;
    after.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

/// What is inside each element of that name, as it is.
pub(crate) fn elements<'x>(xml: &'x str, name: &str) -> Vec<&'x str> {
    let begin = format!("<{name}>");
    xml.split(begin.as_str())
        .skip(1)
        .filter_map(|part| part.split_once(&format!("</{name}>")))
        .map(|(text, _)| text)
        .collect()
}

fn unescaped(text: &str) -> String {
    let table = [("&quot;", "\""), ("&#34;", "\""), ("&apos;", "'"), ("&lt;", "<"), ("&gt;", ">")];
    let text = table.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    // Last, or "&amp;lt;" would become "<".
    text.replace("&amp;", "&")
}

/// `text` as the text of an element.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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
        assert_eq!(unescaped(&escaped("a<b>&\"c\"")), "a<b>&\"c\"");
    }
}
