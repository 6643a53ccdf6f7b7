//! A DASH manifest with service locations and a steering server (ISO/IEC 23009-1, ETSI TS 103 998).
//!
//! The document stays unchanged, except for insertions near its start: a BaseURL for each node, which is the base of all relative references in it,
//! and the steering server.

use roxmltree::{Document, Node, ParsingOptions};

use super::template::{ManifestTemplate, Piece, Pieces};
use super::{DocumentError, reference};

/// Ample for the longest document: elements and texts.
const NODES_MAX: u32 = 64 << 10;

/// Limit on equals signs from one `<` to the next: the parser compares each attribute of an element with all its others.
const EQUALS_MAX: usize = 128;

/// Limit on namespace declarations: for each element that declares one, the parser stores all that apply.
const NAMESPACES_MAX: usize = 64;

/// Attributes that contain references, in any element.
const REFERENCES: [&str; 5] = ["href", "index", "initialization", "media", "sourceURL"];

/// Parses a title's own manifest.
pub(super) fn template(text: &str) -> Result<ManifestTemplate, DocumentError> {
    check_cost(text)?;
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| DocumentError::Malformed(error.to_string()))?;
    let root = document.root_element();
    // The inserted elements have no prefix, so the document must not have one either.
    if root.tag_name().name() != "MPD" || !text[root.range().start..].starts_with("<MPD") {
        return Err(DocumentError::Malformed("it does not begin with an MPD element".into()));
    }
    root.descendants().filter(Node::is_element).try_for_each(check)?;
    if !root.descendants().any(|node| node.has_tag_name_of("Representation")) {
        return Err(DocumentError::Empty);
    }
    let at = place(root).ok_or(DocumentError::Empty)?;
    Ok(around(&text[..at], &text[at..]))
}

trait Named {
    fn has_tag_name_of(&self, name: &str) -> bool;
}

impl Named for Node<'_, '_> {
    /// Whether it is an element with this name, in any namespace.
    fn has_tag_name_of(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

/// Refuses documents for which the parser needs more than linear time or memory.
fn check_cost(text: &str) -> Result<(), DocumentError> {
    let is_heavy = |tag: &str| tag.bytes().filter(|byte| *byte == b'=').count() > EQUALS_MAX;
    if text.split('<').any(is_heavy) {
        return Err(DocumentError::Malformed("an element has too many attributes".into()));
    }
    if text.matches("xmlns").count() > NAMESPACES_MAX {
        return Err(DocumentError::Malformed("it has too many namespaces".into()));
    }
    Ok(())
}

fn check(element: Node<'_, '_>) -> Result<(), DocumentError> {
    let is_top = element.parent_element().is_some_and(|parent| parent.parent_element().is_none());
    match element.tag_name().name() {
        "ContentSteering" => return Err(DocumentError::Unsupported("a steering server")),
        "Location" | "PatchLocation" => return Err(DocumentError::Unsupported("a Location")),
        "BaseURL" if is_top || element.has_attribute("serviceLocation") => {
            return Err(DocumentError::Unsupported("service locations"));
        }
        "BaseURL" => {
            let siblings = element.parent_element().into_iter().flat_map(|one| one.children());
            if siblings.filter(|one| one.has_tag_name_of("BaseURL")).take(2).count() > 1 {
                return Err(DocumentError::Unsupported("service locations"));
            }
            // A comment would split the text, while players join the parts.
            if element.children().count() > 1 {
                return Err(DocumentError::Malformed("a BaseURL is more than a text".into()));
            }
            reference::check(element.text().unwrap_or("").trim())?;
        }
        _ => {}
    }
    let refers = |name: &str| REFERENCES.contains(&name);
    let mut references = element.attributes().filter(|attribute| refers(attribute.name()));
    references.try_for_each(|attribute| reference::check(attribute.value()))
}

/// The position for BaseURL elements: after ProgramInformation, before everything else (ISO/IEC 23009-1, section 5.3.1.3).
fn place(root: Node<'_, '_>) -> Option<usize> {
    let mut elements = root.children().filter(Node::is_element);
    let next = elements.find(|element| !element.has_tag_name_of("ProgramInformation"))?;
    Some(next.range().start)
}

fn around(before: &str, after: &str) -> ManifestTemplate {
    let (mut begin, mut each, mut end) = (Pieces::default(), Pieces::default(), Pieces::default());
    begin.text(before);
    each.text("<BaseURL serviceLocation=\"");
    each.gap(Piece::Id);
    each.text("\">");
    each.gap(Piece::Folder);
    each.text("</BaseURL>\n");
    // The manifest's first node is already the result of a decision, so a steering request before the first segment would gain nothing.
    end.text("<ContentSteering defaultServiceLocation=\"");
    end.gap(Piece::First);
    end.text("\" queryBeforeStart=\"false\">");
    end.gap(Piece::Steering);
    end.text("</ContentSteering>\n");
    end.text(after);
    ManifestTemplate { before: begin.0, each: each.0, after: end.0 }
}
