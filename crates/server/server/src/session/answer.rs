//! Decides on the response to a request, and sends it.

use super::collecting::{is_collector, is_for_collector};
use super::edged::Asked;
use super::growing::GrowingResponse;
use super::{Session, Suited, forms, other_spelling, purging};
use crate::access_log::LogEntry;
use crate::edge::Viewer;
use crate::libraries::Library;
use crate::page;
use crate::redact;
use crate::token_gate::Gate;
use crate::worker::Worker;
use delivery::in_memory::Held;
use delivery::{Channel, End, Outgoing};
use disk::{File, OpenError, ReadError};
use fullbore_http::{
    BodyFraming, Entity, Field, FileForm, LibraryPath, Part, Refusal, RefusedRequest, Request,
    Resource, Response,
};
use std::borrow::Cow;
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use telemetry::since_1970;
use telemetry::{Family, Numbers};
use token::{TokenFault, Verified};

/// A request's file, or why it cannot be opened.
pub(super) type Opened = Result<Rc<File>, OpenError>;

impl Session {
    /// Answers one request, which was complete at `started`, and returns whether the connection stays open. Its file may have been `opened`
    /// before.
    pub(super) async fn answer(
        &mut self,
        request: &Request,
        opened: Option<Opened>,
        started: Instant,
    ) -> Result<bool, End> {
        let worker = Rc::clone(&self.worker);
        let growing = RefCell::default();
        let viewer = (self.peer.ip(), &self.channel, &growing);
        let asked = (request, body_sent_on(&worker, request, &self.input));
        let (mut response, file) =
            prepare(&worker, asked, opened, viewer, &mut self.verified).await;
        if let Some(gate) = &worker.libraries.gate {
            gate.keep_from_others(request, &mut response);
        }
        let body = (file, growing.into_inner());
        self.deliver(&worker, response, body, Some(request), started).await
    }

    /// Answers an invalid request. The connection ends after it.
    pub(super) async fn refuse(&mut self, refusal: Refusal) -> Result<(), End> {
        let worker = Rc::clone(&self.worker);
        let response = refused(&worker, refusal, RefusedRequest::Unparsed(&self.input));
        let deliver = self.deliver(&worker, response, (None, None), None, Instant::now());
        Box::pin(deliver).await.map(|_| ())
    }

    /// Sends a response. What comes before its first await is outside of the future, which would hold it as long as the viewer takes.
    pub(super) fn deliver(
        &mut self,
        worker: &Worker,
        response: Response,
        (file, growing): (Option<Rc<File>>, Option<Box<GrowingResponse>>),
        request: Option<&Request>,
        started: Instant,
    ) -> impl Future<Output = Result<bool, End>> {
        let asked = request.map_or(RefusedRequest::Unparsed(&self.input), RefusedRequest::Parsed);
        let (response, held) = hold(worker, response, asked);
        // Unless it has become a refusal.
        let growing = growing.filter(|_| response.body.is_empty());
        let (status, keep_alive) = (response.status, response.keep_alive);
        worker.numbers.count(Family::Responses, status_label(status));
        let is_start =
            matches!(response.body.first(), Some(Part::Range(range)) if range.start == 0);
        let is_nodes = request.is_some_and(|request| is_nodes(worker, request));
        let sent_file = file.clone();
        let outgoing = Outgoing::new(response.head, response.body, file).holding(held);
        let outgoing = Rc::new(outgoing);
        async move {
            let taken_before = self.channel.begin_response(started);
            worker.numbers.sending.add(1);
            let mut sent = self.channel.send(&outgoing, &mut self.input).await;
            let mut response_bytes = outgoing.bytes();
            if let Some(growing) = growing.filter(|_| sent.is_ok()) {
                // Boxed, so that other responses do not pay for it.
                sent = Box::pin(self.send_growing(growing, &mut response_bytes)).await;
            }
            worker.numbers.sending.subtract(1);
            let taken_bytes = self.channel.taken_bytes() - taken_before;
            if is_nodes {
                worker.numbers.sent_to_nodes_bytes_total.add(taken_bytes);
            }
            if let Some(request) = request {
                self.note_delivery(worker, request, status, taken_bytes);
                if let Some(file) = &sent_file {
                    let views = (!is_nodes).then_some((taken_bytes, is_start));
                    note_of_file(worker, request, file, views, sent);
                }
            }
            if let Err(end @ (End::File(_) | End::ChangedUnderUs)) = sent {
                warn_of(worker, request, end);
            }
            if let Some(log) = &worker.reports.access_log {
                log.write(&LogEntry {
                    peer: self.peer,
                    tls: self.tls.map(Suited::label),
                    request,
                    status,
                    response_bytes,
                    duration: started.elapsed(),
                    end: sent.err().map(End::as_str),
                });
            }
            sent.map(|()| keep_alive)
        }
    }

