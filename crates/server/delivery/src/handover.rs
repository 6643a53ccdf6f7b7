//! Decides whether a connection's keys may be given to the kernel, and records where they went.
//!
//! The kernel passes the keys on to the NIC by which the connection leaves, if that NIC encrypts, and there is no way to forbid it. Over a bond of
//! such NICs, Linux was seen to send the rest of a film in clear text when the NIC that encrypted was set down (docs/notes/bond-offload.md). So keys
//! of connections over such a bond, or over an unknown device, stay in user space. So do keys that a NIC could take and must not: because the
//! operator forbids it, because the NIC has no room, or because the viewer's path loses so much that the NIC would have to read its records again and
//! again.
//!
//! The kernel falls back to the CPU silently, so its counters before and after show who encrypts a connection.

use crate::nic_shares::NicShares;
use crate::offload::{KernelOffload, NicTls, TLS_STAT};
use crate::offload_history::{Expect, Got, Kind, OffloadHistory};
use crate::retransmissions::{LossLimits, LossyPaths, Watch, Whose};
use machine::{Ends, LeavesBy, TlsNics};
use net::{SendProgress, Socket};
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use telemetry::{Family, Numbers};
use tls::{SessionInfo, Suite, TlsVersion};

/// Decides for the connections of one worker. By default it hands no keys over.
#[derive(Debug, Default)]
pub struct Handover {
    /// None if the kernel does not report its devices, or if no keys are handed over.
    nics: Option<RefCell<TlsNics>>,
    /// The kernel's TLS counters; none if it has none.
    totals: Option<File>,
    limits: LossLimits,
    lossy_paths: Arc<Mutex<LossyPaths>>,
    shares: Arc<NicShares>,
    history: RefCell<OffloadHistory>,
}

/// How keys are given to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// For the kernel itself.
    Kernel,
    /// For this NIC, if it takes them.
    Nic(u32),
}

/// Why keys stay in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withheld {
    /// The connection leaves by a bond with a NIC that encrypts.
    Bond,
    /// The device by which it leaves is unknown.
    UnknownDevice,
    /// It leaves by a NIC that encrypts, and the operator has turned that off.
    NicOff,
    /// Only NICs may encrypt, and it leaves by none.
    NoNic,
    /// Only NICs may encrypt, and its NIC does not take its version or cipher.
    NotTaken,
    /// Its NIC has no room.
    NoRoom,
    /// An earlier connection of this viewer lost too much; the viewer's ticket identifies it.
    LossyViewer,
    /// An earlier connection from this address lost too much; the viewer came without a ticket.
    LossyPath,
    /// NICs get only a share of new connections, because of losses.
    Share,
}

impl Withheld {
    /// The counter's label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Bond => "bond",
            Self::UnknownDevice => "unknown_device",
            Self::NicOff => "card_off",
            Self::NoNic => "no_card",
            Self::NotTaken => "not_taken",
            Self::NoRoom => "no_room",
            Self::LossyViewer => "lossy_viewer",
            Self::LossyPath => "lossy_path",
            Self::Share => "share",
        }
    }
}

/// The kernel's counters before it got keys that are for a NIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    nic: u32,
    totals: Option<Totals>,
}

/// Connections whose keys went to NICs, and to the kernel itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    device: u64,
    cpu: u64,
}

impl Handover {
    /// Looks up this thread's network devices. Call it before a sandbox forbids new sockets.
    pub fn open(
        limits: LossLimits,
        lossy_paths: Arc<Mutex<LossyPaths>>,
        shares: Arc<NicShares>,
    ) -> Self {
        Self {
            nics: TlsNics::open().ok().map(RefCell::new),
            totals: File::open(TLS_STAT).ok(),
            limits,
            lossy_paths,
            shares,
            history: RefCell::default(),
        }
    }

