//! Requests to one origin: a web server, or an S3 bucket, for which they are signed.

mod own_urls;

use crate::bucket_role::BucketRole;
use crate::contract::{ForwardedRequest, Trouble};
use crate::http_cache::{Fields, LifetimeRule};
use crate::origin_access::{OriginAccess, Reach};
use crate::origin_address::{OriginAddress, key_of};
use crate::origin_files::OriginFiles;
use crate::origin_settings::OriginSettings;
use crate::policy::Terms;
use crate::policy::{content_range, part, strong_etag, terms, unsatisfied};
use crate::rules::PathRules;
use outbound::{certificate_trouble, with_causes};
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderName, HeaderValue, IF_MATCH,
    IF_NONE_MATCH, RANGE, USER_AGENT, VARY,
};
use reqwest::{Method, Response, StatusCode, Url};
use s3::{S3Refusal, S3Signer};
use std::ops::Range;
use std::sync::{Arc, RwLock};

/// The longest film that is taken as one body if that is what it takes to learn its length: four blocks. Of a longer one, viewers seek.
const WHOLE_BYTES_MAX: u64 = 4 << 20;

/// The helper's `User-Agent`.
const AGENT: &str = concat!("fullbore-edge/", env!("CARGO_PKG_VERSION"));

/// Why an answer cannot be used, and the details for the operator.
pub(crate) type Refused = (Trouble, String);

/// The number of the origin that has answered, from 0: one of a response's extensions.
#[derive(Clone, Copy)]
struct AnsweredBy(usize);

/// The number of the origin that has sent this answer.
pub(crate) fn answered_by(answer: &Response) -> usize {
    answer.extensions().get::<AnsweredBy>().map_or(0, |by| by.0)
}

/// What a request tells of its origin's health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing: it was not sent.
    #[default]
    Nothing,
    /// It got no answer, or that the server behind the origin doesn't answer, or that the origin is overloaded.
    Failure,
    /// It got an answer. An error of a program is about its URL, and 429 about who asks.
    Answer,
}

impl Heard {
    fn of(status: StatusCode) -> Self {
        if matches!(status.as_u16(), 502..=504) { Self::Failure } else { Self::Answer }
    }
}

/// A request that has no answer.
pub(crate) struct Unanswered {
    pub(crate) refused: Refused,
    /// Whether the origin may have got it: there was a connection.
    pub(crate) was_sent: bool,
}

impl Unanswered {
    fn unsent(refused: Refused) -> Self {
        Self { refused, was_sent: false }
    }
}

/// The beginning of an answer that may be kept.
pub(crate) struct Found {
    pub(crate) terms: Terms,
    /// The object's length.
    pub(crate) size: u64,
    /// The range of the bytes that follow.
    pub(crate) range: Range<u64>,
    /// The number of the origin that sends it.
    pub(crate) origin: usize,
    pub(crate) body: Response,
}

/// The origin's answer about a path.
pub(crate) enum Verdict {
    Found(Box<Found>),
    /// The named version is still the current one, says the origin with this number. The header contains only fields that the answer repeats.
    NotModified(HeaderMap, usize),
    /// There is another response, which is no object, and what it means for an object that was there.
    Other(Box<Response>, Trouble),
}

impl Verdict {
    fn found(found: Found) -> Self {
        Self::Found(Box::new(found))
    }
}

/// A client of one origin.
pub(crate) struct Origin {
    /// Its place in the order of preference, from 0.
    number: usize,
    address: OriginAddress,
    settings: OriginSettings,
    access: RwLock<Arc<OriginAccess>>,
    reach: Reach,
    rules: Arc<PathRules>,
    /// Signs requests to a bucket, with the credentials of this process.
    signer: Option<S3Signer>,
    /// Where it gets those, if not from the environment.
    role: Option<BucketRole>,
}

