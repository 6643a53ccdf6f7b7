//! Answers that are whole in memory: pages of the server's own and what they refer to.
//!
//! They have no ranges. Their conditions are those of files, by entity tag only.

use std::borrow::Cow;

use crate::conditional::{Verdict, evaluate};
use crate::response::Head;
use crate::{Context, Entity, Field, Part, Refusal, Request, Response, refuse};

/// A representation in memory.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    /// Its media type.
    pub content_type: &'static str,
    /// Its entity tag, with quotes; that of its other encodings is the same with the encoding's name in it.
    pub etag: &'a str,
    /// `Cache-Control`; visible ASCII.
    pub cache_control: &'a str,
    /// Further header lines: name and value, visible ASCII.
    pub fields: &'a [(&'a str, &'a str)],
    /// The body as it is.
    pub bytes: Cow<'static, [u8]>,
    /// The body in Brotli's format (RFC 7932), if there is one.
    pub brotli: Option<&'static [u8]>,
}

/// Answers with `page`: 200, 304 or 412 for GET and HEAD, 405 otherwise.
pub fn respond_page(request: &Request, page: Page<'_>, context: &Context<'_>) -> Response {
    if !request.method.reads() {
        return refuse(Refusal::MethodNotAllowed, Some(request), context);
    }
    let brotli = page.brotli.filter(|_| accepts(request, b"br"));
    let etag = match brotli {
        // Another encoding is another representation (RFC 9110 section 8.8.3.3).
        Some(_) => Cow::Owned(format!("{}-br\"", page.etag.trim_end_matches('"'))),
        None => Cow::Borrowed(page.etag),
    };
    let entity = Entity {
        size_bytes: page.bytes.len() as u64,
        modified_unix_seconds: u64::MAX, // Not known: no conditions by date.
        etag: &etag,
        content_type: page.content_type,
    };
    match evaluate(request, &entity) {
        Verdict::Failed => refuse(Refusal::PreconditionFailed, Some(request), context),
        Verdict::NotModified => {
            head(304, request, &page, &etag, context).finish(Some(request.method), Vec::new())
        }
        Verdict::Proceed => {
            let mut head = head(200, request, &page, &etag, context);
            head.field("Content-Type", page.content_type.as_bytes());
            if brotli.is_some() {
                head.field("Content-Encoding", b"br");
            }
            let body = match (brotli, page.bytes) {
                (Some(bytes), _) | (None, Cow::Borrowed(bytes)) => Part::Static(bytes),
                (None, Cow::Owned(bytes)) => Part::Bytes(bytes),
            };
            head.content_length(body.size_bytes());
            head.finish(Some(request.method), vec![body])
        }
    }
}

fn head(
    status: u16,
    request: &Request,
    page: &Page<'_>,
    etag: &str,
    context: &Context<'_>,
) -> Head {
    let mut head = Head::new(status, Some(request), false, context);
    head.field("ETag", etag.as_bytes());
    head.field("Cache-Control", page.cache_control.as_bytes());
    if page.brotli.is_some() {
        head.field("Vary", b"Accept-Encoding");
    }
    head.field("X-Content-Type-Options", b"nosniff");
    for (name, value) in page.fields {
        head.field(name, value.as_bytes());
    }
    head
}

/// Whether the request names `coding` as one it takes (RFC 9110 section 12.5.3). `*` is not taken for it: who means this coding
/// names it.
fn accepts(request: &Request, coding: &[u8]) -> bool {
    let Some(value) = request.field(Field::AcceptEncoding) else { return false };
    value.split(|byte| *byte == b',').any(|item| {
        let mut parts = item.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let is_it = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding));
        is_it && !parts.any(is_zero_weight)
    })
}

