//! Fetches ranges of files over HTTP: from other nodes, and from an origin that is a web server.
//!
//! Responses are not trusted: a server answers with exactly the requested part, or is refused. Redirects are not followed, because they
//! could lead anywhere; proxies are not used. The caller verifies what arrives block by block.

use std::sync::Mutex;
use std::time::Duration;

use catalog::{FileRecord, NODE_USER_AGENT};
use fullbore_http::ResponseHead;
use tls::client::{ClientOptions, ClientTls, Trust};
use token::COPY_HEADER;

use super::block_file::BlockBuffer;
use super::error::HoldingError;
use super::http_head::{self, HEAD_BYTES_MAX, Unfit, Wanted};
use super::lock;
use super::origin::Origin;
use super::sources::PeerFault;
use super::wire::{Deadline, Wire};

/// How long a block may take: below 1.1 Mb/s another source is better.
const BLOCK_MAX: Duration = Duration::from_secs(30);

/// A client for servers that are all reached over TLS, or all without it. It keeps the last connection open.
pub(crate) struct HttpClient {
    tls: Option<ClientTls>,
    kept: Mutex<Option<(String, Wire)>>,
}

impl HttpClient {
    /// For servers with addresses like this one. Over TLS it trusts the CAs that this machine trusts: nodes present their viewers'
    /// certificates.
    pub(crate) fn new(address: &str, trust: &Trust) -> Result<Self, String> {
        let options = ClientOptions { trust: trust.clone(), ..ClientOptions::default() };
        let tls = address.starts_with("https:").then(|| ClientTls::load(&options));
        let tls = tls.transpose().map_err(|error| error.to_string())?;
        Ok(Self { tls, kept: Mutex::default() })
    }

    /// Requests `asked` from the server at `base`, such as `https://HOST:PORT`, and refuses any other response than the requested part.
    pub(crate) fn fetch(
        &self,
        base: &str,
        asked: &Asked<'_>,
        wanted: &Wanted,
        into: &mut BodyBuffer<'_>,
    ) -> Result<(), PeerFault> {
        let deadline = Deadline::after(BLOCK_MAX);
        let request = request(base, asked, wanted);
        let ask = |mut wire: Wire| -> Result<(Wire, ResponseHead), PeerFault> {
            wire.send(request.as_bytes())?;
            let head = read_head(&mut wire, deadline)?;
            Ok((wire, head))
        };
        let (mut wire, head) = match self.kept(base).map(ask) {
            // The server has closed it in the meantime.
            None | Some(Err(PeerFault::Reset)) => ask(self.connect(base, deadline)?)?,
            Some(asked) => asked?,
        };
        let length = http_head::check(&head, wanted)?;
        wire.fill(into.of(length), deadline)?;
        if head.closes {
            return Ok(());
        }
        if !wire.is_drained() {
            return Err(PeerFault::Length);
        }
        *lock(&self.kept) = Some((base.to_owned(), wire));
        Ok(())
    }

    /// The kept connection, if it is to `base`.
    fn kept(&self, base: &str) -> Option<Wire> {
        let kept = lock(&self.kept).take();
        kept.filter(|(to, _)| to == base).map(|(_, wire)| wire)
    }

    fn connect(&self, base: &str, deadline: Deadline) -> Result<Wire, PeerFault> {
        let (host, port) = host_and_port(authority(base), self.tls.is_some());
        Wire::connect(host, port.ok_or(PeerFault::Unreachable)?, self.tls.as_ref(), deadline)
    }
}

/// A file, as named in a request.
pub(crate) struct Asked<'a> {
    pub(crate) target: &'a str,
    /// Proves to another node that a node asks, so that its server does not count a viewer ([`token::CopyRing`]).
    pub(crate) proof: Option<&'a str>,
}

/// The head of a request.
fn request(base: &str, asked: &Asked<'_>, wanted: &Wanted) -> String {
    let (host, version, target) = (authority(base), env!("CARGO_PKG_VERSION"), asked.target);
    let mut head = format!(
        "GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {NODE_USER_AGENT}{version}\r\n"
    );
    if let Wanted::Part { from, count, .. } = wanted {
        let last = from + *count as u64 - 1;
        head.push_str(&format!("Range: bytes={from}-{last}\r\n"));
    }
    if let Some(proof) = asked.proof {
        head.push_str(&format!("{COPY_HEADER}: {proof}\r\n"));
    }
    head.push_str("\r\n");
    head
}

