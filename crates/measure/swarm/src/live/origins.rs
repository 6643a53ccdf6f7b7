//! The servers that a run uses, and their addresses.
//!
//! A manifest or a steering server may name any host during the run. Resolving a name can take seconds, so a separate thread does it, once
//! for each server.

use load::tls::ClientTls;
use load::{ServerEndpoint, Url};
use reactor::sleep;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// More servers than this are refused, because manifests and steering servers are not trusted.
const ORIGINS_MAX: usize = 256;

/// How often a viewer checks whether an address is known.
const GLANCE: Duration = Duration::from_millis(5);

/// All servers of a run, shared by its threads.
pub(crate) struct Origins {
    tls: ClientTls,
    known: Arc<Mutex<Vec<Origin>>>,
}

struct Origin {
    /// Any URL on the server.
    url: Url,
    address: Address,
}

#[derive(Clone)]
enum Address {
    Wanted,
    Known(Arc<ServerEndpoint>),
    Unknown(Arc<str>),
}

/// A server, by its number in the run.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) number: usize,
    pub(crate) endpoint: Arc<ServerEndpoint>,
}

impl Origins {
    pub(crate) fn new(tls: ClientTls) -> Self {
        Self { tls, known: Arc::default() }
    }

    /// Resolves the servers of `urls` now, so that no viewer has to wait for it.
    ///
    /// # Errors
    /// If a name has no address, with a sentence for the user.
    pub(crate) fn prepare(&self, urls: &[Url]) -> io::Result<()> {
        for url in urls {
            let is_known = self.lock().iter().any(|origin| origin.url.is_same_origin(url));
            if !is_known {
                let address = resolved(url, &self.tls);
                if let Address::Unknown(why) = &address {
                    return Err(io::Error::other(why.to_string()));
                }
                self.lock().push(Origin { url: url.clone(), address });
            }
        }
        Ok(())
    }

    /// The server for `url`.
    ///
    /// # Errors
    /// If its name has no address, with a sentence for the user.
    pub(crate) async fn find(&self, url: &Url) -> Result<Server, Arc<str>> {
        loop {
            match self.look(url)? {
                (number, Address::Known(endpoint)) => return Ok(Server { number, endpoint }),
                (_, Address::Unknown(why)) => return Err(why),
                (_, Address::Wanted) => sleep(GLANCE).await,
            }
        }
    }

    /// The state of the server's address. If the server is new, starts to resolve it.
    fn look(&self, url: &Url) -> Result<(usize, Address), Arc<str>> {
        let mut known = self.lock();
        if let Some(number) = known.iter().position(|origin| origin.url.is_same_origin(url)) {
            return Ok((number, known[number].address.clone()));
        }
        if known.len() == ORIGINS_MAX {
            return Err(format!("the manifests name more than {ORIGINS_MAX} servers").into());
        }
        let is_number = url.host().parse::<IpAddr>().is_ok();
        let address = if is_number { resolved(url, &self.tls) } else { Address::Wanted };
        known.push(Origin { url: url.clone(), address: address.clone() });
        let number = known.len() - 1;
        if !is_number {
            self.ask(number, url.clone());
        }
        Ok((number, address))
    }

    /// Resolves a name on a separate thread.
    fn ask(&self, number: usize, url: Url) {
        let (known, tls) = (Arc::clone(&self.known), self.tls.clone());
        std::thread::spawn(move || {
            let found = resolved(&url, &tls);
            known.lock().unwrap_or_else(PoisonError::into_inner)[number].address = found;
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Origin>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resolves a server's address, which takes time for a name.
fn resolved(url: &Url, tls: &ClientTls) -> Address {
    let host = url.host();
    match load::address_of(url) {
        Ok(address) => {
            let (host, tls) = (host.to_owned(), url.is_tls().then(|| tls.clone()));
            Address::Known(Arc::new(ServerEndpoint { address, host, tls }))
        }
        Err(error) => {
            let why = format!("cannot find the address of {host}: {error}; is the name right?");
            Address::Unknown(why.into())
        }
    }
}
