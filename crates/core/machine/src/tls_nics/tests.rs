use super::*;
use crate::netlink::attributes::put_nested;

fn ends(pair: [&str; 2], mark: u32) -> Ends {
    let [own, peer] = pair.map(|address| address.parse().unwrap());
    Ends { own, peer, mark, bound_to: 0 }
}

/// A device as the kernel reports it.
struct Told {
    index: u32,
    name: &'static str,
    kind: &'static str,
    master: u32,
    on: u32,
}

const CARD: Told = Told { index: 2, name: "eth0", kind: "", master: 0, on: 0 };

impl Told {
    fn payload(&self) -> Vec<u8> {
        let mut payload = vec![0; LINK_HEAD_BYTES];
        payload[4..8].copy_from_slice(&self.index.to_ne_bytes());
        put(&mut payload, 3, format!("{}\0", self.name).as_bytes());
        for (attribute, value) in [(10, self.master), (5, self.on)] {
            if value != 0 {
                put(&mut payload, attribute, &value.to_ne_bytes());
            }
        }
        if !self.kind.is_empty() {
            let mut info = Vec::new();
            put(&mut info, 1, format!("{}\0", self.kind).as_bytes());
            put_nested(&mut payload, 18, &info);
        }
        payload
    }
}

/// The features of a card by its name: "tls..." encrypts, "could..." could if switched on, and "silent..." reports none.
fn features(name: &str) -> Option<NicFeatures> {
    let has = |does| if does { BTreeSet::from([TLS_FEATURE.to_owned()]) } else { BTreeSet::new() };
    let (on, can) = (name.starts_with("tls"), name.starts_with("could"));
    (!name.starts_with("silent")).then(|| NicFeatures { on: has(on), switchable: has(can) })
}

fn heed(links: &mut Links, told: &Told) {
    links.heed_with(
        Message { kind: NEW_LINK, payload: &told.payload(), ..Message::default() },
        features,
    );
}

fn links(told: &[Told]) -> Links {
    let mut links = Links::default();
    told.iter().for_each(|told| heed(&mut links, told));
    links
}

#[test]
fn a_card_is_what_its_feature_says() {
    let mut links = links(&[
        CARD,
        Told { index: 3, name: "tls0", ..CARD },
        Told { index: 4, name: "could0", ..CARD },
    ]);
    assert_eq!(links.leaves_by(2), LeavesBy::Other);
    assert_eq!(links.leaves_by(3), LeavesBy::TlsNic(3));
    assert_eq!(links.leaves_by(4), LeavesBy::Other, "it is off");
    assert_eq!(links.leaves_by(5), LeavesBy::Unknown);
    assert_eq!(links.nics(), ["tls0"]);
    let numbered = links.numbered_nics();
    assert_eq!(numbered.len(), 1);
    assert_eq!(links.all[&numbered[0].0].name, "tls0");
    assert!(links.may_seal() && links.bonds().is_empty());
}

#[test]
fn a_device_that_does_not_tell_is_unknown() {
    let mut links = links(&[Told { index: 3, name: "silent0", ..CARD }]);
    assert_eq!(links.leaves_by(3), LeavesBy::Unknown);
}

#[test]
fn a_bond_is_refused_if_one_of_its_cards_encrypts_or_does_not_tell() {
    for name in ["tls0", "silent0"] {
        let mut links = links(&[
            Told { master: 9, ..CARD },
            Told { index: 3, name, master: 9, ..CARD },
            Told { index: 9, name: "bond0", kind: "bond", ..CARD },
            Told { index: 10, name: "bond0.7", kind: "vlan", on: 9, ..CARD },
            Told { index: 11, name: "br0", kind: "bridge", ..CARD },
            Told { index: 12, name: "bond1", kind: "bond", master: 11, ..CARD },
            Told { index: 13, name, master: 12, ..CARD },
        ]);
        for index in [9, 10, 11, 12] {
            assert_eq!(links.leaves_by(index), LeavesBy::SealingBond, "{name}, {index}");
        }
        assert_eq!(links.bonds(), [("bond0", vec![name]), ("bond1", vec![name])]);
        assert!(links.nics().is_empty() && links.bonded() == [name]);
    }
}

#[test]
fn a_bond_whose_cards_could_encrypt_is_refused_once_one_of_them_does() {
    let bond = Told { index: 9, name: "bond0", kind: "bond", ..CARD };
    let mut links = links(&[Told { name: "could0", master: 9, ..CARD }, bond]);
    assert_eq!(links.leaves_by(9), LeavesBy::Other);
    assert!(links.bonds().is_empty() && links.may_seal());
    assert_eq!(links.bonded(), ["could0"]);
    heed(&mut links, &Told { name: "tls0", master: 9, ..CARD });
    assert_eq!(links.leaves_by(9), LeavesBy::SealingBond);
    assert_eq!(links.bonds(), [("bond0", vec!["tls0"])]);
}

