//! The Content-Security-Policy of pages (level 3): what may run and load there.

use std::collections::BTreeSet;

/// For pages that load only from their own server, and run no inline code. `blob:` is the browser's name for
/// a film that a script feeds to it; hls.js makes an empty track of captions as `data:`.
pub const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; \
    media-src 'self' blob: data:; connect-src 'self'; worker-src 'none'; object-src 'none'; base-uri 'self'; \
    form-action 'none'; frame-ancestors 'none'";

/// [`POLICY`] for a player that `sites` may show in a frame: host sources with a scheme (section 2.3.1).
pub fn policy_with_embedders(sites: &[String]) -> String {
    if sites.is_empty() {
        return POLICY.to_owned();
    }
    POLICY.replace("frame-ancestors 'none'", &format!("frame-ancestors {}", sites.join(" ")))
}

/// The directives by which a player gets films, captions and pictures.
const OF_FILMS: [&str; 3] = ["img-src 'self'", "media-src 'self'", "connect-src 'self'"];

/// Bytes of a header field that every server and proxy accepts: nginx and Apache allow eight KiB for a line.
const BYTES_MAX: usize = 7 << 10;

/// A policy for the player of a fleet: films come from the nodes, and from no other host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentPolicy(String);

/// A source that cannot be in a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSource {
    /// Not `https://HOST:PORT`, in which HOST may begin with `*.`.
    #[error("{0:?} names no hosts of films: write one such as https://*.cdn.example:8443")]
    NoSource(String),
    /// The policy would be longer than a header field may be.
    #[error(
        "the hosts of films do not fit into a header field: give nodes names in one domain, and name that as *.DOMAIN"
    )]
    TooMany,
}

impl ContentPolicy {
    /// [`POLICY`], plus films from `sources`: `https://HOST:PORT`, or `https://*.DOMAIN:PORT` for every host in a domain. The scheme
    /// may be `http`, and the port may be left out or be `*`.
    ///
    /// # Errors
    /// If a source contains anything else, such as a space or a semicolon, which would add a directive; or if there are too many.
    pub fn new<S: AsRef<str>>(sources: impl IntoIterator<Item = S>) -> Result<Self, BadSource> {
        let mut hosts = String::new();
        for source in sources {
            let source = source.as_ref();
            if !is_source(source) {
                return Err(BadSource::NoSource(source.to_owned()));
            }
            hosts.push(' ');
            hosts.push_str(source);
        }
        let mut policy = POLICY.to_owned();
        for directive in OF_FILMS {
            policy = policy.replace(directive, &format!("{directive}{hosts}"));
        }
        if policy.len() > BYTES_MAX { Err(BadSource::TooMany) } else { Ok(Self(policy)) }
    }

    /// [`POLICY`], plus films from nodes at these hosts. If there are too many to name each, their domains are named: `*.cdn.example` for
    /// `node-1.cdn.example`. A host that a policy cannot name, an IPv6 address, is left out.
    ///
    /// # Errors
    /// If there are too many domains as well.
    pub fn for_nodes<'h>(
        scheme: &str,
        port: u16,
        hosts: impl Iterator<Item = &'h str> + Clone,
    ) -> Result<Self, BadSource> {
        let named = |hosts: BTreeSet<String>| {
            let sources = hosts.into_iter().map(|host| format!("{scheme}://{host}:{port}"));
            Self::new(sources.filter(|source| is_source(source)))
        };
        let each = hosts.clone().map(str::to_owned).collect();
        named(each).or_else(|_| named(hosts.map(domain_of).collect()))
    }

    /// The value of the header field.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// All hosts in the domain of `host`; the host itself if it is an address, or has no domain that could be a fleet's own.
fn domain_of(host: &str) -> String {
    let is_address = host.split('.').next_back().is_some_and(|last| last.parse::<u8>().is_ok());
    match host.split_once('.') {
        Some((_, domain)) if domain.contains('.') && !is_address => format!("*.{domain}"),
        _ => host.to_owned(),
    }
}

