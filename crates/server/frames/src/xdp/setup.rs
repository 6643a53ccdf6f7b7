//! Opens a NIC's queues: the sockets first, then the program, and last its attachment to the interface, so that no frame is redirected before a
//! socket can take it.

use crate::drop_reason::DeviceCounters;
use crate::error::SetupError;
use crate::kernel::ethtool;
use crate::neighbours::Neighbours;
use crate::netlink::link::Link;
use crate::netlink::nic;
use crate::parse::Checksum;
use crate::xdp::in_place::BuffersInPlace;
use crate::xdp::program::{FLOWS_MAX, Program};
use crate::xdp::socket::{Binding, FRAME_BYTES_MAX, TAILROOM_BYTES, XdpSocket};
use crate::xdp::{PIECES_MAX_COPIED, Xdp};
use crate::{Device, Interface};
use machine::netlink::Netlink;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

// linux/if_link.h
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
/// Ethernet's header and a VLAN tag.
const ETHERNET_BYTES_MAX: u32 = 18;

const JUMBO_ADVICE: &str =
    "packets above 3822 bytes need Linux 6.6: lower the MTU (`ip link set INTERFACE mtu 1500`)";

/// Queues of a NIC to take frames from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpSetup {
    /// The interface. It must be up. Its addresses belong to the kernel, which answers ARP and NDP for them.
    pub interface: String,
    /// How many workers there are; must equal the interface's number of receive queues.
    pub queues: u32,
    /// The server's addresses and ports: addresses of the interface, with TCP ports on which nothing in the kernel listens. At most 256.
    pub flows: Vec<SocketAddr>,
    /// Tries to let the NIC read and write our memory itself, if its driver can.
    pub zero_copy: bool,
    /// Memory for sending in place, for each queue, if the NIC can do that without copies; see [`crate::Device::take_memory`]. Empty to copy
    /// everything.
    pub lends: Vec<BuffersInPlace>,
    /// Sends in place even where the kernel copies. That is slower than copying here, and for tests on devices that have no other mode.
    #[doc(hidden)]
    pub lends_to_kernel: bool,
    /// Writes payload into frames past the processor's caches (non-temporal stores), for devices that read it from memory.
    pub streams_payload: bool,
}

impl XdpSetup {
    /// Opens a socket on each queue and makes the kernel redirect our frames to them.
    ///
    /// # Errors
    /// The step that failed, and what to do about it. Nothing is left behind then.
    pub fn open(&self) -> Result<Vec<Interface>, SetupError> {
        self.check()?;
        let name = &self.interface;
        let fail = |step: String| move |error| SetupError::new(step, error);
        let mut netlink = Netlink::route(0).map_err(fail("cannot open netlink".to_owned()))?;
        let link = Link::named(&mut netlink, name).map_err(fail(format!("cannot find {name}")))?;
        self.check_queues()?;
        // A kernel that sends several pieces without copies reports how many; without an answer all is copied into one.
        let pieces_told = nic::pieces_max(link.index).ok().flatten().unwrap_or(1) as usize;
        let takes_pieces = pieces_told > 1;
        let tailroom_bytes = if takes_pieces { TAILROOM_BYTES } else { 0 };
        let is_jumbo = link.mtu_bytes + ETHERNET_BYTES_MAX > FRAME_BYTES_MAX - tailroom_bytes;
        let sockets = self.open_sockets(&link, is_jumbo, takes_pieces)?;
        let (attached, is_native) = self.attach(&link, &sockets, is_jumbo)?;
        let attached = Arc::new(attached);
        let ours: Arc<[IpAddr]> = self.flows.iter().map(SocketAddr::ip).collect();
        let step = || format!("cannot read the routes and neighbours of {name}");
        let mut interfaces = Vec::new();
        for socket in sockets {
            let neighbours = Neighbours::of(&link, name).map_err(fail(step()))?;
            let xdp = Xdp {
                pieces_max: if socket.is_zero_copy { pieces_told } else { PIECES_MAX_COPIED },
                socket,
                ours: Arc::clone(&ours),
                checksum: checksum(&link),
                jumbo: Vec::new(),
                is_in_jumbo: false,
                statistics: DeviceCounters::default(),
                is_native,
                streams_payload: self.streams_payload,
                _attached: Arc::clone(&attached),
            };
            interfaces.push(Interface {
                name: name.clone(),
                mtu_bytes: link.mtu_bytes,
                device: Device::Xdp(Box::new(xdp)),
                neighbours,
            });
        }
        Ok(interfaces)
    }