    /// How the kernel gets the keys of a connection; none if it may not have them, which is counted.
    pub(crate) fn offer(
        &self,
        offload: KernelOffload,
        socket: &Socket,
        info: &SessionInfo,
        numbers: &Numbers,
    ) -> Option<Offer> {
        let kind = (info.version, info.suite);
        let leaves_by = self.leaves_by(socket);
        let try_nic = |nic| self.try_nic(nic, kind, socket, info);
        let offer = decide(leaves_by, offload.nics, try_nic);
        if let Err(why) = offer {
            numbers.count(Family::KernelTlsWithheld, why.as_str());
        }
        offer.ok()
    }

    /// Returns true if a new connection should prefer TLS 1.2 over 1.3: it leaves by a NIC that takes 1.2, as far as is known, but not 1.3, and it
    /// may be given to the NIC.
    pub(crate) fn wants_tls12(&self, offload: KernelOffload, socket: &Socket) -> bool {
        if !offload.gives_nics_keys() {
            return false;
        }
        let LeavesBy::TlsNic(nic) = self.leaves_by(socket) else { return false };
        // The handshake has not chosen a cipher yet, so this assumes AES-128-GCM, which the server prefers on CPUs with AES instructions.
        let (now, cipher) = (Instant::now(), Suite::Aes128Gcm);
        let history = self.history.borrow();
        let may_take = history.expect(nic, (TlsVersion::Tls12, cipher), now) == Expect::MayTake;
        let is_lossy = || {
            let peer = socket.peer();
            peer.is_ok_and(|peer| self.lossy_paths().has(Whose::of_address(peer.ip()), now))
        };
        may_take && !history.has_taken(nic, (TlsVersion::Tls13, cipher)) && !is_lossy()
    }

    fn leaves_by(&self, socket: &Socket) -> LeavesBy {
        let ends = || {
            let (own, peer) = (socket.own()?, socket.peer()?);
            Ok(Ends { own, peer, mark: socket.own_mark()?, bound_to: socket.bound_to()? })
        };
        let nics = self.nics.as_ref().map(RefCell::borrow_mut);
        nics.map_or(LeavesBy::Unknown, |mut nics| nics.leaves_by(ends, Instant::now()))
    }

    /// The expectation for a NIC, or the reason why it should not get this connection.
    fn try_nic(
        &self,
        nic: u32,
        kind: Kind,
        socket: &Socket,
        info: &SessionInfo,
    ) -> Result<Expect, Withheld> {
        let now = Instant::now();
        let expected = self.history.borrow().expect(nic, kind, now);
        // Returns before the share is drawn: a connection that the NIC would refuse must not use it up.
        if expected != Expect::MayTake {
            return Ok(expected);
        }
        let (whose, why) = match (info.resumed, socket.peer()) {
            (true, _) => (Some(Whose::Viewer(info.viewer)), Withheld::LossyViewer),
            (false, peer) => {
                (peer.ok().map(|peer| Whose::of_address(peer.ip())), Withheld::LossyPath)
            }
        };
        if whose.is_some_and(|whose| self.lossy_paths().has(whose, now)) {
            return Err(why);
        }
        self.shares.takes_next(nic).then_some(expected).ok_or(Withheld::Share)
    }

    /// Call it before the kernel gets the keys, and pass the result to [`Self::after`].
    pub(crate) fn before(&self, offer: Offer) -> Option<Before> {
        match offer {
            Offer::Kernel => None,
            Offer::Nic(nic) => Some(Before { nic, totals: self.totals() }),
        }
    }

    /// Counts which side encrypts a connection whose keys the kernel got, and returns it with the NIC; none if the keys were not for a NIC.
    pub(crate) fn after(
        &self,
        before: Option<Before>,
        kind: Kind,
        numbers: &Numbers,
    ) -> Option<(u32, Got)> {
        let Before { nic, totals } = before?;
        let got = Totals::got(totals, self.totals());
        self.history.borrow_mut().learn(nic, kind, got, Instant::now());
        let who = match got {
            Got::Nic => "card",
            Got::Cpu => "cpu",
            Got::Unclear => "unclear",
        };
        numbers.count(Family::NicTls, who);
        Some((nic, got))
    }

