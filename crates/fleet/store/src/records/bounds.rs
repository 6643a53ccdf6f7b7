//! Bounds of each kind of record.

use fleet_protocol::{CHAIN_BYTES_MAX, Digest, Name, check_node_host};

use super::{
    AuditRecord, ClusterRecord, FleetRecord, GatewayRecord, InviteRecord, NodeRecord,
    OperatorRecord, PinsRecord, PlacementRecord, PlanRecord, PopularityRecord, PurgesRecord,
    Revoked, RevokedNameRecord, SecretRecord, SiteRecord, SnoozesRecord, StoreRecord, TitleRecord,
    TokenKeyRecord, UnusedRecord, ViewerCertificateRecord, Wanted,
};
use crate::KEY_BYTES_MAX;

/// Longest text written by a person: a reason, a detail.
const TEXT_BYTES_MAX: usize = 500;

/// Most withdrawn versions of a title that can still be published. Each one must be remembered, or it could come back.
pub const WITHDRAWN_PUBLISHED_MAX: usize = 1000;

/// Most withdrawn versions of one title. A restore may merge those of several stores.
pub const WITHDRAWN_MAX: usize = 4 * WITHDRAWN_PUBLISHED_MAX;

/// Most accepted certificates of one node at a time: the one in use and its replacements.
pub const SERIALS_MAX: usize = 16;

/// Most pins of one title.
pub const PINS_MAX: usize = 100;

/// Most copies that each title may have.
const FLOOR_COPIES_MAX: u16 = 100;

/// Most clusters in a plan: the digests of all their manifests fit into one value.
pub const MANIFESTS_MAX: usize = 10_000;

/// Most purges of edges that a fleet keeps for nodes that are away.
pub const PURGES_MAX: usize = 500;

/// Most bytes of their URLs, prefixes and tags. In JSON, one-letter tags take four bytes each and other text two at most: all fit into a value.
pub const PURGES_BYTES_MAX: usize = 192 << 10;

/// Longest reason of a purge.
pub const PURGE_REASON_BYTES_MAX: usize = 200;

/// Most issues that are snoozed at a time.
pub const SNOOZES_MAX: usize = 500;

/// Longest reason of a snooze.
pub const SNOOZE_REASON_BYTES_MAX: usize = 200;

/// Longest ID of an issue: a kind and a node's name.
const ISSUE_ID_BYTES_MAX: usize = 100;

type Checked = Result<(), &'static str>;

fn require(holds: bool, otherwise: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn check_name(name: &str) -> Checked {
    name.parse::<Name>().map(|_| ()).map_err(|_| "its key does not end with a name")
}

/// An identifier drawn by a program.
fn check_id(id: &str) -> Checked {
    let fits = (1..=64).contains(&id.len());
    require(
        fits && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
        "its key does not end with an identifier of up to 64 letters, digits and hyphens",
    )
}

fn check_text(text: &str) -> Checked {
    require(
        text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control),
        "a text is longer than 500 bytes or has a control character",
    )
}

fn check_revoked(revoked: &Option<Revoked>) -> Checked {
    revoked.as_ref().map_or(Ok(()), |revoked| check_text(&revoked.reason))
}

impl StoreRecord for FleetRecord {
    const FOLDER: &'static str = "fleet";

    fn check(&self, name: &str) -> Checked {
        let policy = &self.policy;
        require(name.is_empty(), "there is only one fleet")?;
        require(self.epoch > 0, "epoch is 0")?;
        require(
            matches!(policy.scheme.as_str(), "http" | "https"),
            "policy.scheme is neither http nor https",
        )?;
        require((1..=60).contains(&policy.ttl_seconds), "policy.ttl_seconds is not 1 to 60")?;
        require(
            policy.roomy_permille <= policy.full_permille,
            "policy.roomy_permille is above full_permille",
        )
    }
}

impl StoreRecord for SecretRecord {
    const FOLDER: &'static str = "secret/";

    fn check(&self, name: &str) -> Checked {
        require(matches!(name, "ca" | "signing"), "it is neither secret/ca nor secret/signing")?;
        require(!self.pkcs8.reveal().is_empty(), "it is empty")
    }
}

