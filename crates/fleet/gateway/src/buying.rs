//! Purchase advice: which site is limited by storage or by its ceiling, from a plan's own figures, in words for people.

use fleet_protocol::Name;
use placement::{Plan, SiteOutlook};
use serde::Serialize;

/// The resource that is the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    /// Storage is short for copies that pins and the floor require.
    Copies,
    /// Storage is short for a site's demand.
    Room,
    /// A site's nodes may send less than its viewers watch.
    Ceiling,
}

/// A bottleneck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BuyHint {
    /// The resource.
    pub binds: Binding,
    /// The site; `None` for the fleet.
    pub site: Option<Name>,
    /// The present loss: bytes a day that are watched from elsewhere; for the ceiling, bits per second.
    pub lost: u64,
    /// The remedy, in words.
    pub text: String,
}

/// Most sites in the advice. Those that lose the most come first.
const SITES_TOLD: usize = 5;

/// The busiest hour compared with the day's mean, in thousandths. A guess: an evening's peak is about two to three times the mean.
const PEAK_PERMILLE: u128 = 2500;

/// The share of its ceiling from which a site counts as limited, in thousandths. By default, steering calls a node full at the same share.
const FULL_PERMILLE: u128 = 900;

/// A smaller share of a site's demand than this, in thousandths, does not justify a disk.
const LOST_PERMILLE_MIN: u64 = 10;

const DAY_SECONDS: u128 = 24 * 3600;

/// The bottlenecks of this plan: first copies that found no room, then sites, by their loss.
pub fn hints(plan: &Plan) -> Vec<BuyHint> {
    let sites = plan.sites();
    let mut rooms: Vec<BuyHint> = sites.iter().filter_map(room).collect();
    let mut ceilings: Vec<BuyHint> = sites.iter().filter_map(ceiling).collect();
    for list in [&mut rooms, &mut ceilings] {
        list.sort_by(|one, other| (other.lost, &one.site).cmp(&(one.lost, &other.site)));
        list.truncate(SITES_TOLD);
    }
    copies(plan).into_iter().chain(rooms).chain(ceilings).collect()
}

fn copies(plan: &Plan) -> Option<BuyHint> {
    let unmet = plan.pins_unmet + plan.floors_unmet;
    let text = format!(
        "Room binds: {unmet} copies that pins and the floor ask for have no place. Add nodes or disks, or withdraw titles."
    );
    (unmet > 0).then_some(BuyHint { binds: Binding::Copies, site: None, lost: 0, text })
}

fn room(of: &SiteOutlook) -> Option<BuyHint> {
    let lost = of.watched_bytes - of.near_bytes;
    let is_worth = lost >= (of.watched_bytes / 1000).saturating_mul(LOST_PERMILLE_MIN);
    if of.lacking_bytes == 0 || !is_worth {
        return None;
    }
    let text = format!(
        "Room binds at {}: of {} a day that its viewers are expected to watch, {} come from other sites. {} more room there would hold that.",
        of.site,
        bytes_in_words(of.watched_bytes),
        bytes_in_words(lost),
        bytes_in_words(of.lacking_bytes)
    );
    Some(BuyHint { binds: Binding::Room, site: Some(of.site.clone()), lost, text })
}

fn ceiling(of: &SiteOutlook) -> Option<BuyHint> {
    let mean = u128::from(of.watched_bytes) * 8 / DAY_SECONDS;
    let peak = mean * PEAK_PERMILLE / 1000;
    let most = u128::from(of.ceiling_bits_per_second) * FULL_PERMILLE / 1000;
    if peak <= most {
        return None;
    }
    let lost = u64::try_from(peak - most).unwrap_or(u64::MAX);
    let text = format!(
        "The ceiling binds at {}: a busy hour is expected to take {:.1} Gb/s, and its nodes may send {:.1}. Add nodes or faster links.",
        of.site,
        peak as f64 / 1e9,
        of.ceiling_bits_per_second as f64 / 1e9
    );
    Some(BuyHint { binds: Binding::Ceiling, site: Some(of.site.clone()), lost, text })
}

/// Formats bytes for people.
pub fn bytes_in_words(bytes: u64) -> String {
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let fits = units.iter().find(|(_, unit)| bytes as f64 >= *unit);
    fits.map_or_else(
        || format!("{bytes} B"),
        |(name, unit)| format!("{:.1} {name}", bytes as f64 / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> SiteOutlook {
        SiteOutlook {
            site: "paris".parse().expect("a name"),
            room_bytes: 10_000_000_000_000,
            held_bytes: 9_900_000_000_000,
            ceiling_bits_per_second: 10_000_000_000,
            watched_bytes: 20_000_000_000_000,
            near_bytes: 15_000_000_000_000,
            lacking_bytes: 2_000_000_000_000,
        }
    }

    #[test]
    fn a_site_whose_viewers_watch_from_elsewhere_lacks_room() {
        let hint = room(&site()).expect("it binds");
        assert_eq!(
            hint.text,
            "Room binds at paris: of 20.0 TB a day that its viewers are expected to watch, 5.0 TB come from other sites. \
             2.0 TB more room there would hold that."
        );
        assert_eq!(room(&SiteOutlook { lacking_bytes: 0, ..site() }), None);
        let hardly = SiteOutlook { near_bytes: 19_900_000_000_000, ..site() };
        assert_eq!(room(&hardly), None, "half a percent is not worth a disk");
    }

    #[test]
    fn a_site_whose_evening_is_above_its_ceiling_lacks_nodes() {
        // 20 TB a day are 1.85 Gb/s on average, and 4.6 in the evening.
        assert_eq!(ceiling(&site()), None);
        let busy = SiteOutlook { watched_bytes: 60_000_000_000_000, ..site() };
        let hint = ceiling(&busy).expect("it binds");
        assert!(hint.text.contains("take 13.9 Gb/s, and its nodes may send 10.0"), "{}", hint.text);
    }
}
