//! A multivariant playlist with pathways (RFC 8216, second edition, sections 4.4.6.2 and 4.4.6.6).
//!
//! Each node gets all variants, with its own rendition groups: a group shared by two pathways would tie the sound of one to the other. Variants and
//! renditions of the same file have the same stable ID on every pathway, so players know which ones replace each other.

use std::collections::HashMap;

use super::attributes::{self, Attribute};
use super::template::{ManifestTemplate, Piece, Pieces};
use super::{DocumentError, reference};

/// Attributes that name a rendition group.
const GROUPS: [&str; 5] = ["GROUP-ID", "AUDIO", "VIDEO", "SUBTITLES", "CLOSED-CAPTIONS"];

/// Whether an attribute is a reference: URI, and other names that end with it.
fn is_reference(name: &str) -> bool {
    name.ends_with("URI")
}

/// Attributes that are quoted strings (RFC 8216, second edition, section 4.4.6). Some players also accept them without quotes.
fn must_be_quoted(name: &str) -> bool {
    is_reference(name)
        || name.starts_with("STABLE-")
        || GROUPS.contains(&name) && name != "CLOSED-CAPTIONS"
}

/// Parses a title's own playlist.
pub(super) fn template(text: &str) -> Result<ManifestTemplate, DocumentError> {
    let mut reader = Reader::default();
    let mut lines = text.lines();
    if lines.next().map(str::trim_end) != Some("#EXTM3U") {
        return Err(DocumentError::Malformed("it does not begin with #EXTM3U".into()));
    }
    lines.try_for_each(|line| reader.line(line))?;
    reader.finish()
}