#[test]
fn a_bond_of_cards_that_cannot_encrypt_is_like_any_device() {
    // The kernel gives a bond the feature for the sake of its cards.
    let mut links = links(&[
        Told { master: 9, ..CARD },
        Told { index: 9, name: "could-bond", kind: "bond", ..CARD },
        Told { index: 10, name: "vlan", kind: "vlan", on: 9, ..CARD },
    ]);
    assert_eq!((links.leaves_by(9), links.leaves_by(10)), (LeavesBy::Other, LeavesBy::Other));
    assert!(links.bonds().is_empty());
}

#[test]
fn changes_count_at_once() {
    let bond = Told { index: 9, name: "bond0", kind: "bond", ..CARD };
    let mut links = links(&[Told { name: "tls0", ..CARD }, bond]);
    assert_eq!(links.leaves_by(9), LeavesBy::Other);
    heed(&mut links, &Told { name: "tls0", master: 9, ..CARD });
    assert_eq!(links.leaves_by(9), LeavesBy::SealingBond);
    heed(&mut links, &Told { name: "tls0", ..CARD });
    assert_eq!(links.leaves_by(9), LeavesBy::Other);
    assert_eq!(links.leaves_by(2), LeavesBy::TlsNic(2));
    let gone = Told { name: "tls0", ..CARD }.payload();
    links.heed_with(Message { kind: DELETED_LINK, payload: &gone, ..Message::default() }, features);
    assert_eq!(links.leaves_by(2), LeavesBy::Unknown);
}

/// These reports lack most attributes: if they were taken for the device's, it would seem to have left its bond.
#[test]
fn what_bridges_and_wireless_drivers_tell_is_left_alone() {
    let mut links = links(&[
        Told { name: "tls0", master: 9, ..CARD },
        Told { index: 9, name: "bond0", kind: "bond", ..CARD },
    ]);
    let mut of_bridge = Told { name: "tls0", ..CARD }.payload();
    of_bridge[0] = 7;
    let mut of_wireless = Told { name: "tls0", ..CARD }.payload();
    put(&mut of_wireless, 11, &[0; 4]);
    for (kind, payload) in
        [(NEW_LINK, &of_bridge), (DELETED_LINK, &of_bridge), (NEW_LINK, &of_wireless)]
    {
        links.heed_with(Message { kind, payload, ..Message::default() }, features);
        assert_eq!(links.leaves_by(9), LeavesBy::SealingBond);
    }
}

#[test]
fn devices_that_name_each_other_end_the_walk() {
    let links = links(&[
        Told { name: "veth0", kind: "veth", on: 3, ..CARD },
        Told { index: 3, name: "veth1", kind: "veth", on: 2, ..CARD },
        Told { index: 4, name: "a", kind: "vlan", on: 5, ..CARD },
        Told { index: 5, name: "b", kind: "vlan", on: 4, master: 4 },
    ]);
    assert_eq!(links.under(2), BTreeSet::from([2]));
    assert_eq!(links.under(4), BTreeSet::from([4, 5]));
}

#[test]
fn messages_cut_short_or_scrambled_are_taken_without_harm() {
    let told = Told { name: "tls0", kind: "vlan", master: 9, on: 7, ..CARD }.payload();
    for end in 0..told.len() {
        Links::default().heed_with(
            Message { kind: NEW_LINK, payload: &told[..end], ..Message::default() },
            features,
        );
    }
    for at in 0..told.len() {
        for byte in [0, 1, 3, 0xff] {
            let mut scrambled = told.clone();
            scrambled[at] = byte;
            let mut links = Links::default();
            links.heed_with(
                Message { kind: NEW_LINK, payload: &scrambled, ..Message::default() },
                features,
            );
            links.leaves_by(2);
        }
    }
}

#[test]
fn routes_are_asked_for_by_addresses_ports_and_mark() {
    let four = route_request(ends(["[::ffff:10.0.0.1]:443", "10.0.0.2:5000"], 7));
    assert_eq!(four[..3], [2, 32, 32]);
    let told = &four[ROUTE_HEAD_BYTES..];
    assert_eq!(attribute(told, 1), Some(&[10, 0, 0, 2][..]));
    assert_eq!(attribute(told, 2), Some(&[10, 0, 0, 1][..]));
    assert_eq!((number(told, 16), number(told, 27)), (Some(7), Some(6)));
    assert_eq!(attribute(told, 28), Some(&443_u16.to_be_bytes()[..]));
    assert_eq!(attribute(told, 4), None);
    let six = route_request(ends(["[fe80::1]:443", "[fe80::2%5]:1"], 0));
    assert_eq!(six[..3], [10, 128, 128]);
    assert_eq!(number(&six[ROUTE_HEAD_BYTES..], 4), Some(5));
    // A VRF's route, in which a link-local address still leaves by its own link.
    let of_vrf = |pair, device| {
        let request = route_request(Ends { bound_to: device, ..ends(pair, 0) });
        number(&request[ROUTE_HEAD_BYTES..], 4)
    };
    assert_eq!(of_vrf(["10.0.0.1:443", "10.0.0.2:5000"], 12), Some(12));
    assert_eq!(of_vrf(["[fe80::1]:443", "[fe80::2%5]:1"], 12), Some(5));
}

