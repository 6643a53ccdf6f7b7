//! Answers that are complete in memory: the server's own pages and their parts.
//!
//! They have no ranges and no modification date. Their conditions work like those of files, by entity tag only. A page that is generated for each
//! answer has no tag, so no copy of it ever counts as current.

use std::borrow::Cow;

use crate::conditional::{Validators, Verdict, evaluate};
use crate::response::Head;
use crate::{Coding, Context, Part, Refusal, Request, Response, preferred_codings, refuse};

/// A representation in memory.
#[derive(Clone, Debug)]
pub struct PageBody<'a> {
    /// Its media type.
    pub content_type: &'static str,
    /// Its entity tag, with quotes; its encodings have the same tag with the encoding's name added. None: it is generated for each answer.
    pub etag: Option<&'a str>,
    /// `Cache-Control`; visible ASCII.
    pub cache_control: &'a str,
    /// Further header lines: name and value, visible ASCII.
    pub fields: &'a [(&'a str, &'a str)],
    /// The unencoded body; no part of it is a range of a file.
    pub body: Vec<Part>,
    /// The body in Brotli's format (RFC 7932), if there is one.
    pub brotli: Option<Part>,
    /// The body in gzip's format (RFC 1952), if there is one.
    pub gzip: Option<Part>,
}

impl PageBody<'_> {
    /// The form that the client prefers: the coding's name and the body. None: the unencoded body.
    fn encoded_for(&self, request: &Request) -> Option<(&'static str, Part)> {
        preferred_codings(request).find_map(|coding| {
            let body = match coding {
                Coding::Brotli => &self.brotli,
                Coding::Gzip => &self.gzip,
            };
            Some((coding.name(), body.clone()?))
        })
    }
}

/// Answers with `page`: 200, 304 or 412 for GET and HEAD, 405 otherwise.
pub fn respond_page(request: &Request, page: PageBody<'_>, context: &Context<'_>) -> Response {
    if !request.method.reads() {
        return refuse(Refusal::MethodNotAllowed, request, context);
    }
    let encoded = page.encoded_for(request);
    let etag = page.etag.map(|etag| match &encoded {
        // Another encoding is another representation (RFC 9110 section 8.8.3.3).
        Some((coding, _)) => Cow::Owned(format!("{}-{coding}\"", etag.trim_end_matches('"'))),
        None => Cow::Borrowed(etag),
    });
    let validators = Validators { etag: etag.as_deref(), modified_unix_seconds: None };
    match evaluate(request, validators) {
        Verdict::Failed => refuse(Refusal::PreconditionFailed, request, context),
        Verdict::NotModified => head(304, request, &page, etag.as_deref(), context)
            .finish(Some(request.method), Vec::new()),
        Verdict::Proceed => {
            let mut head = head(200, request, &page, etag.as_deref(), context);
            head.field("Content-Type", page.content_type.as_bytes());
            let body = match encoded {
                Some((coding, body)) => {
                    head.field("Content-Encoding", coding.as_bytes());
                    vec![body]
                }
                None => page.body,
            };
            head.content_length(body.iter().map(Part::size_bytes).sum());
            head.finish(Some(request.method), body)
        }
    }
}

/// Answers a request of any method with 200 and `text`, which was made for it: the outcome of what it asked for.
pub fn report(
    request: &Request,
    content_type: &'static str,
    text: String,
    context: &Context<'_>,
) -> Response {
    let page = PageBody {
        content_type,
        etag: None,
        cache_control: "no-store",
        fields: &[],
        body: Vec::new(),
        brotli: None,
        gzip: None,
    };
    let mut head = head(200, request, &page, None, context);
    head.field("Content-Type", page.content_type.as_bytes());
    head.content_length(text.len() as u64);
    head.finish(Some(request.method), vec![Part::Bytes(text.into_bytes())])
}

