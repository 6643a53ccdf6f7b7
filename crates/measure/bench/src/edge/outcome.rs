//! The results, as text and as JSON.

use super::Options;
use super::trial::{self, Tried};
use crate::machine_json::machine_json;
use crate::stats::Summary;
use crate::versus::side::Side;
use serde_json::{Value, json};

/// The unit of the comparison.
const UNIT: &str = "gbps_per_cpu_second";

/// The results.
#[derive(Clone, Debug)]
pub struct Outcome {
    options: Options,
    library_bytes: u64,
    sides: Vec<Turns>,
    pub(super) tried: Vec<Tried>,
    /// The user interrupted.
    pub interrupted: bool,
}

/// State of the caches when a turn begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing.
    Cold,
    /// Everything.
    Warm,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

/// A server and its turns.
#[derive(Clone, Debug, Default)]
struct Turns {
    name: String,
    version: Option<String>,
    command: String,
    cold: Vec<Turn>,
    warm: Vec<Turn>,
}

/// The figures of one turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Gigabits of bodies that the clients received.
    pub(super) gigabits: f64,
    /// CPU seconds of all the server's processes.
    pub(super) cpu_seconds: f64,
    pub(super) wall_seconds: f64,
    /// Set if the clients ran out of CPU time.
    pub(super) is_client_bound: bool,
}

impl Turn {
    fn figure(&self) -> f64 {
        self.gigabits / self.cpu_seconds
    }

    fn gbps(&self) -> f64 {
        self.gigabits / self.wall_seconds
    }

    fn to_json(self) -> Value {
        json!({
            "figure": self.figure(),
            "gbps": self.gbps(),
            "cpu_seconds": self.cpu_seconds,
            "wall_seconds": self.wall_seconds,
            "client_bound": self.is_client_bound,
        })
    }
}

impl Turns {
    fn of(&self, state: State) -> &[Turn] {
        match state {
            State::Cold => &self.cold,
            State::Warm => &self.warm,
        }
    }

    fn summary(&self, state: State, figure: impl Fn(&Turn) -> f64) -> Option<Summary> {
        let figures: Vec<_> = self.of(state).iter().map(figure).collect();
        (!figures.is_empty()).then(|| Summary::of(&figures))
    }

    /// This side relative to another one, turn by turn.
    fn ratio(&self, other: &Self, state: State) -> Option<Summary> {
        let pairs = self.of(state).iter().zip(other.of(state));
        let ratios: Vec<_> = pairs.map(|(own, other)| own.figure() / other.figure()).collect();
        (!ratios.is_empty()).then(|| Summary::of(&ratios))
    }
}

