//! The SegmentTemplate, SegmentList and SegmentBase elements. Each is read once, however many representations it applies to. Elements of
//! outer levels provide what inner ones leave out.

use super::timeline::{Entry, entries};
use crate::manifest::ManifestError;
use roxmltree::Node;

/// One element.
pub(super) struct Description<'a> {
    pub(super) node: Node<'a, 'a>,
    timeline: Option<Vec<Entry>>,
    initialization: Option<Node<'a, 'a>>,
    /// SegmentURL elements.
    segments: Vec<Node<'a, 'a>>,
}

impl<'a> Description<'a> {
    pub(super) fn read(node: Node<'a, 'a>) -> Result<Self, ManifestError> {
        let mut description =
            Self { node, timeline: None, initialization: None, segments: Vec::new() };
        for child in node.children() {
            match child.tag_name().name() {
                "SegmentTimeline" if description.timeline.is_none() => {
                    description.timeline = Some(entries(child)?);
                }
                "Initialization" if description.initialization.is_none() => {
                    description.initialization = Some(child);
                }
                "SegmentURL" => description.segments.push(child),
                _ => {}
            }
        }
        Ok(description)
    }
}

/// The elements that apply to a representation, nearest first.
pub(super) struct Described<'a, 'b>(pub(super) Vec<&'b Description<'a>>);

impl<'a, 'b> Described<'a, 'b> {
    /// The attribute of the first element that has it.
    pub(super) fn attribute(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find_map(|element| element.node.attribute(name))
    }

    /// An attribute's number; `otherwise` if no element has the attribute.
    pub(super) fn number(&self, name: &str, otherwise: u64) -> Result<u64, ManifestError> {
        self.attribute(name).map_or(Ok(otherwise), |text| number(name, text))
    }

    pub(super) fn timeline(&self) -> Option<&'b [Entry]> {
        self.0.iter().find_map(|element| element.timeline.as_deref())
    }

    pub(super) fn initialization(&self) -> Option<Node<'a, 'a>> {
        self.0.iter().find_map(|element| element.initialization)
    }

    pub(super) fn segments(&self) -> &'b [Node<'a, 'a>] {
        let lists = self.0.iter().map(|element| element.segments.as_slice());
        lists.into_iter().find(|list| !list.is_empty()).unwrap_or(&[])
    }
}

pub(super) fn number(name: &str, text: &str) -> Result<u64, ManifestError> {
    text.trim()
        .parse()
        .map_err(|_| ManifestError::Malformed(format!("{name}={text:?} is not a number")))
}