impl Origin {
    /// Sends no request yet.
    pub(crate) fn new(
        number: usize,
        (settings, files): (OriginSettings, &OriginFiles),
        reach: Reach,
        rules: Arc<PathRules>,
    ) -> Result<Self, String> {
        let address = settings.check()?;
        let access = RwLock::new(Arc::new(OriginAccess::new(&settings, files, &reach)?));
        let signer = address.1.as_deref().map(S3Signer::open).transpose();
        let signer = signer.map_err(|error| error.to_string())?;
        let role = signer.as_ref().map(|signer| BucketRole::of(signer, &reach.trusted));
        let role = role.transpose()?.flatten();
        if role.is_none() && signer.as_ref().is_some_and(|signer| !signer.has_credentials()) {
            eprintln!(
                "fullbore: the edge's helper found no credentials, so only a public bucket will answer: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            );
        }
        Ok(Self { number, address, settings, access, reach, rules, signer, role })
    }

    /// From now on, requests are made with the present texts of files.
    ///
    /// # Errors
    /// If they can't be used. Then nothing has changed.
    pub(crate) fn renew(&self, files: &OriginFiles) -> Result<(), String> {
        if self.settings.files().next().is_none() {
            return Ok(());
        }
        let access = OriginAccess::new(&self.settings, files, &self.reach)?;
        *self.access.write().expect("no holder of this lock can panic") = Arc::new(access);
        Ok(())
    }

    fn access(&self) -> Arc<OriginAccess> {
        Arc::clone(&self.access.read().expect("no holder of this lock can panic"))
    }

    /// Its address.
    pub(crate) fn address(&self) -> &OriginAddress {
        &self.address
    }

    /// The role that gives the credentials for a bucket.
    pub(crate) fn role(&self) -> Option<&BucketRole> {
        self.role.as_ref()
    }

    /// Keeps the credentials of a bucket's role valid, if there is one.
    pub(crate) async fn keep_role_current(&self) {
        if let (Some(role), Some(signer)) = (&self.role, &self.signer) {
            role.keep_current(signer).await;
        }
    }

    /// Requests `range` of the current version at `path`, unless that is `known`, for a viewer with this `request`.
    pub(crate) async fn look(
        &self,
        path: &str,
        range: Range<u64>,
        known: Option<&str>,
        request: &ForwardedRequest,
        is_last: bool,
        heard: &mut Heard,
    ) -> Result<Verdict, Refused> {
        let condition = known.map(|etag| (IF_NONE_MATCH, etag));
        let mut answer = self.send(path, Some(&range), condition, request, heard).await?;
        let mut asked = Some(range);
        if answer.status() == StatusCode::NOT_MODIFIED && known.is_some() {
            return Ok(Verdict::NotModified(answer.headers().clone(), self.number));
        }
        if answer.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            // The object is shorter than the viewer assumes, perhaps empty. Request its start to learn its length.
            let is_empty = unsatisfied(answer.headers()) == Some(0);
            asked = asked.filter(|range| range.start > 0 && !is_empty);
            asked = asked.map(|range| 0..range.end - range.start);
            answer = self.send(path, asked.as_ref(), None, request, heard).await?;
        }
        match asked {
            Some(asked) if has_no_total(&answer) => {
                self.look_at_whole(path, (answer, asked), request, is_last, heard).await
            }
            asked => self.judge(path, answer, asked.unwrap_or(0..u64::MAX), is_last),
        }
    }

    /// Learns the length of an object from an origin whose answer is a `part` and doesn't say of how many bytes. Without a range, the origin says
    /// that, or sends all that there is.
    async fn look_at_whole(
        &self,
        path: &str,
        (part, asked): (Response, Range<u64>),
        request: &ForwardedRequest,
        is_last: bool,
        heard: &mut Heard,
    ) -> Result<Verdict, Refused> {
        let whole = self.send(path, None, None, request, heard).await?;
        let whole = match self.judge(path, whole, 0..u64::MAX, is_last)? {
            Verdict::Found(whole) => whole,
            other => return Ok(other),
        };
        if asked.start == 0 && whole.size <= WHOLE_BYTES_MAX {
            return Ok(Verdict::Found(whole));
        }
        // All of it would come before what the viewer wants, which is here: the first body gives this block, and ranges give the others.
        match found(part, asked, (Some(whole.size), self.lifetimes(path))) {
            Ok(part) if part.terms.etag == whole.terms.etag => Ok(Verdict::found(part)),
            _ => Ok(Verdict::Found(whole)),
        }
    }

