//! Passes on another server's response: one that a caching edge has just fetched, or one that it has stored.
//!
//! Conditions and ranges are evaluated here, against the complete representation of a 200 (RFC 9111 section 4.3.2, RFC 9110 section 14.2). Every
//! other status goes to the viewer as it is. The caller has removed what concerns only the connection to that server (RFC 9110 section 7.6.1).

use std::ops::Range;

use crate::conditional::{Validators, Verdict, evaluate, if_range_is};
use crate::plan::part_head;
use crate::range::{Selection, select};
use crate::response::Head;
use crate::{
    Context, Cors, Entity, Field, FileForm, HttpDate, Method, Part, Refusal, Request, Response,
    Version, refuse,
};

/// A response of another server. Names and values hold Latin-1: each character is one byte.
#[derive(Clone, Debug)]
pub struct Relayed<'a> {
    /// The status code.
    pub status: u16,
    /// Its header fields, in order. `Date` is sent as it is, and `Content-Length` follows from the body.
    pub fields: &'a [(String, String)],
    /// The length of the body, unless the response has none, as the response to HEAD, or its length is not known.
    pub size_bytes: Option<u64>,
    /// Whether the caller sends a body whose length is not known after the head: in chunks if [`is_chunked`] says so, or up to the end of the
    /// connection.
    pub is_growing: bool,
    /// How long a cache has had it (RFC 9111 section 5.1), unless it has just come.
    pub age_seconds: Option<u64>,
}

/// Whether a body of unknown length that answers `request` is sent in chunks (RFC 9112 section 6.1).
pub fn is_chunked(request: &Request) -> bool {
    request.version != Version::Http10
}

impl<'a> Relayed<'a> {
    fn field(&self, wanted: &str) -> Option<&'a str> {
        let mut values = self.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        values.next().map(|(_, value)| value.as_str())
    }

    fn date(&self, name: &str) -> Option<HttpDate> {
        HttpDate::parse(&latin1(self.field(name)?))
    }
}

/// The bytes of a text whose characters are bytes.
pub(crate) fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|one| u8::try_from(u32::from(one)).unwrap_or(b'?')).collect()
}

