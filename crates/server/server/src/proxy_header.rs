//! The PROXY protocol: a proxy announces its client's address in a header before anything else is read.
//!
//! Only connections from the configured proxies come here. Each of them must start with a header. The wait for it costs a place among the
//! worker's connections, but none of an address, because the viewer's address is still unknown. A header is read to its last byte and no further,
//! so the rest is a connection like any other. A connection that closes before sending a byte is a proxy checking whether the port is open.

use crate::worker::{ADDRESS_FULL, Worker};
use delivery::Carrier;
use delivery::memory_budget::HandshakePermit;
use net::proxy_protocol::{self, PREFACE_BYTES};
use net::{Introduced, Introduction, Permit};
use reactor::timeout_at;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

/// Why a connection is not served.
enum Rejected {
    /// Refused; the counter's label says why.
    Away(&'static str),
    /// Refused through the proxy's fault: the counter's label, and the message for the operator.
    Unintroduced(&'static str, String),
    /// There are too many from this address.
    Full(IpAddr),
    /// It was closed without a byte.
    Silent,
}

/// Reads the header of a connection from `proxy`. If it is valid, the connection is served from then on as if the viewer had made it.
pub(crate) async fn run<C: Carrier + 'static>(
    worker: Rc<Worker>,
    socket: C,
    proxy: SocketAddr,
    mut permit: Permit,
    handshake: HandshakePermit,
) {
    let introduced = introduced(&worker, &socket).await;
    match introduced.and_then(|who| name(&worker, who, proxy, &mut permit)) {
        Ok(peer) => worker.begin(socket, peer, permit, handshake),
        Err(Rejected::Away(reason)) => worker.count_refused(reason),
        Err(Rejected::Full(address)) => worker.turn_away(ADDRESS_FULL, address),
        Err(Rejected::Unintroduced(reason, what)) => {
            worker.count_refused(reason);
            worker.reports.proxies.print(&format!(
                "a connection from {proxy} is closed: that address is in proxy_protocol.from, but {what} ({reason}); \
                 have the proxy send the PROXY protocol, version 2, or take its address out"
            ));
        }
        Err(Rejected::Silent) => worker.count_silent(),
    }
}

async fn introduced<C: Carrier>(worker: &Worker, socket: &C) -> Result<Introduced, Rejected> {
    let deadline = Instant::now() + worker.answering.timeouts.head;
    let reading = pin!(timeout_at(deadline, read(socket)));
    match worker.drain.unless_begun(reading).await {
        None => Err(Rejected::Away("draining")),
        Some(Err(_)) => Err(Rejected::Unintroduced(
            "proxy_timeout",
            "no whole header came within timeouts.head_seconds".into(),
        )),
        Some(Ok(introduced)) => introduced,
    }
}

/// Reads the header, in as many pieces as it arrives in.
async fn read<C: Carrier>(socket: &C) -> Result<Introduced, Rejected> {
    let mut header = vec![0; PREFACE_BYTES];
    let mut known = 0;
    loop {
        match socket.receive(&mut header[known..]) {
            Ok(Some(0)) | Err(_) if known == 0 => return Err(Rejected::Silent),
            Ok(Some(0)) | Err(_) => {
                let what = "it was cut off within its header".into();
                return Err(Rejected::Unintroduced("proxy_cut_off", what));
            }
            Ok(None) => socket.readable().await,
            Ok(Some(bytes)) => {
                known += bytes;
                match proxy_protocol::parse(&header[..known]) {
                    Ok(Introduction::Complete { introduced, .. }) => return Ok(introduced),
                    Ok(Introduction::Partial { needed }) => header.resize(needed, 0),
                    Err(fault) => {
                        return Err(Rejected::Unintroduced(fault.as_str(), fault.to_string()));
                    }
                }
            }
        }
    }
}

/// The viewer's address, if that address may connect, and there is a free place.
fn name(
    worker: &Worker,
    introduced: Introduced,
    proxy: SocketAddr,
    permit: &mut Permit,
) -> Result<SocketAddr, Rejected> {
    let peer = match introduced {
        // The operator trusts the proxy, so the address lists need not name it.
        Introduced::Proxy => proxy,
        Introduced::Viewer(viewer) => {
            worker.entrance.lists.borrow().check(viewer.ip()).map_err(Rejected::Away)?;
            viewer
        }
    };
    permit.name(peer.ip()).map_err(|_| Rejected::Full(peer.ip()))?;
    Ok(peer)
}
