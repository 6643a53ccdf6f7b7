//! A web server as the origin of a title: it serves a library, or a bucket filled by `fullbore publish`, and supports ranges.

use std::path::Path;

use catalog::{TitlePath, document_key, encode_path, object_key};
use fleet_protocol::{Digest, OriginRoot};
use tls::client::Trust;

use super::error::HoldingError;
use super::http_client::{Asked, BodyBuffer, HttpClient, OverHttp};
use super::http_head::Wanted;
use super::sources::PeerFault;

/// The origin of one version of a title.
pub(crate) struct WebOrigin {
    client: HttpClient,
    /// `https://HOST:PORT`.
    base: String,
    /// The path in front of all names, without a slash at its end.
    folder: String,
    title: TitlePath,
    version: String,
}

impl WebOrigin {
    pub(crate) fn new(
        root: &OriginRoot,
        title: &TitlePath,
        version: &Digest,
        trust: &Trust,
    ) -> Result<Self, HoldingError> {
        let root = root.as_str();
        let client = HttpClient::new(root, trust).map_err(HoldingError::Origin)?;
        let host_at = root.find("://").map_or(0, |at| at + "://".len());
        let path_at = root[host_at..].find('/').map_or(root.len(), |at| host_at + at);
        let (base, folder) = root.split_at(path_at);
        let (base, folder) = (base.to_owned(), folder.to_owned());
        Ok(Self { client, base, folder, title: title.clone(), version: version.to_string() })
    }
}

impl OverHttp for WebOrigin {
    /// Fetches the file at `path` under one of its names. A version's document has its own name in a bucket, but not in a library.
    fn fetch(
        &self,
        path: &str,
        wanted: &Wanted,
        into: &mut BodyBuffer<'_>,
    ) -> Result<(), HoldingError> {
        let mut fetch = |key: &str| {
            let target = format!("{}/{}", self.folder, encode_path(Path::new(key)));
            let asked = Asked { target: &target, proof: None };
            self.client.fetch(&self.base, &asked, wanted, into)
        };
        let plain = object_key(&self.title, path);
        let fetched = match path.contains('/') {
            true => fetch(&plain),
            false => match fetch(&document_key(&self.version, path)) {
                Err(PeerFault::Status) => fetch(&plain),
                fetched => fetched,
            },
        };
        fetched.map_err(|fault| {
            let Self { base, folder, .. } = self;
            let why = fault.as_str();
            HoldingError::Origin(format!("cannot copy {plain} from {base}{folder}: {why}"))
        })
    }
}
