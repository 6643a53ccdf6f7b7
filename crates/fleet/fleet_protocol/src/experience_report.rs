//! Reports of viewers' quality of experience on one node, for its gateways.
//!
//! A report is immutable, and a node sends it to each gateway until that gateway has accepted it, like a [`WatchReport`](crate::WatchReport). It
//! is about whole sessions, in groups of ten at least ([`qoe::CELL_SESSIONS_MIN`]). The groups of a dimension are exactly all sessions, so that
//! subtraction doesn't reveal a smaller group. A report is bounded by [`qoe::CELLS_MAX`] groups. A minute without enough sessions has none.

use qoe::{CELL_SESSIONS_MIN, CELLS_MAX, Dimension, NETWORK_BITS_V4, NETWORK_BITS_V6, SumsCell};
use serde::{Deserialize, Serialize};

use crate::heartbeat::check_boot;
use crate::title::check_path;
use crate::{Name, OutOfBounds, Prefix};

/// Longest time of one report.
const SECONDS_MAX: u32 = 3600;

/// The longest name of a dimension, and of a player.
const WORD_BYTES_MAX: usize = 32;

/// The longest name of a group in a dimension of a later release.
const NAME_BYTES_MAX: usize = 4096;

/// A report of viewers' experience on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExperienceReport {
    /// The version of this document: 1.
    pub version: u32,
    /// The sender. A name other than the one in its certificate is refused.
    pub node: Name,
    /// Names the run of the node's server that counted.
    pub boot: String,
    /// Rises with each report of a boot; a gateway accepts none that is not newer than the last.
    pub number: u64,
    /// The time that it covers.
    pub seconds: u32,
    /// When that time ended, since 1970, by the node's clock.
    pub ended_unix_seconds: u64,
    /// The groups, sorted by dimension and name, without duplicates.
    pub cells: Vec<SumsCell>,
}

impl ExperienceReport {
    /// The number of sessions: each is in one group of a dimension at most.
    pub fn sessions(&self) -> u64 {
        let of_one = self.cells.chunk_by(|one, next| one.by == next.by);
        of_one.map(|cells| sessions(cells.iter())).max().unwrap_or(0)
    }

    /// Adds the groups of titles that are not the fleet's to the group without a name: they are private.
    pub fn hide_titles(&mut self, is_fleets: impl Fn(&str) -> bool) {
        let is_hidden =
            |cell: &SumsCell| cell.by == Dimension::Title.as_str() && !is_fleets(&cell.name);
        let (hidden, mut shown): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.cells).into_iter().partition(is_hidden);
        // The group without a name is none of the fleet's titles, so it is among them.
        let mut hidden = hidden.into_iter();
        if let Some(mut nameless) = hidden.next() {
            nameless.name.clear();
            hidden.for_each(|cell| nameless.sums.add(&cell.sums));
            let at = shown.partition_point(|cell| cell.by < nameless.by);
            shown.insert(at, nameless);
        }
        self.cells = shown;
    }

    /// Checks the constraints that serde does not.
    ///
    /// # Errors
    /// The invalid field.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        let wrong = |text| Err(OutOfBounds(text));
        if self.version != 1 {
            return wrong("version is not 1: gateway and node are of different releases");
        }
        check_boot(&self.boot)?;
        if !(1..=SECONDS_MAX).contains(&self.seconds) {
            return wrong("seconds is not 1 to 3600");
        }
        if self.cells.len() > CELLS_MAX {
            return wrong("there are more than 1000 groups");
        }
        let key = |cell: &SumsCell| (cell.by.clone(), cell.name.clone());
        if !self.cells.is_sorted_by(|one, next| key(one) < key(next)) {
            return wrong("groups are not sorted, or one is there twice");
        }
        self.cells.iter().try_for_each(check_cell)?;
        // A dimension may be missing as a whole.
        let all = sessions(self.cells.iter().filter(|cell| cell.by == Dimension::All.as_str()));
        let mut by_dimension = self.cells.chunk_by(|one, next| one.by == next.by);
        let is_part = |cells: &[SumsCell]| {
            Dimension::named(&cells[0].by).is_some() && sessions(cells.iter()) != all
        };
        match by_dimension.any(is_part) {
            true => wrong("the groups of a dimension are not all sessions"),
            false => Ok(()),
        }
    }
}

fn sessions<'c>(cells: impl Iterator<Item = &'c SumsCell>) -> u64 {
    cells.fold(0, |sum, cell| sum.saturating_add(cell.sums.sessions))
}

