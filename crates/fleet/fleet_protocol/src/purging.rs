//! Purges of caching edges that an operator orders for the whole fleet, and nodes' receipts for them.
//!
//! Orders are numbered from 1 in the store. A node reports the last number that its edge is done with, and gets the orders after it. A gateway
//! keeps only the latest orders: a node that has missed an older one purges everything instead.

use serde::{Deserialize, Serialize};

use crate::{Name, OutOfBounds};

/// Most bytes of one URL. The edge takes 24 KiB, and each byte may need three there, because it is escaped.
const URL_BYTES_MAX: usize = 8 << 10;

/// Most bytes of an order's URLs, prefix or tags together: what an edge takes at once.
const BYTES_MAX: usize = 24 << 10;

/// Most URLs of one order. An edge purges one after the other, each within milliseconds.
const URLS_MAX: usize = 100;

/// Most tags of one order: as many as an edge takes at once.
const TAGS_MAX: usize = 256;

/// Most orders in an answer to a node. It asks again when it is done with them.
pub const ORDERS_PER_ANSWER_MAX: usize = 20;

/// Most receipts in a report: the others come with the next one.
pub const EDGE_RECEIPTS_MAX: usize = 50;

/// Most bytes of a text that a node sends: why its edge refuses, or can't be reached.
pub const EDGE_TEXT_BYTES_MAX: usize = 500;

/// What an operator has every edge purge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetPurge {
    /// Which responses.
    pub target: PurgeTarget,
    /// Edges keep them, but revalidate them before the next use.
    #[serde(default)]
    pub is_soft: bool,
}

/// The responses of a purge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PurgeTarget {
    /// Those at these URLs or paths, as an operator writes them.
    Urls(Vec<String>),
    /// Those whose URL begins like this.
    Prefix(String),
    /// Those with at least one of these surrogate keys.
    Tags(Vec<String>),
}

/// A purge and its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeOrder {
    /// Rises by one with each order of the fleet.
    pub number: u64,
    /// What to purge.
    pub purge: FleetPurge,
}

/// A node's report on its edge, to a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeReport {
    /// The version of this document: 1.
    pub version: u32,
    /// The node.
    pub node: Name,
    /// Its edge; `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge: Option<EdgeProgress>,
}

/// How far a node's edge is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeProgress {
    /// The fleet's epoch that `done` is of; 0 if it is not known yet.
    pub epoch: u64,
    /// The edge is done with all orders up to this number.
    pub done: u64,
    /// Receipts that the gateway lacks, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<EdgeReceipt>,
    /// Why the next order is not done yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// How a node's edge has carried out an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeReceipt {
    /// The order.
    pub number: u64,
    /// The films that it found.
    pub films: u64,
    /// The other responses that it found.
    pub responses: u64,
    /// The edge purged everything, because the node had missed orders that gateways no longer keep.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_everything: bool,
    /// Why the edge refused all or a part of the order for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A gateway's answer to a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeOrders {
    /// The fleet's epoch, which rises when a backup is restored.
    pub epoch: u64,
    /// The number of the latest order; 0 if there was none.
    pub last: u64,
    /// Orders up to this number are no longer kept.
    pub dropped: u64,
    /// The orders after the one that the node is done with, in sequence. There may be more.
    #[serde(default)]
    pub orders: Vec<PurgeOrder>,
    /// The highest number of the node's receipts that this gateway has.
    #[serde(default)]
    pub known: u64,
}

impl FleetPurge {
    /// Everything that an edge has stored.
    pub fn everything() -> Self {
        Self { target: PurgeTarget::Prefix("/".to_owned()), is_soft: false }
    }

    /// Its kind: `url`, `prefix` or `tag`.
    pub fn kind(&self) -> &'static str {
        match self.target {
            PurgeTarget::Urls(_) => "url",
            PurgeTarget::Prefix(_) => "prefix",
            PurgeTarget::Tags(_) => "tag",
        }
    }

    /// The URLs, the prefix or the tags.
    pub fn parts(&self) -> &[String] {
        match &self.target {
            PurgeTarget::Urls(parts) | PurgeTarget::Tags(parts) => parts,
            PurgeTarget::Prefix(prefix) => std::slice::from_ref(prefix),
        }
    }

    /// Bytes of its URLs, its prefix or its tags.
    pub fn bytes(&self) -> usize {
        self.parts().iter().map(String::len).sum()
    }

    /// Checks that an edge can carry it out, as far as that doesn't depend on the edge's own rules.
    ///
    /// # Errors
    /// The mistake, for the operator.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        if self.parts().is_empty() || self.parts().iter().any(String::is_empty) {
            return Err(OutOfBounds("name at least one URL, a prefix, or a tag"));
        }
        if self.bytes() > BYTES_MAX {
            return Err(OutOfBounds("the URLs or tags of one purge have at most 24 KiB together"));
        }
        if self.parts().iter().any(|part| part.chars().any(char::is_control)) {
            return Err(OutOfBounds("a URL or a tag has no control characters"));
        }
        match &self.target {
            PurgeTarget::Urls(urls) if urls.len() > URLS_MAX => {
                Err(OutOfBounds("name at most 100 URLs, or purge a prefix or a tag"))
            }
            PurgeTarget::Urls(urls) => urls.iter().try_for_each(|url| check_url(url)),
            PurgeTarget::Prefix(prefix) => check_url(prefix),
            PurgeTarget::Tags(tags) if tags.len() > TAGS_MAX => {
                Err(OutOfBounds("name at most 256 tags"))
            }
            PurgeTarget::Tags(_) => Ok(()),
        }
    }
}

