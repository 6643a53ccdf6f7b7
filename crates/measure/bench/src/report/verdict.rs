//! Puts a ratio into words that are right whichever side is ahead.

use super::model::{Part, Versus};
use super::number::{THIN_SPACE, percent, significant, with_spread};

/// Sides closer than this are level: a server compared with itself must come out within it.
const TELLABLE: f64 = 0.05;

/// A ratio within this many deviations of 1 is chance.
const DEVIATIONS: f64 = 2.0;

/// How the first side compares with the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ahead,
    Level,
    Behind,
}

/// One ratio and its context.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) workload: String,
    /// The client, unless it was our own load.
    pub(crate) client: Option<String>,
    pub(crate) hit_percent: Option<f64>,
    pub(crate) congestion_control: Option<String>,
    pub(crate) ours: String,
    pub(crate) peer: String,
    pub(crate) unit: Unit,
    pub(crate) lower_is_better: bool,
    /// The first side's figure over the second's.
    pub(crate) ratio: f64,
    pub(crate) ratio_deviation: f64,
}

/// The unit of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Gigabits,
    Handshakes,
    ConnectionBytes,
    Viewers,
    /// A unit that this version does not know, by its name in the file.
    Other(String),
}

impl Unit {
    pub(crate) fn of(part: &Part) -> Self {
        match part.unit.as_deref() {
            Some("gbps_per_cpu_second") => Self::Gigabits,
            Some("handshakes_per_cpu_second") => Self::Handshakes,
            Some("rss_bytes_per_connection") => Self::ConnectionBytes,
            Some("viewers_per_cpu_second") => Self::Viewers,
            other => Self::Other(other.unwrap_or("no unit").to_owned()),
        }
    }

    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Gigabits => "Gb/s per CPU second",
            Self::Handshakes => "handshakes per CPU second",
            Self::ConnectionBytes => "memory per connection",
            Self::Viewers => "viewers per CPU second",
            Self::Other(name) => name,
        }
    }

    /// A figure and its spread, with the unit if it is short.
    pub(crate) fn figure(&self, median: f64, deviation: f64) -> String {
        if *self != Self::ConnectionBytes {
            return with_spread(median, deviation);
        }
        let (divisor, name) = super::number::byte_unit(median);
        format!("{}{THIN_SPACE}{name}", with_spread(median / divisor, deviation / divisor))
    }
}