    /// Records how much the viewer received, to compare with its player's reports ([`note_experience`]).
    fn note_delivery(&self, worker: &Worker, request: &Request, status: u16, bytes: u64) {
        let Some(experience) = &worker.reports.experience else { return };
        if request.method == fullbore_http::Method::Get && matches!(status, 200 | 206) && bytes > 0
        {
            experience.note_delivery(request, self.peer.ip(), bytes, since_1970());
        }
    }
}

/// Counts what a viewer got of a file: `views` has its bytes, and whether the file's first one was among them. Records if the file could not be read.
fn note_of_file(
    worker: &Worker,
    request: &Request,
    file: &File,
    views: Option<(u64, bool)>,
    sent: Result<(), End>,
) {
    let Some(library) = worker.libraries.of(request) else { return };
    let asked = path_of(worker, request);
    let path = file.spelling().map(|spelling| without_form(spelling, asked)).or(asked);
    if let (Some(path), Some((bytes, is_start))) = (path, views) {
        let path = library.named(path);
        worker.reports.audience.count_title(&path, bytes, is_start);
    }
    if let Err(End::File(ReadError::Io(_))) = sent {
        // An edge's files have names of their own.
        let path = path.filter(|_| worker.libraries.edge.is_none());
        library.note_failure(Some(file.folder()), path);
    }
}

/// The spelling of the file that a viewer `asked` for, if a compressed form of it was sent.
fn without_form<'p>(spelling: &'p [u8], asked: Option<&[u8]>) -> &'p [u8] {
    let forms = [catalog::BROTLI, catalog::GZIP].map(str::as_bytes);
    let form = forms
        .iter()
        .find(|form| spelling.ends_with(form) && asked.is_some_and(|asked| !asked.ends_with(form)));
    form.and_then(|form| spelling.strip_suffix(*form)).unwrap_or(spelling)
}

/// Tells the operator of a response that could not be completed.
fn warn_of(worker: &Worker, request: Option<&Request>, end: End) {
    let target = redact::target(request.map(Request::target).unwrap_or_default());
    let what = format!("{target}: {}; the viewer's connection was closed", end.as_str());
    worker.reports.warnings.print(&what);
}

/// The body of a request that is sent on to an edge's origin, from the beginning of the input; empty for other requests.
fn body_sent_on<'i>(worker: &Worker, request: &Request, input: &'i [u8]) -> &'i [u8] {
    match request.body {
        BodyFraming::Length(bytes) if worker.libraries.sends_on(request) => {
            input.get(..bytes as usize).unwrap_or_default()
        }
        _ => &[],
    }
}

/// Accounts for the memory that a response holds. If the limit is reached, the response becomes a refusal.
fn hold(worker: &Worker, response: Response, asked: RefusedRequest<'_>) -> (Response, Held) {
    match worker.in_memory.hold(&response.body) {
        Some(held) => (response, held),
        None => {
            let refusal = Refusal::Unavailable;
            (refused_as(worker, "response_memory", refusal, asked), Held::default())
        }
    }
}

/// Whether the request has a fleet node's proof that it copies a title. Copies between nodes are not views and are not counted per title.
fn is_nodes(worker: &Worker, request: &Request) -> bool {
    let (Some(proof), Resource::File(path)) = (request.field(Field::Copy), &request.resource)
    else {
        return false;
    };
    // A node signs the path as it is in the title's record.
    let path = without_token(worker, path.as_sent());
    let copies = worker.reports.copies.borrow();
    copies.as_ref().is_some_and(|ring| ring.proves(proof, path, since_1970().as_secs()))
}

