//! A manifest with gaps for the parts that depend on the viewer.

use std::sync::Arc;

use super::{DOCUMENT_BYTES_MAX, DocumentError, ManifestKind, dash, hls};

/// A title's manifest, ready to be written with any nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestTemplate {
    pub(super) before: Vec<Piece>,
    /// Written once for each node.
    pub(super) each: Vec<Piece>,
    pub(super) after: Vec<Piece>,
}

/// Text, or a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// The name of this node's pathway.
    Id,
    /// The URL of the title's folder on this node.
    Folder,
    /// The name of the first node's pathway.
    First,
    /// The URL of the title's folder on the first node.
    FirstFolder,
    /// The steering server's address.
    Steering,
}

/// A node in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress<'n> {
    /// The id of its pathway: the node's name.
    pub id: &'n str,
    /// The base of the manifest's references on it: `https://node-1.example:8443/films/a/`. It has no character with a special meaning in XML or a
    /// playlist.
    pub folder: String,
}

impl ManifestTemplate {
    /// Parses a title's own manifest.
    ///
    /// # Errors
    /// If it is not a manifest of that kind, or has features that a fleet cannot serve.
    pub fn parse(kind: ManifestKind, bytes: &[u8]) -> Result<Self, DocumentError> {
        if bytes.len() > DOCUMENT_BYTES_MAX {
            return Err(DocumentError::Long);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| DocumentError::NotText)?;
        let text = text.trim_start_matches('\u{feff}').trim_start();
        match kind {
            ManifestKind::Hls => hls::template(text),
            ManifestKind::Dash => dash::template(text),
        }
    }

    /// The manifest with these nodes, the viewer's preferred one first, and with the steering address for the player. That address has only
    /// characters that need no quoting in either kind, so no `&`.
    pub fn write(&self, nodes: &[NodeAddress<'_>], steering: &str) -> String {
        let first = nodes.first().map_or("", |node| node.id);
        let first_folder = nodes.first().map_or("", |node| &node.folder);
        let none = NodeAddress { id: "", folder: String::new() };
        let mut text = String::with_capacity(self.bytes(nodes, steering));
        let mut write = |pieces: &[Piece], node: &NodeAddress<'_>| {
            for piece in pieces {
                text.push_str(match piece {
                    Piece::Text(own) => own,
                    Piece::Id => node.id,
                    Piece::Folder => &node.folder,
                    Piece::First => first,
                    Piece::FirstFolder => first_folder,
                    Piece::Steering => steering,
                });
            }
        };
        write(&self.before, &none);
        nodes.iter().for_each(|node| write(&self.each, node));
        write(&self.after, &none);
        text
    }

    /// The length of the output of [`write`](Self::write).
    fn bytes(&self, nodes: &[NodeAddress<'_>], steering: &str) -> usize {
        let first_folder = nodes.first().map_or(0, |node| node.folder.len());
        let of = |pieces: &[Piece], id: usize, folder: usize| -> usize {
            let one = |piece: &Piece| match piece {
                Piece::Text(own) => own.len(),
                Piece::Id | Piece::First => id,
                Piece::Folder => folder,
                Piece::FirstFolder => first_folder,
                Piece::Steering => steering.len(),
            };
            pieces.iter().map(one).sum()
        };
        let first = nodes.first().map_or(0, |node| node.id.len());
        let each = nodes.iter().map(|node| of(&self.each, node.id.len(), node.folder.len()));
        of(&self.before, first, 0) + each.sum::<usize>() + of(&self.after, first, 0)
    }

    /// Its approximate memory use.
    pub(super) fn memory_bytes(&self) -> usize {
        let all = [&self.before, &self.each, &self.after];
        let one = |piece: &Piece| match piece {
            Piece::Text(own) => size_of::<Piece>() + own.len(),
            _ => size_of::<Piece>(),
        };
        size_of::<Arc<Self>>() + all.into_iter().flatten().map(one).sum::<usize>()
    }
}

/// Pieces while they are collected: adjacent texts are merged.
#[derive(Default)]
pub(super) struct Pieces(pub(super) Vec<Piece>);

impl Pieces {
    pub(super) fn text(&mut self, text: &str) {
        if let Some(Piece::Text(last)) = self.0.last_mut() {
            last.push_str(text);
        } else if !text.is_empty() {
            self.0.push(Piece::Text(text.to_owned()));
        }
    }

    pub(super) fn gap(&mut self, gap: Piece) {
        self.0.push(gap);
    }
}