    /// Decides whether an answer is the beginning of an object.
    fn judge(
        &self,
        path: &str,
        answer: Response,
        asked: Range<u64>,
        is_last: bool,
    ) -> Result<Verdict, Refused> {
        let status = answer.status();
        if let Err((why, said)) = accepted(path, status, false) {
            let is_passing = why == Trouble::Unreachable && !is_last && !is_deliberate(&answer);
            // A bucket's own words are no answer for viewers, and an error that may be over in a moment gets another try.
            return match self.signer.is_some() || is_passing {
                true => Err((why, said)),
                false => Ok(Verdict::Other(Box::new(answer), why)),
            };
        }
        // A range that is all of it is as good as a 200.
        let whole = content_range(answer.headers())
            .is_some_and(|(start, end, size)| start == 0 && end == size && start == asked.start);
        let is_whole = status == StatusCode::OK || status == StatusCode::PARTIAL_CONTENT && whole;
        // A 200 with a range makes no sense, and goes to viewers as it is.
        let makes_sense = status != StatusCode::OK || !answer.headers().contains_key(CONTENT_RANGE);
        let is_object = makes_sense
            && terms(path, answer.headers(), self.lifetimes(path)).is_ok()
            && (status == StatusCode::PARTIAL_CONTENT || answer.content_length().is_some());
        if is_whole && !is_object {
            return Ok(Verdict::Other(Box::new(answer), Trouble::Uncacheable));
        }
        found(answer, asked, (None, self.lifetimes(path))).map(Verdict::found)
    }