/// The path of the file that `request` was answered with, without the token before it.
fn path_of<'r>(worker: &Worker, request: &'r Request) -> Option<&'r [u8]> {
    let Resource::File(path) = &request.resource else { return None };
    Some(without_token(worker, path.as_bytes()))
}

fn without_token<'p>(worker: &Worker, path: &'p [u8]) -> &'p [u8] {
    worker.libraries.gate.as_ref().map_or(path, |gate| gate.without_token(path))
}

async fn prepare(
    worker: &Worker,
    (request, body): (&Request, &[u8]),
    opened: Option<Opened>,
    (client, channel, growing): (IpAddr, &Channel, &RefCell<Option<Box<GrowingResponse>>>),
    verified: &mut Verified,
) -> (Response, Option<Rc<File>>) {
    if worker.libraries.is_purge(request) {
        // Boxed, so that requests of viewers do not pay for it.
        return (Box::pin(purging::answer(worker, request, client)).await, None);
    }
    let is_sent_on = worker.libraries.sends_on(request);
    if request.method == fullbore_http::Method::Options && !is_sent_on {
        return (options(worker, request), None);
    }
    if !request.method.reads() && !is_sent_on {
        return (refused(worker, not_allowed(worker, request), request), None);
    }
    if worker.answering.tells_health && is_for_health(request) {
        return (health(worker, request), None);
    }
    let Some(library) = worker.libraries.of(request) else {
        return (refused(worker, Refusal::Misdirected, request), None);
    };
    let resource = match admit(worker, request, client, verified) {
        Ok(resource) => resource,
        Err(fault) => {
            return (refused_as(worker, fault.as_str(), Refusal::Forbidden, request), None);
        }
    };
    let path = match &*resource {
        Resource::File(path) => path,
        Resource::Refused(escape) => {
            return (refused_as(worker, escape.as_str(), Refusal::NotFound, request), None);
        }
        Resource::Reserved(path) => {
            if is_collector(worker, path) {
                return (refused(worker, Refusal::PostOnly, request), None);
            }
            let may_list = may_list(worker, request, client);
            let page = page::reserved(worker, library, request, path.as_bytes(), may_list);
            let response = page.unwrap_or_else(|| refused(worker, Refusal::NotFound, request));
            return (response, None);
        }
        Resource::Directory(path) if path.as_bytes().is_empty() && library.listing.is_some() => {
            return front(worker, library, request, client).await;
        }
        Resource::Directory(_) | Resource::Server => {
            return (refused(worker, Refusal::NotFound, request), None);
        }
    };
    match &worker.libraries.edge {
        Some(edge) => {
            let viewer = Viewer::new(client, channel);
            let spelling = None;
            let asked = Asked { worker, edge, request, path, spelling, viewer, body, growing };
            // Boxed, so that responses from files don't pay for it.
            Box::pin(other_spelling::answer(asked)).await
        }
        None => plan_file(worker, library, (request, client), path, opened).await,
    }
}

/// The response to OPTIONS.
fn options(worker: &Worker, request: &Request) -> Response {
    let respond = match is_for_collector(worker, request) {
        true => fullbore_http::post_options,
        false => fullbore_http::options,
    };
    worker.with_context(|context| respond(request, context))
}

/// The refusal of a method that is not served.
fn not_allowed(worker: &Worker, request: &Request) -> Refusal {
    match is_for_collector(worker, request) {
        true => Refusal::PostOnly,
        false => Refusal::MethodNotAllowed,
    }
}

/// Whether this is a health check. A load balancer has no token, so this comes before the gate.
fn is_for_health(request: &Request) -> bool {
    matches!(&request.resource, Resource::File(path) if path.as_bytes() == b"healthz")
}

/// As the admin listener's, but without the reason, which names folders.
fn health(worker: &Worker, request: &Request) -> Response {
    if worker.drain.has_begun() || worker.libraries.are_lost() {
        return refused_as(worker, "unhealthy", Refusal::Unavailable, request);
    }
    worker.with_context(|context| page::well(request, context))
}

