//! The work that the server leaves to the kernel: chosen by the configuration and this kernel's abilities, and described.

use config::{Config, Nic, Route, Switch};
use delivery::{Handover, KernelOffload, LossLimits, LossyPaths, NicShares, NicTls};
use machine::TlsNics;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

/// Why the kernel route, or a card's TLS, is not available.
#[derive(Debug, thiserror::Error)]
pub enum NoKernelRoute {
    /// `--off handout` leaves the keys in the library that did the handshake.
    #[error(
        "--off handout leaves the TLS keys in rustls, and {} needs them: leave it out, or {}",
        .0.as_str(),
        .0.instead()
    )]
    KeysNotHandedOut(OffloadWanted),
    /// The kernel cannot encrypt TLS.
    #[error(fmt = write_no_tls)]
    NoTls(OffloadWanted, #[source] io::Error),
    /// The kernel does not list its network devices.
    #[error(
        "tls.nic is \"on\", and the kernel does not tell of its network cards ({0}): allow AF_NETLINK, or set tls.nic = \"auto\""
    )]
    NoNetlink(#[source] io::Error),
    /// No network card encrypts; the text says what is missing.
    #[error("tls.nic is \"on\", and no network card encrypts: {0}; or set tls.nic = \"auto\"")]
    NoNic(String),
}

/// The configured offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadWanted {
    /// The kernel route.
    Route,
    /// Cards that encrypt, while the server does the rest.
    Card,
    /// Both.
    Both,
}

impl OffloadWanted {
    fn of(config: &Config) -> Option<Self> {
        match (config.route == Route::Kernel, config.tls.nic == Nic::On) {
            _ if !config.tls.enabled => None,
            (true, true) => Some(Self::Both),
            (true, false) => Some(Self::Route),
            (false, true) => Some(Self::Card),
            (false, false) => None,
        }
    }

    fn wants_nic(self) -> bool {
        matches!(self, Self::Card | Self::Both)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Route | Self::Both => "the kernel route",
            Self::Card => "tls.nic = \"on\"",
        }
    }

    /// The alternative without it.
    fn instead(self) -> &'static str {
        match self {
            Self::Route => "choose --route userspace",
            Self::Card => "set tls.nic = \"auto\"",
            Self::Both => "choose --route userspace and set tls.nic = \"auto\"",
        }
    }
}

fn write_no_tls(
    wanted: &OffloadWanted,
    why: &io::Error,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let (wanted, instead) = (wanted.as_str(), wanted.instead());
    if why.raw_os_error() == Some(libc::ENOENT) {
        return write!(
            f,
            "cannot use {wanted}: this kernel has no TLS, or its module is not loaded: run \"modprobe tls\" as root; or {instead}"
        );
    }
    write!(f, "cannot use {wanted}: this kernel's TLS does not work: {why}; or {instead}")
}

/// Chooses by the configuration and by this machine's abilities.
///
/// # Errors
/// If the kernel route or a card's TLS was requested and is not available: what is missing, and how to fix it.
pub fn choose(config: &Config) -> Result<KernelOffload, NoKernelRoute> {
    choose_by(config, net::tls::probe, NicsFound::look)
}

/// As [`choose`]; `probe` reports whether the kernel has TLS, and `look` which cards encrypt.
fn choose_by(
    config: &Config,
    probe: impl FnOnce() -> io::Result<()>,
    look: impl FnOnce() -> io::Result<NicsFound>,
) -> Result<KernelOffload, NoKernelRoute> {
    let wanted = OffloadWanted::of(config);
    let mut chosen = KernelOffload::default();
    if let Some(wanted) = wanted {
        if !config.is_on(Switch::Handout) {
            return Err(NoKernelRoute::KeysNotHandedOut(wanted));
        }
        probe().map_err(|why| NoKernelRoute::NoTls(wanted, why))?;
        if wanted.wants_nic() {
            look().map_err(NoKernelRoute::NoNetlink)?.check()?;
        }
        chosen.seals = true;
        chosen.changes_keys = KernelOffload::can_change_keys();
        chosen.nics = match config.tls.nic {
            Nic::Off => NicTls::Off,
            Nic::Auto => NicTls::Auto,
            Nic::On if wanted == OffloadWanted::Both => NicTls::Wanted,
            Nic::On => NicTls::Alone,
        };
    }
    chosen.sends_files = wanted.is_some() || sends_files_without_tls(config);
    Ok(chosen)
}