impl Comparison {
    /// `None` if nothing could be compared.
    pub(crate) fn of(versus: &Versus, part: &Part) -> Option<Self> {
        let [ours, peer, ..] = part.sides() else { return None };
        let ratio = part.ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0)?;
        Some(Self {
            workload: versus.workload().to_owned(),
            client: versus.other_client().map(str::to_owned),
            hit_percent: part.hit_percent,
            congestion_control: versus.congestion_control.clone(),
            ours: ours.name().to_owned(),
            peer: peer.name().to_owned(),
            unit: Unit::of(part),
            lower_is_better: part.lower_is_better(),
            ratio,
            ratio_deviation: part.ratio_deviation.map_or(0.0, f64::abs),
        })
    }

    /// The ratio, inverted if less is better: above one, the first side is ahead.
    pub(crate) fn advantage(&self) -> f64 {
        if self.lower_is_better { 1.0 / self.ratio } else { self.ratio }
    }

    /// Its spread, to first order.
    pub(crate) fn advantage_deviation(&self) -> f64 {
        if self.lower_is_better {
            self.ratio_deviation / (self.ratio * self.ratio)
        } else {
            self.ratio_deviation
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let distance = self.advantage() - 1.0;
        if distance.abs() <= TELLABLE.max(DEVIATIONS * self.advantage_deviation()) {
            Verdict::Level
        } else if distance > 0.0 {
            Verdict::Ahead
        } else {
            Verdict::Behind
        }
    }

    /// `tls-warm`, `tls-warm with curl` or `mixed at 10 % hits`.
    pub(crate) fn work(&self) -> String {
        let hits = self.hit_percent.map(|hit| format!(" at {} hits", percent(hit / 100.0)));
        let client = self.client.as_ref().map(|client| format!(" with {client}"));
        [Some(self.workload.clone()), hits, client].into_iter().flatten().collect()
    }

    /// The ratio, as `3.14 ×`.
    pub(crate) fn times(&self) -> String {
        format!("{}{THIN_SPACE}×", significant(self.ratio))
    }

    /// The ratio in words.
    pub(crate) fn sentence(&self) -> String {
        let Self { ours, peer, .. } = self;
        let (times, inverse) =
            (self.times(), format!("{}{THIN_SPACE}×", significant(1.0 / self.ratio)));
        let is = match &self.unit {
            Unit::Gigabits => format!("{ours} does {times} the work of {peer} per CPU second"),
            Unit::Handshakes => {
                format!("{ours} does {times} the handshakes of {peer} per CPU second")
            }
            Unit::ConnectionBytes => {
                format!("a connection takes {times} the memory in {ours} that it takes in {peer}")
            }
            Unit::Viewers => format!("{ours} carries {times} the viewers of {peer} per CPU second"),
            Unit::Other(name) => format!("{ours} comes to {times} the figure of {peer} ({name})"),
        };
        let is = capitalised(&is);
        match (self.verdict(), self.lower_is_better) {
            (Verdict::Level, _) => format!("{is}: level, as far as this can tell them apart"),
            (Verdict::Ahead, false) => is,
            (Verdict::Ahead, true) => {
                format!("{is} (less is better); {peer} takes {inverse} as much")
            }
            (Verdict::Behind, false) => format!("{is}: behind, {peer} does {inverse} as much"),
            (Verdict::Behind, true) => format!("{is}: behind, less is better"),
        }
    }

    /// For a list in a sentence: `tls-warm (3.14 ×)`.
    fn item(&self) -> String {
        let of = match (&self.unit, self.lower_is_better) {
            (Unit::ConnectionBytes, _) => " the memory",
            (_, true) => ", less is better",
            _ => "",
        };
        // For sides too close to tell apart, the spread explains why.
        let times = match self.verdict() {
            Verdict::Level => {
                format!("{}{THIN_SPACE}×", with_spread(self.ratio, self.ratio_deviation))
            }
            _ => self.times(),
        };
        format!("{} ({times}{of})", self.work())
    }
}

/// The headline figures as sentences: ahead, behind and level, all in the same form.
pub(crate) fn headline(comparisons: &[Comparison]) -> Vec<(Verdict, String)> {
    let mut peers: Vec<&str> = Vec::new();
    for one in comparisons {
        if !peers.contains(&one.peer.as_str()) {
            peers.push(&one.peer);
        }
    }
    let verdicts = [Verdict::Ahead, Verdict::Behind, Verdict::Level];
    let pairs = peers.iter().flat_map(|peer| verdicts.map(|verdict| (*peer, verdict)));
    pairs
        .filter_map(|(peer, verdict)| Some((verdict, sentence_of(comparisons, peer, verdict)?)))
        .collect()
}

/// For each peer and workload measured with several clients or congestion controls: the ratio with those that suit the first side least.
/// Anyone who publishes one figure for a workload should publish this one.
pub(crate) fn worst_cases(comparisons: &[Comparison]) -> Option<String> {
    let is_same = |one: &Comparison, other: &Comparison| {
        let work = |one: &Comparison| (one.peer.clone(), one.workload.clone());
        let how = |one: &Comparison| (one.client.clone(), one.congestion_control.clone());
        work(one) == work(other) && one.hit_percent == other.hit_percent && how(one) != how(other)
    };
    let is_worst = |one: &&Comparison| {
        let mut others = comparisons.iter().filter(|other| is_same(one, other)).peekable();
        others.peek().is_some() && others.all(|other| one.advantage() < other.advantage())
    };
    let item = |one: &Comparison| {
        let client = one.client.as_deref().unwrap_or("our own load");
        let control = one.congestion_control.as_ref().map(|name| format!(", {name}"));
        let how = format!("{client}{}", control.unwrap_or_default());
        format!("{} of {} in {} ({how})", one.times(), one.peer, one.workload)
    };
    let items: Vec<_> = comparisons.iter().filter(is_worst).map(item).collect();
    (!items.is_empty()).then(|| {
        let items = listed(&items);
        format!(
            "With the client and the congestion control that suit it least, it reaches {items}."
        )
    })
}