    fn check(&self) -> Result<(), SetupError> {
        let wrong = |what: &str| {
            let what = format!("cannot take frames from {}: {what}", self.interface);
            Err(SetupError::new(what, io::ErrorKind::InvalidInput.into()))
        };
        if self.queues == 0 || self.flows.is_empty() || self.flows.len() > FLOWS_MAX {
            return wrong("this needs at least one worker, and 1 to 256 addresses with a port");
        }
        if self.flows.iter().any(|flow| flow.ip().is_unspecified() || flow.port() == 0) {
            return wrong(
                "each address must belong to the interface, and each port must be a number above 0",
            );
        }
        Ok(())
    }

    /// The NIC chooses the queue of a connection, so each queue needs a worker.
    fn check_queues(&self) -> Result<(), SetupError> {
        match receive_queues(&self.interface) {
            Ok(queues) if queues != self.queues => {
                let name = &self.interface;
                let what = format!(
                    "{name} has {queues} receive queues, but there are {} workers",
                    self.queues
                );
                let error = SetupError::new(what, io::ErrorKind::InvalidInput.into());
                Err(error.advise("make them equal: `ethtool -L INTERFACE combined WORKERS`"))
            }
            // A driver that does not report it has one queue, or binding will fail.
            _ => Ok(()),
        }
    }

    fn open_sockets(
        &self,
        link: &Link,
        is_jumbo: bool,
        takes_pieces: bool,
    ) -> Result<Vec<XdpSocket>, SetupError> {
        let open = |queue| {
            let (interface, zero_copy) = (link.index, self.zero_copy);
            let planned = self.lends.get(queue as usize).copied();
            let node = planned.and_then(|buffers| buffers.node);
            let lends = planned.filter(|_| takes_pieces || self.lends_to_kernel);
            let lends_to_kernel = self.lends_to_kernel;
            let binding =
                Binding { interface, queue, zero_copy, is_jumbo, lends, lends_to_kernel, node };
            let opened = XdpSocket::open(binding);
            opened.map_err(|error| {
                let is_invalid = error.raw_os_error() == Some(libc::EINVAL);
                let what =
                    format!("cannot open an AF_XDP socket on {} queue {queue}", self.interface);
                let error = SetupError::new(what, error);
                if is_jumbo && is_invalid { error.advise(JUMBO_ADVICE) } else { error }
            })
        };
        (0..self.queues).map(open).collect()
    }

    /// Attaches in the driver if possible, else behind it. Returns which of the two it was.
    fn attach(
        &self,
        link: &Link,
        sockets: &[XdpSocket],
        is_jumbo: bool,
    ) -> Result<(OwnedFd, bool), SetupError> {
        let fail = |step: String| move |error| SetupError::new(step, error);
        let program = Program::load(self.queues, is_jumbo)
            .map_err(fail("cannot load the XDP program".to_owned()))?;
        for &flow in &self.flows {
            program.add_flow(flow).map_err(fail(format!("cannot redirect {flow}")))?;
        }
        for (queue, socket) in (0..).zip(sockets) {
            let step = format!("cannot redirect to the socket of queue {queue}");
            program.add_socket(queue, &socket.fd).map_err(fail(step))?;
        }
        let attach = |flags| program.attach(link.index, flags);
        let native = attach(XDP_FLAGS_DRV_MODE).map(|attached| (attached, true));
        let attached = native.or_else(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EBUSY) => Err(error),
            _ => attach(XDP_FLAGS_SKB_MODE).map(|attached| (attached, false)),
        });
        attached.map_err(fail(format!("cannot attach the XDP program to {}", self.interface)))
    }
}

/// How many receive queues an interface uses, each of which needs a worker.
///
/// # Errors
/// `EOPNOTSUPP` if the driver does not report it: most likely it has one. `ENODEV` if there is no such interface.
pub fn receive_queues(interface: &str) -> io::Result<u32> {
    ethtool::receive_queues(interface)
}

/// A virtual interface may hand over frames of this machine's own kernel unchanged, with checksums that a NIC would complete.
fn checksum(link: &Link) -> Checksum {
    if link.kind.is_empty() { Checksum::Unknown } else { Checksum::PerhapsPartial }
}