impl StoreRecord for TokenKeyRecord {
    const FOLDER: &'static str = "secret/token/";

    fn check(&self, name: &str) -> Checked {
        check_id(name)?;
        require(!self.pkcs8.reveal().is_empty(), "it is empty")
    }
}

impl StoreRecord for SiteRecord {
    const FOLDER: &'static str = "site/";

    fn check(&self, name: &str) -> Checked {
        check_name(name)?;
        require(
            self.latitude.is_some() == self.longitude.is_some(),
            "it has a latitude or a longitude, not both",
        )?;
        require(
            self.latitude.is_none_or(|north| north.abs() <= 90.0),
            "latitude is not -90 to 90",
        )?;
        require(
            self.longitude.is_none_or(|east| east.abs() <= 180.0),
            "longitude is not -180 to 180",
        )
    }
}

impl StoreRecord for ClusterRecord {
    const FOLDER: &'static str = "cluster/";

    fn check(&self, name: &str) -> Checked {
        check_name(name)
    }
}

impl StoreRecord for NodeRecord {
    const FOLDER: &'static str = "node/";

    fn check(&self, name: &str) -> Checked {
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte);
        let is_serial = |serial: &String| {
            // RFC 5280, section 4.1.2.2: 20 bytes at most.
            (1..=40).contains(&serial.len())
                && serial.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        check_name(name)?;
        require(
            (1..=253).contains(&self.host.len()) && self.host.bytes().all(is_host),
            "host is neither a name nor an address",
        )?;
        require(self.serials.len() <= SERIALS_MAX, "it has more than 16 certificates")?;
        require(self.serials.iter().all(is_serial), "a serial number is not 1 to 40 hex digits")?;
        if let Wanted::Drained { reason, .. } = &self.wanted {
            check_text(reason)?;
        }
        check_revoked(&self.revoked)
    }
}

impl StoreRecord for RevokedNameRecord {
    const FOLDER: &'static str = "revoked/";

    fn check(&self, name: &str) -> Checked {
        check_name(name)?;
        check_text(&self.revoked.reason)
    }
}

impl StoreRecord for ViewerCertificateRecord {
    const FOLDER: &'static str = "certificate/";

    fn check(&self, name: &str) -> Checked {
        check_name(name)?;
        require(self.request.len() <= CHAIN_BYTES_MAX, "its request is longer than 64 KiB")?;
        let chain = self.chain.as_ref().map_or(0, |chain| chain.pem.len());
        require(chain <= CHAIN_BYTES_MAX, "its chain is longer than 64 KiB")
    }
}

impl StoreRecord for GatewayRecord {
    const FOLDER: &'static str = "gateway/";

    fn check(&self, name: &str) -> Checked {
        check_name(name)?;
        let fits = self.machines.starts_with("https://") && self.machines.len() <= 300;
        require(fits, "machines is not https://HOST:PORT")
    }
}

impl StoreRecord for InviteRecord {
    const FOLDER: &'static str = "invite/";

    fn check(&self, name: &str) -> Checked {
        check_id(name)?;
        require(
            self.host.as_deref().is_none_or(|host| check_node_host(host).is_ok()),
            "host is neither a name nor an address",
        )?;
        require(
            self.made_unix_seconds <= self.expires_unix_seconds,
            "it expires before it was made",
        )
    }
}

impl StoreRecord for TitleRecord {
    const FOLDER: &'static str = "title/";

    fn check(&self, name: &str) -> Checked {
        require(catalog::TitlePath::new(name).is_ok(), "its key does not end with a title's path")?;
        require(self.withdrawn.len() <= WITHDRAWN_MAX, "more than 4000 versions are withdrawn")?;
        let is_series = |series: &String| catalog::TitleName::new(series).is_ok();
        require(self.series.as_ref().is_none_or(is_series), "its series has no name")?;
        let Some(published) = &self.published else { return Ok(()) };
        require(published.check().is_ok(), "what is published is out of its bounds")?;
        require(published.path == name, "what is published has another path")?;
        require(
            self.withdrawn.iter().all(|withdrawn| withdrawn.version != published.version),
            "the published version is withdrawn",
        )
    }
}