fn check_cell(cell: &SumsCell) -> Result<(), OutOfBounds> {
    let wrong = |text| Err(OutOfBounds(text));
    if cell.sums.sessions < CELL_SESSIONS_MIN {
        return wrong("a group has fewer than ten sessions");
    }
    if !cell.sums.is_sound() {
        return wrong("the sums of a group are not those of its sessions");
    }
    let is_word = |text: &str| {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        (1..=WORD_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits)
    };
    if !is_word(&cell.by) {
        return wrong("a dimension is not a word");
    }
    let name = cell.name.as_str();
    match Dimension::named(&cell.by) {
        Some(Dimension::All) if !name.is_empty() => wrong("the group of all has a name"),
        _ if name.is_empty() => Ok(()),
        Some(Dimension::Title) => check_path(name),
        Some(Dimension::Network) if !is_large_network(name) => {
            wrong("a network is not a /16, or of IPv6 a /32")
        }
        Some(Dimension::Player) if !is_word(name) => wrong("a player's name is not a word"),
        None if name.len() > NAME_BYTES_MAX => wrong("a group's name is too long"),
        _ => Ok(()),
    }
}

/// Whether it has as many addresses as the networks that nodes report. A smaller one might be one person's.
fn is_large_network(text: &str) -> bool {
    text.parse::<Prefix>().is_ok_and(|prefix| {
        let bits = if prefix.address().is_ipv4() { NETWORK_BITS_V4 } else { NETWORK_BITS_V6 };
        prefix.bits() == bits
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use qoe::SessionSums;

    fn cell(by: &str, name: &str, sessions: u64) -> SumsCell {
        let sums = SessionSums { sessions, not_started: 1, ..SessionSums::default() };
        SumsCell { by: by.to_owned(), name: name.to_owned(), sums }
    }

    fn report() -> ExperienceReport {
        let cells = vec![
            cell("all", "", 30),
            cell("network", "198.51.0.0/16", 12),
            cell("network", "2001:db8::/32", 18),
            cell("player", "avplayer", 30),
            cell("title", "", 10),
            cell("title", "films/a", 20),
        ];
        ExperienceReport {
            version: 1,
            node: "n1".parse().expect("a name"),
            boot: "b1".to_owned(),
            number: 1,
            seconds: 60,
            ended_unix_seconds: 1_800_000_000,
            cells,
        }
    }

    #[test]
    fn a_report_reads_what_it_writes_and_what_a_later_release_writes() {
        let report = report();
        assert_eq!((report.check(), report.sessions()), (Ok(()), 30));
        let mut sent = serde_json::to_value(&report).expect("JSON");
        sent["odd"] = 1.into();
        sent["cells"][0]["odd"] = 1.into();
        sent["cells"][0]["sums"]["odd"] = 1.into();
        let read: ExperienceReport = serde_json::from_value(sent).expect("the same");
        assert_eq!(read, report);
        let mut later = report;
        later.cells.insert(1, cell("arm", "experiment 7/b", 15));
        assert_eq!(later.check(), Ok(()), "a dimension of a later release");
    }

    #[test]
    fn titles_that_are_not_the_fleets_lose_their_names() {
        let mut own = report();
        own.cells.push(cell("title", "private/b", 15));
        own.cells.insert(5, cell("title", "/", 12));
        for at in [0, 3] {
            own.cells[at].sums.sessions = 57;
        }
        own.cells[2].sums.sessions = 45;
        own.hide_titles(|path| path.starts_with("films/"));
        assert_eq!((own.check(), own.cells.len()), (Ok(()), 6));
        assert_eq!((own.cells[4].name.as_str(), own.cells[4].sums.sessions), ("", 37));
        own.hide_titles(|_| false);
        assert_eq!((own.check(), own.cells.len()), (Ok(()), 5));
        assert_eq!((own.cells[4].name.as_str(), own.cells[4].sums.sessions), ("", 57));
        let mut none = report();
        none.cells.truncate(4);
        none.hide_titles(|_| false);
        assert_eq!(none.cells.len(), 4);
    }

    #[test]
    fn a_report_that_cannot_be_is_refused() {
        let broken: [fn(&mut ExperienceReport); 14] = [
            |one| one.version = 2,
            |one| one.boot = "../x".into(),
            |one| one.seconds = 0,
            |one| one.seconds = 3601,
            |one| one.cells.reverse(),
            |one| one.cells[2].name = "198.51.0.0/16".into(),
            |one| one.cells[5].name = "../a".into(),
            |one| one.cells[3].name = "Anna's phone".into(),
            |one| one.cells[1].name = "198.51.100.0/24".into(),
            |one| one.cells[0].sums.sessions = 9,
            |one| one.cells[0].sums.not_started = 31,
            // Of all sessions, one would be left.
            |one| one.cells[0].sums.sessions = 31,
            |one| drop(one.cells.remove(0)),
            |one| one.cells = vec![cell("all", "", 10); CELLS_MAX + 1],
        ];
        for (number, break_it) in broken.iter().enumerate() {
            let mut one = report();
            break_it(&mut one);
            assert!(one.check().is_err(), "{number}");
        }
    }
}