/// Checks a URL, or a path that begins with a slash, as an edge reads it: scheme and host don't matter, and the path is percent-encoded.
fn check_url(url: &str) -> Result<(), OutOfBounds> {
    if url.len() > URL_BYTES_MAX {
        return Err(OutOfBounds("a URL has at most 8 KiB"));
    }
    let target = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => url,
    };
    let path = target.split('?').next().unwrap_or_default();
    if !path.starts_with('/') || !is_encoded(path.as_bytes()) {
        return Err(OutOfBounds(
            "write a URL such as https://edge.example/films/a.mp4, or its path, with bytes encoded correctly",
        ));
    }
    Ok(())
}

/// Whether each percent sign of a path is followed by two hexadecimal digits, which are not those of a zero byte.
fn is_encoded(path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'%');
    // Nothing is encoded before the first one.
    parts.next();
    parts.all(|part| {
        let digits = part.get(..2).unwrap_or_default();
        digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit) && digits != b"00"
    })
}

impl EdgeReport {
    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        if self.version != 1 {
            return Err(OutOfBounds(
                "version is not 1: gateway and node are of different releases",
            ));
        }
        let Some(edge) = &self.edge else { return Ok(()) };
        if edge.receipts.len() > EDGE_RECEIPTS_MAX {
            return Err(OutOfBounds("there are more than 50 receipts of an edge"));
        }
        let texts = edge.receipts.iter().filter_map(|receipt| receipt.refused.as_ref());
        if texts.chain(&edge.trouble).any(|text| text.len() > EDGE_TEXT_BYTES_MAX) {
            return Err(OutOfBounds("a text about an edge is longer than 500 bytes"));
        }
        Ok(())
    }
}

impl PurgeOrders {
    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        if self.orders.len() > ORDERS_PER_ANSWER_MAX {
            return Err(OutOfBounds("there are more than 20 orders"));
        }
        if !self.orders.is_sorted_by(|one, next| one.number < next.number) {
            return Err(OutOfBounds("orders are not sorted by number"));
        }
        self.orders.iter().try_for_each(|order| order.purge.check())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(urls: &[&str]) -> FleetPurge {
        let urls = urls.iter().map(|url| (*url).to_owned()).collect();
        FleetPurge { target: PurgeTarget::Urls(urls), is_soft: false }
    }

    fn tags(count: usize, tag: &str) -> FleetPurge {
        FleetPurge { target: PurgeTarget::Tags(vec![tag.to_owned(); count]), is_soft: true }
    }

    #[test]
    fn an_order_names_something_that_an_edge_can_purge_and_is_bounded() {
        let prefix = |text: &str| FleetPurge {
            target: PurgeTarget::Prefix(text.to_owned()),
            is_soft: false,
        };
        for good in [
            urls(&["https://edge.example/films/a%20b.mp4?x=%zz", "/é"]),
            urls(&["https://edge.example"]),
            prefix("/films/"),
            FleetPurge::everything(),
            tags(TAGS_MAX, "film-7"),
        ] {
            assert_eq!(good.check(), Ok(()), "{good:?}");
        }
        for bad in [
            urls(&[]),
            urls(&[""]),
            urls(&["films/a"]),
            urls(&["/a", "/%zz"]),
            urls(&["/%0"]),
            urls(&["/%00"]),
            urls(&["/a\nb"]),
            urls(&["/a"; URLS_MAX + 1]),
            urls(&[&format!("/{}", "a".repeat(URL_BYTES_MAX))]),
            prefix("films"),
            tags(0, ""),
            tags(TAGS_MAX + 1, "a"),
            tags(4, &"x".repeat(URL_BYTES_MAX)),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn reports_and_answers_are_bounded_and_read_without_what_is_left_out() {
        let node: Name = "n1".parse().expect("a name");
        let of = |edge| EdgeReport { version: 1, node: node.clone(), edge };
        let progress = |receipts: usize, text: usize| EdgeProgress {
            receipts: vec![EdgeReceipt::default(); receipts],
            trouble: Some("x".repeat(text)),
            ..EdgeProgress::default()
        };
        for good in [None, Some(progress(EDGE_RECEIPTS_MAX, EDGE_TEXT_BYTES_MAX))] {
            let report = of(good);
            assert_eq!(report.check(), Ok(()));
            let sent = serde_json::to_string(&report).expect("JSON");
            assert_eq!(serde_json::from_str::<EdgeReport>(&sent).expect("the same"), report);
        }
        for bad in [progress(EDGE_RECEIPTS_MAX + 1, 0), progress(0, EDGE_TEXT_BYTES_MAX + 1)] {
            assert!(of(Some(bad)).check().is_err());
        }
        assert!(EdgeReport { version: 2, ..of(None) }.check().is_err());
        let later = r#"{"epoch":1,"last":2,"dropped":0,"of_a_later_release":[]}"#;
        let read: PurgeOrders = serde_json::from_str(later).expect("the rest is ignored");
        assert_eq!((read.last, read.check()), (2, Ok(())));
        let order = |number| PurgeOrder { number, purge: urls(&["/a"]) };
        let orders = |numbers: &[u64]| PurgeOrders {
            orders: numbers.iter().map(|number| order(*number)).collect(),
            ..PurgeOrders::default()
        };
        assert!(orders(&[1, 2]).check().is_ok() && orders(&[2, 1]).check().is_err());
    }
}