    /// Sends a viewer's request on, with these `conditions`. Any answer is returned, unless it is a bucket's.
    pub(crate) async fn forward(
        &self,
        path: &str,
        request: &ForwardedRequest,
        conditions: &Fields,
        heard: &mut Heard,
    ) -> Result<Response, Unanswered> {
        if self.signer.is_some() {
            let condition = conditions.first("if-none-match").map(|tag| (IF_NONE_MATCH, tag));
            let answer = self.send(path, None, condition, &ForwardedRequest::get(), heard).await;
            let answer =
                answer.and_then(|answer| accepted(path, answer.status(), false).map(|()| answer));
            return answer.map_err(|refused| Unanswered { refused, was_sent: true });
        }
        let wrong = |what: &str| Unanswered::unsent((Trouble::Wrong, format!("{path}: {what}")));
        let url = self.address.of(path).ok_or_else(|| Unanswered::unsent(unnameable(path)))?;
        let method = Method::from_bytes(request.method.as_bytes());
        let method = method.map_err(|_| wrong("no request has this method"))?;
        let body = request.body().ok_or_else(|| wrong("the request's body is damaged"))?;
        let has_body = !matches!(method, Method::GET | Method::HEAD | Method::OPTIONS);
        let (access, fields) = (self.access(), travelling(request, conditions));
        let is_authorized = access.authorizes(&method, &fields);
        let mut sent = access.request(method, url, fields);
        if !body.is_empty() {
            sent = sent.body(body);
        } else if has_body {
            // Some servers refuse a request that could have a body and says nothing of it (RFC 9110 section 8.6).
            sent = sent.header(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        *heard = Heard::Failure;
        match sent.send().await {
            Ok(answer) => {
                *heard = Heard::of(answer.status());
                match is_authorized && self.is_refused(&access, answer.status()) {
                    true => Err(Unanswered { refused: unauthorized(path), was_sent: true }),
                    false => Ok(self.answered(path, answer)),
                }
            }
            Err(error) => {
                let was_sent = !error.is_connect();
                Err(Unanswered { refused: broken(path, error), was_sent })
            }
        }
    }

    /// Whether the answer with this status refuses the edge's own `Authorization`. The log says so once.
    fn is_refused(&self, access: &OriginAccess, status: StatusCode) -> bool {
        let (is_refused, is_news) = access.note_authorized(status);
        if is_news {
            eprintln!("fullbore: {}: {UNAUTHORIZED}", self.address);
        }
        is_refused
    }

    fn answered(&self, path: &str, mut answer: Response) -> Response {
        answer.extensions_mut().insert(AnsweredBy(self.number));
        let is_stored_one = answer.status() == StatusCode::NOT_MODIFIED;
        let headers = answer.headers_mut();
        // A 304 need not repeat it, and what it says would take the place of all that is stored.
        if !is_stored_one || headers.contains_key(VARY) {
            for name in self.rules.at_stored(path).headers_vary() {
                headers.append(VARY, HeaderValue::from_str(name).expect("checked with its rule"));
            }
        }
        answer
    }

    /// The lifetimes that the operator sets for a path.
    fn lifetimes(&self, path: &str) -> LifetimeRule {
        self.rules.at_stored(path).lifetimes
    }

    /// Asks for one byte at `path`, to see whether the origin answers again.
    pub(crate) async fn ask_briefly(&self, path: &str, request: &ForwardedRequest) -> Heard {
        let mut heard = Heard::default();
        let _ = self.send(path, Some(&(0..1)), None, request, &mut heard).await;
        heard
    }

    /// The URL of `path`, if the origin can have that path.
    pub(crate) fn url_of(&self, path: &str) -> Option<Url> {
        match &self.signer {
            Some(signer) => key_of(path).and_then(|key| signer.get(&key)),
            None => self.address.of(path),
        }
    }

    /// Requests `range` of a version by a `request` that is no viewer's. An origin that has said how long the version is need not repeat its `size`.
    pub(crate) async fn bring(
        &self,
        path: &str,
        range: Range<u64>,
        (etag, size): (&str, Option<u64>),
        request: &ForwardedRequest,
        heard: &mut Heard,
    ) -> Result<Found, Refused> {
        let condition = Some((IF_MATCH, etag));
        let answer = self.send(path, Some(&range), condition, request, heard).await?;
        let changed = |what: &str| (Trouble::Changed, format!("{path}: {what}"));
        match answer.status() {
            // The request that found it was allowed, so it is not for all viewers.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let said = "the origin refuses its blocks without a viewer's header fields";
                Err((Trouble::Uncacheable, format!("{path}: {said}")))
            }
            StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE => {
                Err(changed("the origin has another version"))
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                Err((Trouble::NotFound, format!("{path}: the origin no longer has it")))
            }
            StatusCode::OK | StatusCode::PARTIAL_CONTENT
                if strong_etag(answer.headers()).is_some_and(|now| now != etag) =>
            {
                Err(changed("the origin sent another version"))
            }
            // The same tag at another origin may be that of a longer film.
            _ if size.is_none() && has_no_total(&answer) => {
                Err(changed("the origin does not say of how many bytes its part is"))
            }
            status => {
                accepted(path, status, true)?;
                found(answer, range, (size, self.lifetimes(path)))
            }
        }
    }

    /// Checks once whether it can be reached: requests the head of its folder from a web server, or the name of one object from a bucket. A
    /// refusal is not an error, because films may be available all the same.
    ///
    /// # Errors
    /// If it cannot be reached, with advice where there is any.
    pub(crate) async fn probe(&self) -> Result<(), String> {
        self.role_known().await;
        let (method, url) = match &self.signer {
            Some(signer) => (Method::GET, signer.probe()),
            None => (Method::HEAD, self.address.0.clone()),
        };
        let agent = HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_static(AGENT))]);
        let access = self.access();
        let is_authorized = access.authorizes(&Method::GET, &agent);
        let answer = access.request(method, url, agent).send().await;
        let answer = answer.map_err(|error| in_words(&error.without_url()))?;
        match &self.signer {
            Some(signer) => signer.judge_probe(answer).await,
            None if is_authorized && answer.status() == StatusCode::UNAUTHORIZED => {
                Err(UNAUTHORIZED.into())
            }
            None if answer.status().is_server_error() => {
                Err(format!("the origin said {}", answer.status()))
            }
            None => Ok(()),
        }
    }

    async fn role_known(&self) {
        if let Some(role) = &self.role {
            role.known().await;
        }
    }

    /// Sends a request. Only a bucket's refusals are errors.
    async fn send(
        &self,
        path: &str,
        range: Option<&Range<u64>>,
        condition: Option<(HeaderName, &str)>,
        request: &ForwardedRequest,
        heard: &mut Heard,
    ) -> Result<Response, Refused> {
        self.role_known().await;
        let url = self.url_of(path).ok_or_else(|| unnameable(path))?;
        // A signature covers the fields of a request, and a bucket needs none of a viewer's.
        let fields = match self.signer.is_some() {
            true => travelling(&ForwardedRequest::get(), &Fields::default()),
            false => travelling(request, &Fields::default()),
        };
        let access = self.access();
        let is_authorized = access.authorizes(&Method::GET, &fields);
        let mut sent = access.request(Method::GET, url, fields);
        if let Some(range) = range {
            sent = sent.header(RANGE, format!("bytes={}-{}", range.start, range.end - 1));
        }
        if let Some((name, etag)) = condition.clone() {
            sent = sent.header(name, etag);
        }
        *heard = Heard::Failure;
        let answer = sent.send().await.map_err(|error| broken(path, error))?;
        *heard = Heard::of(answer.status());
        if is_authorized && self.is_refused(&access, answer.status()) {
            return Err(unauthorized(path));
        }
        let mut answer = self.answered(path, answer);
        if let Some(signer) = &self.signer {
            // A bucket varies only headers for browsers. An object's bytes never vary.
            answer.headers_mut().remove(VARY);
            let is_of_version = condition.as_ref().is_some_and(|(name, _)| name == IF_MATCH);
            let status = answer.status().as_u16();
            if matches!(status, 301 | 307 | 400 | 403) || status == 404 && !is_of_version {
                let is_unsigned = self.role.as_ref().is_some_and(|role| role.is_missing(signer));
                return Err(refused_by_bucket(path, answer, (signer, is_unsigned)).await);
            }
        }
        Ok(answer)
    }
}

