//! Makes a response from a request and the file it names (RFC 9110 sections 9.3.1, 13.2.2, 14 and 15.3.7).

use std::ops::Range;

use crate::conditional::{Verdict, evaluate, if_range_holds, last_modified};
use crate::field_lines::is_of_cors;
use crate::range::{Selection, select};
use crate::relay;
use crate::response::{Head, write_content_range};
use crate::{
    Context, Cors, Field, FileForm, Method, Part, Refusal, Request, Response, options, refuse,
};

/// A file's properties, from its open descriptor.
#[derive(Clone, Debug)]
pub struct Entity<'a> {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Modification time in whole seconds since 1970; earlier times count as 0. None if it is not known.
    pub modified_unix_seconds: Option<u64>,
    /// Set if the file has not changed since that second. If it has, it may have had other bytes and got the old time back, so the date does not
    /// distinguish the two versions (RFC 9110 section 8.8.2.2). For a cache's copy: set if its origin sent it at least a second after that date.
    pub date_is_strong: bool,
    /// Entity tag with its quotes, for example from [`crate::file_etag`].
    pub etag: &'a str,
    /// The form of the file that this is. Each form has a size and a tag of its own (RFC 9110 section 8.8.3.3), and all have one date.
    pub form: FileForm,
    /// Media type, for example from [`crate::content_type`]; visible ASCII.
    pub content_type: &'a str,
    /// How long a cache has had it (RFC 9111 section 5.1); none if it is not a cache's copy.
    pub age_seconds: Option<u64>,
    /// Further header fields of a cache's copy, in Latin-1, without those that this crate writes itself.
    pub fields: &'a [(String, String)],
}

/// Plans the answer to a request for `entity`: 200, 206, 304, 412 or 416 for GET and HEAD, [`options`] for OPTIONS, 405
/// otherwise.
///
/// The file must not change from when the entity was made until the body is sent.
pub fn respond(request: &Request, entity: &Entity<'_>, context: &Context<'_>) -> Response {
    match request.method {
        Method::Options => return options(request, context),
        method if !method.reads() => {
            return refuse(Refusal::MethodNotAllowed, request, context);
        }
        _ => {}
    }
    let content_type = context.content_type.unwrap_or(entity.content_type);
    let entity = &Entity { content_type, ..entity.clone() };
    match evaluate(request, entity) {
        Verdict::Failed => refuse(Refusal::PreconditionFailed, request, context),
        Verdict::NotModified => not_modified(request, entity, context),
        Verdict::Proceed => match selection(request, entity, context) {
            Selection::Whole => whole(request, entity, context),
            Selection::Unsatisfiable => {
                let size_bytes = entity.size_bytes;
                refuse(Refusal::RangeNotSatisfiable { size_bytes }, request, context)
            }
            Selection::Ranges(ranges) => match <[Range<u64>; 1]>::try_from(ranges) {
                Ok([range]) => single(request, range, entity, context),
                // `Content-Encoding` would describe the multipart body, which is not compressed. A server may ignore Range.
                Err(_) if entity.form.coding().is_some() => whole(request, entity, context),
                Err(ranges) => multiple(request, &ranges, entity, context),
            },
        },
    }
}

/// Range is defined for GET only (RFC 9110 section 14.2), and void if If-Range does not hold.
fn selection(request: &Request, entity: &Entity<'_>, context: &Context<'_>) -> Selection {
    match request.field(Field::Range) {
        Some(value)
            if request.method == Method::Get && if_range_holds(request, entity, context.date) =>
        {
            select(value, entity.size_bytes, context.limits)
        }
        _ => Selection::Whole,
    }
}

fn whole(request: &Request, entity: &Entity<'_>, context: &Context<'_>) -> Response {
    let mut head = entity_head(200, request, entity, context);
    head.field("Content-Type", entity.content_type.as_bytes());
    head.content_length(entity.size_bytes);
    let body =
        if entity.size_bytes == 0 { Vec::new() } else { vec![Part::Range(0..entity.size_bytes)] };
    head.finish(Some(request.method), body)
}

fn single(
    request: &Request,
    range: Range<u64>,
    entity: &Entity<'_>,
    context: &Context<'_>,
) -> Response {
    let mut head = entity_head(206, request, entity, context);
    head.field("Content-Type", entity.content_type.as_bytes());
    head.content_length(range.end - range.start);
    head.content_range(&range, entity.size_bytes);
    head.finish(Some(request.method), vec![Part::Range(range)])
}

