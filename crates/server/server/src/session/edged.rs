//! Answers from a caching edge: the origin's objects, under the origin's validators.

use super::ahead;
use super::answer::{count_refusal, note_experience, refused_as};
use super::forwarding::{self, check_length, forwarded_request};
use super::growing::GrowingResponse;
use crate::edge::{
    Cached, Forwarded, LocalEdge, Lookup, NoAnswer, Opened, PassedBody, Viewer, key_of,
};
use crate::worker::Worker;
use disk::{File, ReadError};
use edge::contract::{PassedResponse, Trouble};
use edge::http_cache::{CacheStatus, VIA};
use fullbore_http::{
    Context, Entity, Field, FileForm, LibraryPath, Method, Part, Refusal, Relayed, Request,
    Response,
};
use std::cell::RefCell;
use std::rc::Rc;

/// No object has a byte from here on; it would only confuse the origin.
pub(super) const FIRST_BYTE_MAX: u64 = 1 << 60;

/// How often a request starts over because the origin's object changed before its first byte arrived.
const TRIES: u32 = 3;

/// What a session needs to answer from an edge.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) worker: &'a Worker,
    pub(super) edge: &'a LocalEdge,
    pub(super) request: &'a Request,
    /// The path, for which rules and figures count.
    pub(super) path: &'a LibraryPath,
    /// The path as the origin is asked for it, if that is spelled in another way. One word, because each session holds this several times.
    pub(super) spelling: Option<&'a Vec<u8>>,
    pub(super) viewer: Viewer<'a>,
    /// The request's body.
    pub(super) body: &'a [u8],
    /// Where the body of the response is put if its length is not known.
    pub(super) growing: &'a RefCell<Option<Box<GrowingResponse>>>,
}