/// `None` if no comparison with this side had this verdict.
fn sentence_of(comparisons: &[Comparison], peer: &str, verdict: Verdict) -> Option<String> {
    let of_both = |one: &&Comparison| one.peer == peer && one.verdict() == verdict;
    let items: Vec<_> = comparisons.iter().filter(of_both).map(Comparison::item).collect();
    let is = match verdict {
        Verdict::Ahead => format!("is ahead of {peer}"),
        Verdict::Behind => format!("is behind {peer}"),
        Verdict::Level => format!("is level with {peer}, as far as this can tell,"),
    };
    let ours = capitalised(&comparisons.first()?.ours);
    (!items.is_empty()).then(|| format!("{ours} {is} in {}.", listed(&items)))
}

/// The text with a capital first letter.
fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).collect()
}

/// A list, as `a, b and c`.
pub(crate) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(ratio: f64, unit: Unit) -> Comparison {
        Comparison {
            workload: "w".into(),
            client: None,
            hit_percent: None,
            congestion_control: None,
            ours: "ours".into(),
            peer: "peer".into(),
            lower_is_better: unit == Unit::ConnectionBytes,
            unit,
            ratio,
            ratio_deviation: 0.01,
        }
    }

    fn plain(text: &str) -> String {
        text.replace(THIN_SPACE, " ")
    }

    #[test]
    fn losses_are_called_losses_whichever_way_is_better() {
        let slow = comparison(0.41, Unit::Gigabits);
        assert_eq!(slow.verdict(), Verdict::Behind);
        assert_eq!(
            plain(&slow.sentence()),
            "Ours does 0.410 × the work of peer per CPU second: behind, peer does 2.44 × as much"
        );
        let fat = comparison(2.0, Unit::ConnectionBytes);
        assert_eq!(fat.verdict(), Verdict::Behind);
        assert!(fat.sentence().contains("behind, less is better"));
        assert_eq!(
            plain(&headline(&[slow, fat])[0].1),
            "Ours is behind peer in w (0.410 ×) and w (2.00 × the memory)."
        );
    }

    #[test]
    fn wins_are_wins_and_what_chance_explains_is_level() {
        assert_eq!(comparison(3.1, Unit::Gigabits).verdict(), Verdict::Ahead);
        assert_eq!(comparison(0.1, Unit::ConnectionBytes).verdict(), Verdict::Ahead);
        for ratio in [0.96, 1.0, 1.04] {
            assert_eq!(comparison(ratio, Unit::Handshakes).verdict(), Verdict::Level);
        }
        let wide = Comparison { ratio_deviation: 0.3, ..comparison(1.5, Unit::Gigabits) };
        assert_eq!(wide.verdict(), Verdict::Level);
        let said = "Ours is level with peer, as far as this can tell, in w (1.50 ± 0.30 ×).";
        assert_eq!(plain(&headline(&[wide])[0].1), said);
    }

    #[test]
    fn a_client_of_others_is_named_with_the_work() {
        let curl = Comparison { client: Some("curl".into()), ..comparison(0.6, Unit::Gigabits) };
        assert_eq!(curl.work(), "w with curl");
        assert_eq!(plain(&headline(&[curl])[0].1), "Ours is behind peer in w with curl (0.600 ×).");
    }

    #[test]
    fn the_worst_case_is_named_where_there_are_several() {
        let with = |client: &str, ratio| Comparison {
            client: Some(client.into()),
            ..comparison(ratio, Unit::Gigabits)
        };
        let (alone, own) = (comparison(1.2, Unit::Gigabits), comparison(1.1, Unit::Gigabits));
        let alone = Comparison { workload: "v".into(), ..alone };
        let said = worst_cases(&[alone.clone(), own, with("wrk", 0.8), with("curl", 0.9)]);
        let expected = "With the client and the congestion control that suit it least, it reaches 0.800 × of peer in w (wrk).";
        assert_eq!(plain(&said.unwrap()), expected);
        let under = |name: &str, ratio| Comparison {
            congestion_control: Some(name.into()),
            ..with("curl", ratio)
        };
        let said = worst_cases(&[under("bbr", 0.9), under("cubic", 0.7)]).unwrap();
        assert!(plain(&said).ends_with("0.700 × of peer in w (curl, cubic)."), "{said}");
        assert_eq!(worst_cases(&[alone]), None);
    }

    #[test]
    fn without_a_ratio_nothing_is_compared() {
        let versus = Versus::default();
        assert!(Comparison::of(&versus, &Part::default()).is_none());
        assert!(headline(&[]).is_empty());
    }
}