/// The response to a request for the file of `library` at `path`.
async fn plan_file(
    worker: &Worker,
    library: &Library,
    (request, client): (&Request, IpAddr),
    path: &LibraryPath,
    opened: Option<Opened>,
) -> (Response, Option<Rc<File>>) {
    let opened = match opened {
        Some(opened) => opened,
        None => library.open(path).await,
    };
    match opened {
        Ok(file) => {
            let asked = Rc::clone(&file);
            let (response, file) = respond(worker, library, request, path.as_bytes(), file).await;
            let path = library.named(asked.spelling().unwrap_or(path.as_bytes()));
            note_experience(worker, (request, client), &path, response.status);
            (response, Some(file))
        }
        Err(error) => {
            if !matches!(error, OpenError::NotFound | OpenError::Exhausted) {
                let path = library.named(path.as_bytes());
                let path = String::from_utf8_lossy(&path);
                worker.reports.warnings.print(&format!("cannot serve {path}: {error}"));
            }
            if matches!(error, OpenError::Io(_)) {
                let folder = library.folder_of(path);
                library.note_failure(folder, Some(path.as_bytes()));
            }
            let refusal = refusal_for(error);
            // The viewer gets the same response as for a file that does not exist.
            let reason = match error {
                OpenError::Withheld => "withheld",
                _ => refusal.as_str(),
            };
            (refused_as(worker, reason, refusal, request), None)
        }
    }
}

/// Opens the file that `request` names, if the viewer may have it. Does not count anything.
pub(super) async fn open_for(
    worker: &Worker,
    request: &Request,
    client: IpAddr,
    verified: &mut Verified,
) -> Option<Opened> {
    if !request.method.reads() || worker.libraries.edge.is_some() {
        return None;
    }
    let library = worker.libraries.of(request)?;
    let resource = admit(worker, request, client, verified).ok()?;
    let Resource::File(path) = &*resource else { return None };
    Some(library.open(path).await)
}

/// The response for `/`: the library's own page if there is one and the viewer may see it, else the page of titles.
async fn front(
    worker: &Worker,
    library: &Library,
    request: &Request,
    client: IpAddr,
) -> (Response, Option<Rc<File>>) {
    let is_allowed =
        |gate: &Gate| gate.may_have(request, client, since_1970().as_secs())(page::FRONT);
    if worker.libraries.gate.as_ref().is_none_or(is_allowed) {
        match library.files.open(page::FRONT).await {
            Ok(file) => {
                let (response, file) = respond(worker, library, request, page::FRONT, file).await;
                return (response, Some(file));
            }
            Err(OpenError::Io(_)) => {
                library.note_failure(library.files.folder_of(page::FRONT), Some(page::FRONT));
            }
            Err(_) => {}
        }
    }
    (page::shelf(worker, request), None)
}

/// A check of the titles that a list may name to the viewer; none if there is no restriction.
fn may_list<'a>(
    worker: &'a Worker,
    request: &'a Request,
    client: IpAddr,
) -> Option<impl FnMut(&[u8]) -> bool + use<'a>> {
    let gate = worker.libraries.gate.as_ref()?;
    Some(gate.may_list(request, client, since_1970().as_secs()))
}

/// The requested resource, with its token removed if tokens are in use.
fn admit<'r>(
    worker: &Worker,
    request: &'r Request,
    client: IpAddr,
    verified: &mut Verified,
) -> Result<Cow<'r, Resource>, TokenFault> {
    let Some(gate) = &worker.libraries.gate else { return Ok(Cow::Borrowed(&request.resource)) };
    gate.admit(request, client, since_1970().as_secs(), verified)
}

/// The response with `file`, which was opened at `path`, and the file that its body is from: a text file may have other forms.
async fn respond(
    worker: &Worker,
    library: &Library,
    request: &Request,
    path: &[u8],
    file: Rc<File>,
) -> (Response, Rc<File>) {
    let content_type = fullbore_http::content_type(path);
    if !fullbore_http::is_compressible(content_type) {
        let response = plan(worker, request, (path, &file), (&file, FileForm::Only), content_type);
        return (response, file);
    }
    // Boxed, so that films don't pay for it.
    let named = file.spelling().unwrap_or(path);
    let (sent, form) = Box::pin(forms::choose(library, request, named, &file)).await;
    let response = plan(worker, request, (path, &file), (&sent, form), content_type);
    (response, sent)
}