/// Whether `text` is a host source of CSP (section 2.3.1) with a scheme and without a path.
fn is_source(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (rest, None),
    };
    let is_port = |port: &str| port == "*" || port.parse::<u16>().is_ok_and(|port| port > 0);
    matches!(scheme, "http" | "https") && is_host(host) && port.is_none_or(is_port)
}

fn is_host(host: &str) -> bool {
    // CSP does not support IPv6 addresses: browsers ignore them, and the film would not play.
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn films_come_from_the_nodes_and_scripts_do_not() {
        let policy =
            ContentPolicy::new(["https://*.cdn.example:8443", "http://127.0.1.1:8443"]).unwrap();
        let of = |name: &str| {
            let mut directives = policy.as_str().split("; ");
            directives.find_map(|one| one.strip_prefix(name)?.strip_prefix(' ')).unwrap().to_owned()
        };
        let nodes = "'self' https://*.cdn.example:8443 http://127.0.1.1:8443";
        assert_eq!(of("connect-src"), nodes);
        assert_eq!(of("img-src"), nodes);
        assert_eq!(of("media-src"), format!("{nodes} blob: data:"));
        assert_eq!((of("script-src"), of("default-src")), ("'self'".into(), "'self'".into()));
        assert_eq!(ContentPolicy::new::<&str>([]).unwrap().as_str(), POLICY);
    }

    #[test]
    fn embedders_may_frame_a_player_and_nothing_else_changes() {
        let sites = ["https://a.example", "https://*.b"].map(str::to_owned);
        let policy = policy_with_embedders(&sites);
        let (before, ancestors) = policy.split_once("frame-ancestors ").unwrap();
        assert_eq!(ancestors, "https://a.example https://*.b");
        assert!(POLICY.starts_with(before));
        assert_eq!(policy_with_embedders(&[]), POLICY);
    }

    #[test]
    fn a_few_nodes_are_named_and_many_are_named_by_their_domain() {
        let few = ContentPolicy::for_nodes(
            "https",
            8443,
            ["n1.cdn.example", "::1", "10.0.0.1"].into_iter(),
        );
        let few = few.unwrap();
        let nodes = "connect-src 'self' https://10.0.0.1:8443 https://n1.cdn.example:8443;";
        assert!(few.as_str().contains(nodes), "{few:?}");
        let hosts: Vec<_> = (0..10_000).map(|node| format!("n{node}.cdn.example")).collect();
        let many = ContentPolicy::for_nodes("http", 80, hosts.iter().map(String::as_str)).unwrap();
        assert!(many.as_str().contains("connect-src 'self' http://*.cdn.example:80;"), "{many:?}");
        let strangers: Vec<_> = (0..10_000).map(|node| format!("n.cdn-{node}.example")).collect();
        let strangers = ContentPolicy::for_nodes("http", 80, strangers.iter().map(String::as_str));
        assert_eq!(strangers, Err(BadSource::TooMany));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for good in ["https://a", "http://a.b:80", "https://*.a", "https://a:*"] {
            assert!(ContentPolicy::new([good]).is_ok(), "{good}");
        }
        for bad in [
            "",
            "*",
            "https:",
            "a.example",
            "https://",
            "https://*",
            "https://a.*",
            "https://a/b",
            "https://a b",
            "https://a; script-src *",
            "https://a:0",
            "https://a:x",
            "https://[::1]:80",
            "data://a",
            "https://a..b",
            "'unsafe-inline'",
        ] {
            assert_eq!(
                ContentPolicy::new([bad]),
                Err(BadSource::NoSource(bad.to_owned())),
                "{bad}"
            );
        }
        let many = (0..1000).map(|node| format!("https://node-{node}.cdn.example"));
        assert_eq!(ContentPolicy::new(many), Err(BadSource::TooMany));
    }
}
