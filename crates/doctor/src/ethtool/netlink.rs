//! Asks the kernel over generic netlink, which takes no privileges. A kernel without ethtool's family says so.

use super::attributes::{self, attribute, put, put_nested};
use super::{CardSettings, Ethtool};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;

/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;

/// `NLMSG_ERROR`, `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// `GENL_ID_CTRL`, which tells the numbers of families.
const CONTROL: u16 = 16;

/// netlink's header, and that of generic netlink.
const HEAD_BYTES: usize = 16;
const HEADS_BYTES: usize = HEAD_BYTES + 4;

/// An answer has one message. The longest, features by name, takes about 6 KiB.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// `ETHTOOL_MSG_*_GET`.
const FEATURES: u8 = 11;
const RINGS: u8 = 15;
const CHANNELS: u8 = 17;
const COALESCE: u8 = 19;
const PAUSE: u8 = 21;
const RSS: u8 = 38;

/// The kernel of this machine.
#[derive(Debug, Default)]
pub struct KernelEthtool;

impl Ethtool for KernelEthtool {
    fn settings(&self, card: &str) -> io::Result<CardSettings> {
        let asker = Asker::open()?;
        let ask = |command| asker.ask_of(command, card);
        let told = |answer: Option<Vec<u8>>| answer.unwrap_or_default();
        Ok(CardSettings {
            rings: attributes::rings(&told(ask(RINGS)?)),
            channels: attributes::channels(&told(ask(CHANNELS)?)),
            features: attributes::features(&told(ask(FEATURES)?)),
            coalescing: attributes::coalescing(&told(ask(COALESCE)?)),
            pause: attributes::pause(&told(ask(PAUSE)?)),
            spread: ask(RSS)?.map(|answer| attributes::spread(&answer)),
        })
    }
}

struct Asker {
    socket: OwnedFd,
    family: u16,
}

impl Asker {
    fn open() -> io::Result<Self> {
        let socket = net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(net::netlink::GENERIC),
        )?;
        // CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, CTRL_ATTR_FAMILY_ID.
        let mut name = Vec::new();
        put(&mut name, 2, b"ethtool\0");
        let answer = exchange(&socket, CONTROL, 3, &name)?;
        let family =
            attribute(&answer, 1).and_then(|id| Some(u16::from_ne_bytes(id.try_into().ok()?)));
        let family = family.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Self { socket, family })
    }

    /// The attributes of an answer about `card`; `None` if its driver does not tell.
    fn ask_of(&self, command: u8, card: &str) -> io::Result<Option<Vec<u8>>> {
        // ETHTOOL_A_HEADER_DEV_NAME in the header, which is every command's first attribute.
        let mut header = Vec::new();
        put(&mut header, 2, format!("{card}\0").as_bytes());
        let mut request = Vec::new();
        put_nested(&mut request, 1, &header);
        match exchange(&self.socket, self.family, command, &request) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if is_not_told(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Refusals of one driver, and of kernels that do not know the command.
fn is_not_told(error: &io::Error) -> bool {
    let refusals = [Errno::OPNOTSUPP, Errno::NOENT, Errno::INVAL, Errno::NODEV, Errno::PERM];
    refusals.iter().any(|refusal| error.raw_os_error() == Some(refusal.raw_os_error()))
}

/// Sends a request, and returns the attributes of the answer.
fn exchange(socket: &OwnedFd, family: u16, command: u8, payload: &[u8]) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let length = u32::try_from(HEADS_BYTES + payload.len()).expect("requests are short");
    request.extend(length.to_ne_bytes());
    request.extend(family.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    // Sequence and port: one question at a time needs neither.
    request.extend([0; 8]);
    request.extend([command, 1, 0, 0]);
    request.extend(payload);
    net::send(socket, &request, SendFlags::empty())?;
    let mut room = vec![0; ANSWER_BYTES_MAX];
    // The kernel answers before `send` returns.
    let (bytes, _) = net::recv(socket, &mut room[..], RecvFlags::DONTWAIT)?;
    answer_in(&room[..bytes]).map(<[u8]>::to_vec)
}

fn answer_in(message: &[u8]) -> io::Result<&[u8]> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let head = message.get(..HEAD_BYTES).ok_or_else(invalid)?;
    let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
    match u16::from_ne_bytes([head[4], head[5]]) {
        ERROR => {
            let code = message.get(HEAD_BYTES..HEAD_BYTES + 4).ok_or_else(invalid)?;
            let code = i32::from_ne_bytes([code[0], code[1], code[2], code[3]]);
            Err(code.checked_neg().map_or_else(invalid, io::Error::from_raw_os_error))
        }
        DONE => Err(invalid()),
        _ => message.get(HEADS_BYTES..length).ok_or_else(invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_tells_its_features_where_the_kernel_has_ethtool() {
        match KernelEthtool.settings("lo") {
            Ok(settings) => {
                let features = settings.features.expect("every interface has features");
                assert!(features.on.contains("tx-tcp-segmentation"), "{features:?}");
                assert_eq!(settings.rings, None, "it has no rings");
            }
            // Built without CONFIG_ETHTOOL_NETLINK.
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}"),
        }
        let nobody = KernelEthtool.settings("nobody0").unwrap_or_default();
        assert_eq!(nobody, CardSettings::default());
    }

    #[test]
    fn answers_cut_short_or_scrambled_are_errors() {
        let mut message = vec![0; 40];
        message[..4].copy_from_slice(&40_u32.to_ne_bytes());
        message[4..6].copy_from_slice(&20_u16.to_ne_bytes());
        assert_eq!(answer_in(&message).unwrap().len(), 20);
        (0..HEAD_BYTES).for_each(|end| assert!(answer_in(&message[..end]).is_err()));
        message[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(answer_in(&message).is_err());
        message[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        message[16..20].copy_from_slice(&(-95_i32).to_ne_bytes());
        assert_eq!(answer_in(&message).unwrap_err().raw_os_error(), Some(95));
        message[16..20].copy_from_slice(&i32::MIN.to_ne_bytes());
        assert!(answer_in(&message).is_err());
    }
}
