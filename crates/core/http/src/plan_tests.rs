//! Tables of answers; `tests/ranges.rs` compares bodies with a reference model.

use super::*;
use crate::{Coding, Cors, FieldLines, HttpDate, Parse, RequestLimits, parse};

const MODIFIED: u64 = 784_111_777;

struct Case {
    limits: RequestLimits,
    date: HttpDate,
    cors: Cors,
    closing: bool,
    fields: FieldLines,
    size_bytes: u64,
    form: FileForm,
}

impl Default for Case {
    fn default() -> Self {
        let date = HttpDate::new(MODIFIED + 60);
        Self {
            limits: RequestLimits::default(),
            date,
            cors: Cors::SameOrigin,
            closing: false,
            fields: FieldLines::default(),
            size_bytes: 1000,
            form: FileForm::Only,
        }
    }
}

impl Case {
    fn answer(&self, head: &str) -> Response {
        let request = match parse(head.as_bytes(), &self.limits) {
            Ok(Parse::Complete { request, .. }) => request,
            other => panic!("{head:?} gave {other:?}"),
        };
        let entity = Entity {
            size_bytes: self.size_bytes,
            modified_unix_seconds: Some(MODIFIED),
            date_is_strong: true,
            etag: "\"v1\"",
            form: self.form,
            content_type: "video/mp4",
            age_seconds: None,
            fields: &[],
        };
        let mut context = Context::new(&self.date, &self.limits);
        context.fields = Some(&self.fields);
        (context.cors, context.closing, context.boundary) = (self.cors, self.closing, 0xf00d);
        respond(&request, &entity, &context)
    }

    fn get(&self, lines: &str) -> Response {
        self.answer(&format!("GET /a.mp4 HTTP/1.1\r\nHost: h\r\n{lines}\r\n"))
    }
}

fn head(response: &Response) -> String {
    String::from_utf8_lossy(&response.head).into_owned()
}

#[test]
fn a_plain_get_sends_the_whole_file() {
    let answer = Case::default().get("");
    let expected = "HTTP/1.1 200 OK\r\nServer: fullbore\r\nDate: Sun, 06 Nov 1994 08:50:37 GMT\r\n\
        Accept-Ranges: bytes\r\nETag: \"v1\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
        Cache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\nContent-Type: video/mp4\r\n\
        Content-Length: 1000\r\n\r\n";
    assert_eq!(head(&answer), expected);
    assert_eq!((answer.status, answer.body_bytes, answer.keep_alive), (200, 1000, true));
    assert_eq!(answer.body, [Part::Range(0..1000)]);
}

#[test]
fn head_has_the_head_of_get_and_ignores_range() {
    let case = Case::default();
    let get = case.get("");
    let answer = case.answer("HEAD /a.mp4 HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\n\r\n");
    assert_eq!(head(&answer), head(&get));
    assert_eq!((answer.body, answer.body_bytes), (Vec::new(), 0));
}

#[test]
fn one_range_is_a_206_with_content_range() {
    let answer = Case::default().get("Range: bytes=100-199\r\n");
    assert!(head(&answer).contains("Content-Length: 100\r\nContent-Range: bytes 100-199/1000\r\n"));
    assert_eq!((answer.status, answer.body), (206, vec![Part::Range(100..200)]));
    let merged = Case::default().get("Range: bytes=0-9,10-19\r\n");
    assert!(head(&merged).contains("Content-Range: bytes 0-19/1000\r\n"));
}

#[test]
fn a_field_is_added_at_the_end_of_a_head() {
    let mut answer = Case::default().get("");
    let before = head(&answer);
    answer.add_field("Via", "1.1 a");
    answer.add_field("Age", 7);
    assert_eq!(
        head(&answer),
        format!("{}Via: 1.1 a\r\nAge: 7\r\n\r\n", &before[..before.len() - 2])
    );
}

