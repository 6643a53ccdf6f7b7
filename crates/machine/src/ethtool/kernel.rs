//! Asks the kernel over generic netlink, which takes no privileges. A kernel without ethtool's family says so.

use super::{CardFeatures, CardSettings, Ethtool, answers};
use crate::netlink::Netlink;
use crate::netlink::attributes::{number, put, put_nested};
use rustix::io::Errno;
use rustix::net;
use std::io;

/// `GENL_ID_CTRL`, which tells the numbers of families.
const CONTROL: u16 = 16;

/// The header of generic netlink.
const HEAD_BYTES: usize = 4;

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
        let mut asker = Asker::open()?;
        let mut ask = |command| asker.ask_of(command, card);
        let told = |answer: Option<Vec<u8>>| answer.unwrap_or_default();
        Ok(CardSettings {
            rings: answers::rings(&told(ask(RINGS)?)),
            channels: answers::channels(&told(ask(CHANNELS)?)),
            features: answers::features(&told(ask(FEATURES)?)),
            coalescing: answers::coalescing(&told(ask(COALESCE)?)),
            pause: answers::pause(&told(ask(PAUSE)?)),
            spread: ask(RSS)?.map(|answer| answers::spread(&answer)),
        })
    }
}

/// Asks about cards, one question at a time.
#[derive(Debug)]
pub(crate) struct Asker {
    netlink: Netlink,
    family: u16,
}

impl Asker {
    pub(crate) fn open() -> io::Result<Self> {
        let mut netlink = Netlink::open(Some(net::netlink::GENERIC), 0)?;
        // CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, CTRL_ATTR_FAMILY_ID.
        let mut request = vec![3, 1, 0, 0];
        put(&mut request, 2, b"ethtool\0");
        let answer = netlink.ask(CONTROL, &request)?.payload;
        let family = number(answer.get(HEAD_BYTES..).unwrap_or_default(), 1);
        let family = family.and_then(|family| u16::try_from(family).ok());
        let family = family.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { netlink, family })
    }

    /// What a card does by itself; `None` if its driver does not tell.
    pub(crate) fn features(&mut self, card: &str) -> io::Result<Option<CardFeatures>> {
        Ok(self.ask_of(FEATURES, card)?.as_deref().and_then(answers::features))
    }

    /// The attributes of an answer about `card`; `None` if its driver does not tell.
    fn ask_of(&mut self, command: u8, card: &str) -> io::Result<Option<Vec<u8>>> {
        // ETHTOOL_A_HEADER_DEV_NAME in the header, which is every command's first attribute.
        let mut header = Vec::new();
        put(&mut header, 2, format!("{card}\0").as_bytes());
        let mut request = vec![command, 1, 0, 0];
        put_nested(&mut request, 1, &header);
        match self.netlink.ask(self.family, &request) {
            Ok(answer) => Ok(answer.payload.get(HEAD_BYTES..).map(<[u8]>::to_vec)),
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
}