/// The operator's advice if an origin refuses the edge's own `Authorization`.
const UNAUTHORIZED: &str = "the origin refuses the edge's user and password, or its Authorization header (401): check them in edge.origin";

/// No viewer can mend that, and a browser would ask for a password that no viewer has. It says nothing about a film.
fn unauthorized(path: &str) -> Refused {
    (Trouble::Wrong, format!("{path}: {UNAUTHORIZED}"))
}

fn unnameable(path: &str) -> Refused {
    (Trouble::NotFound, format!("{path}: the origin can't have this path"))
}

/// Whether an answer is a part and doesn't say of how many bytes.
fn has_no_total(answer: &Response) -> bool {
    answer.status() == StatusCode::PARTIAL_CONTENT
        && part(answer.headers()).is_some_and(|(_, _, size)| size.is_none())
}

/// Whether a status is one that requests for objects expect. `is_of_version`: the request names a version, which may be gone.
fn accepted(path: &str, status: StatusCode, is_of_version: bool) -> Result<(), Refused> {
    let said = |why: Trouble| Err((why, format!("{path}: the origin said {status}")));
    match status.as_u16() {
        200 | 206 | 304 | 412 | 416 => Ok(()),
        404 | 410 if is_of_version => Ok(()),
        401 | 403 | 404 | 410 => said(Trouble::NotFound),
        300..=399 => said(Trouble::Redirected),
        429 | 500..=599 => said(Trouble::Unreachable),
        _ => said(Trouble::Wrong),
    }
}

/// Whether an error was made for caches or clients to use: it says how long it lasts, or how old it is. Any other one may be a server that is
/// being restarted.
fn is_deliberate(answer: &Response) -> bool {
    let names = ["cache-control", "expires", "last-modified", "retry-after", "age"];
    names.iter().any(|name| answer.headers().contains_key(*name))
}

/// Whether an answer is an error of the origin's own, which another origin may not have.
pub(crate) fn is_failing(status: StatusCode) -> bool {
    matches!(accepted("", status, false), Err((Trouble::Unreachable, _)))
}

/// What an error answer is counted as.
pub(crate) fn failure_of(status: StatusCode) -> Option<Trouble> {
    accepted("", status, false).err().map(|(why, _)| why).filter(|_| !status.is_success())
}

