//! A small S3 store that accepts every signature, and follows a test's rules. It supports features that `s3s-fs` lacks: conditional puts,
//! lists of unfinished uploads, entity tags of parts.

#![allow(dead_code)] // Each test uses only a part of it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

/// The store's deviation from a request.
pub(crate) enum Fault {
    /// Answers with this status, these header lines and this body.
    Says(u16, &'static str, String),
    /// Closes the connection after this many bytes of a body.
    Cut(usize),
}

/// Decides on each request, given as `PUT /films/hd/film/title.json?partNumber=1` without its signature.
type Rule = Box<dyn FnMut(&str) -> Option<Fault> + Send>;

#[derive(Clone)]
struct Stored {
    bytes: Vec<u8>,
    sha256: String,
}

struct Upload {
    key: String,
    sha256: String,
    parts: BTreeMap<u16, Vec<u8>>,
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<String, Stored>,
    uploads: BTreeMap<String, Upload>,
    asked: Vec<String>,
    /// Bytes of objects that were read, by key.
    sent_bytes: BTreeMap<String, u64>,
    rule: Option<Rule>,
    knows_no_conditions: bool,
}

/// The store, for as long as the test lives.
pub(crate) struct Store {
    address: String,
    inner: Arc<Mutex<Inner>>,
}

fn tag(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

/// An error of S3.
pub(crate) fn error(code: &str) -> String {
    format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>No.</Message></Error>")
}

fn decoded(text: &str) -> String {
    String::from_utf8(escape::percent::decode(text.as_bytes()).unwrap()).unwrap()
}

impl Store {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let inner = Arc::<Mutex<Inner>>::default();
        let shared = Arc::clone(&inner);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || while serve(&stream, &shared).is_some() {});
            }
        });
        Self { address, inner }
    }

    /// A store that ignores `If-Match` and `If-None-Match`, as some do. (The server of `s3s-fs` is one, too, but it writes an object's
    /// bytes and its metadata one after the other, so two concurrent writers leave one's bytes and the other's SHA-256. A publisher cannot
    /// correct such a fault.)
    pub(crate) fn without_conditions() -> Self {
        let store = Self::start();
        store.inner().knows_no_conditions = true;
        store
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// The address of the folder `hd` in its bucket.
    pub(crate) fn to(&self) -> String {
        format!("s3://films/hd?endpoint={}", self.address)
    }

    pub(crate) fn rule(&self, rule: impl FnMut(&str) -> Option<Fault> + Send + 'static) {
        self.inner().rule = Some(Box::new(rule));
    }

    pub(crate) fn behave(&self) {
        self.inner().rule = None;
    }

    /// The object with this name in the folder `hd`.
    pub(crate) fn object(&self, key: &str) -> Option<Vec<u8>> {
        self.inner().objects.get(&format!("films/hd/{key}")).map(|stored| stored.bytes.clone())
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        let keys = self.inner().objects.keys().cloned().collect::<Vec<_>>();
        keys.iter().map(|key| key.trim_start_matches("films/hd/").to_owned()).collect()
    }

    /// Requests since the last call.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.inner().asked)
    }

    /// The number of bytes read from the objects in the folder `hd` whose names contain `part`.
    pub(crate) fn sent_bytes(&self, part: &str) -> u64 {
        let inner = self.inner();
        let matching = inner.sent_bytes.iter().filter(|(key, _)| key.contains(part));
        matching.map(|(_, bytes)| bytes).sum()
    }

    pub(crate) fn unfinished(&self) -> usize {
        self.inner().uploads.len()
    }
}

