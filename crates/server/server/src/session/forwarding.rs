//! What of a viewer's request travels to the origin, and what of its query.

use crate::edge::QUERY;
use crate::worker::Worker;
use edge::contract::ForwardedRequest;
use edge::http_cache::{end_to_end, latin1_of};
use fullbore_http::Request;

/// Fields of which the helper makes its own, or which are for this server. In lower case.
const OWN: [&str; 5] = ["host", "content-length", "expect", "fullbore-copy", "accept-encoding"];

/// Parameters of a query that are for this server: a token, and a player's report (CTA-5004). Each viewer has others, so they would make one
/// film many.
const OF_SERVER: [&[u8]; 2] = [b"token", b"CMCD"];

/// Whether a request tells the origin who its viewer is: by a password, or by a cookie if cookies travel.
pub(super) fn is_personal(worker: &Worker, request: &Request) -> bool {
    let sends_cookies = worker.libraries.sends_cookies;
    let mut is_personal = false;
    request.each_line(|name, _| {
        is_personal |= name.eq_ignore_ascii_case("authorization")
            || sends_cookies && name.eq_ignore_ascii_case("cookie");
    });
    is_personal
}

/// The key of a response: the decoded path, and the query without what is for this server.
pub(super) fn key_of(request: &Request, path: &[u8]) -> Vec<u8> {
    let mut key = path.to_vec();
    let query = request.query().unwrap_or_default();
    let is_own = |parameter: &&[u8]| {
        let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
        OF_SERVER.iter().any(|own| name == *own)
    };
    let kept = query.split(|byte| *byte == b'&').filter(|parameter| !is_own(parameter));
    let kept = kept.filter(|parameter| !parameter.is_empty()).collect::<Vec<_>>().join(&b'&');
    if !kept.is_empty() {
        key.push(QUERY);
        key.extend_from_slice(&kept);
    }
    key
}

/// The request as it is sent on.
pub(super) fn forwarded_request(
    worker: &Worker,
    request: &Request,
    body: &[u8],
) -> ForwardedRequest {
    let sends_cookies = worker.libraries.sends_cookies;
    let is_read = request.method.reads();
    let mut sent = ForwardedRequest { method: request.method_token().into(), ..Default::default() };
    request.each_line(|name, value| {
        let lower = name.to_ascii_lowercase();
        let is_left_out = OWN.contains(&lower.as_str()) && (is_read || lower != "accept-encoding")
            || lower.starts_with("cmcd-")
            || lower == "cookie" && !sends_cookies;
        if !is_left_out {
            sent.fields.push(name, latin1_of(value));
        }
    });
    sent.fields = end_to_end(sent.fields);
    sent.with_body(body)
}