#[derive(Default)]
struct Reader {
    before: Pieces,
    each: Pieces,
    /// The attributes of a variant whose tag has been parsed, and whose URI comes next.
    variant: Option<Vec<(String, String)>>,
    variant_count: usize,
    /// Number of uses of each stable ID.
    ids: HashMap<String, usize>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), DocumentError> {
        let line = line.trim();
        if line.contains(char::is_control) {
            return Err(DocumentError::Malformed("it has control characters".into()));
        }
        let (tag, value) = line.split_once(':').unwrap_or((line, ""));
        match tag {
            "" => Ok(()),
            "#EXT-X-MEDIA" => self.tag(tag, value, "STABLE-RENDITION-ID"),
            "#EXT-X-STREAM-INF" => self.begin_variant(value),
            "#EXT-X-I-FRAME-STREAM-INF" => self.tag(tag, value, "STABLE-VARIANT-ID"),
            "#EXT-X-SESSION-DATA" => self.session_data(value),
            "#EXT-X-CONTENT-STEERING" => Err(DocumentError::Unsupported("a steering server")),
            "#EXT-X-DEFINE" => Err(DocumentError::Unsupported("variables")),
            "#EXT-X-SESSION-KEY" => Err(DocumentError::Unsupported("a key")),
            "#EXTINF" | "#EXT-X-TARGETDURATION" => {
                Err(DocumentError::Unsupported("segments instead of variants"))
            }
            _ if tag.starts_with("#EXT") => self.pass(line),
            _ if line.starts_with('#') => Ok(()),
            _ => self.uri(line),
        }
    }

    /// A tag about the entire playlist.
    fn pass(&mut self, line: &str) -> Result<(), DocumentError> {
        if line.contains("URI=") {
            return Err(DocumentError::Unsupported("a tag with a URI that is not known"));
        }
        self.before.text(line);
        self.before.text("\n");
        Ok(())
    }

    /// Data about the entire playlist, such as its chapters. Its tag must not be repeated (section 4.4.6.4), so a file comes from the first node.
    fn session_data(&mut self, value: &str) -> Result<(), DocumentError> {
        for (nth, Attribute { name, value }) in attributes::parse(value)?.iter().enumerate() {
            self.before.text(if nth == 0 { "#EXT-X-SESSION-DATA:" } else { "," });
            self.before.text(&format!("{name}="));
            let quoted = Attribute { name, value }.quoted();
            match quoted.filter(|_| is_reference(name)) {
                Some(uri) => {
                    reference::check(uri)?;
                    self.before.text("\"");
                    self.before.gap(Piece::FirstFolder);
                    self.before.text(&format!("{uri}\""));
                }
                None if is_reference(name) => {
                    return Err(DocumentError::Malformed(format!("{name} is not quoted")));
                }
                None => self.before.text(value),
            }
        }
        self.before.text("\n");
        Ok(())
    }

    /// A tag for an independent item, with its URI among its attributes if it has one.
    fn tag(&mut self, tag: &str, value: &str, id_name: &str) -> Result<(), DocumentError> {
        let attributes = attributes::parse(value)?;
        let uri = attributes::quoted(&attributes, "URI");
        let own_id = attributes::quoted(&attributes, id_name);
        let id = uri.map(|uri| self.stable_id(id_name, uri, own_id));
        self.each.text(tag);
        self.write(&attributes)?;
        if tag != "#EXT-X-MEDIA" {
            self.write_pathway();
        }
        if let (Some(id), None) = (id, own_id) {
            self.each.text(&format!(",{id_name}=\"{id}\""));
        }
        self.each.text("\n");
        Ok(())
    }

    fn begin_variant(&mut self, value: &str) -> Result<(), DocumentError> {
        if self.variant.is_some() {
            return Err(DocumentError::Malformed("a variant has no URI".into()));
        }
        let attributes = attributes::parse(value)?;
        if !attributes.iter().any(|attribute| attribute.name == "BANDWIDTH") {
            return Err(DocumentError::Malformed("a variant has no BANDWIDTH".into()));
        }
        let own = |one: &Attribute<'_>| (one.name.to_owned(), one.value.to_owned());
        self.variant = Some(attributes.iter().map(own).collect());
        Ok(())
    }

    fn uri(&mut self, uri: &str) -> Result<(), DocumentError> {
        let orphan = || DocumentError::Malformed("a URI has no variant".into());
        let variant = self.variant.take().ok_or_else(orphan)?;
        let attributes: Vec<_> =
            variant.iter().map(|(name, value)| Attribute { name, value }).collect();
        reference::check(uri)?;
        let own_id = attributes::quoted(&attributes, "STABLE-VARIANT-ID");
        let id = self.stable_id("STABLE-VARIANT-ID", uri, own_id);
        self.each.text("#EXT-X-STREAM-INF");
        self.write(&attributes)?;
        self.write_pathway();
        if own_id.is_none() {
            self.each.text(&format!(",STABLE-VARIANT-ID=\"{id}\""));
        }
        self.each.text("\n");
        self.each.gap(Piece::Folder);
        self.each.text(uri);
        self.each.text("\n");
        self.variant_count += 1;
        Ok(())
    }

    /// The attributes unchanged, except for groups, which become the node's own, and URIs, which become absolute.
    fn write(&mut self, attributes: &[Attribute<'_>]) -> Result<(), DocumentError> {
        for (nth, attribute) in attributes.iter().enumerate() {
            let Attribute { name, value } = attribute;
            self.each.text(if nth == 0 { ":" } else { "," });
            self.each.text(&format!("{name}="));
            match (*name, attribute.quoted()) {
                ("PATHWAY-ID", _) => return Err(DocumentError::Unsupported("pathways")),
                (name, None) if must_be_quoted(name) => {
                    return Err(DocumentError::Malformed(format!("{name} is not quoted")));
                }
                (name, Some(uri)) if is_reference(name) => {
                    reference::check(uri)?;
                    self.each.text("\"");
                    self.each.gap(Piece::Folder);
                    self.each.text(&format!("{uri}\""));
                }
                (name, Some(group)) if GROUPS.contains(&name) => {
                    self.each.text(&format!("\"{group}/"));
                    self.each.gap(Piece::Id);
                    self.each.text("\"");
                }
                _ => self.each.text(value),
            }
        }
        Ok(())
    }

    fn write_pathway(&mut self) {
        self.each.text(",PATHWAY-ID=\"");
        self.each.gap(Piece::Id);
        self.each.text("\"");
    }

    /// The playlist's own ID, or else one derived from the reference. Items with the same reference get different IDs.
    fn stable_id(&mut self, kind: &str, uri: &str, own: Option<&str>) -> String {
        if let Some(own) = own {
            return own.to_owned();
        }
        // Section 4.4.6.2 permits only these characters.
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "+/=.-_".contains(letter);
        let plain = uri.strip_suffix(".m3u8").unwrap_or(uri);
        let plain: String = plain.chars().map(|one| if allowed(one) { one } else { '_' }).collect();
        let count = self.ids.entry(format!("{kind} {plain}")).or_default();
        *count += 1;
        if *count == 1 { plain } else { format!("{plain}={count}") }
    }

    fn finish(mut self) -> Result<ManifestTemplate, DocumentError> {
        if self.variant.is_some() {
            return Err(DocumentError::Malformed("a variant has no URI".into()));
        }
        if self.variant_count == 0 {
            return Err(DocumentError::Empty);
        }
        let mut before = Pieces::default();
        before.text("#EXTM3U\n");
        before.0.append(&mut self.before.0);
        before.text("#EXT-X-CONTENT-STEERING:SERVER-URI=\"");
        before.gap(Piece::Steering);
        before.text("\",PATHWAY-ID=\"");
        before.gap(Piece::First);
        before.text("\"\n");
        Ok(ManifestTemplate { before: before.0, each: self.each.0, after: Vec::new() })
    }
}