struct Request {
    method: String,
    key: String,
    query: BTreeMap<String, String>,
    header: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// Answers one request; `None` if the connection has ended.
fn serve(stream: &TcpStream, inner: &Mutex<Inner>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut header = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        header.insert(name.to_lowercase(), value.to_owned());
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.map(|(name, value)| (name.to_owned(), decoded(value)));
    let query: BTreeMap<_, _> = query.filter(|(name, _)| !name.starts_with("X-Amz")).collect();
    let key = decoded(path.trim_start_matches('/'));
    let words: Vec<_> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let asked = format!("{method} /{key}?{}", words.join("&"));
    let asked = asked.trim_end_matches('?').to_owned();
    let fault = {
        let mut inner = inner.lock().unwrap();
        inner.asked.push(asked.clone());
        inner.rule.as_mut().and_then(|rule| rule(&asked))
    };
    let length = header.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    if let Some(Fault::Cut(bytes)) = fault {
        let count = bytes.min(length);
        reader.read_exact(&mut body[..count]).ok()?;
        return None;
    }
    reader.read_exact(&mut body).ok()?;
    let is_head = method == "HEAD";
    let (status, lines, body) = match fault {
        Some(Fault::Says(status, lines, body)) => (status, lines.to_owned(), body.into_bytes()),
        _ => answer(&mut inner.lock().unwrap(), &Request { method, key, query, header, body }),
    };
    let head = format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n{lines}\r\n", body.len());
    let mut out = stream;
    out.write_all(head.as_bytes()).ok()?;
    if !is_head {
        out.write_all(&body).ok()?;
    }
    Some(())
}

type Answer = (u16, String, Vec<u8>);

fn refused(status: u16, code: &str) -> Answer {
    (status, String::new(), error(code).into_bytes())
}

fn answer(inner: &mut Inner, request: &Request) -> Answer {
    let Request { method, key, query, .. } = request;
    match (method.as_str(), query.get("uploadId")) {
        ("GET", None) if query.contains_key("uploads") => uploads(inner, &query["prefix"]),
        ("POST", None) => {
            let id = format!("upload {}", inner.uploads.len() + inner.asked.len());
            let upload =
                Upload { key: key.clone(), sha256: request.sha256(), parts: BTreeMap::new() };
            inner.uploads.insert(id.clone(), upload);
            (200, String::new(), format!("<R><UploadId>{id}</UploadId></R>").into_bytes())
        }
        (_, Some(id)) => of_upload(inner, request, id),
        ("PUT", None) => put(inner, request),
        (_, None) => get(inner, request),
    }
}

fn get(inner: &mut Inner, request: &Request) -> Answer {
    let Some(stored) = inner.objects.get(&request.key) else { return refused(404, "NoSuchKey") };
    let (tag, sha256, all) = (tag(&stored.bytes), &stored.sha256, stored.bytes.len());
    let mut lines = format!("ETag: {tag}\r\nx-amz-meta-sha256: {sha256}\r\n");
    let range = request.header.get("range").and_then(|range| range.strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        let bytes = stored.bytes.clone();
        if request.method == "GET" {
            *inner.sent_bytes.entry(request.key.clone()).or_default() += all as u64;
        }
        return (200, lines, bytes);
    };
    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
    let last = last.min(all - 1);
    lines.push_str(&format!("Content-Range: bytes {first}-{last}/{all}\r\n"));
    let part = stored.bytes[first..=last].to_vec();
    *inner.sent_bytes.entry(request.key.clone()).or_default() += part.len() as u64;
    (206, lines, part)
}

impl Request {
    fn sha256(&self) -> String {
        self.header.get("x-amz-meta-sha256").cloned().unwrap_or_default()
    }
}

fn put(inner: &mut Inner, request: &Request) -> Answer {
    let there = inner.objects.get(&request.key).map(|stored| tag(&stored.bytes));
    let condition = |name: &str| request.header.get(name);
    let is_wrong = condition("if-none-match").is_some() && there.is_some()
        || condition("if-match").is_some_and(|tag| there.as_ref() != Some(tag));
    if is_wrong && !inner.knows_no_conditions {
        return refused(412, "PreconditionFailed");
    }
    let stored = Stored { bytes: request.body.clone(), sha256: request.sha256() };
    inner.objects.insert(request.key.clone(), stored);
    (200, format!("ETag: {}\r\n", tag(&request.body)), Vec::new())
}

fn uploads(inner: &Inner, prefix: &str) -> Answer {
    let list = inner.uploads.iter().map(|(id, upload)| {
        let key = upload.key.trim_start_matches("films/");
        format!("<Upload><Key>{key}</Key><UploadId>{id}</UploadId></Upload>")
    });
    let list: String = list.filter(|upload| upload.contains(prefix)).collect();
    (200, String::new(), format!("<R>{list}</R>").into_bytes())
}

fn of_upload(inner: &mut Inner, request: &Request, id: &str) -> Answer {
    let Some(upload) = inner.uploads.get_mut(id) else { return refused(404, "NoSuchUpload") };
    let quoted = |bytes: &[u8]| tag(bytes).replace('"', "&quot;");
    match request.method.as_str() {
        "PUT" => {
            let number = request.query["partNumber"].parse().unwrap();
            upload.parts.insert(number, request.body.clone());
            (200, format!("ETag: {}\r\n", tag(&request.body)), Vec::new())
        }
        "GET" => {
            let parts = upload.parts.iter().map(|(number, bytes)| {
                let (tag, size) = (quoted(bytes), bytes.len());
                format!(
                    "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag><Size>{size}</Size></Part>"
                )
            });
            (200, String::new(), format!("<R>{}</R>", parts.collect::<String>()).into_bytes())
        }
        _ => {
            let list = String::from_utf8(request.body.clone()).unwrap();
            let named = list.matches("<Part>").count();
            let are_right = upload.parts.values().all(|bytes| list.contains(&quoted(bytes)));
            if named != upload.parts.len() || !are_right {
                return refused(400, "InvalidPart");
            }
            let upload = inner.uploads.remove(id).unwrap();
            let bytes = upload.parts.into_values().flatten().collect();
            inner.objects.insert(upload.key, Stored { bytes, sha256: upload.sha256 });
            (200, String::new(), b"<R/>".to_vec())
        }
    }
}