/// The response to a request for the file at a path, whose header rule applies, with one of its forms.
fn plan(
    worker: &Worker,
    request: &Request,
    (path, file): (&[u8], &File),
    (sent, form): (&File, FileForm),
    content_type: &str,
) -> Response {
    let stamp = sent.stamp();
    let modified = unix_time(stamp.modified_seconds, stamp.modified_nanoseconds);
    let changed = unix_time(stamp.changed_seconds, stamp.changed_nanoseconds);
    let etag =
        fullbore_http::file_etag(stamp.inode, stamp.size, modified.as_nanos(), changed.as_nanos());
    let entity = Entity {
        size_bytes: stamp.size,
        modified_unix_seconds: Some(modified.as_secs()),
        date_is_strong: changed.as_secs() <= modified.as_secs(),
        etag: &etag,
        form,
        content_type,
        age_seconds: None,
        fields: &[],
    };
    let response = worker
        .with_file_context(file, path, |context| fullbore_http::respond(request, &entity, context));
    count_refusal(&worker.numbers, response.status);
    response
}

/// A file's time; a time before 1970 counts as 1970.
fn unix_time(seconds: i64, nanoseconds: u32) -> Duration {
    u64::try_from(seconds).map_or(Duration::ZERO, |seconds| Duration::new(seconds, nanoseconds))
}

/// Records the player's report about its viewer, but only if the request succeeds, so that clients cannot invent titles.
pub(super) fn note_experience(
    worker: &Worker,
    (request, client): (&Request, IpAddr),
    path: &[u8],
    status: u16,
) {
    let Some(experience) = &worker.reports.experience else { return };
    if request.method == fullbore_http::Method::Get && matches!(status, 200 | 206 | 304) {
        experience.note(request, client, path, since_1970(), &worker.numbers);
    }
}

fn refused<'a>(
    worker: &Worker,
    refusal: Refusal,
    asked: impl Into<RefusedRequest<'a>>,
) -> Response {
    refused_as(worker, refusal.as_str(), refusal, asked)
}

/// Refuses a request, and counts a reason that is not revealed to the viewer.
pub(super) fn refused_as<'a>(
    worker: &Worker,
    reason: &'static str,
    refusal: Refusal,
    asked: impl Into<RefusedRequest<'a>>,
) -> Response {
    worker.numbers.count(Family::Refusals, reason);
    worker.with_context(|context| fullbore_http::refuse(refusal, asked, context))
}

/// As [`refused_as`], with an explanation.
pub(super) fn refused_because(
    worker: &Worker,
    (reason, refusal): (&'static str, Refusal),
    why: &str,
    request: &Request,
) -> Response {
    worker.numbers.count(Family::Refusals, reason);
    worker.with_context(|context| fullbore_http::refuse_because(refusal, why, request, context))
}

fn refusal_for(error: OpenError) -> Refusal {
    match error {
        OpenError::NotFound | OpenError::Denied | OpenError::Withheld => Refusal::NotFound,
        OpenError::Exhausted | OpenError::Hangs => Refusal::Unavailable,
        OpenError::Io(_) => Refusal::Internal,
    }
}

/// Counts refusals by `fullbore_http::respond` itself.
pub(super) fn count_refusal(numbers: &Numbers, status: u16) {
    match status {
        412 => numbers.count(Family::Refusals, "precondition_failed"),
        416 => numbers.count(Family::Refusals, "range_not_satisfiable"),
        _ => {}
    }
}

fn status_label(status: u16) -> &'static str {
    match status {
        200 => "200",
        204 => "204",
        206 => "206",
        304 => "304",
        400 => "400",
        403 => "403",
        404 => "404",
        405 => "405",
        408 => "408",
        411 => "411",
        412 => "412",
        413 => "413",
        414 => "414",
        416 => "416",
        417 => "417",
        421 => "421",
        429 => "429",
        431 => "431",
        500 => "500",
        501 => "501",
        502 => "502",
        503 => "503",
        504 => "504",
        505 => "505",
        _ => "other",
    }
}

impl LogEntry<'_> {
    /// A header field of the request, as text for the log.
    pub(crate) fn field(&self, field: Field) -> Option<String> {
        self.request?.field(field).map(redact::text)
    }
}
