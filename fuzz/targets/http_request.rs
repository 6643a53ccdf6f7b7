//! A request head of any bytes, and the answer to it.
//!
//! Checks that the result depends neither on how the bytes were cut nor on the bytes after the head; that no path leaves the library; and
//! that every answer, for a file of any size, is well formed (`answer`).

#![no_main]

use std::path::Component;

use fullbore_fuzz::answer;
use fullbore_fuzz::choices::Derived;
use fullbore_http::{
    Context, Entity, FileForm, HttpDate, Parse, Refusal, RefusedRequest, Request, RequestLimits,
    Resource,
};
use libfuzzer_sys::fuzz_target;

/// Cuts to try for each input. The fuzzer runs similar inputs again, so in the end it tries all cuts.
const CUTS: usize = 6;

fuzz_target!(|bytes: &[u8]| {
    let mut derived = Derived::of(bytes);
    let small = RequestLimits {
        head_bytes_max: 192,
        uri_bytes_max: 48,
        headers_max: 4,
        ranges_max: 3,
        ..RequestLimits::default()
    };
    for limits in [RequestLimits::default(), small] {
        check(bytes, &limits, &mut derived);
    }
});

fn check(bytes: &[u8], limits: &RequestLimits, derived: &mut Derived) {
    let whole = fullbore_http::parse(bytes, limits);
    for _ in 0..CUTS {
        let cut = derived.below(bytes.len() + 1);
        let early = fullbore_http::parse(&bytes[..cut], limits);
        assert!(
            early == Ok(Parse::Partial) || early == whole,
            "cut at {cut}: {early:?}, then {whole:?}"
        );
    }
    let date = HttpDate::new(784_111_777 + derived.number() % 2);
    let context = Context { boundary: derived.number().into(), ..Context::new(&date, limits) };
    match &whole {
        Ok(Parse::Partial) => assert!(bytes.len() < limits.head_bytes_max),
        Ok(Parse::Complete { request, consumed }) => {
            assert!((1..=limits.head_bytes_max.min(bytes.len())).contains(consumed));
            assert_eq!(
                fullbore_http::parse(&bytes[..*consumed], limits),
                whole,
                "what follows the head matters"
            );
            assert_eq!(fullbore_http::parse(&bytes[..*consumed - 1], limits), Ok(Parse::Partial));
            check_path(&request.resource);
            check_answer(request, &context, size(derived));
        }
        Err(reject) => {
            let response = fullbore_http::refuse(
                Refusal::Reject(*reject),
                RefusedRequest::Unparsed(bytes),
                &context,
            );
            assert_eq!((response.status, response.keep_alive), (reject.status(), false));
            answer::check(&response, head_of_unparsed(bytes), 0);
        }
    }
}

/// HEAD if a request that cannot be parsed has this method.
fn head_of_unparsed(mut bytes: &[u8]) -> Option<fullbore_http::Method> {
    // The parser skips this many empty lines.
    for _ in 0..4 {
        bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    }
    bytes.starts_with(b"HEAD ").then_some(fullbore_http::Method::Head)
}

/// A size of a file: a boundary value or one between them.
fn size(derived: &mut Derived) -> u64 {
    const EDGES: [u64; 8] = [0, 1, 10, 16_384, 1 << 32, i64::MAX as u64, u64::MAX - 1, u64::MAX];
    let between = derived.number() >> derived.below(64);
    EDGES.get(derived.below(2 * EDGES.len())).copied().unwrap_or(between)
}

fn check_path(resource: &Resource) {
    let path = match resource {
        Resource::File(path) | Resource::Directory(path) | Resource::Reserved(path) => path,
        Resource::Refused(_) | Resource::Server => return,
    };
    let normal = |component| matches!(component, Component::Normal(_));
    assert!(path.as_path().components().all(normal), "{path:?} leaves the library");
    let segments = || path.as_bytes().split(|byte| *byte == b'/');
    let harmless = |segment: &[u8]| !matches!(segment, b"" | b"." | b"..");
    assert!(path.as_bytes().is_empty() || segments().all(harmless), "{path:?} wants normalising");
    assert!(!path.as_bytes().iter().any(u8::is_ascii_control), "{path:?}");
    if let Resource::File(_) = resource {
        assert!(!path.as_bytes().is_empty(), "a file has a name");
        fullbore_http::content_type(path.as_bytes());
    }
}

fn check_answer(request: &Request, context: &Context<'_>, size_bytes: u64) {
    let modified_unix_seconds = Some(784_111_777);
    let entity = Entity {
        size_bytes,
        modified_unix_seconds,
        date_is_strong: true,
        etag: "\"e\"",
        form: FileForm::Plain,
        content_type: "video/mp4",
        age_seconds: None,
        fields: &[],
    };
    let response = fullbore_http::respond(request, &entity, context);
    answer::check(&response, Some(request.method), size_bytes);
    assert!(request.keep_alive || !response.keep_alive, "the client asked to close");
    for refusal in [Refusal::NotFound, Refusal::Internal] {
        answer::check(
            &fullbore_http::refuse(refusal, request, context),
            Some(request.method),
            size_bytes,
        );
    }
}