    /// Checks the progress of a connection that a NIC seals. A connection that costs the NIC too much is counted once, and its viewer's next
    /// connections stay in user space.
    pub(crate) fn watch(
        &self,
        watch: &mut Watch,
        progress: SendProgress,
        (socket, nic, viewer): (&Socket, u32, u64),
        numbers: &Numbers,
    ) {
        let was_costly = watch.verdict().is_some();
        let Some(window) = watch.look(progress, self.limits) else { return };
        let now = Instant::now();
        self.shares.note(nic, window);
        numbers.card_tls_retransmitted_bytes_total.add(window.retransmitted_bytes);
        if let (false, Some(why)) = (was_costly, watch.verdict()) {
            numbers.count(Family::NicTlsCostly, why.as_str());
            // The next connection may come with a ticket or without one, so the viewer is noted by both.
            let mut lossy_paths = self.lossy_paths();
            lossy_paths.note(Whose::Viewer(viewer), now);
            if let Ok(peer) = socket.peer() {
                lossy_paths.note(Whose::of_address(peer.ip()), now);
            }
        }
    }

    fn lossy_paths(&self) -> std::sync::MutexGuard<'_, LossyPaths> {
        self.lossy_paths.lock().expect("no holder of this lock can panic")
    }

    fn totals(&self) -> Option<Totals> {
        // Linux 7.3 prints thirteen lines of about forty bytes.
        let mut text = [0; 4096];
        let bytes = self.totals.as_ref()?.read_at(&mut text, 0).ok()?;
        Totals::parse(std::str::from_utf8(&text[..bytes]).ok()?)
    }
}

fn decide(
    leaves_by: LeavesBy,
    nics: NicTls,
    try_nic: impl FnOnce(u32) -> Result<Expect, Withheld>,
) -> Result<Offer, Withheld> {
    let is_alone = nics == NicTls::Alone;
    match leaves_by {
        // These two come first, because there the kernel could pass keys to a NIC whatever the operator has set.
        LeavesBy::SealingBond => Err(Withheld::Bond),
        LeavesBy::Unknown => Err(Withheld::UnknownDevice),
        LeavesBy::Other if is_alone => Err(Withheld::NoNic),
        LeavesBy::Other => Ok(Offer::Kernel),
        LeavesBy::TlsNic(_) if nics == NicTls::Off => Err(Withheld::NicOff),
        LeavesBy::TlsNic(nic) => match try_nic(nic)? {
            Expect::MayTake => Ok(Offer::Nic(nic)),
            Expect::NoRoom => Err(Withheld::NoRoom),
            Expect::DoesNotTake if is_alone => Err(Withheld::NotTaken),
            Expect::DoesNotTake => Ok(Offer::Kernel),
        },
    }
}

