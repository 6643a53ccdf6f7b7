//! The groups that a viewer is counted in: large ones, so that a group's name says little about a person.
//!
//! Networks are prefixes of a fixed length: 65,536 addresses of IPv4, and of IPv6 the least that an internet provider gets (a /32; RIPE-738
//! section 5.1.1). A player is one of a few names, whatever its `User-Agent` says.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The significant bits of a network.
pub const NETWORK_BITS_V4: u8 = 16;
/// The same, of IPv6.
pub const NETWORK_BITS_V6: u8 = 32;

/// Parts of a `User-Agent`, and the player's name. The first match counts: browsers claim to be several others.
const PLAYERS: [(&str, &str); 17] = [
    ("fullbore-swarm", "swarm"),
    ("ExoPlayer", "exoplayer"),
    ("AndroidXMedia3", "exoplayer"),
    ("AppleCoreMedia", "avplayer"),
    ("Roku", "roku"),
    ("Tizen", "tizen"),
    ("Web0S", "webos"),
    ("webOS", "webos"),
    ("CrKey", "chromecast"),
    ("Lavf", "ffmpeg"),
    ("VLC", "vlc"),
    ("Edg/", "edge"),
    ("OPR/", "opera"),
    ("Firefox/", "firefox"),
    ("Chrome/", "chrome"),
    ("Safari/", "safari"),
    ("kodi", "kodi"),
];

/// The name of any other player.
const OTHER: &str = "other";

/// Whether players are grouped by this name.
pub fn is_player(name: &str) -> bool {
    name == OTHER || PLAYERS.iter().any(|(_, player)| *player == name)
}

/// A network of many viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NetworkGroup {
    V4([u8; 2]),
    V6([u8; 4]),
}

impl Display for NetworkGroup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4([a, b]) => write!(f, "{}/{NETWORK_BITS_V4}", Ipv4Addr::new(*a, *b, 0, 0)),
            Self::V6([a, b, c, d]) => {
                let halves = [u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])];
                let address = Ipv6Addr::new(halves[0], halves[1], 0, 0, 0, 0, 0, 0);
                write!(f, "{address}/{NETWORK_BITS_V6}")
            }
        }
    }
}

/// The groups of a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewerGroup {
    network: NetworkGroup,
    player: &'static str,
}

impl ViewerGroup {
    /// The groups of a viewer at `client` with this `User-Agent`.
    pub fn of(client: IpAddr, user_agent: Option<&[u8]>) -> Self {
        let network = match client.to_canonical() {
            IpAddr::V4(address) => {
                let [a, b, ..] = address.octets();
                NetworkGroup::V4([a, b])
            }
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.octets();
                NetworkGroup::V6([a, b, c, d])
            }
        };
        let agent = user_agent.unwrap_or_default();
        let has = |part: &str| {
            agent.windows(part.len()).any(|at| at.eq_ignore_ascii_case(part.as_bytes()))
        };
        let player = PLAYERS.iter().find(|(part, _)| has(part)).map_or(OTHER, |(_, name)| name);
        Self { network, player }
    }

    /// The network, such as `198.51.0.0/16`.
    pub fn network(&self) -> String {
        self.network.to_string()
    }

    /// The player.
    pub fn player(&self) -> &'static str {
        self.player
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_at_least_sixty_five_thousand_addresses() {
        let network = |address: &str| ViewerGroup::of(address.parse().unwrap(), None).network();
        assert_eq!(network("198.51.100.7"), "198.51.0.0/16");
        assert_eq!(network("::ffff:198.51.100.7"), "198.51.0.0/16");
        assert_eq!(network("2001:db8:1234:5678::9"), "2001:db8::/32");
    }

    #[test]
    fn players_have_one_of_a_few_names() {
        let player = |agent: &str| {
            ViewerGroup::of("192.0.2.1".parse().unwrap(), Some(agent.as_bytes())).player()
        };
        let chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36";
        assert_eq!(player(chrome), "chrome");
        assert_eq!(player(&format!("{chrome} Edg/131.0.0.0")), "edge");
        assert_eq!(
            player("AppleCoreMedia/1.0.0.21A329 (iPhone; U; CPU OS 17_0 like Mac OS X)"),
            "avplayer"
        );
        assert_eq!(player("tv.example/4.1 (Linux;Android 14) AndroidXMedia3/1.4.1"), "exoplayer");
        assert_eq!(player("my name is Anna"), "other");
        assert!(is_player("other") && is_player("edge") && !is_player("anna"));
        assert_eq!(ViewerGroup::of("192.0.2.1".parse().unwrap(), None).player(), "other");
    }
}
