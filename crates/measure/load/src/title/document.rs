//! Fetches manifests, playlists and indexes: whole documents, decrypted, of a bounded size.

use super::{Library, TitleError};
use crate::connection::{Connection, ConnectionOptions, ServerEndpoint};
use crate::film::Ask;
use crate::options::Options;
use crate::trouble::Trouble;
use player::Reference;
use player::manifest::DOCUMENT_BYTES_MAX;
use reactor::{Reactor, RingOptions};
use std::io;
use std::time::Duration;

/// Fetches documents from one server, each over a new connection: there are two or three of them.
pub(super) struct Documents<'a> {
    endpoint: &'a ServerEndpoint,
    patience: Duration,
}

impl<'a> Documents<'a> {
    pub(super) fn new(endpoint: &'a ServerEndpoint, options: &Options) -> Self {
        Self { endpoint, patience: options.patience }
    }
}

impl Library for Documents<'_> {
    fn bring(&mut self, reference: &Reference) -> Result<Vec<u8>, TitleError> {
        let (endpoint, reference, patience) =
            (self.endpoint.clone(), reference.clone(), self.patience);
        let url = reference.url.to_string();
        // The caller's thread may already have a reactor, and a thread can have only one at a time.
        let fetching = std::thread::spawn(move || -> io::Result<_> {
            Reactor::new(RingOptions::default())?
                .run(async move { fetch(&endpoint, &reference, patience).await })
        });
        match fetching.join().expect("fetching does not panic") {
            Ok(fetched) => fetched,
            Err(error) => Err(TitleError::Fetch(url, error.to_string())),
        }
    }
}

async fn fetch(
    endpoint: &ServerEndpoint,
    reference: &Reference,
    patience: Duration,
) -> Result<Vec<u8>, TitleError> {
    let failed =
        |trouble: Trouble| TitleError::Fetch(reference.url.to_string(), trouble.to_string());
    let how = ConnectionOptions { patience, accept_chunks: true, ..ConnectionOptions::default() };
    let mut connection =
        Connection::open(endpoint, &how).await.map_err(|failure| failed(failure.into()))?;
    let ask = Ask { path: reference.url.path_and_query(), range: reference.range.clone() };
    let request = ask.request(&reference.url.authority());
    connection.send_request(request.as_bytes()).await.map_err(|failure| failed(failure.into()))?;
    let head = connection.head().await.map_err(|failure| failed(failure.into()))?;
    crate::viewer::accept(&head, &ask).map_err(failed)?;
    let mut document = Vec::new();
    while connection.body(&mut document).await.map_err(|failure| failed(failure.into()))? > 0 {
        if document.len() > DOCUMENT_BYTES_MAX {
            return Err(TitleError::TooLong(reference.url.to_string()));
        }
    }
    Ok(document)
}