/// Whether a field describes the content, which a 304 does not have.
pub(crate) fn describes_content(name: &str) -> bool {
    let names = ["content-length", "content-type", "content-encoding", "content-range"];
    names.iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// Plans the answer to `request` from `relayed`, whose body is the caller's file. A media type in `context` takes the place of a file's own one, and
/// not of an error page's.
pub fn relay(request: &Request, relayed: &Relayed<'_>, context: &Context<'_>) -> Response {
    let is_whole = relayed.status == 200 && request.method.reads();
    if !is_whole {
        return whole(request, relayed, context);
    }
    let Some(content_type) = context.content_type else {
        return relay_file(request, relayed, context);
    };
    let others =
        relayed.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
    let mut fields: Vec<_> = others.cloned().collect();
    fields.push(("Content-Type".to_owned(), content_type.to_owned()));
    relay_file(request, &Relayed { fields: &fields, ..relayed.clone() }, context)
}

fn relay_file(request: &Request, relayed: &Relayed<'_>, context: &Context<'_>) -> Response {
    let size = relayed.size_bytes;
    let etag = relayed.field("etag");
    let date = relayed.date("date");
    // Without Last-Modified, the date of the response takes its place (RFC 9111 section 4.3.2).
    let modified = relayed.date("last-modified");
    let changed = modified.or(date);
    let validators =
        Validators { etag, modified_unix_seconds: changed.map(|date| date.unix_seconds()) };
    match evaluate(request, validators) {
        Verdict::Failed => return refuse(Refusal::PreconditionFailed, request, context),
        Verdict::NotModified => return not_modified(request, relayed, context),
        Verdict::Proceed => {}
    }
    let strong_date = modified.filter(|modified| {
        date.as_ref().is_some_and(|date| modified.unix_seconds() < date.unix_seconds())
    });
    let etag = etag.map(latin1);
    let (Some(range), Some(size)) = (request.field(Field::Range), size) else {
        return whole(request, relayed, context);
    };
    if request.method != Method::Get || !if_range_is(request, etag.as_deref(), strong_date) {
        return whole(request, relayed, context);
    }
    match select(range, size, context.limits) {
        Selection::Whole => whole(request, relayed, context),
        Selection::Unsatisfiable => {
            refuse(Refusal::RangeNotSatisfiable { size_bytes: size }, request, context)
        }
        // `Content-Encoding` would describe the multipart body, which is not compressed. A server may ignore Range.
        Selection::Ranges(ranges)
            if ranges.len() > 1 && relayed.field("content-encoding").is_some() =>
        {
            whole(request, relayed, context)
        }
        Selection::Ranges(ranges) => parts(request, relayed, (&ranges, size), context),
    }
}

fn whole(request: &Request, relayed: &Relayed<'_>, context: &Context<'_>) -> Response {
    let mut head = begin(relayed.status, request, relayed, context);
    // RFC 9110 section 8.6: neither of these has a length.
    let has_length = !matches!(relayed.status, 100..=199 | 204 | 304);
    let is_given = |name: &str| name.eq_ignore_ascii_case("content-length");
    let size = relayed.size_bytes;
    let is_growing = relayed.is_growing && has_length;
    let is_replaced = size.is_some() || is_growing || !has_length;
    fields(&mut head, relayed, |name| is_given(name) && is_replaced);
    if is_growing && is_chunked(request) {
        head.field("Transfer-Encoding", b"chunked");
    }
    let size = size.filter(|_| has_length);
    if let Some(size) = size {
        head.content_length(size);
    }
    let body = match size {
        Some(size) if size > 0 => vec![Part::Range(0..size)],
        _ => Vec::new(),
    };
    head.finish(Some(request.method), body)
}

fn parts(
    request: &Request,
    relayed: &Relayed<'_>,
    (ranges, size): (&[Range<u64>], u64),
    context: &Context<'_>,
) -> Response {
    let mut head = begin(206, request, relayed, context);
    let is_framing = |name: &str| {
        ["content-length", "content-range"].iter().any(|one| name.eq_ignore_ascii_case(one))
    };
    if let [range] = ranges {
        fields(&mut head, relayed, is_framing);
        head.content_length(range.end - range.start);
        head.content_range(range, size);
        return head.finish(Some(request.method), vec![Part::Range(range.clone())]);
    }
    fields(&mut head, relayed, |name| {
        is_framing(name) || name.eq_ignore_ascii_case("content-type")
    });
    let entity = Entity {
        size_bytes: size,
        modified_unix_seconds: None,
        date_is_strong: false,
        etag: "",
        form: FileForm::Only,
        content_type: relayed.field("content-type").unwrap_or("application/octet-stream"),
        age_seconds: None,
        fields: &[],
    };
    let boundary = format!("fullbore-{:032x}", context.boundary);
    let mut body = Vec::with_capacity(2 * ranges.len() + 1);
    for (index, range) in ranges.iter().enumerate() {
        body.push(Part::Bytes(part_head(index == 0, &boundary, range, &entity)));
        body.push(Part::Range(range.clone()));
    }
    body.push(Part::Bytes(format!("\r\n--{boundary}--\r\n").into_bytes()));
    head.field("Content-Type", format!("multipart/byteranges; boundary={boundary}").as_bytes());
    head.content_length(body.iter().map(Part::size_bytes).sum());
    head.finish(Some(request.method), body)
}

fn not_modified(request: &Request, relayed: &Relayed<'_>, context: &Context<'_>) -> Response {
    let mut head = begin(304, request, relayed, context);
    fields(&mut head, relayed, describes_content);
    head.finish(Some(request.method), Vec::new())
}

fn begin(status: u16, request: &Request, relayed: &Relayed<'_>, context: &Context<'_>) -> Head {
    let date = relayed.field("date").map(latin1);
    let closes = relayed.is_growing && !is_chunked(request);
    let mut head = Head::relayed(status, request, (date.as_deref(), closes), context);
    if let Some(seconds) = relayed.age_seconds {
        head.field("Age", seconds.to_string().as_bytes());
    }
    // If the origin has rules of its own for pages of other origins, they hold.
    if context.cors == Cors::AnyOrigin && relayed.field("access-control-allow-origin").is_none() {
        head.cors(context.cors);
    }
    head.lines(context.fields);
    head
}

fn fields(head: &mut Head, relayed: &Relayed<'_>, is_left_out: impl Fn(&str) -> bool) {
    let is_written = |name: &str| {
        let age = relayed.age_seconds.is_some() && name.eq_ignore_ascii_case("age");
        age || name.eq_ignore_ascii_case("date")
    };
    for (name, value) in relayed.fields {
        if !is_written(name) && !is_left_out(name) {
            head.field(name, &latin1(value));
        }
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