/// The response to a request. It is returned once the first byte of its body is there. So a failure before that is reported as a status,
/// and not by a response that breaks off.
pub(super) async fn prepare(asked: Asked<'_>) -> (Response, Option<Rc<File>>) {
    let Asked { worker, edge, request, path, spelling, viewer, body, .. } = asked;
    let path = path.as_bytes();
    let rules = &worker.libraries.key_rules;
    let settings = rules.at(path);
    let spelled = spelling.map_or(path, Vec::as_slice);
    let key = key_of(spelled, request.query(), (rules, settings));
    if let Err(reject) = check_length(request, &key, body) {
        return (refused_as(worker, reject.as_str(), reject.into(), request), None);
    }
    let to_forward = || forwarded_request((worker, settings), (request, body), viewer.address());
    let forwarded = edge.forwarded(&to_forward);
    let mut tries = 1;
    let why = loop {
        // A response to a viewer whom the origin knows may be that viewer's alone, and only the helper knows which it may share. So may one by a
        // rule, and then no film is looked for that was stored before.
        let is_for_all = request.method.reads()
            && settings.may_be_for_all()
            && !forwarding::is_personal((worker, settings), request);
        let found = match is_for_all {
            true => find(asked, &key, &forwarded).await,
            false => Err(Trouble::Uncacheable.into()),
        };
        match found {
            Ok((response, file)) => {
                note_experience(worker, (request, viewer.address()), path, response.status);
                return (response, file);
            }
            Err(NoAnswer::Trouble(Trouble::Changed | Trouble::Evicted | Trouble::Purged))
                if tries < TRIES =>
            {
                tries += 1;
            }
            Err(NoAnswer::Trouble(Trouble::Uncacheable)) => {
                // Boxed, so that requests for a cached film do not pay for it.
                match Box::pin(pass(asked, &key, &forwarded)).await {
                    Ok((response, file)) => {
                        note_experience(worker, (request, viewer.address()), path, response.status);
                        return (response, file);
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
    asked: Asked<'_>,
    key: &[u8],
    forwarded: &Forwarded<'_>,
) -> Result<(Response, Option<Rc<File>>), NoAnswer> {
    let Asked { worker, edge, request, path, viewer, .. } = asked;
    let wanted = (first_byte(request), forwarded);
    let (file, cached, lookup) = match edge.open(key, wanted, viewer).await? {
        Opened::Object(file, cached, lookup) => (file, cached, lookup),
        Opened::Response(shared) => {
            let body = edge.shared_body(&shared)?;
            ahead::hint(asked, key, shared.response.status, false);
            return Ok(relay(asked, &shared.response, body));
        }
    };
    let mut response = respond(worker, request, (&file, path.as_bytes()), &cached);
    let status = cache_status(&response, &file, &cached, lookup);
    response.add_field("Via", VIA);
    response.add_field("Cache-Status", status);
    let first = response.body.iter().find_map(|part| match part {
        Part::Range(range) => Some(range.clone()),
        _ => None,
    });
    if let Some(range) = first {
        let arrived = file.arrive(&(range.start..range.start + 1), range.end).await;
        arrived.map_err(|error| trouble_of(&error))?;
    }
    worker.numbers.count(telemetry::Family::EdgeLookups, lookup.as_str());
    ahead::hint(asked, key, response.status, lookup == Lookup::Hit);
    Ok((response, Some(file)))
}

/// What became of the request that a film answers, before anything is fetched for the body.
fn cache_status(response: &Response, file: &File, cached: &Cached, lookup: Lookup) -> CacheStatus {
    if let (Lookup::Asked { is_own }, Some(origin)) = (lookup, cached.described.origin) {
        let (is_stored, is_collapsed) = (cached.described.is_new, !is_own);
        return CacheStatus::Forwarded { origin, is_stored, is_collapsed };
    }
    let mut parts = response.body.iter();
    let was_ahead = |range| lookup == Lookup::Ahead && cached.was_fetched_ahead(range);
    let has_all = parts.all(|part| match part {
        Part::Range(range) => file.has_arrived(range) || was_ahead(range),
        _ => true,
    });
    match has_all {
        true => CacheStatus::Hit { ttl: cached.ttl(reactor::now()) },
        false => CacheStatus::Partial,
    }
}

/// A response that is no object: a stored one, or the origin's.
async fn pass(
    asked: Asked<'_>,
    key: &[u8],
    forwarded: &Forwarded<'_>,
) -> Result<(Response, Option<Rc<File>>), NoAnswer> {
    let (passed, body) = asked.edge.pass(key, forwarded, asked.viewer).await?;
    ahead::hint(asked, key, passed.status, false);
    Ok(relay(asked, &passed, body))
}

fn relay(
    asked: Asked<'_>,
    passed: &PassedResponse,
    body: PassedBody,
) -> (Response, Option<Rc<File>>) {
    let Asked { worker, request, path, growing, .. } = asked;
    let (file, growing_body) = match body {
        PassedBody::Empty => (None, None),
        PassedBody::File(file) => (Some(file), None),
        PassedBody::Growing(body) => (None, Some(body)),
    };
    let lookup = if passed.is_hit { "hit" } else { "passed" };
    worker.numbers.count(telemetry::Family::EdgeLookups, lookup);
    let relayed = Relayed {
        status: passed.status,
        fields: &passed.fields.0,
        size_bytes: passed.size,
        // Otherwise the length is in the header.
        is_growing: passed.is_growing() && passed.length.is_none(),
        age_seconds: passed.age_ms.map(|age| age / 1000),
    };
    let plan = |context: &Context<'_>| fullbore_http::relay(request, &relayed, context);
    let response = worker.with_path_context(path.as_bytes(), plan);
    // The response to a condition has another status, and no body.
    let has_body = request.method != Method::Head && response.status == passed.status;
    if let Some(body) = growing_body.filter(|_| has_body) {
        let is_chunked = passed.length.is_none() && fullbore_http::is_chunked(request);
        *growing.borrow_mut() = Some(Box::new(GrowingResponse { body, is_chunked }));
    }
    (response, file)
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
        fields: &described.fields.0,
    };
    // The origin's directives about caching override the operator's rules, and its date belongs to the age.
    let date = described.fields.first("date");
    let date = date.and_then(|date| fullbore_http::HttpDate::parse(date.as_bytes()));
    let said = described.cache_control.as_deref();
    let said = said.or_else(|| described.fields.has("expires").then_some(""));
    let response = worker.with_file_context(file, path, |context| {
        let cache_control = said.unwrap_or(context.cache_control);
        let date = date.as_ref().unwrap_or(context.date);
        fullbore_http::respond(
            request,
            &entity,
            &Context { cache_control, date, ..context.clone() },
        )
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
    first.filter(|first| *first < FIRST_BYTE_MAX).unwrap_or(0)
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