fn head(
    status: u16,
    request: &Request,
    page: &PageBody<'_>,
    etag: Option<&str>,
    context: &Context<'_>,
) -> Head {
    let mut head = Head::new(status, Some(request), false, context);
    if let Some(etag) = etag {
        head.field("ETag", etag.as_bytes());
    }
    head.field("Cache-Control", page.cache_control.as_bytes());
    if page.brotli.is_some() || page.gzip.is_some() {
        head.field("Vary", b"Accept-Encoding");
    }
    head.field("X-Content-Type-Options", b"nosniff");
    for (name, value) in page.fields {
        head.field(name, value.as_bytes());
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HttpDate, Parse, RequestLimits, parse};

    fn page() -> PageBody<'static> {
        PageBody {
            content_type: "text/html; charset=utf-8",
            etag: Some("\"a\""),
            cache_control: "no-cache",
            fields: &[("Referrer-Policy", "no-referrer")],
            body: vec![Part::Static(b"the whole "), Part::Bytes(b"page".to_vec())],
            brotli: Some(Part::Static(b"short")),
            gzip: Some(Part::Static(b"shorter")),
        }
    }

    fn answer(request: &str, page: PageBody<'_>) -> Response {
        let limits = RequestLimits::default();
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
        let response = answer("GET / HTTP/1.1\r\nRange: bytes=0-1\r\n", page());
        assert_eq!((response.status, response.body_bytes), (200, 14));
        for line in [
            "Content-Length: 14\r\n",
            "Referrer-Policy: no-referrer\r\n",
            "ETag: \"a\"\r\n",
            "Vary: Accept-Encoding\r\n",
        ] {
            assert!(text(&response).contains(line), "{line} is not in {}", text(&response));
        }
        assert_eq!(response.body, page().body);
    }

    #[test]
    fn who_takes_brotli_gets_it_under_a_tag_of_its_own() {
        for accepted in ["br", "gzip, BR", "gzip;q=0.1 , br ; q=0.5", "br;q=1.000"] {
            let response =
                answer(&format!("GET / HTTP/1.1\r\nAccept-Encoding: {accepted}\r\n"), page());
            assert_eq!(response.body, [Part::Static(b"short")], "{accepted}");
            assert!(text(&response).contains("Content-Encoding: br\r\n"), "{accepted}");
            assert!(text(&response).contains("ETag: \"a-br\"\r\n"), "{accepted}");
        }
        for refused in ["", "*", "br;q=0", "br; q=0.00", "brr", "xbr", "deflate", "identity"] {
            let response =
                answer(&format!("GET / HTTP/1.1\r\nAccept-Encoding: {refused}\r\n"), page());
            assert_eq!(response.body_bytes, 14, "{refused}");
        }
    }

    #[test]
    fn who_has_it_already_is_told_so() {
        let response = answer("GET / HTTP/1.1\r\nIf-None-Match: \"a\"\r\n", page());
        assert_eq!((response.status, response.body_bytes), (304, 0));
        let other = "GET / HTTP/1.1\r\nAccept-Encoding: br\r\nIf-None-Match: \"a\"\r\n";
        assert_eq!(answer(other, page()).status, 200);
        let same = "GET / HTTP/1.1\r\nAccept-Encoding: br\r\nIf-None-Match: \"a-br\"\r\n";
        assert_eq!(answer(same, page()).status, 304);
    }

    #[test]
    fn head_has_the_length_and_no_body_and_nothing_can_be_written() {
        let response = answer("HEAD / HTTP/1.1\r\n", page());
        assert_eq!((response.status, response.body.len()), (200, 0));
        assert!(text(&response).contains("Content-Length: 14\r\n"));
        assert_eq!(answer("DELETE / HTTP/1.1\r\n", page()).status, 405);
    }

    #[test]
    fn who_takes_gzip_and_no_brotli_gets_that() {
        for accepted in ["gzip", "br;q=0, gzip", "deflate, GZIP;q=0.5", "gzip;q=0.5 , br ; q=0.1"] {
            let response =
                answer(&format!("GET / HTTP/1.1\r\nAccept-Encoding: {accepted}\r\n"), page());
            assert_eq!(response.body, [Part::Static(b"shorter")], "{accepted}");
            assert!(text(&response).contains("Content-Encoding: gzip\r\n"), "{accepted}");
            assert!(text(&response).contains("ETag: \"a-gzip\"\r\n"), "{accepted}");
        }
    }

    #[test]
    fn a_page_that_is_made_anew_has_no_tag_and_no_copy_of_it_is_current() {
        let live = || PageBody { etag: None, brotli: None, gzip: None, ..page() };
        for line in [
            "If-None-Match: \"now\"\r\n",
            "If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT\r\n",
            "Accept-Encoding: br\r\n",
        ] {
            let response = answer(&format!("GET / HTTP/1.1\r\n{line}"), live());
            assert_eq!(response.status, 200, "{line}");
            assert!(!text(&response).contains("ETag") && !text(&response).contains("Vary"));
        }
    }

    #[test]
    fn without_a_modification_date_conditions_by_date_are_ignored() {
        for field in ["If-Unmodified-Since", "If-Modified-Since"] {
            let request = format!("GET / HTTP/1.1\r\n{field}: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
            assert_eq!(answer(&request, page()).status, 200, "{field}");
        }
    }
}