/// Why cards cannot be examined.
const NO_ETHTOOL: &str = "this kernel does not tell what network cards do (it lacks ethtool over netlink, CONFIG_ETHTOOL_NETLINK)";

fn sends_files_without_tls(config: &Config) -> bool {
    !config.tls.enabled && matches!(config.route, Route::Kernel | Route::Auto)
}

/// The network cards that encrypt.
#[derive(Debug, Default)]
struct NicsFound {
    /// The kernel does not report the cards' features.
    is_silent: bool,
    /// Cards that encrypt now, and are in no bond.
    on: Vec<String>,
    /// Cards that could.
    off: Vec<String>,
    /// Cards of both kinds in bonds.
    bonded: Vec<String>,
}

impl NicsFound {
    fn look() -> io::Result<Self> {
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let nics = TlsNics::open()?;
        let (on, off) = (owned(nics.nics()), owned(nics.switchable()));
        Ok(Self { is_silent: !nics.tells_features(), on, off, bonded: owned(nics.bonded()) })
    }

    fn check(self) -> Result<(), NoKernelRoute> {
        if self.on.is_empty() { Err(NoKernelRoute::NoNic(self.missing())) } else { Ok(()) }
    }

    /// Says what is missing, and how to fix it.
    fn missing(&self) -> String {
        if self.is_silent {
            return format!("{NO_ETHTOOL}: use a kernel that has it");
        }
        match (&*self.off, &*self.bonded) {
            ([nic, ..], _) => format!(
                "{} could, but tls-hw-tx-offload is off: run \"ethtool -K {nic} tls-hw-tx-offload on\" as root",
                self.off.join(" and ")
            ),
            ([], [_, ..]) => format!(
                "{} could, but over a bond such cards may put clear text on the wire: use ports without a bond (docs/ports.md)",
                self.bonded.join(" and ")
            ),
            ([], []) => "none has tls-hw-tx-offload (ethtool -k CARD)".to_owned(),
        }
    }
}

/// The policy of a worker that hands keys to the kernel.
pub(crate) fn handover(
    offload: KernelOffload,
    config: &Config,
    lossy_paths: &Arc<Mutex<LossyPaths>>,
    shares: &Arc<NicShares>,
) -> Handover {
    if !offload.seals {
        return Handover::default();
    }
    Handover::open(loss_limits(config), Arc::clone(lossy_paths), Arc::clone(shares))
}

pub(crate) fn loss_limits(config: &Config) -> LossLimits {
    LossLimits {
        bytes_percent: config.tls.nic_lost_bytes_percent,
        segments_percent: config.tls.nic_lost_segments_percent,
    }
}

/// The route's name.
pub fn route_name(offload: KernelOffload, route: Route) -> &'static str {
    match route {
        Route::Bypass => "bypass",
        _ if offload.nics == NicTls::Alone => "userspace",
        _ if offload.seals || offload.sends_files => "kernel",
        _ => "userspace",
    }
}

