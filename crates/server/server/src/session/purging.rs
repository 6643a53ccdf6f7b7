//! Answers `PURGE` requests at a caching edge, from the addresses in `edge.purge_from`.
//!
//! There is no standard for them. These are the forms that Varnish, Fastly and nginx made common: the URL of the request is purged; all that begins
//! like it, if it ends with `*`; or everything with the tags in a header.

use super::answer::refused_because;
use crate::edge::PurgeFailed;
use crate::worker::Worker;
use edge::http_cache::tags_in;
use edge::purge::{Purge, PurgeScope};
use fullbore_http::{Refusal, Reject, Request, Response};
use serde_json::json;
use std::net::IpAddr;

/// Headers with the tags of a purge, in addition to those in which responses have them. Those of vmod_xkey's manual.
const XKEY_PURGES: [(&str, bool); 2] = [("xkey-purge", false), ("xkey-softpurge", true)];

/// Headers that make a purge soft: ours, and Fastly's.
const SOFT: [&str; 2] = ["soft-purge", "fastly-soft-purge"];

/// Carries out a purge, and answers once it is done.
pub(super) async fn answer(worker: &Worker, request: &Request, client: IpAddr) -> Response {
    let Some(edge) = worker.libraries.edge.as_ref().filter(|_| worker.libraries.may_purge(client))
    else {
        let why = "This address may not purge: only those in edge.purge_from may.";
        return refused_because(worker, ("edge_purge_denied", Refusal::Forbidden), why, request);
    };
    let asked = purge_of(request);
    let is_soft = asked.is_soft;
    match edge.purge(asked, &client.to_string(), &worker.libraries.key_rules).await {
        Ok(purged) => {
            let done = json!({
                "version": 1,
                "kind": "purge",
                "soft": is_soft,
                "films": purged.films,
                "responses": purged.responses,
            });
            worker.with_context(|context| {
                fullbore_http::report(request, "application/json", format!("{done}\n"), context)
            })
        }
        Err(why) => {
            let (reason, refusal) = match why {
                PurgeFailed::Misused(_) => ("edge_purge_misused", Reject::BadTarget.into()),
                PurgeFailed::TooMany => ("edge_purges_full", Refusal::Unavailable),
                PurgeFailed::NoHelper(_) => ("edge_purge_failed", Refusal::BadGateway),
                PurgeFailed::TimedOut => ("edge_purge_failed", Refusal::GatewayTimeout),
            };
            refused_because(worker, (reason, refusal), &why.to_string(), request)
        }
    }
}

fn purge_of(request: &Request) -> Purge {
    let (mut tags, mut is_soft) = (Vec::new(), false);
    request.each_line(|name, value| {
        let Ok(value) = std::str::from_utf8(value) else { return };
        tags.extend(tags_in(name, value).into_iter().map(str::to_owned));
        for (header, makes_soft) in XKEY_PURGES {
            if name.eq_ignore_ascii_case(header) {
                tags.extend(value.split_whitespace().map(str::to_owned));
                is_soft |= makes_soft;
            }
        }
        is_soft |= SOFT.iter().any(|header| name.eq_ignore_ascii_case(header)) && value != "0";
    });
    let target = request.path_and_query().unwrap_or_default();
    let scope = match target.strip_suffix('*') {
        _ if !tags.is_empty() => PurgeScope::Tags(tags),
        Some(prefix) => PurgeScope::Prefix(prefix.to_owned()),
        None => PurgeScope::Url(target.to_owned()),
    };
    Purge { scope, is_soft }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_http::{Parse, RequestLimits, parse};

    fn purge(target: &str, lines: &str) -> Purge {
        let limits = RequestLimits { are_other_methods_taken: true, ..RequestLimits::default() };
        let head = format!("PURGE {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        match parse(head.as_bytes(), &limits) {
            Ok(Parse::Complete { request, .. }) => purge_of(&request),
            other => panic!("{head:?} gave {other:?}"),
        }
    }

    fn tags(names: &[&str], is_soft: bool) -> Purge {
        Purge { scope: PurgeScope::Tags(names.iter().map(|one| (*one).into()).collect()), is_soft }
    }

    #[test]
    fn the_common_forms_of_purge_requests_are_understood() {
        let of = |scope, is_soft| Purge { scope, is_soft };
        let url = |url: &str| PurgeScope::Url(url.into());
        assert_eq!(purge("/a%20b?c", ""), of(url("/a%20b?c"), false));
        assert_eq!(purge("http://h/a", "Fastly-Soft-Purge: 1\r\n"), of(url("/a"), true));
        assert_eq!(purge("/a", "Soft-Purge: 0\r\n"), of(url("/a"), false));
        let prefix = PurgeScope::Prefix("/films/".into());
        assert_eq!(purge("/films/*", "Soft-Purge: 1\r\n"), of(prefix, true));
        assert_eq!(purge("/films/a%2A", ""), of(url("/films/a%2A"), false));
        assert_eq!(
            purge("/", "Surrogate-Key: a b\r\nCache-Tag: c, d\r\n"),
            tags(&["a", "b", "c", "d"], false)
        );
        assert_eq!(purge("/", "xkey-purge: a b\r\n"), tags(&["a", "b"], false));
        assert_eq!(purge("/", "XKey-SoftPurge: a\r\n"), tags(&["a"], true));
    }
}
