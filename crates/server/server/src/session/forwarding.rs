//! What of a viewer's request travels to the origin.

use crate::token_gate::CheckedTokens;
use crate::worker::Worker;
use edge::contract::{ForwardedRequest, PATH_BYTES_MAX, REQUEST_BYTES_MAX};
use edge::http_cache::{end_to_end, is_credential, is_of_proxies, latin1_of, send_as_selected};
use edge::rules::{PathSettings, is_same_header};
use fullbore_http::{Cors, Reject, Request};
use std::borrow::Cow;
use std::net::IpAddr;
use token::CAT_HEADER;

/// Fields of which the helper makes its own, or which are for this server. In lower case.
const OWN: [&str; 5] = ["host", "content-length", "expect", "fullbore-copy", "accept-encoding"];

/// Whether a field has one of these names.
fn is_named(names: &[String], name: &str) -> bool {
    names.iter().any(|one| is_same_header(one, name))
}

/// The fields that tell an origin who a viewer is, as far as they travel.
#[derive(Clone, Copy)]
struct Identity {
    has_passwords: bool,
    has_cookies: bool,
}

impl Identity {
    /// A bucket gets nothing of a viewer, and other origins get what the operator wants for this path. A rule leaves passwords out so that viewers
    /// share what they read: a request that changes something keeps them.
    fn that_travels(has_bucket: bool, settings: &PathSettings, is_read: bool) -> Self {
        Self {
            has_passwords: !has_bucket && (settings.sends_passwords || !is_read),
            has_cookies: !has_bucket && settings.sends_cookies,
        }
    }

    fn of(worker: &Worker, settings: &PathSettings, request: &Request) -> Self {
        let has_bucket = worker.libraries.key_rules.has_bucket;
        Self::that_travels(has_bucket, settings, request.method.reads())
    }

    /// Whether a field is one of them.
    fn has(self, name: &str) -> bool {
        self.has_passwords && is_credential(name)
            || self.has_cookies && name.eq_ignore_ascii_case("cookie")
    }
}

/// Whether a request to a path with these settings tells the origin who its viewer is: by a password, or by a cookie.
pub(super) fn is_personal((worker, settings): (&Worker, &PathSettings), request: &Request) -> bool {
    let identity = Identity::of(worker, settings, request);
    let tokens = worker.libraries.key_rules.tokens;
    let mut is_personal = false;
    request.each_line(|name, value| {
        is_personal |= identity.has(name) && sent_on(tokens, name, value).is_some();
    });
    is_personal
}

/// Whether a request has a password or a cookie that travels, or would if the origin were no bucket. What its viewer may have, others may not.
pub(super) fn has_credentials(
    (worker, settings): (&Worker, &PathSettings),
    request: &Request,
) -> bool {
    let tokens = worker.libraries.key_rules.tokens;
    let mut has_some = false;
    request.each_line(|name, value| {
        let is_sent = settings.sends_passwords && is_credential(name)
            || settings.sends_cookies && name.eq_ignore_ascii_case("cookie");
        has_some |= is_sent && sent_on(tokens, name, value).is_some();
    });
    has_some
}

/// The value of a request's field without what ends here: Common Access Tokens that this server checks. `None` if nothing is left.
fn sent_on<'v>(tokens: CheckedTokens, name: &str, value: &'v [u8]) -> Option<Cow<'v, [u8]>> {
    if tokens != CheckedTokens::OwnAndCats {
        return Some(Cow::Borrowed(value));
    }
    if name.eq_ignore_ascii_case(CAT_HEADER) {
        return None;
    }
    if name.eq_ignore_ascii_case("cookie") {
        return Some(token::without_cat_cookie(value)).filter(|left| !left.is_empty());
    }
    Some(Cow::Borrowed(value))
}

/// Whether a request fits into one message to the helper. Its path may be three times as long once it is encoded, and the text of its fields twice
/// as long in JSON, with at most a byte for each of theirs around them. The edge adds fields of its own.
///
/// # Errors
/// What of it is too long.
pub(super) fn check_length(request: &Request, key: &[u8], body: &[u8]) -> Result<(), Reject> {
    let path_bytes = 3 * key.len();
    let own_bytes = 1 << 10;
    let fields_bytes =
        request.head_bytes().saturating_sub(request.target().len()) * 9 / 4 + own_bytes;
    let body_bytes = body.len().div_ceil(3) * 4;
    if path_bytes > PATH_BYTES_MAX {
        Err(Reject::UriTooLong)
    } else if path_bytes + fields_bytes + body_bytes > REQUEST_BYTES_MAX {
        Err(Reject::HeadTooLarge)
    } else {
        Ok(())
    }
}