/// How bytes are sent on this route, and why it was chosen, in words. `can_send_files` says whether the kernel can send the
/// library's files by itself.
pub fn describe(offload: KernelOffload, config: &Config, can_send_files: bool) -> String {
    let KernelOffload { seals, changes_keys, sends_files, nics } = offload;
    let sent = if can_send_files {
        "kernel: sendfile"
    } else {
        "kernel: read and send, because the kernel cannot send these files itself"
    };
    let mut said = match (sends_files, seals) {
        (true, true) if nics == NicTls::Alone => {
            format!("userspace, and what a network card encrypts by the {sent}")
        }
        (true, true) => format!("{sent}, encrypted by the kernel"),
        (true, false) => sent.to_owned(),
        (false, _) => "userspace: read, encrypt and send from user space".to_owned(),
    };
    if seals && !changes_keys {
        said.push_str(", which cannot change keys (needs Linux 6.14)");
    }
    if config.route == Route::Auto && nics != NicTls::Alone {
        said.push_str(if config.tls.enabled {
            " (auto: faster than encryption in the kernel; see --route kernel)"
        } else {
            " (auto: without TLS there is nothing to encrypt)"
        });
    }
    said
}

/// The start lines about network cards that encrypt, if the kernel gets keys ([`delivery::Handover`]).
pub fn describe_nics(offload: KernelOffload) -> Vec<String> {
    if !offload.seals {
        return Vec::new();
    }
    let nics = match TlsNics::open() {
        Ok(nics) => nics,
        Err(why) => {
            return vec![format!(
                "cards     the kernel does not tell of its network devices ({why}), so the server encrypts every connection itself. To fix it: \
                 allow AF_NETLINK (docs/routes.md)"
            )];
        }
    };
    if !nics.tells_features() {
        return vec![describe_silence()];
    }
    let bonds = nics.bonds();
    let bonds = bonds.into_iter().map(|(bond, members)| describe_bond(bond, &members));
    let nics = nics.nics();
    let sealing = (!nics.is_empty()).then(|| describe_sealing(offload.nics, &nics));
    bonds.chain(sealing).collect()
}

fn describe_silence() -> String {
    format!(
        "cards     {NO_ETHTOOL}, so the server encrypts every connection itself. For the kernel route, use a kernel that has it (docs/routes.md)"
    )
}

fn describe_sealing(may: NicTls, nics: &[&str]) -> String {
    let names = nics.join(" and ");
    let encrypt = if nics.len() == 1 { "encrypts what it takes" } else { "encrypt what they take" };
    match may {
        NicTls::Off => {
            format!("cards     {names} can encrypt, and the server does it itself (tls.nic)")
        }
        NicTls::Auto => format!("cards     {names} {encrypt}"),
        NicTls::Wanted | NicTls::Alone => {
            format!("cards     {names} {encrypt}, from the film's own pages")
        }
    }
}

