//! Queries the kernel over generic netlink, which takes no privileges. A kernel without ethtool's family returns an error.

use super::{Ethtool, NicFeatures, NicSettings, answers, firmware, queueing};
use crate::netlink::Generic;
use crate::netlink::attributes::{put, put_nested};
use rustix::io::Errno;
use std::io;

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
    fn settings(&self, nic: &str) -> io::Result<NicSettings> {
        let mut asker = Asker::open()?;
        let mut ask = |command| asker.ask_of(command, nic);
        let told = |answer: Option<Vec<u8>>| answer.unwrap_or_default();
        Ok(NicSettings {
            rings: answers::rings(&told(ask(RINGS)?)),
            channels: answers::channels(&told(ask(CHANNELS)?)),
            features: answers::features(&told(ask(FEATURES)?)),
            coalescing: answers::coalescing(&told(ask(COALESCE)?)),
            pause: answers::pause(&told(ask(PAUSE)?)),
            spread: ask(RSS)?.map(|answer| answers::spread(&answer)),
            firmware: firmware::of(nic),
            queueing: queueing::of(nic),
        })
    }
}

/// Queries about cards, one at a time.
#[derive(Debug)]
pub(crate) struct Asker(Generic);

impl Asker {
    pub(crate) fn open() -> io::Result<Self> {
        Generic::open("ethtool").map(Self)
    }

    /// The card's offloads; `None` if its driver does not report them.
    pub(crate) fn features(&mut self, nic: &str) -> io::Result<Option<NicFeatures>> {
        Ok(self.ask_of(FEATURES, nic)?.as_deref().and_then(answers::features))
    }

    /// The attributes of an answer about `nic`; `None` if its driver does not support the command.
    fn ask_of(&mut self, command: u8, nic: &str) -> io::Result<Option<Vec<u8>>> {
        // ETHTOOL_A_HEADER_DEV_NAME in the header, which is every command's first attribute.
        let (mut header, mut request) = (Vec::new(), Vec::new());
        put(&mut header, 2, format!("{nic}\0").as_bytes());
        put_nested(&mut request, 1, &header);
        match self.0.ask(command, &request) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if is_not_told(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether the error means that the driver, or the kernel, does not support the command.
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
        assert_eq!(firmware::of("lo"), None);
        let nobody = KernelEthtool.settings("nobody0").unwrap_or_default();
        assert_eq!(nobody, NicSettings::default());
    }
}
