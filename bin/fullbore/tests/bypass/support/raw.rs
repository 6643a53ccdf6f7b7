//! Sends frames that no honest kernel sends, and captures frames (packet(7)).

use fullbore_tests::Namespace;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::Read;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of an Ethernet header, and of an IPv4 one without options.
pub(crate) const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;

/// The flags of a TCP segment (RFC 9293 section 3.1).
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// A socket on an interface.
pub(crate) struct Raw {
    socket: Socket,
}

impl Raw {
    /// On an interface of a namespace; sees what arrives there and what leaves.
    pub(crate) fn open(space: &Namespace, interface: &'static str) -> Self {
        space.inside(move || {
            let everything = u16::to_be(libc::ETH_P_ALL as u16);
            let protocol = Some(Protocol::from(i32::from(everything)));
            let socket = Socket::new(Domain::PACKET, Type::RAW, protocol).unwrap();
            let index = rustix::net::netdevice::name_to_index(&socket, interface).unwrap();
            socket.bind(&address(i32::try_from(index).unwrap(), everything)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            Self { socket }
        })
    }

    /// Sends a frame. Whether the interface took it: it may be full.
    pub(crate) fn send(&self, frame: &[u8]) -> bool {
        self.socket.send(frame).is_ok()
    }

    /// The next frame that passes; none within a minute is a failure.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Vec<u8> {
        let mut frame = vec![0; 70_000];
        let bytes = self.socket.read(&mut frame).expect("frames pass");
        frame.truncate(bytes);
        frame
    }

    /// The next IPv4 frame with TCP between two sockets, in this direction.
    #[track_caller]
    pub(crate) fn receive_between(&mut self, from: SocketAddrV4, to: SocketAddrV4) -> Seen {
        loop {
            let frame = self.receive();
            if let Some(seen) =
                Seen::parse(&frame).filter(|seen| seen.from == from && seen.to == to)
            {
                return seen;
            }
        }
    }

    /// The same until something is over, and none then. The kernel drops frames that a slow reader has no room for, and the one that is waited for
    /// may be among them.
    pub(crate) fn receive_between_until(
        &mut self,
        from: SocketAddrV4,
        to: SocketAddrV4,
        is_over: &AtomicBool,
    ) -> Option<Seen> {
        self.socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut frame = vec![0; 70_000];
        while !is_over.load(Ordering::Relaxed) {
            let Ok(bytes) = self.socket.read(&mut frame) else { continue };
            let seen = Seen::parse(&frame[..bytes]);
            if let Some(seen) = seen.filter(|seen| seen.from == from && seen.to == to) {
                return Some(seen);
            }
        }
        None
    }
}

fn address(index: i32, protocol: u16) -> SockAddr {
    let fill = |storage: *mut socket2::SockAddrStorage, length: *mut libc::socklen_t| {
        let address = storage.cast::<libc::sockaddr_ll>();
        // SAFETY: the storage is zeroed, valid to write and large enough for any address, this one included.
        unsafe {
            (*address).sll_family = libc::AF_PACKET as u16;
            (*address).sll_protocol = protocol;
            (*address).sll_ifindex = index;
            *length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        }
        Ok(())
    };
    // SAFETY: `fill` writes a whole address and its length.
    unsafe { SockAddr::try_init(fill) }.unwrap().1
}

/// The contents of a frame.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Both stations, as a frame in the same direction has them.
    pub(crate) stations: [u8; 12],
    pub(crate) from: SocketAddrV4,
    pub(crate) to: SocketAddrV4,
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: u8,
    /// The TCP header's options, padding included.
    pub(crate) options: Vec<u8>,
}

impl Seen {
    /// None if it is anything but TCP over IPv4 without options.
    fn parse(frame: &[u8]) -> Option<Self> {
        let (ip, tcp) = (frame.get(ETHERNET_BYTES..)?, frame.get(ETHERNET_BYTES + IP_BYTES..)?);
        if frame[12..14] != [8, 0] || ip[0] != 0x45 || ip[9] != 6 || tcp.len() < 20 {
            return None;
        }
        let word = |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let port = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
        Some(Self {
            stations: frame[..12].try_into().ok()?,
            from: SocketAddrV4::new(word(&ip[12..]).into(), port(tcp)),
            to: SocketAddrV4::new(word(&ip[16..]).into(), port(&tcp[2..])),
            sequence: word(&tcp[4..]),
            acknowledgment: word(&tcp[8..]),
            flags: tcp[13],
            options: tcp.get(20..usize::from(tcp[12] >> 4) * 4)?.to_vec(),
        })
    }

    /// The frame with these contents, and `payload` behind them.
    pub(crate) fn frame(&self, payload: &[u8]) -> Vec<u8> {
        let mut tcp = Vec::with_capacity(60 + payload.len());
        tcp.extend(self.from.port().to_be_bytes());
        tcp.extend(self.to.port().to_be_bytes());
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledgment.to_be_bytes());
        let header_words = 5 + self.options.len() as u8 / 4;
        tcp.extend([header_words << 4, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend(&self.options);
        tcp.extend(payload);
        let addresses = [self.from.ip().octets(), self.to.ip().octets()].concat();
        let pseudo = sum(&addresses) + 6 + tcp.len() as u32;
        let checksum = fold(pseudo + sum(&tcp));
        tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
        let mut frame = Vec::with_capacity(ETHERNET_BYTES + IP_BYTES + tcp.len());
        frame.extend(self.stations);
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(((IP_BYTES + tcp.len()) as u16).to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0]);
        frame.extend(addresses);
        set_ip_checksum(&mut frame);
        frame.extend(tcp);
        frame
    }
}

/// After a change to an IPv4 header without options.
pub(crate) fn set_ip_checksum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let checksum = fold(sum(&frame[ETHERNET_BYTES..ETHERNET_BYTES + IP_BYTES]));
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}

/// The sum for an Internet checksum (RFC 1071); short enough here not to overflow.
fn sum(bytes: &[u8]) -> u32 {
    let pairs =
        bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    pairs.map(u32::from).sum()
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    !((once & 0xffff) + (once >> 16)) as u16
}