/// Facts about a device must not outlive the report that makes them wrong: of a device far above, or of none at all until then.
#[test]
fn what_was_found_out_is_forgotten_when_any_device_changes() {
    let port = Told { index: 3, name: "could0", master: 9, ..CARD };
    let mut links = links(&[
        Told { index: 9, name: "bond0", kind: "bond", ..CARD },
        Told { index: 10, name: "bond0.7", kind: "vlan", on: 9, master: 11 },
        Told { index: 11, name: "br0", kind: "bridge", ..CARD },
    ]);
    for index in [9, 10, 11] {
        assert_eq!(links.leaves_by(index), LeavesBy::Other);
    }
    assert!(!links.may_seal());
    assert_eq!(links.leaves_by(3), LeavesBy::Unknown, "not there yet");
    heed(&mut links, &port);
    assert!(links.may_seal());
    assert_eq!(links.leaves_by(3), LeavesBy::Other);
    heed(&mut links, &Told { name: "tls0", ..port });
    for index in [9, 10, 11] {
        assert_eq!(links.leaves_by(index), LeavesBy::SealingBond);
    }
}

#[test]
fn a_bridge_with_many_ports_is_searched_once() {
    let mut told = vec![Told { index: 1, name: "br0", kind: "bridge", ..CARD }];
    told.extend((2..2000).map(|index| Told { index, master: 1, ..CARD }));
    let mut links = links(&told);
    assert_eq!(links.under(1).len(), 1999);
    assert_eq!(links.leaves_by(1), LeavesBy::Other);
    // There was no report, so it is not computed again.
    links.all.clear();
    assert_eq!(links.leaves_by(1), LeavesBy::Other);
}

#[test]
fn only_a_route_answers_for_a_route() {
    let mut payload = vec![0; ROUTE_HEAD_BYTES];
    put(&mut payload, 4, &7_u32.to_ne_bytes());
    let device = |kind| device_in(Message { kind, payload: &payload, ..Message::default() });
    assert_eq!(device(NEW_ROUTE), Some(7));
    assert_eq!(device(NEW_LINK), None);
    let cut = Message { kind: NEW_ROUTE, payload: &payload[..4], ..Message::default() };
    assert_eq!(device_in(cut), None);
}

#[test]
fn a_kernel_that_cannot_tell_its_devices_is_not_asked_for_each_connection() {
    let mut nics = TlsNics::open().expect("netlink");
    let pair = ["127.0.0.1:443", "127.0.0.1:5000"];
    let start = Instant::now();
    let at = |nics: &mut TlsNics, millis| {
        nics.leaves_by(|| Ok(ends(pair, 0)), start + Duration::from_millis(millis))
    };
    // This family has no devices.
    let other = Netlink::generic().expect("generic netlink");
    let routes = std::mem::replace(&mut nics.routes, other);
    nics.is_stale = true;
    assert_eq!(at(&mut nics, 0), LeavesBy::Unknown);
    nics.routes = routes;
    assert_eq!(at(&mut nics, 999), LeavesBy::Unknown, "not asked again");
    // A kernel without ethtool over netlink reports no features of any device.
    let known = if nics.tells_features() { LeavesBy::Other } else { LeavesBy::Unknown };
    assert_eq!(at(&mut nics, 1000), known);
    assert_eq!(at(&mut nics, 0), known, "nothing is left of it");
}

/// The only known facts about this machine are that its loopback neither encrypts nor is a bond.
#[test]
fn the_kernel_tells_the_device_of_a_connection() {
    let mut nics = TlsNics::open().expect("netlink");
    assert!(!nics.links.all.is_empty());
    let loopback = |links: &Links| {
        links
            .all
            .iter()
            .find(|(_, link)| link.name == "lo")
            .map(|(index, link)| (*index, link.seals))
    };
    let (index, seals) = loopback(&nics.links).expect("every namespace has a loopback");
    assert_ne!(seals, Seals::Now);
    for pair in [["127.0.0.1:443", "127.0.0.1:5000"], ["[::ffff:127.0.0.1]:443", "127.0.0.1:5000"]]
    {
        assert_eq!(nics.device_of(ends(pair, 0)).unwrap(), index, "{pair:?}");
        assert_eq!(
            nics.leaves_by(|| Ok(ends(pair, 0)), Instant::now()),
            LeavesBy::Other,
            "{pair:?}"
        );
    }
}