impl Totals {
    /// From /proc/net/tls_stat.
    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
            lines.find(|(found, _)| *found == name)?.1.trim().parse().ok()
        };
        Some(Self { device: value("TlsTxDevice")?, cpu: value("TlsTxSw")? })
    }

    /// Which side got the one connection that was handed over in between.
    fn got(before: Option<Self>, after: Option<Self>) -> Got {
        let (Some(before), Some(after)) = (before, after) else { return Got::Unclear };
        // If both counters rose, another worker handed a connection over at the same moment.
        match (after.device > before.device, after.cpu > before.cpu) {
            (true, false) => Got::Nic,
            (false, true) => Got::Cpu,
            _ => Got::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer_over(leaves_by: LeavesBy, nics: NicTls, expect: Expect) -> Result<Offer, Withheld> {
        decide(leaves_by, nics, |_| Ok(expect))
    }

    #[test]
    fn keys_stay_here_over_bonds_that_may_encrypt_and_over_what_is_not_known() {
        for nics in [NicTls::Off, NicTls::Auto, NicTls::Wanted, NicTls::Alone] {
            let of = |leaves_by| offer_over(leaves_by, nics, Expect::MayTake);
            assert_eq!(of(LeavesBy::SealingBond), Err(Withheld::Bond));
            assert_eq!(of(LeavesBy::Unknown), Err(Withheld::UnknownDevice));
        }
    }

    #[test]
    fn what_a_card_must_not_or_cannot_seal_goes_where_the_operator_wants_it() {
        let nic = LeavesBy::TlsNic(3);
        let table = [
            (LeavesBy::Other, NicTls::Off, Expect::MayTake, Ok(Offer::Kernel)),
            (LeavesBy::Other, NicTls::Auto, Expect::MayTake, Ok(Offer::Kernel)),
            (LeavesBy::Other, NicTls::Alone, Expect::MayTake, Err(Withheld::NoNic)),
            (nic, NicTls::Off, Expect::MayTake, Err(Withheld::NicOff)),
            (nic, NicTls::Auto, Expect::MayTake, Ok(Offer::Nic(3))),
            (nic, NicTls::Alone, Expect::MayTake, Ok(Offer::Nic(3))),
            (nic, NicTls::Auto, Expect::NoRoom, Err(Withheld::NoRoom)),
            (nic, NicTls::Alone, Expect::NoRoom, Err(Withheld::NoRoom)),
            (nic, NicTls::Wanted, Expect::DoesNotTake, Ok(Offer::Kernel)),
            (nic, NicTls::Alone, Expect::DoesNotTake, Err(Withheld::NotTaken)),
        ];
        for (leaves_by, nics, expect, offer) in table {
            assert_eq!(
                offer_over(leaves_by, nics, expect),
                offer,
                "{leaves_by:?} {nics:?} {expect:?}"
            );
        }
        let lossy = decide(nic, NicTls::Auto, |_| Err(Withheld::LossyPath));
        assert_eq!(lossy, Err(Withheld::LossyPath));
    }

    #[test]
    fn the_kernels_counters_say_who_got_a_connection() {
        let text = "TlsCurrTxSw                     \t0\nTlsTxSw                         \t4\nTlsTxDevice                     \t7\n";
        let before = Totals::parse(text);
        assert_eq!(before, Some(Totals { device: 7, cpu: 4 }));
        let after = |device, cpu| Some(Totals { device, cpu });
        assert_eq!(Totals::got(before, after(8, 4)), Got::Nic);
        assert_eq!(Totals::got(before, after(7, 6)), Got::Cpu);
        assert_eq!(
            Totals::got(before, after(8, 5)),
            Got::Unclear,
            "another worker handed one over at the same time"
        );
        assert_eq!(Totals::got(before, before), Got::Unclear);
        assert_eq!(Totals::got(before, None), Got::Unclear);
        assert_eq!(Totals::parse("TlsTxSw 4\n"), None);
    }

    #[test]
    fn without_knowledge_of_devices_no_keys_are_handed_over_and_each_is_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Socket::from(std::os::fd::OwnedFd::from(peer));
        let numbers = Numbers::default();
        let withheld = || {
            let counts = numbers.labelled();
            counts.get(&(Family::KernelTlsWithheld, "unknown_device")).copied()
        };
        let info = SessionInfo {
            version: TlsVersion::Tls12,
            suite: Suite::Aes128Gcm,
            group: None,
            server_name: None,
            resumed: false,
            is_proof: false,
            viewer: 1,
        };
        let offload = KernelOffload { seals: true, nics: NicTls::Auto, ..KernelOffload::default() };
        let offer = |handover: Handover| handover.offer(offload, &socket, &info, &numbers);
        assert_eq!(offer(Handover::default()), None);
        assert_eq!(withheld(), Some(1));
        let open = Handover::open(LossLimits::default(), Arc::default(), Arc::default());
        assert_eq!(offer(open), Some(Offer::Kernel), "loopback encrypts nothing");
        assert_eq!(withheld(), Some(1));
    }
}
