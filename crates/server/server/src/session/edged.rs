//! Answers from a caching edge: the origin's objects, under the origin's validators.

use super::answer::{count_refusal, note_experience, refused_as};
use crate::edge::{Cached, LocalEdge, NoAnswer, Viewer};
use crate::worker::Worker;
use disk::{File, ReadError};
use edge::contract::Trouble;
use fullbore_http::{Context, Entity, Field, FileForm, Part, Refusal, Request, Response};
use std::rc::Rc;

/// How often a request starts over because the origin's object changed before its first byte arrived.
const TRIES: u32 = 3;

/// The response to a request for the file at `path`. It is returned once the first byte of its body is there. So a failure before
/// that is reported as a status, and not by a response that breaks off.
pub(super) async fn prepare(
    worker: &Worker,
    edge: &LocalEdge,
    request: &Request,
    path: &[u8],
    viewer: Viewer<'_>,
) -> (Response, Option<Rc<File>>) {
    let mut tries = 1;
    let why = loop {
        match find(worker, edge, request, path, viewer).await {
            Ok((response, file)) => {
                note_experience(worker, request, path, response.status);
                return (response, Some(file));
            }
            Err(NoAnswer::Trouble(Trouble::Changed | Trouble::Evicted)) if tries < TRIES => {
                tries += 1;
            }
            Err(NoAnswer::Trouble(Trouble::Uncacheable)) => {
                // Boxed, so that requests for a cached film do not pay for it.
                match Box::pin(pass(worker, edge, request, path, viewer)).await {
                    Ok((response, file)) => {
                        note_experience(worker, request, path, response.status);
                        return (response, Some(file));
                    }
                    Err(why) => break why,
                }
            }
            Err(why) => break why,
        }
    };
    worker.numbers.count(telemetry::Family::EdgeLookups, "refused");
    (refused_as(worker, why.as_str(), refusal_for(why), request), None)
}

async fn find(
    worker: &Worker,
    edge: &LocalEdge,
    request: &Request,
    path: &[u8],
    viewer: Viewer<'_>,
) -> Result<(Response, Rc<File>), NoAnswer> {
    let (file, cached, lookup) = edge.open(path, first_byte(request), viewer).await?;
    let response = respond(worker, request, (&file, path), &cached);
    let first = response.body.iter().find_map(|part| match part {
        Part::Range(range) => Some(range.clone()),
        _ => None,
    });
    if let Some(range) = first {
        let arrived = file.arrive(&(range.start..range.start + 1), range.end).await;
        arrived.map_err(|error| trouble_of(&error))?;
    }
    worker.numbers.count(telemetry::Family::EdgeLookups, lookup);
    Ok((response, file))
}

/// Fetches a response that must not be cached, for this viewer alone.
async fn pass(
    worker: &Worker,
    edge: &LocalEdge,
    request: &Request,
    path: &[u8],
    viewer: Viewer<'_>,
) -> Result<(Response, Rc<File>), NoAnswer> {
    let (file, cached) = edge.pass(path, viewer).await?;
    worker.numbers.count(telemetry::Family::EdgeLookups, "passed");
    Ok((respond(worker, request, (&file, path), &cached), file))
}

fn respond(
    worker: &Worker,
    request: &Request,
    (file, path): (&File, &[u8]),
    cached: &Cached,
) -> Response {
    let described = &cached.described;
    let entity = Entity {
        size_bytes: described.size,
        modified_unix_seconds: described.modified,
        date_is_strong: described.is_date_strong,
        etag: &described.etag,
        // The edge asks for files as they are, and has no other form of them.
        form: FileForm::Only,
        content_type: described
            .content_type
            .as_deref()
            .unwrap_or_else(|| fullbore_http::content_type(path)),
        age_seconds: Some(cached.age(reactor::now()).as_secs()),
    };
    // The origin's directives about caching override the operator's rules.
    let response = worker.with_file_context(file, path, |context| match &described.cache_control {
        Some(said) => fullbore_http::respond(
            request,
            &entity,
            &Context { cache_control: said, ..context.clone() },
        ),
        None => fullbore_http::respond(request, &entity, context),
    });
    count_refusal(&worker.numbers, response.status);
    response
}

/// The first byte that a viewer wants, as far as its request shows it.
fn first_byte(request: &Request) -> u64 {
    let Some(value) = request.field(Field::Range) else { return 0 };
    let first =
        value.strip_prefix(b"bytes=").unwrap_or_default().split(|byte| *byte == b'-').next();
    let first = first.and_then(|first| std::str::from_utf8(first).ok()?.parse().ok());
    // Beyond any object; it would only confuse the origin.
    first.filter(|first| *first < 1 << 60).unwrap_or(0)
}

fn trouble_of(error: &ReadError) -> Trouble {
    match error {
        // Out of bounds: the helper is gone, or silent.
        ReadError::NotBrought(why) => {
            Trouble::ALL.get(usize::from(*why)).copied().unwrap_or(Trouble::TimedOut)
        }
        _ => Trouble::Disk,
    }
}

fn refusal_for(why: NoAnswer) -> Refusal {
    let NoAnswer::Trouble(trouble) = why else { return Refusal::Unavailable };
    match trouble {
        Trouble::NotFound => Refusal::NotFound,
        Trouble::TimedOut => Refusal::GatewayTimeout,
        Trouble::Full => Refusal::Unavailable,
        Trouble::Disk => Refusal::Internal,
        _ => Refusal::BadGateway,
    }
}