impl Outcome {
    pub(super) fn new<'a>(
        options: &Options,
        library_bytes: u64,
        sides: impl Iterator<Item = &'a Side>,
    ) -> Self {
        let turns = |side: &Side| Turns {
            name: side.name.clone(),
            version: side.version.clone(),
            command: side.command.clone(),
            ..Turns::default()
        };
        let sides = sides.map(turns).collect();
        Self {
            options: options.clone(),
            library_bytes,
            sides,
            tried: Vec::new(),
            interrupted: false,
        }
    }

    /// Records a turn and describes it.
    pub(super) fn note(&mut self, number: usize, side: usize, state: State, turn: Turn) -> String {
        let side = &mut self.sides[side];
        let (name, rounds, state_name) = (&side.name, self.options.rounds, state.name());
        let (figure, gbps) = (turn.figure(), turn.gbps());
        let told = format!(
            "{state_name} {number} of {rounds}  {name:14} {figure:.2} Gb/s per CPU second, {gbps:.2} Gb/s on the wire"
        );
        match state {
            State::Cold => side.cold.push(turn),
            State::Warm => side.warm.push(turn),
        }
        told
    }

    /// As text.
    pub fn describe(&self) -> String {
        let ended = if self.interrupted { "interrupted; " } else { "" };
        let wire = if self.options.has_tls { "TLS 1.3" } else { "plain HTTP" };
        let Options { connections, seconds, .. } = self.options;
        let mut text = format!(
            "{ended}caching edges over {wire}: {connections} connections fetch all of {} MiB; warm turns of {seconds} s; CPU seconds are those of \
             all the server's processes\n",
            self.library_bytes >> 20
        );
        for side in &self.sides {
            let version = side.version.as_deref().unwrap_or("version unknown");
            text += &format!("  {}: {version}\n", side.name);
        }
        for state in [State::Cold, State::Warm] {
            self.describe_state(state, &mut text);
        }
        for part in trial::PARTS {
            trial::describe(part, &self.tried, &mut text);
        }
        text
    }

    fn describe_state(&self, state: State, text: &mut String) {
        if self.sides.iter().all(|side| side.of(state).is_empty()) {
            return;
        }
        *text += &format!("\n{:<16}{:>22}{:>18}\n", state.name(), "Gb/s per CPU second", "Gb/s");
        for side in &self.sides {
            let Some(figure) = side.summary(state, Turn::figure) else { continue };
            let gbps = side.summary(state, Turn::gbps).map_or(0.0, |gbps| gbps.median);
            let Summary { median, deviation } = figure;
            let figure = format!("{median:.2} +- {deviation:.2}");
            *text += &format!("{:<16}{figure:>22}{gbps:>18.2}\n", side.name);
        }
        for other in &self.sides[1..] {
            if let Some(Summary { median, deviation }) = self.sides[0].ratio(other, state) {
                let (own, other) = (&self.sides[0].name, &other.name);
                *text += &format!("ratio {own} / {other}: {median:.2} +- {deviation:.2}\n");
            }
        }
        for side in &self.sides {
            if side.of(state).iter().any(|turn| turn.is_client_bound) {
                let name = &side.name;
                *text += &format!(
                    "  {name}: the clients' cores were full, so Gb/s show their limit; work per CPU second of the server stands\n"
                );
            }
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let Options { has_tls, connections, seconds, .. } = self.options;
        json!({
            "version": 1,
            "kind": "edge",
            "tls": has_tls,
            "connections": connections,
            "seconds": seconds,
            "library_bytes": self.library_bytes,
            "interrupted": self.interrupted,
            "machine": machine_json(),
            "unit": UNIT,
            "better": "higher",
            "parts": ([State::Cold, State::Warm].map(|state| self.part(state))),
            "trials": (trial::PARTS.map(|part| trial::to_json(part, &self.tried))),
        })
    }

    fn part(&self, state: State) -> Value {
        let took_part = || self.sides.iter().filter(|side| !side.of(state).is_empty());
        let side = |side: &Turns| {
            let figure = side.summary(state, Turn::figure);
            json!({
                "name": side.name,
                "version": side.version,
                "command": side.command,
                "median": figure.map(|figure| figure.median),
                "deviation": figure.map(|figure| figure.deviation),
                "rounds": side.of(state).iter().map(|turn| turn.to_json()).collect::<Vec<_>>(),
            })
        };
        let ratio = |other: &Turns| {
            let ratio = self.sides[0].ratio(other, state);
            json!({
                "over": other.name,
                "ratio": ratio.map(|ratio| ratio.median),
                "ratio_deviation": ratio.map(|ratio| ratio.deviation),
            })
        };
        json!({
            "state": state.name(),
            "sides": took_part().map(side).collect::<Vec<_>>(),
            "ratios": took_part().skip(1).map(ratio).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Part;
    use super::*;

    fn side(name: &str, warm: [f64; 3]) -> Turns {
        let turn = |gigabits| Turn {
            gigabits,
            cpu_seconds: 2.0,
            wall_seconds: 4.0,
            is_client_bound: false,
        };
        Turns { name: name.to_owned(), warm: warm.map(turn).to_vec(), ..Turns::default() }
    }

    #[test]
    fn ratios_are_taken_turn_by_turn_and_sides_without_turns_are_left_out() {
        let options = Options {
            parts: vec![Part::Warm],
            peers: Vec::new(),
            viewers: 1,
            has_tls: true,
            connections: 8,
            rounds: 3,
            seconds: 4.0,
            library_bytes: None,
            scratch: None,
        };
        let sides = vec![side("edge", [40.0, 20.0, 8.0]), side("nginx", [20.0, 10.0, 8.0])];
        let outcome = Outcome {
            options,
            library_bytes: 1 << 30,
            sides,
            tried: Vec::new(),
            interrupted: false,
        };
        let json = outcome.to_json();
        assert_eq!(json["parts"][0]["sides"].as_array().map(Vec::len), Some(0));
        let warm = &json["parts"][1];
        assert_eq!((&warm["state"], &warm["sides"][0]["median"]), (&"warm".into(), &10.0.into()));
        assert_eq!(warm["ratios"][0]["ratio"], 2.0);
        assert!(outcome.describe().contains("ratio edge / nginx: 2.00 +- 0.00"));
    }
}