#[test]
fn several_ranges_are_multipart() {
    let answer = Case::default().get("Range: bytes=0-0,-1\r\n");
    assert!(head(&answer).contains(
        "Content-Type: multipart/byteranges; boundary=fullbore-0000000000000000000000000000f00d\r\n"
    ));
    assert!(head(&answer).contains(&format!("Content-Length: {}\r\n", answer.body_bytes)));
    let delimiter = "--fullbore-0000000000000000000000000000f00d";
    let lines = "\r\nContent-Type: video/mp4\r\nContent-Range: bytes ";
    let expected = [
        Part::Bytes(format!("{delimiter}{lines}0-0/1000\r\n\r\n").into_bytes()),
        Part::Range(0..1),
        Part::Bytes(format!("\r\n{delimiter}{lines}999-999/1000\r\n\r\n").into_bytes()),
        Part::Range(999..1000),
        Part::Bytes(format!("\r\n{delimiter}--\r\n").into_bytes()),
    ];
    assert_eq!(answer.body, expected);
}

#[test]
fn an_unsatisfiable_range_is_told_the_size_and_the_connection_lives() {
    let answer = Case::default().get("Range: bytes=1000-\r\n");
    assert_eq!((answer.status, answer.keep_alive), (416, true));
    assert!(head(&answer).contains("Content-Range: bytes */1000\r\n"));
}

#[test]
fn an_empty_file_has_an_empty_body() {
    let case = Case { size_bytes: 0, ..Case::default() };
    for lines in ["", "Range: bytes=-5\r\n"] {
        let answer = case.get(lines);
        assert_eq!((answer.status, answer.body_bytes, answer.body.len()), (200, 0, 0));
        assert!(head(&answer).contains("Content-Length: 0\r\n"));
    }
    assert_eq!(case.get("Range: bytes=0-\r\n").status, 416);
}

#[test]
fn a_file_of_the_largest_size_does_not_overflow() {
    let case = Case { size_bytes: u64::MAX, ..Case::default() };
    assert_eq!(case.get("").body_bytes, u64::MAX);
    let answer = case.get("Range: bytes=0-0,18446744073709551614-18446744073709551615\r\n");
    assert_eq!(answer.status, 206);
    assert!(answer.body.contains(&Part::Range(u64::MAX - 1..u64::MAX)));
    let too_long_with_part_heads = case.get("Range: bytes=0-5,100-\r\n");
    assert_eq!(
        (too_long_with_part_heads.status, too_long_with_part_heads.body_bytes),
        (200, u64::MAX)
    );
}

#[test]
fn a_current_copy_is_a_304_without_length_or_body() {
    let answer = Case::default().get("If-None-Match: \"v1\"\r\nRange: bytes=0-1\r\n");
    let expected = "HTTP/1.1 304 Not Modified\r\nServer: fullbore\r\nDate: Sun, 06 Nov 1994 08:50:37 GMT\r\n\
        ETag: \"v1\"\r\nCache-Control: no-cache\r\n\r\n";
    assert_eq!(head(&answer), expected);
    assert_eq!((answer.body_bytes, answer.keep_alive), (0, true));
}

#[test]
fn a_failed_precondition_is_a_412_before_the_range_is_looked_at() {
    assert_eq!(Case::default().get("If-Match: \"v2\"\r\nRange: bytes=5000-\r\n").status, 412);
}

#[test]
fn a_range_of_another_version_gets_the_whole_file() {
    let case = Case::default();
    assert_eq!(case.get("Range: bytes=0-1\r\nIf-Range: \"v1\"\r\n").status, 206);
    assert_eq!(case.get("Range: bytes=0-1\r\nIf-Range: \"v2\"\r\n").status, 200);
    assert_eq!(case.get("Range: bytes=5000-\r\nIf-Range: \"v2\"\r\n").status, 200);
}

#[test]
fn persistence_is_said_where_it_is_not_understood() {
    let case = Case::default();
    let old = |lines: &str| case.answer(&format!("GET /a HTTP/1.0\r\n{lines}\r\n"));
    assert!(head(&old("")).contains("Connection: close\r\n") && !old("").keep_alive);
    let kept = old("Connection: keep-alive\r\n");
    assert!(head(&kept).contains("Connection: keep-alive\r\n") && kept.keep_alive);
    let closed = case.get("Connection: close\r\n");
    assert!(head(&closed).contains("Connection: close\r\n") && !closed.keep_alive);
    let draining = Case { closing: true, ..Case::default() }.get("");
    assert!(head(&draining).contains("Connection: close\r\n") && !draining.keep_alive);
}