/// The header fields of a request to the origin: the viewer's, without those of which the cache makes its own.
fn travelling(request: &ForwardedRequest, conditions: &Fields) -> HeaderMap {
    let is_read = matches!(request.method.as_str(), "GET" | "HEAD");
    let own = ["if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range"];
    let is_own = |name: &str| {
        is_read && own.iter().chain(&["range"]).any(|one| name.eq_ignore_ascii_case(one))
    };
    let mut headers = HeaderMap::new();
    let mut add = |name: &str, value: &str| {
        let value: Vec<u8> = value.chars().map(|one| one as u8).collect();
        let name = HeaderName::from_bytes(name.as_bytes());
        // What the server has parsed is valid here as well.
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&value)) {
            headers.append(name, value);
        }
    };
    let viewers = request.fields.0.iter().filter(|(name, _)| !is_own(name));
    viewers.chain(&conditions.0).for_each(|(name, value)| add(name, value));
    if is_read {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    if !headers.contains_key(USER_AGENT) {
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    }
    headers
}

/// Interprets a bucket's refusal. Problems with credentials, region or clock are the operator's business: viewers must not be told that
/// there is no such film. If the request `is_unsigned`, and should not be, its refusal says nothing of the object.
async fn refused_by_bucket(
    path: &str,
    answer: Response,
    (signer, is_unsigned): (&S3Signer, bool),
) -> Refused {
    let is_of_object = matches!(answer.status(), StatusCode::FORBIDDEN | StatusCode::NOT_FOUND);
    let refusal = S3Refusal::read(answer).await;
    let is_absent = is_of_object && !is_unsigned && !refusal.is_about_all(signer);
    let why = if is_absent { Trouble::NotFound } else { Trouble::Wrong };
    (why, format!("{path}: {}", refusal.words(signer)))
}

/// Checks the header of an answer against the request: which bytes follow, and of which object. An answer that doesn't say how long that is may be a
/// part of one whose length is `known`. It lasts by the operator's `rule`.
fn found(
    answer: Response,
    asked: Range<u64>,
    (known, rule): (Option<u64>, LifetimeRule),
) -> Result<Found, Refused> {
    let path = answer.url().path().to_owned();
    let wrong = |what: &str| Err((Trouble::Wrong, format!("{path}: {what}")));
    let length = answer.content_length();
    let (size, range) = match answer.status() {
        StatusCode::PARTIAL_CONTENT => {
            let Some((start, end, size)) = part(answer.headers()) else {
                return wrong("the origin sent a part and does not say which");
            };
            let Some(size) = size.or(known) else {
                return wrong("the origin sent a part and does not say of how many bytes");
            };
            if start != asked.start || end != asked.end.min(size) {
                return wrong("the origin sent another part than was asked for");
            }
            if length.is_some_and(|length| length != end - start) {
                return wrong("the origin's lengths contradict each other");
            }
            (size, start..end)
        }
        StatusCode::OK => {
            let Some(size) = length else {
                return Err((
                    Trouble::Uncacheable,
                    format!("{path}: the origin does not say how long it is"),
                ));
            };
            (size, 0..size)
        }
        status => return wrong(&format!("the origin said {status}, which was not asked for")),
    };
    match terms(&path, answer.headers(), rule) {
        Ok(terms) => Ok(Found { terms, size, range, origin: answered_by(&answer), body: answer }),
        Err((trouble, why)) => Err((trouble, format!("{path} cannot be kept: {why}"))),
    }
}

/// Interprets a failed request or body.
pub(crate) fn broken(path: &str, error: reqwest::Error) -> Refused {
    let error = error.without_url();
    let trouble = if error.is_timeout() { Trouble::TimedOut } else { Trouble::Unreachable };
    (trouble, format!("{path}: {}", in_words(&error)))
}

/// The cause of a failed request. For an untrusted certificate, this includes advice for the operator.
fn in_words(error: &reqwest::Error) -> String {
    certificate_trouble(error).unwrap_or_else(|| with_causes(error))
}

#[cfg(test)]
#[path = "origin_tests.rs"]
mod tests;
