//! Further servers with the same titles. Each becomes a pathway, even if the manifest names none.

use player::{Index, Pathway, Presentation, Reference, Segment, Segments, Source, Url};
use std::str::FromStr;
use std::sync::Arc;

/// A server: `host` or `host:port`. Without a port, it uses that of the URL being played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    text: String,
    has_port: bool,
}

/// The text does not name a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a server such as cdn2.example or 10.0.0.2:8443")]
pub struct PlaceError;

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let url: Url = format!("http://{text}/").parse().map_err(|_| PlaceError)?;
        if url.path_and_query() != "/" {
            return Err(PlaceError);
        }
        Ok(Self { text: text.to_owned(), has_port: port(text).is_some() })
    }
}

impl Place {
    /// The same resource on this server, or `url` itself if the result would be too long for a URL.
    fn of(&self, url: &Url) -> Url {
        let own = url.authority();
        let authority = match port(&own) {
            Some(port) if !self.has_port => format!("{}:{port}", self.text),
            _ => self.text.clone(),
        };
        let scheme = if url.is_tls() { "https" } else { "http" };
        let moved = format!("{scheme}://{authority}{}", url.path_and_query());
        moved.parse().unwrap_or_else(|_| url.clone())
    }
}

/// The port in an authority. A colon inside brackets does not introduce a port.
fn port(authority: &str) -> Option<&str> {
    let (_, port) = authority.rsplit_once(':')?;
    (!port.contains(']')).then_some(port)
}

/// Makes each of `places` a pathway of a presentation that was read from `manifest`, except the manifest's own server. If the manifest does
/// not name its first pathway, it gets its server's name.
pub(crate) fn add(presentation: &mut Presentation, manifest: &Url, places: &[Place]) {
    let has_names = presentation.pathways.len() > 1 || presentation.steering.is_some();
    if let (false, Some(first)) = (has_names, presentation.pathways.first_mut()) {
        first.id = manifest.authority();
    }
    let is_other = |place: &&Place| place.of(manifest).authority() != manifest.authority();
    for place in places.iter().filter(is_other) {
        presentation.pathways.push(Pathway { id: place.text.clone() });
        let renditions = presentation.tracks.iter_mut().flat_map(|track| &mut track.renditions);
        for rendition in renditions {
            let moved =
                rendition.sources.first().map_or(Source::Absent, |source| source_at(source, place));
            rendition.sources.push(moved);
        }
    }
}

fn source_at(source: &Source, place: &Place) -> Source {
    match source {
        Source::Document(reference) => Source::Document(reference_at(reference, place)),
        Source::Index(index) => Source::Index(Index {
            reference: reference_at(&index.reference, place),
            start: index.start.as_ref().map(|start| reference_at(start, place)),
            ..index.clone()
        }),
        Source::Listed(segments) => Source::Listed(Arc::new(segments_at(segments, place))),
        Source::Absent => Source::Absent,
    }
}

fn segments_at(segments: &Segments, place: &Place) -> Segments {
    let at = |reference: &Reference| reference_at(reference, place);
    let segment = |segment: &Segment| Segment {
        reference: at(&segment.reference),
        start: segment.start.as_ref().map(at),
        ..segment.clone()
    };
    Segments {
        start: segments.start.as_ref().map(at),
        list: segments.list.iter().map(segment).collect(),
        ..segments.clone()
    }
}

fn reference_at(reference: &Reference, place: &Place) -> Reference {
    Reference { url: place.of(&reference.url), range: reference.range.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_port_has_the_port_of_what_is_played() {
        let moved = |place: &str, url: &str| {
            place.parse::<Place>().unwrap().of(&url.parse().unwrap()).to_string()
        };
        assert_eq!(moved("b", "https://a:8443/x?y"), "https://b:8443/x?y");
        assert_eq!(moved("b:1", "https://a:8443/x"), "https://b:1/x");
        assert_eq!(moved("b", "http://a/x"), "http://b/x");
        assert_eq!(moved("[::2]", "http://[::1]:80/x"), "http://[::2]/x");
        assert_eq!(moved("[::2]", "http://[::1]:81/x"), "http://[::2]:81/x");
    }

    #[test]
    fn what_is_more_than_a_server_is_refused() {
        for text in ["", "a/b", "https://a", "a:b", "a?x", "u@a"] {
            assert_eq!(text.parse::<Place>(), Err(PlaceError), "{text}");
        }
    }

    #[test]
    fn each_further_server_is_a_pathway_of_its_own() {
        let master = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=400000\nlow.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=900000\nhigh.m3u8\n";
        let manifest: Url = "http://one:80/film/master.m3u8".parse().unwrap();
        let mut presentation = Presentation::parse(&manifest, master.as_bytes()).unwrap();
        add(&mut presentation, &manifest, &["two".parse().unwrap(), "three:81".parse().unwrap()]);
        let ids: Vec<_> = presentation.pathways.iter().map(|pathway| pathway.id.as_str()).collect();
        assert_eq!(ids, ["one", "two", "three:81"]);
        add(&mut presentation, &manifest, &["one".parse().unwrap(), "one:80".parse().unwrap()]);
        assert_eq!(presentation.pathways.len(), 3, "its own server is no other one");
        let low = &presentation.tracks[0].renditions[0];
        let urls: Vec<_> = low
            .sources
            .iter()
            .map(|source| match source {
                Source::Document(reference) => reference.url.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            urls,
            [
                "http://one/film/low.m3u8",
                "http://two/film/low.m3u8",
                "http://three:81/film/low.m3u8"
            ]
        );
    }
}
