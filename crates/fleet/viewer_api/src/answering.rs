//! The common part of all answers: the fleet, the viewer, the choice of nodes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::ConnectInfo;
use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use catalog::TitlePath;
use escape::unicode::{composed, decomposed};
use fleet_protocol::{Name, PublishedTitle, SnapshotNode};
use steering::{Decision, Fleet, Logged, Playing, Question, decide};

use crate::address::is_token;
use crate::manifest::Templates;
use crate::query::{Reported, parameter};
use crate::reply::Refusal;
use crate::titles::TitleList;
use crate::{Options, Source};

/// Longest request target. It fits the longest path that a file system allows, with a third of all bytes percent-encoded.
const TARGET_BYTES_MAX: usize = 8 << 10;

/// Longest host with a port: a DNS name has up to 253 characters.
const HOST_BYTES_MAX: usize = 260;

/// State shared by the handlers.
pub(crate) struct Answers {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) options: Options,
    pub(crate) templates: Templates,
    pub(crate) list: TitleList,
}

/// A title in a fleet, and the nodes for one viewer.
pub(crate) struct Chosen {
    pub(crate) fleet: Arc<Fleet>,
    /// The title's index in the snapshot.
    pub(crate) title: usize,
    pub(crate) viewer: u64,
    /// Not empty.
    pub(crate) decision: Decision,
    pub(crate) token: Option<String>,
}

impl Chosen {
    pub(crate) fn title(&self) -> &PublishedTitle {
        &self.fleet.snapshot().titles[self.title]
    }

    /// The nodes, best first.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &SnapshotNode> {
        let nodes = &self.fleet.snapshot().nodes;
        self.decision.ranked.iter().map(|ranked| &nodes[ranked.node])
    }
}

impl Answers {
    pub(crate) fn new(source: Arc<dyn Source>, options: Options) -> Self {
        Self { source, options, templates: Templates::default(), list: TitleList::default() }
    }

    pub(crate) fn fleet(&self) -> Result<Arc<Fleet>, Refusal> {
        self.source.fleet().ok_or(Refusal::NoFleet)
    }

    /// Chooses nodes for a new viewer. Everything in the answer has the title's path as it was published, however `title` spells it.
    pub(crate) fn choose(&self, title: &str, parts: &Parts) -> Result<Chosen, Refusal> {
        let query = parts.uri.query().unwrap_or("");
        let given = parameter(query, "token");
        if given.as_deref().is_some_and(|token| !is_token(token)) {
            return Err(Refusal::BadToken);
        }
        let fleet = self.fleet()?;
        let unknown = || Refusal::NoSuchTitle(title.to_owned());
        let place = published(&fleet, title).ok_or_else(unknown)?;
        let title = &*fleet.snapshot().titles[place].path.clone();
        let viewer = fastrand::u64(..);
        let decision = self.decide(&fleet, title, viewer, peer(parts), None);
        if decision.ranked.is_empty() {
            return Err(Refusal::NoNode(title.to_owned()));
        }
        let until = now_unix_seconds().saturating_add(self.options.token_seconds);
        let token = given.or_else(|| self.source.sign(title, until));
        let token = token.filter(|token| is_token(token));
        Ok(Chosen { fleet, title: place, viewer, decision, token })
    }

    /// Makes a decision and logs it.
    pub(crate) fn decide(
        &self,
        fleet: &Fleet,
        title: &str,
        viewer: u64,
        address: IpAddr,
        playing: Option<&(Name, Reported)>,
    ) -> Decision {
        let playing = playing.map(|(pathway, reported)| Playing {
            pathway: pathway.as_str(),
            bits_per_second: reported.bits_per_second,
        });
        let region = self.options.region.as_ref().map(Name::as_str);
        let question = Question { address, title, viewer, region, playing };
        let decision = decide(fleet, &question);
        self.source.log(Logged::new(fleet, &question, &decision, now_unix_seconds()));
        decision
    }

    /// The scheme, host and port under which the viewer reached this server; empty if the request has no host, so that addresses are relative.
    pub(crate) fn own_address(&self, parts: &Parts) -> String {
        if let Some(address) = &self.options.address {
            return address.clone();
        }
        address_of(self.options.scheme, parts)
    }
}

fn address_of(scheme: &str, parts: &Parts) -> String {
    // HTTP/2 has it in the request's URI (RFC 9113, section 8.3.1).
    let of_target = parts.uri.authority().map(Authority::as_str);
    let host = of_target.or_else(|| parts.headers.get(HOST).and_then(|host| host.to_str().ok()));
    // DNS host names have no underscores (RFC 1123 section 2.1), but resolvers and container networks accept such names.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let is_host =
        |host: &&str| (1..=HOST_BYTES_MAX).contains(&host.len()) && host.bytes().all(is_plain);
    host.filter(is_host).map_or_else(String::new, |host| format!("{scheme}://{host}"))
}

/// Refuses addresses that are longer than any title's.
pub(crate) fn check_length(parts: &Parts) -> Result<(), Refusal> {
    let bytes = parts.uri.path().len() + parts.uri.query().map_or(0, str::len);
    if bytes > TARGET_BYTES_MAX { Err(Refusal::TooLong) } else { Ok(()) }
}

/// The title's path, if the text is a valid one. Several slashes are one, as for the nodes' servers.
pub(crate) fn title_path(text: Option<String>) -> Result<TitlePath, Refusal> {
    let text = text.ok_or_else(|| Refusal::NoSuchTitle("%".to_owned()))?;
    let names: Vec<_> = text.split('/').filter(|name| !name.is_empty()).collect();
    TitlePath::new(&names.join("/")).map_err(|_| Refusal::NoSuchTitle(text))
}

/// The title's index in the snapshot. It may have been published under a name in the other of Unicode's forms.
fn published(fleet: &Fleet, path: &str) -> Option<usize> {
    let in_form = |form: &[u8]| fleet.title(std::str::from_utf8(form).ok()?);
    fleet.title(path).or_else(|| {
        if path.is_ascii() {
            return None;
        }
        in_form(&composed(path.as_bytes())).or_else(|| in_form(&decomposed(path.as_bytes())))
    })
}

/// The viewer's address. The fallback is one that no site announces.
pub(crate) fn peer(parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    // A listener for both IP versions sees 192.0.2.1 as `::ffff:192.0.2.1`.
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip().to_canonical())
}

pub(crate) fn now_unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn address(scheme: &str, target: &str, host: Option<&str>) -> String {
        let mut request = Request::get(target);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        address_of(scheme, &request.body(()).expect("a request").into_parts().0)
    }

    #[test]
    fn viewers_come_back_to_where_they_came_to() {
        assert_eq!(address("http", "/", Some("tv.example:8700")), "http://tv.example:8700");
        assert_eq!(address("http", "/", Some("gw_1.example")), "http://gw_1.example");
        assert_eq!(address("https", "/", Some("[2001:db8::1]:1")), "https://[2001:db8::1]:1");
        assert_eq!(address("https", "https://tv.example/a", None), "https://tv.example", "HTTP/2");
        for bad in [None, Some(""), Some("a b"), Some("a/b"), Some("a\"b"), Some("a@b")] {
            assert_eq!(address("https", "/", bad), "", "{bad:?}");
        }
        assert_eq!(address("https", "https://a@tv.example/", None), "");
    }
}
