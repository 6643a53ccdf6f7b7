//! Whether a response may be stored, and which of its fields (RFC 9111 section 3).

use super::freshness::is_heuristic;
use super::{Directives, Fields, RequestDirectives};

/// Fields that concern one connection only (RFC 9110 section 7.6.1), or a proxy's own authentication (RFC 9111 section 3.1). In lower case.
const OF_CONNECTION: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that no option of `Connection` removes, because caches decide by them (RFC 9110 section 7.6.1). In lower case.
const OF_CACHES: &[&str] = &[
    "age",
    "cache-control",
    "cdn-cache-control",
    "date",
    "expires",
    "pragma",
    "set-cookie",
    "surrogate-control",
    "vary",
];

/// Media types of streams for one viewer: server-sent events (HTML), and the pictures of a camera. They last for as long as that viewer stays, and a
/// later one would get what is over. Few of them say `no-store`. In lower case.
const STREAM_TYPES: [&str; 2] = ["text/event-stream", "multipart/x-mixed-replace"];

/// Whether a field of a response is for the viewer who made the request: a cookie, or the end of an authentication (RFC 7615). No client has read
/// `Set-Cookie2` since RFC 6265, so that is a field like any other.
pub fn is_for_one_viewer(name: &str) -> bool {
    ["set-cookie", "authentication-info"].iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// Whether a field ends at this hop.
pub fn is_of_connection(name: &str) -> bool {
    OF_CONNECTION.iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// Fields by which programs know a viewer, as others do by `Authorization`: Common Access Tokens (CTA-5007-B), which the origin may check, the tokens
/// of Emby and Jellyfin, GitLab, PeerTube and Plex, and two names that many APIs use. Not `X-Api-Key`, which is an application's, and the same for
/// all its viewers. In lower case.
const CREDENTIALS: [&str; 10] = [
    "authorization",
    "cta-common-access-token",
    "private-token",
    "x-access-token",
    "x-auth-token",
    "x-emby-authorization",
    "x-emby-token",
    "x-mediabrowser-token",
    "x-peertube-video-password",
    "x-plex-token",
];

/// Whether a field of a request proves to the origin who the viewer is. An underscore counts as a hyphen: applications behind CGI or WSGI can't tell
/// one from the other, and take either.
pub fn is_credential(name: &str) -> bool {
    let read_as = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    CREDENTIALS.iter().any(|one| name.bytes().map(read_as).eq(one.bytes()))
}

/// Status codes that this cache understands, for `must-understand` (RFC 9111 section 5.2.2.3).
fn is_understood(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300..=303 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 451)
        || matches!(status, 500..=505)
}

/// A message's fields without those that end at this hop.
pub fn end_to_end(mut fields: Fields) -> Fields {
    let listed: Vec<String> = fields.elements("connection").map(str::to_ascii_lowercase).collect();
    fields.remove(|name| {
        let name = name.to_ascii_lowercase();
        let is_listed = listed.contains(&name) && !OF_CACHES.contains(&name.as_str());
        is_listed || OF_CONNECTION.contains(&name.as_str())
    });
    fields
}

/// Whether the response to a GET may be stored in a cache that all viewers share.
///
/// # Errors
/// Why not.
pub fn may_store(request: &Fields, status: u16, response: &Fields) -> Result<(), &'static str> {
    let said = Directives::for_cdn(response);
    if RequestDirectives::of(request).no_store {
        return Err("the request forbids it");
    }
    // A final status; 206 and 304 are no complete responses.
    if !(200..=999).contains(&status) || matches!(status, 206 | 304) {
        return Err("it is not complete");
    }
    if said.has("must-understand") && !is_understood(status) {
        return Err("its status is not understood (must-understand)");
    }
    // `must-understand` overrides `no-store` for a status that is understood.
    if said.has("no-store") && !said.has("must-understand") {
        return Err("Cache-Control: no-store");
    }
    if said.has_without_names("private") {
        return Err("Cache-Control: private");
    }
    if response.elements("vary").any(|name| name == "*") {
        return Err("Vary: *");
    }
    if is_stream(response) {
        return Err("it is a stream of events or pictures");
    }
    let is_explicit = ["public", "must-revalidate", "s-maxage"].iter().any(|one| said.has(one));
    if request.has_credentials() && !is_explicit {
        return Err("the request had Authorization, or a token in another header");
    }
    // As for a response that sets one, below. Requests have cookies only if the operator lets them travel.
    if request.has("cookie") && !said.has("public") && !said.has("s-maxage") {
        return Err("the request had a cookie");
    }
    let is_allowed = said.has("public")
        || said.has("max-age")
        || said.has("s-maxage")
        || response.has("expires")
        || is_heuristic(status);
    if !is_allowed {
        return Err("its status is not cacheable by default");
    }
    // RFC 9111 section 7.3 leaves the choice. A response with a cookie is one viewer's, unless the origin says that shared caches may keep it: then
    // it is stored without the cookie. A lifetime alone says only that the viewer's own cache may.
    if response.has("set-cookie") && !said.has("public") && !said.has("s-maxage") {
        return Err("it sets a cookie");
    }
    Ok(())
}

fn is_stream(response: &Fields) -> bool {
    let media_type = response.first("content-type").unwrap_or_default().split(';').next();
    let media_type = media_type.unwrap_or_default().trim();
    STREAM_TYPES.iter().any(|one| media_type.eq_ignore_ascii_case(one))
}

/// The fields to store. Those that `no-cache="..."` or `private="..."` name are left out: each use would need a revalidation. So are those of one
/// viewer: frameworks add a session's cookie to what they declare `public`, and all viewers would share that session.
pub fn stored_fields(response: &Fields) -> Fields {
    let said = Directives::for_cdn(response);
    let named: Vec<String> = ["no-cache", "private"]
        .iter()
        .flat_map(|name| said.arguments(name))
        .flat_map(|list| list.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let mut kept = end_to_end(response.clone());
    kept.remove(|name| named.contains(&name.to_ascii_lowercase()) || is_for_one_viewer(name));
    kept
}