/// A multipart/byteranges body (RFC 9110 section 14.6, RFC 2046 section 5.1.1).
fn multiple(
    request: &Request,
    ranges: &[Range<u64>],
    entity: &Entity<'_>,
    context: &Context<'_>,
) -> Response {
    let boundary = format!("fullbore-{:032x}", context.boundary);
    let mut body = Vec::with_capacity(2 * ranges.len() + 1);
    for (index, range) in ranges.iter().enumerate() {
        body.push(Part::Bytes(part_head(index == 0, &boundary, range, entity)));
        body.push(Part::Range(range.clone()));
    }
    body.push(Part::Bytes(format!("\r\n--{boundary}--\r\n").into_bytes()));
    // The part heads can overflow the length only for a file of nearly 2^64 bytes.
    let Some(body_bytes) =
        body.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.size_bytes()))
    else {
        return whole(request, entity, context);
    };

    let mut head = entity_head(206, request, entity, context);
    head.field("Content-Type", format!("multipart/byteranges; boundary={boundary}").as_bytes());
    head.content_length(body_bytes);
    head.finish(Some(request.method), body)
}

/// The delimiter and the header lines of one part. The line end before a delimiter belongs to it.
pub(crate) fn part_head(
    is_first: bool,
    boundary: &str,
    range: &Range<u64>,
    entity: &Entity<'_>,
) -> Vec<u8> {
    let line_end = if is_first { "" } else { "\r\n" };
    let content_type = entity.content_type;
    let mut bytes =
        format!("{line_end}--{boundary}\r\nContent-Type: {content_type}\r\n").into_bytes();
    write_content_range(&mut bytes, range, entity.size_bytes);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// RFC 9110 section 15.4.5: the fields with which a cache refreshes its copy, and no Content-Length.
fn not_modified(request: &Request, entity: &Entity<'_>, context: &Context<'_>) -> Response {
    let mut head = Head::new(304, Some(request), false, context);
    head.field("ETag", entity.etag.as_bytes());
    cache_control(&mut head, context);
    vary(&mut head, entity);
    age(&mut head, entity);
    head.cors(context.cors);
    head.lines(context.fields);
    copied(&mut head, entity, context, true);
    head.finish(Some(request.method), Vec::new())
}

/// The head fields that 200 and 206 share.
fn entity_head(status: u16, request: &Request, entity: &Entity<'_>, context: &Context<'_>) -> Head {
    let mut head = Head::new(status, Some(request), false, context);
    head.field("Accept-Ranges", b"bytes");
    head.field("ETag", entity.etag.as_bytes());
    if let Some(date) = last_modified(entity, context.date) {
        head.field("Last-Modified", date.as_bytes());
    }
    cache_control(&mut head, context);
    vary(&mut head, entity);
    if let Some(coding) = entity.form.coding() {
        head.field("Content-Encoding", coding.name().as_bytes());
    }
    age(&mut head, entity);
    head.field("X-Content-Type-Options", b"nosniff");
    head.cors(context.cors);
    head.lines(context.fields);
    copied(&mut head, entity, context, false);
    head
}

fn cache_control(head: &mut Head, context: &Context<'_>) {
    if !context.cache_control.is_empty() {
        head.field("Cache-Control", context.cache_control.as_bytes());
    }
}

/// Tells caches that other requests may get another form (RFC 9110 section 12.5.5).
fn vary(head: &mut Head, entity: &Entity<'_>) {
    if entity.form != FileForm::Only {
        head.field("Vary", b"Accept-Encoding");
    }
}

/// Adds the further fields of a cache's copy. A 304 has none that describe content, because it has none (RFC 9110 section 15.4.5).
fn copied(head: &mut Head, entity: &Entity<'_>, context: &Context<'_>, is_304: bool) {
    let is_own = |name: &str| context.cors == Cors::AnyOrigin && is_of_cors(name);
    let is_left_out = |name: &str| {
        let is_date = name.eq_ignore_ascii_case("date");
        is_own(name) || is_date || is_304 && relay::describes_content(name)
    };
    for (name, value) in entity.fields.iter().filter(|(name, _)| !is_left_out(name)) {
        head.field(name, &relay::latin1(value));
    }
}

fn age(head: &mut Head, entity: &Entity<'_>) {
    if let Some(seconds) = entity.age_seconds {
        head.field("Age", seconds.to_string().as_bytes());
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