impl StoreRecord for PinsRecord {
    const FOLDER: &'static str = "pins/";

    fn check(&self, name: &str) -> Checked {
        require(catalog::TitlePath::new(name).is_ok(), "its key does not end with a title's path")?;
        require(self.pins.len() <= PINS_MAX, "it has more than 100 pins")?;
        require(self.pins.iter().all(|pin| pin.copies > 0), "a pin wants 0 copies")
    }
}

impl StoreRecord for PlacementRecord {
    const FOLDER: &'static str = "placement";

    fn check(&self, name: &str) -> Checked {
        require(name.is_empty(), "there is only one")?;
        let policy = &self.policy;
        require(
            (1..=FLOOR_COPIES_MAX).contains(&policy.floor_copies),
            "floor_copies is not 1 to 100",
        )?;
        let cut_offs = &policy.cut_offs;
        let permilles =
            [cut_offs.storage_permille, cut_offs.flash_permille, cut_offs.global_permille];
        require(permilles.iter().all(|part| *part <= 1000), "a cut-off is above 1000")?;
        require(
            policy.margin_permille >= 1000,
            "margin_permille is below 1000: titles of like demand would take turns",
        )
    }
}

impl StoreRecord for PlanRecord {
    const FOLDER: &'static str = "plan";

    fn check(&self, name: &str) -> Checked {
        require(name.is_empty(), "there is only one")?;
        let count = self.manifests.as_ref().map_or(0, Vec::len);
        require(count <= MANIFESTS_MAX, "it has more than 10000 manifests")
    }
}

impl StoreRecord for PopularityRecord {
    const FOLDER: &'static str = "popularity";

    fn check(&self, name: &str) -> Checked {
        require(name.is_empty(), "there is only one")
    }
}

impl StoreRecord for PurgesRecord {
    const FOLDER: &'static str = "purges";

    fn check(&self, name: &str) -> Checked {
        require(name.is_empty(), "there is only one")?;
        require(self.orders.len() <= PURGES_MAX, "it has more than 500 orders")?;
        require(self.orders.len() as u64 <= self.last, "it has more orders than were given")?;
        require(self.bytes() <= PURGES_BYTES_MAX, "its orders have more than 192 KiB")?;
        self.orders.iter().try_for_each(|order| {
            require(order.purge.check().is_ok(), "an order is out of its bounds")?;
            check_id(&order.by)?;
            let fits = order.reason.len() <= PURGE_REASON_BYTES_MAX;
            require(fits, "a reason is longer than 200 bytes")?;
            check_text(&order.reason)
        })
    }
}

impl StoreRecord for SnoozesRecord {
    const FOLDER: &'static str = "snoozes";

    fn check(&self, name: &str) -> Checked {
        require(name.is_empty(), "there is only one")?;
        require(self.snoozes.len() <= SNOOZES_MAX, "it has more than 500 snoozes")?;
        self.snoozes.iter().try_for_each(|(issue, snooze)| {
            require(issue.len() <= ISSUE_ID_BYTES_MAX, "an issue's ID is longer than 100 bytes")?;
            check_text(issue)?;
            check_id(&snooze.by)?;
            let fits = snooze.reason.len() <= SNOOZE_REASON_BYTES_MAX;
            require(fits, "a reason is longer than 200 bytes")?;
            check_text(&snooze.reason)
        })
    }
}

impl StoreRecord for UnusedRecord {
    const FOLDER: &'static str = "unused/";

    fn check(&self, name: &str) -> Checked {
        require(name.parse::<Digest>().is_ok(), "its key does not end with a digest")
    }
}

impl StoreRecord for OperatorRecord {
    const FOLDER: &'static str = "operator/";

    fn check(&self, name: &str) -> Checked {
        check_id(name)?;
        check_revoked(&self.revoked)
    }
}

impl StoreRecord for AuditRecord {
    const FOLDER: &'static str = "audit/";

    fn check(&self, name: &str) -> Checked {
        check_id(name)?;
        [&self.who, &self.what, &self.detail].into_iter().try_for_each(|text| check_text(text))?;
        require(self.subject.len() <= KEY_BYTES_MAX, "its subject is longer than a key")
    }
}