/// The request of the viewer at `address`, to a path with these settings, as it is sent on.
pub(super) fn forwarded_request(
    (worker, settings): (&Worker, &PathSettings),
    (request, body): (&Request, &[u8]),
    address: IpAddr,
) -> ForwardedRequest {
    let sends_cookies = settings.sends_cookies;
    let tokens = worker.libraries.key_rules.tokens;
    let (is_read, identity) = (request.method.reads(), Identity::of(worker, settings, request));
    // The edge itself lets all pages read what it sends. Many origins vary their answers for browsers that ask, and then a film would be none.
    let answers_pages =
        is_read && !sends_cookies && worker.with_context(|context| context.cors == Cors::AnyOrigin);
    let mut sent = ForwardedRequest { method: request.method_token().into(), ..Default::default() };
    request.each_line(|name, value| {
        let lower = name.to_ascii_lowercase();
        let is_left_out = OWN.contains(&lower.as_str()) && (is_read || lower != "accept-encoding")
            || lower.starts_with("cmcd-")
            || lower == "origin" && answers_pages && !is_named(settings.headers_vary(), &lower)
            || is_read && settings.drops_header(&lower)
            || settings.misspells_vary(&lower)
            || is_of_proxies(&lower)
            || is_named(&worker.libraries.own_headers, &lower)
            || (is_credential(&lower) || lower == "cookie") && !identity.has(&lower);
        if is_left_out {
            return;
        }
        let Some(value) = sent_on(tokens, name, value) else { return };
        // A page's requests name its address in `Referer`, and its token with it. With the signature, the origin, or a reader of its log, could get
        // the films.
        let value = tokens.taken_from(&value);
        sent.fields.push(name, latin1_of(&value));
    });
    sent.fields = end_to_end(sent.fields);
    for name in settings.headers_vary() {
        send_as_selected(&mut sent.fields, name);
    }
    if worker.libraries.forwarded_for {
        sent.fields.push("X-Forwarded-For", address.to_canonical().to_string());
    }
    if let Some((scheme, host)) = &worker.libraries.public_scheme_and_host {
        sent.fields.push("X-Forwarded-Proto", scheme.as_str());
        sent.fields.push("X-Forwarded-Host", host.as_str());
    }
    sent.with_body(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge::contract::{AskedAt, EdgeAsk};
    use fullbore_http::{Parse, RequestLimits};
    use helper_process::packets;

    #[test]
    fn a_field_that_the_edge_adds_is_known_in_each_spelling() {
        let names = ["x-origin-secret".to_owned(), "x_tenant".to_owned()];
        for (name, is_it) in [
            ("x-origin-secret", true),
            ("x_origin-secret", true),
            ("x-tenant", true),
            ("x-origin", false),
            ("x-origin-secret2", false),
        ] {
            assert_eq!(is_named(&names, name), is_it, "{name}");
        }
    }

    #[test]
    fn a_viewer_is_known_by_what_travels_and_to_a_bucket_by_nothing() {
        let known_by = |has_bucket, sends_cookies| {
            let settings = PathSettings::without_rule(sends_cookies);
            let identity = Identity::that_travels(has_bucket, &settings, true);
            ["Authorization", "X_Emby-Token", "cookie", "X-Cookie"].map(|name| identity.has(name))
        };
        assert_eq!(known_by(false, false), [true, true, false, false]);
        assert_eq!(known_by(false, true), [true, true, true, false]);
        assert_eq!(known_by(true, false), [false; 4]);
        assert_eq!(known_by(true, true), [false; 4]);
        let mut settings = PathSettings::default();
        settings.sends_passwords = false;
        let is_sent = |is_read| {
            let identity = Identity::that_travels(false, &settings, is_read);
            identity.has("Authorization")
        };
        assert_eq!([true, false].map(is_sent), [false, true], "only what reads is shared");
    }

    #[test]
    fn a_token_that_is_checked_here_does_not_travel() {
        let sent = |tokens, name, value: &str| {
            let sent = sent_on(tokens, name, value.as_bytes());
            sent.map(|value| String::from_utf8(value.into_owned()).unwrap())
        };
        let (here, there) = (CheckedTokens::OwnAndCats, CheckedTokens::Own);
        let cookie = "a=b; cta-common-access-token=x; c";
        assert_eq!(sent(here, "cta-common-access-token", "x"), None);
        assert_eq!(sent(here, "Cookie", cookie).as_deref(), Some("a=b; c"));
        assert_eq!(sent(here, "Cookie", "CTA-Common-Access-Token=x"), None);
        assert_eq!(sent(here, "Accept", "x").as_deref(), Some("x"));
        for (name, value) in [(CAT_HEADER, "x"), ("Cookie", cookie)] {
            assert_eq!(sent(there, name, value).as_deref(), Some(value), "the origin checks it");
        }
    }

    #[test]
    fn a_request_that_fits_into_no_message_is_refused() {
        let limits = RequestLimits {
            head_bytes_max: 64 << 10,
            uri_bytes_max: 64 << 10,
            ..RequestLimits::default()
        };
        let check = |path_bytes: usize, field_bytes: usize, body_bytes: usize| {
            let path = "a".repeat(path_bytes);
            let value = "\"".repeat(field_bytes);
            let head = format!("GET /{path} HTTP/1.1\r\nHost: h\r\nX: {value}\r\n\r\n");
            let parsed = fullbore_http::parse(head.as_bytes(), &limits).unwrap();
            let Parse::Complete { request, .. } = parsed else { panic!("a whole head") };
            let body = vec![0; body_bytes];
            let checked = check_length(&request, path.as_bytes(), &body);
            let mut sent = ForwardedRequest::get().with_body(&body);
            request.each_line(|name, value| sent.fields.push(name, latin1_of(value)));
            let path = "%41".repeat(path_bytes);
            let request = Box::new(sent);
            let (ticket, asker) = (u64::MAX, u64::MAX);
            let since: AskedAt = serde_json::from_str(&u64::MAX.to_string()).unwrap();
            let ask = EdgeAsk::Pass { path, ticket, asker, since, request };
            let (one, _other) = packets::pair().unwrap();
            let is_sent = packets::send(&one, &ask, None).is_ok();
            assert!(is_sent || checked.is_err(), "{path_bytes} {field_bytes} {body_bytes}");
            checked
        };
        assert_eq!(check(8 << 10, 7 << 10, 64 << 10), Ok(()), "with the default limits");
        assert_eq!(check(16 << 10, 16 << 10, 64 << 10), Ok(()));
        assert_eq!(check(16 << 10, 40 << 10, 64 << 10), Err(Reject::HeadTooLarge));
        assert_eq!(check((16 << 10) + 1, 0, 0), Err(Reject::UriTooLong));
    }
}
