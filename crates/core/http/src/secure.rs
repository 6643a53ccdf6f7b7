//! Redirects plain HTTP to HTTPS: whole answers for ports that serve no files.

use crate::fields::Field;
use crate::refuse::RefusedRequest;
use crate::request::{Method, Request};

/// The same address over HTTPS at `port`, if the request names its host.
pub fn secure_place(request: &Request, port: u16) -> Option<Vec<u8>> {
    let host = std::str::from_utf8(request.field(Field::Host)?).ok()?;
    let name = match host.rsplit_once(':') {
        Some((name, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    let rest = request.path_and_query()?;
    if name.is_empty() || !name.bytes().all(is_name) {
        return None;
    }
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    // `http://host?query` has no path.
    let slash = if rest.starts_with('/') { "" } else { "/" };
    let rest = escape::percent::encode_non_ascii(rest);
    Some(format!("https://{name}{port}{slash}{rest}").into_bytes())
}

/// Redirects a viewer to `place`, permanently.
pub fn send_on(request: &Request, place: &[u8]) -> Vec<u8> {
    let location = [b"Location: ", place, b"\r\n"].concat();
    whole_answer(request, "308 Permanent Redirect", &location, b"Go on over HTTPS.\n")
}

/// A whole answer in text, with more header `lines`, each with its end. The connection ends with it.
pub fn whole_answer<'a>(
    asked: impl Into<RefusedRequest<'a>>,
    status: &str,
    lines: &[u8],
    body: &[u8],
) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n",
        body.len()
    );
    let is_head = asked.into().method() == Some(Method::Head);
    let body = if is_head { b"" } else { body };
    [head.as_bytes(), lines, b"\r\n", body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parse, RequestLimits, parse};

    fn request(text: &str) -> Request {
        match parse(text.as_bytes(), &RequestLimits::default()) {
            Ok(Parse::Complete { request, .. }) => request,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn place(target: &str, host: &str, port: u16) -> Option<String> {
        let request = request(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        secure_place(&request, port).map(|place| String::from_utf8(place).unwrap())
    }

    #[test]
    fn the_place_is_the_same_but_for_its_port() {
        let of = |text: &str| Some(text.to_owned());
        assert_eq!(place("/a?b=%20c", "a.example", 443), of("https://a.example/a?b=%20c"));
        assert_eq!(place("/", "a.example:80", 8443), of("https://a.example:8443/"));
        assert_eq!(place("/", "[::1]:80", 443), of("https://[::1]/"));
        assert_eq!(secure_place(&request("GET / HTTP/1.0\r\n\r\n"), 443), None);
        let server = request("OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_eq!(secure_place(&server, 443), None);
    }

    #[test]
    fn the_host_of_a_target_in_absolute_form_is_the_place() {
        for (target, expected) in [
            ("http://tv.example/x?y", "https://tv.example/x?y"),
            ("HTTP://tv.example:80/x", "https://tv.example/x"),
            ("http://tv.example", "https://tv.example/"),
            ("http://tv.example?y=/", "https://tv.example/?y=/"),
        ] {
            assert_eq!(place(target, "other.example", 443).as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_is_not_ascii_is_percent_encoded() {
        let encoded = place("/f\u{fc}r%20?\u{20ac}", "a.example", 443);
        assert_eq!(encoded.as_deref(), Some("https://a.example/f%C3%BCr%20?%E2%82%AC"));
    }

    #[test]
    fn a_head_has_no_body_and_says_how_long_it_would_be() {
        let answer = |method: &str| {
            let request = request(&format!("{method} /a HTTP/1.1\r\nHost: a.example\r\n\r\n"));
            String::from_utf8(send_on(&request, b"https://a.example/a")).unwrap()
        };
        let whole = answer("GET");
        assert!(whole.ends_with("\r\nLocation: https://a.example/a\r\n\r\nGo on over HTTPS.\n"));
        assert!(whole.contains("\r\nContent-Length: 18\r\n"), "{whole}");
        assert_eq!(answer("HEAD"), whole.strip_suffix("Go on over HTTPS.\n").unwrap());
    }
}