/// `HOST:PORT` of `http://HOST:PORT`.
fn authority(base: &str) -> &str {
    base.split_once("://").map_or(base, |(_, authority)| authority)
}

/// The host and port to connect to; no port if the text has an invalid one.
fn host_and_port(authority: &str, is_tls: bool) -> (&str, Option<u16>) {
    let usual = if is_tls { 443 } else { 80 };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (authority, Some(usual)),
    };
    (host.trim_start_matches('[').trim_end_matches(']'), port)
}

/// The files of one title on one server.
pub(crate) trait OverHttp {
    /// Fetches a file, or a part of it.
    fn fetch(
        &self,
        path: &str,
        wanted: &Wanted,
        into: &mut BodyBuffer<'_>,
    ) -> Result<(), HoldingError>;
}

impl<T: OverHttp> Origin for T {
    fn read(
        &self,
        file: &FileRecord,
        offset: u64,
        count: usize,
        into: &mut BlockBuffer,
    ) -> Result<(), HoldingError> {
        let wanted = Wanted::Part { from: offset, count, of: file.bytes };
        self.fetch(&file.path, &wanted, &mut BodyBuffer::Block(into))
    }

    fn small(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, HoldingError> {
        let mut bytes = Vec::new();
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let wanted = Wanted::All { bytes_max };
        self.fetch(path, &wanted, &mut BodyBuffer::Any(&mut bytes))?;
        Ok(bytes)
    }
}

/// The destination of a body, whose length is in its head.
pub(crate) enum BodyBuffer<'a> {
    /// For bodies no longer than a block.
    Block(&'a mut BlockBuffer),
    Any(&'a mut Vec<u8>),
}

impl BodyBuffer<'_> {
    fn of(&mut self, bytes: usize) -> &mut [u8] {
        match self {
            Self::Block(block) => block.first_mut(bytes),
            Self::Any(all) => {
                all.clear();
                all.resize(bytes, 0);
                all
            }
        }
    }
}

impl From<Unfit> for PeerFault {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Redirected => Self::Redirected,
            Unfit::Status => Self::Status,
            Unfit::Length => Self::Length,
        }
    }
}

/// Reads a response head. Bytes after it stay on the wire.
fn read_head(wire: &mut Wire, deadline: Deadline) -> Result<ResponseHead, PeerFault> {
    let mut head = Vec::new();
    // A head that fills its bound without an end is refused, so there is always room.
    loop {
        let seen = head.len();
        let next = wire.next(deadline)?;
        head.extend_from_slice(&next[..next.len().min(HEAD_BYTES_MAX - seen)]);
        if let Some((found, length)) = http_head::parse(&head)? {
            wire.take(length - seen);
            return Ok(found);
        }
        wire.take(head.len() - seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_part_and_its_proof() {
        let part = Wanted::Part { from: 10, count: 5, of: 100 };
        let copy = "Fullbore-Copy: 1.2.k.3\r\n";
        for (wanted, proof, more) in [
            (part, None, "Range: bytes=10-14\r\n"),
            (Wanted::All { bytes_max: 9 }, None, ""),
            (Wanted::All { bytes_max: 9 }, Some("1.2.k.3"), copy),
        ] {
            let asked = Asked { target: "/a/b", proof };
            let head = request("https://n2.example:8443", &asked, &wanted);
            let agent = format!("fullbore-node/{}", env!("CARGO_PKG_VERSION"));
            assert_eq!(
                head,
                format!(
                    "GET /a/b HTTP/1.1\r\nHost: n2.example:8443\r\nUser-Agent: {agent}\r\n{more}\r\n"
                )
            );
        }
    }

    #[test]
    fn a_server_s_port_is_its_scheme_s_unless_it_is_named() {
        let of = |text| host_and_port(text, true);
        assert_eq!(of("a.example:8443"), ("a.example", Some(8443)));
        assert_eq!(of("a.example"), ("a.example", Some(443)));
        assert_eq!(host_and_port("192.0.2.1", false), ("192.0.2.1", Some(80)));
        assert_eq!(of("[2001:db8::1]"), ("2001:db8::1", Some(443)));
        assert_eq!(of("[2001:db8::1]:1"), ("2001:db8::1", Some(1)));
        assert_eq!(of("a:99999"), ("a", None));
    }
}