/// `q=0`, `q=0.` to `q=0.000`: not acceptable (RFC 9110 section 12.4.2).
fn is_zero_weight(parameter: &[u8]) -> bool {
    let [b'q' | b'Q', b'=', b'0', rest @ ..] = parameter else { return false };
    rest.iter().all(|byte| matches!(byte, b'.' | b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HttpDate, Limits, Parse, parse};

    const PAGE: Page<'static> = Page {
        content_type: "text/html; charset=utf-8",
        etag: "\"a\"",
        cache_control: "no-cache",
        fields: &[("Referrer-Policy", "no-referrer")],
        bytes: Cow::Borrowed(b"the whole page"),
        brotli: Some(b"short"),
    };

    fn answer(request: &str, page: Page<'_>) -> Response {
        let limits = Limits::default();
        let head = format!("{request}Host: h\r\n\r\n");
        let Ok(Parse::Complete { request, .. }) = parse(head.as_bytes(), &limits) else {
            panic!("{head:?}")
        };
        respond_page(&request, page, &Context::new(&HttpDate::new(0), &limits))
    }

    fn text(response: &Response) -> &str {
        std::str::from_utf8(&response.head).unwrap()
    }

    #[test]
    fn it_is_whole_with_its_fields_whatever_range_is_asked_for() {
        let response = answer("GET / HTTP/1.1\r\nRange: bytes=0-1\r\n", PAGE);
        assert_eq!((response.status, response.body_bytes), (200, 14));
        for line in [
            "Content-Length: 14\r\n",
            "Referrer-Policy: no-referrer\r\n",
            "ETag: \"a\"\r\n",
            "Vary: Accept-Encoding\r\n",
        ] {
            assert!(text(&response).contains(line), "{line} is not in {}", text(&response));
        }
        assert_eq!(response.body, [Part::Static(b"the whole page")]);
    }

    #[test]
    fn who_takes_brotli_gets_it_under_a_tag_of_its_own() {
        for accepted in ["br", "gzip, BR", "gzip;q=0.5 , br ; q=0.1", "br;q=1.000"] {
            let response =
                answer(&format!("GET / HTTP/1.1\r\nAccept-Encoding: {accepted}\r\n"), PAGE);
            assert_eq!(response.body, [Part::Static(b"short")], "{accepted}");
            assert!(text(&response).contains("Content-Encoding: br\r\n"), "{accepted}");
            assert!(text(&response).contains("ETag: \"a-br\"\r\n"), "{accepted}");
        }
        for refused in ["", "gzip", "*", "br;q=0", "br; q=0.00", "brr", "xbr"] {
            let response =
                answer(&format!("GET / HTTP/1.1\r\nAccept-Encoding: {refused}\r\n"), PAGE);
            assert_eq!(response.body_bytes, 14, "{refused}");
        }
    }

    #[test]
    fn who_has_it_already_is_told_so() {
        let response = answer("GET / HTTP/1.1\r\nIf-None-Match: \"a\"\r\n", PAGE);
        assert_eq!((response.status, response.body_bytes), (304, 0));
        let other = "GET / HTTP/1.1\r\nAccept-Encoding: br\r\nIf-None-Match: \"a\"\r\n";
        assert_eq!(answer(other, PAGE).status, 200);
        let same = "GET / HTTP/1.1\r\nAccept-Encoding: br\r\nIf-None-Match: \"a-br\"\r\n";
        assert_eq!(answer(same, PAGE).status, 304);
    }

    #[test]
    fn head_has_the_length_and_no_body_and_nothing_can_be_written() {
        let response = answer("HEAD / HTTP/1.1\r\n", PAGE);
        assert_eq!((response.status, response.body.len()), (200, 0));
        assert!(text(&response).contains("Content-Length: 14\r\n"));
        assert_eq!(answer("DELETE / HTTP/1.1\r\n", PAGE).status, 405);
    }

    #[test]
    fn a_page_made_for_one_answer_is_owned_by_it() {
        let page = Page { bytes: Cow::Owned(b"now".to_vec()), brotli: None, ..PAGE };
        let response = answer("GET / HTTP/1.1\r\nAccept-Encoding: br\r\n", page);
        assert_eq!(response.body, [Part::Bytes(b"now".to_vec())]);
        assert!(!text(&response).contains("Vary"));
    }
}