#[test]
fn other_origins_may_read_when_allowed() {
    let lines = "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: Accept-Ranges, Content-Length, \
        Content-Range, Date, ETag, Retry-After\r\nTiming-Allow-Origin: *\r\n";
    let case = Case { cors: Cors::AnyOrigin, ..Case::default() };
    for request in [
        "",
        "Range: bytes=0-1\r\n",
        "Range: bytes=5000-\r\n",
        "If-None-Match: *\r\n",
        "If-Match: \"x\"\r\n",
    ] {
        assert!(head(&case.get(request)).contains(lines), "{request}");
        assert!(!head(&Case::default().get(request)).contains("Access-Control"), "{request}");
    }
}

#[test]
fn methods_that_do_not_read_never_send_the_file() {
    let case = Case::default();
    for (method, status) in [("OPTIONS", 204), ("POST", 405), ("DELETE", 405), ("TRACE", 405)] {
        let answer = case.answer(&format!("{method} /a.mp4 HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!(answer.status, status);
        assert!(!answer.body.iter().any(|part| matches!(part, Part::Range(_))), "{method}");
    }
}

#[test]
fn further_lines_are_in_every_answer_about_the_file_and_in_no_other() {
    let lines = [("X-Robots-Tag", "noindex"), ("Link", "</a>; rel=next")];
    let fields = FieldLines::new(lines, Cors::AnyOrigin).unwrap();
    let case = Case { fields, cors: Cors::AnyOrigin, ..Case::default() };
    let has = |answer: &Response| {
        head(answer).contains("\r\nX-Robots-Tag: noindex\r\nLink: </a>; rel=next\r\n")
    };
    for (lines, status) in [
        ("", 200),
        ("Range: bytes=0-1\r\n", 206),
        ("Range: bytes=0-1,500-501\r\n", 206),
        ("If-None-Match: *\r\n", 304),
    ] {
        let answer = case.get(lines);
        assert_eq!((answer.status, has(&answer)), (status, true), "{lines}");
    }
    assert!(has(&case.answer("HEAD /a.mp4 HTTP/1.1\r\nHost: h\r\n\r\n")));
    for (lines, status) in [("Range: bytes=5000-\r\n", 416), ("If-Match: \"x\"\r\n", 412)] {
        let answer = case.get(lines);
        assert_eq!((answer.status, has(&answer)), (status, false), "{lines}");
    }
    let preflight = case.answer("OPTIONS /a.mp4 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((preflight.status, has(&preflight)), (204, false));
}

#[test]
fn every_answer_about_a_file_with_forms_varies() {
    for (form, coded) in [(FileForm::Plain, false), (FileForm::Coded(Coding::Gzip), true)] {
        let case = Case { form, ..Case::default() };
        for (lines, status, has_body) in [
            ("", 200, true),
            ("Range: bytes=0-1\r\n", 206, true),
            ("If-None-Match: *\r\n", 304, false),
        ] {
            let answer = case.get(lines);
            let is_coded = head(&answer).contains("\r\nContent-Encoding: gzip\r\n");
            assert_eq!((answer.status, is_coded), (status, coded && has_body), "{lines}");
            assert!(head(&answer).contains("\r\nVary: Accept-Encoding\r\n"), "{lines}");
            assert!(!head(&Case::default().get(lines)).contains("Vary"), "{lines}");
        }
        let answer = case.answer("HEAD /a.mp4 HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(head(&answer), head(&case.get("")));
    }
}

#[test]
fn several_ranges_of_a_coded_form_get_it_whole() {
    let case = Case { form: FileForm::Coded(Coding::Brotli), ..Case::default() };
    let answer = case.get("Range: bytes=0-0,-1\r\n");
    assert_eq!((answer.status, answer.body), (200, vec![Part::Range(0..1000)]));
    assert_eq!(Case { form: FileForm::Plain, ..case }.get("Range: bytes=0-0,-1\r\n").status, 206);
}

/// All forms have the date of their file, so a client could continue one form with bytes of another.
#[test]
fn a_date_does_not_continue_a_file_with_forms() {
    let lines = "Range: bytes=0-1\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    for (form, status) in
        [(FileForm::Only, 206), (FileForm::Plain, 200), (FileForm::Coded(Coding::Brotli), 200)]
    {
        assert_eq!(Case { form, ..Case::default() }.get(lines).status, status, "{form:?}");
    }
}
