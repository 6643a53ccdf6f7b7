//! URL templates of DASH (ISO/IEC 23009-1 section 5.3.9.4.4), such as `$Number%05d$`.

use crate::manifest::ManifestError;
use std::fmt::Write;

/// More digits than any number has.
const WIDTH_MAX: usize = 20;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The segment's number, with at least this many digits.
    Number(usize),
    /// The segment's start.
    Time(usize),
}

impl Template {
    /// Parses a template, and fills in the parts that are the same for all segments.
    pub(super) fn parse(text: &str, id: &str, bandwidth: u64) -> Result<Self, ManifestError> {
        let mut parts = Vec::new();
        // Text and identifiers alternate between the dollar signs.
        for (index, piece) in text.split('$').enumerate() {
            parts.push(if index % 2 == 0 {
                Part::Text(piece.to_owned())
            } else {
                identifier(piece, id, bandwidth)?
            });
        }
        if parts.len() % 2 == 0 {
            return Err(ManifestError::Malformed(format!(
                "the template {text:?} has an odd dollar sign"
            )));
        }
        Ok(Self(parts))
    }

    /// The reference to one segment.
    pub(super) fn fill(&self, number: u64, time: u64) -> String {
        let mut reference = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => reference.push_str(text),
                // Writing to a string cannot fail.
                Part::Number(width) => drop(write!(reference, "{number:0width$}")),
                Part::Time(width) => drop(write!(reference, "{time:0width$}")),
            }
        }
        reference
    }
}

fn identifier(piece: &str, id: &str, bandwidth: u64) -> Result<Part, ManifestError> {
    let malformed = || ManifestError::Malformed(format!("a template has ${piece}$"));
    let (name, width) = match piece.split_once('%') {
        Some((name, format)) => {
            let digits = format.strip_prefix('0').and_then(|rest| rest.strip_suffix('d'));
            let width =
                digits.and_then(|digits| digits.parse().ok()).filter(|width| *width <= WIDTH_MAX);
            (name, width.ok_or_else(malformed)?)
        }
        None => (piece, 1),
    };
    Ok(match name {
        "" => Part::Text("$".into()),
        "RepresentationID" => Part::Text(id.to_owned()),
        "Bandwidth" => Part::Text(format!("{bandwidth:0width$}")),
        "Number" => Part::Number(width),
        "Time" => Part::Time(width),
        _ => return Err(malformed()),
    })
}