fn describe_bond(bond: &str, members: &[&str]) -> String {
    let members = members.join(" and ");
    format!(
        "cards     {bond}: the server encrypts its connections itself, because {members} can do so (tls-hw-tx-offload is on), and over a bond \
         such cards may put clear text on the wire. For the kernel route, switch it off (docs/routes.md)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> io::Result<NicsFound> {
        Ok(NicsFound::default())
    }

    #[test]
    fn without_tls_the_kernel_sends_files_if_asked_to() {
        let mut config = Config::default();
        config.tls.enabled = false;
        for (route, name) in
            [(Route::Auto, "kernel"), (Route::Kernel, "kernel"), (Route::Userspace, "userspace")]
        {
            config.route = route;
            let chosen = choose(&config).unwrap();
            assert_eq!((route_name(chosen, route), chosen.seals), (name, false), "{route:?}");
        }
    }

    #[test]
    fn sendfile_is_not_claimed_for_files_that_are_copied() {
        let mut config = Config::default();
        config.tls.enabled = false;
        let chosen = choose(&config).unwrap();
        assert!(describe(chosen, &config, true).starts_with("kernel: sendfile"));
        let copied = describe(chosen, &config, false);
        assert!(!copied.contains("sendfile") && copied.contains("cannot send"), "{copied}");
    }

    #[test]
    fn a_kernel_without_tls_is_reported_with_what_to_do_and_only_when_it_was_asked_for() {
        let without = |config: &Config, errno: i32| {
            choose_by(config, || Err(io::Error::from_raw_os_error(errno)), none)
        };
        let asked = Config { route: Route::Kernel, ..Config::default() };
        let said = |errno: i32| without(&asked, errno).unwrap_err().to_string();
        assert!(said(libc::ENOENT).contains("modprobe tls\" as root; or choose --route userspace"));
        assert!(said(libc::EPERM).contains("does not work"));
        let auto = without(&Config::default(), libc::ENOENT).unwrap();
        assert_eq!(auto, KernelOffload::default());
    }

    #[test]
    fn the_advice_is_about_what_was_asked_for() {
        let said = |route, nic| {
            let mut asked = Config { route, ..Config::default() };
            asked.tls.nic = nic;
            let no_tls = || Err(io::Error::from_raw_os_error(libc::ENOENT));
            let by_kernel = choose_by(&asked, no_tls, none).unwrap_err().to_string();
            asked.off.push(Switch::Handout);
            let by_library = choose_by(&asked, || Ok(()), none).unwrap_err().to_string();
            [by_kernel, by_library]
        };
        for said in said(Route::Auto, Nic::On) {
            assert!(
                said.ends_with("or set tls.nic = \"auto\"") && !said.contains("--route"),
                "{said}"
            );
        }
        for said in said(Route::Kernel, Nic::Auto) {
            assert!(
                said.ends_with("or choose --route userspace") && !said.contains("tls.nic"),
                "{said}"
            );
        }
        for said in said(Route::Kernel, Nic::On) {
            assert!(
                said.ends_with("or choose --route userspace and set tls.nic = \"auto\""),
                "{said}"
            );
        }
    }

    #[test]
    fn a_bond_that_is_kept_from_the_kernel_is_named_with_its_cards() {
        let said = describe_bond("bond0", &["eth0", "eth1"]);
        assert!(said.contains("bond0") && said.contains("eth0 and eth1"), "{said}");
        assert!(describe_nics(KernelOffload::default()).is_empty());
    }

    #[test]
    fn a_kernel_with_tls_seals_and_sends_when_asked_to() {
        let asked = Config { route: Route::Kernel, ..Config::default() };
        let chosen = choose_by(&asked, || Ok(()), none).unwrap();
        assert!(chosen.seals && chosen.sends_files);
    }

    #[test]
    fn a_card_that_was_asked_for_and_is_missing_is_said_with_what_to_do() {
        let mut asked = Config::default();
        asked.tls.nic = Nic::On;
        let with = |found: NicsFound| choose_by(&asked, || Ok(()), || Ok(found));
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let said = |found: NicsFound| with(found).unwrap_err().to_string();
        assert!(said(NicsFound::default()).contains("none has tls-hw-tx-offload"));
        let silent = NicsFound { is_silent: true, ..NicsFound::default() };
        assert!(said(silent).contains("CONFIG_ETHTOOL_NETLINK"));
        assert!(describe_silence().contains("CONFIG_ETHTOOL_NETLINK"));
        let off = NicsFound { off: names(&["eth0", "eth1"]), ..NicsFound::default() };
        assert!(said(off).contains("ethtool -K eth0 tls-hw-tx-offload on"));
        let bonded = NicsFound { bonded: names(&["eth0"]), ..NicsFound::default() };
        assert!(said(bonded).contains("without a bond"));
        let on = with(NicsFound { on: names(&["eth0"]), ..NicsFound::default() }).unwrap();
        assert!(on.seals && on.sends_files && on.nics == NicTls::Alone);
        assert_eq!(route_name(on, Route::Auto), "userspace");
    }

    #[test]
    fn cards_do_what_the_operator_wants_on_the_kernel_route() {
        let of = |nic| {
            let mut config = Config { route: Route::Kernel, ..Config::default() };
            config.tls.nic = nic;
            let found = NicsFound { on: vec!["eth0".into()], ..NicsFound::default() };
            choose_by(&config, || Ok(()), || Ok(found)).unwrap().nics
        };
        assert_eq!(of(Nic::Auto), NicTls::Auto);
        assert_eq!(of(Nic::On), NicTls::Wanted);
        assert_eq!(of(Nic::Off), NicTls::Off);
    }
}
