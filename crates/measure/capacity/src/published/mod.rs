//! Netflix's measurements, compared with this model's figures.
//!
//! Sources: Drew Gallatin, "Serving Netflix Video at 400Gb/s on FreeBSD" (EuroBSDCon 2021) and "The 'other' FreeBSD optimizations used by Netflix
//! to serve video at 800Gb/s from a single server" (EuroBSDCon 2022); Alistair Crooks on Open Connect (2017).
//!
//! Rules: a parameter comes from a row that is not predicted, or from a figure that is no row (190 of a card, 375 at 53% CPU). Rows with
//! one mechanism switched off, and the only row of a platform, are inputs and never count as predictions. There are more predictions than
//! parameters. Misses stay in the table. docs/notes/plan.md is written from this.

mod machines;
mod rows;

use crate::scarce::Scarce;
use crate::solve::Capacity;

pub use rows::rows;

/// A parameter taken from a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The machine that it applies to.
    pub platform: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// The row that it was taken from.
    pub from: &'static str,
}

/// The purpose of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowUse {
    /// It provides a parameter.
    Calibrates,
    /// It provides no parameter: the model must predict it.
    Predicted,
    /// It has one mechanism switched off, is the only row of a platform, or has something that the model lacks.
    Input,
}

/// One of Netflix's measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedRow {
    /// The machine.
    pub platform: &'static str,
    /// The configuration.
    pub what: &'static str,
    /// The published rate.
    pub measured_gbps: f64,
    /// The row's purpose.
    pub used_for: RowUse,
    /// The part that was scarce as published: any of these. Empty if that was not published.
    pub published_scarce: &'static [Scarce],
    /// The model's result, if the model covers everything in that row.
    pub model: Option<Capacity>,
    /// Why the row has this purpose, or why the model misses.
    pub note: &'static str,
}

/// The largest error of a correct prediction.
pub const ERROR_MAX: f64 = 0.15;

impl PublishedRow {
    /// The model's error relative to the measured rate: 0.05 if the model is 5% higher.
    pub fn error(&self) -> Option<f64> {
        Some(self.model.as_ref()?.gbps / self.measured_gbps - 1.0)
    }

    /// Returns true if the model's rate is close enough.
    pub fn is_near(&self) -> bool {
        self.error().is_some_and(|error| error.abs() <= ERROR_MAX)
    }

    /// Returns whether the model names the part that was scarce; `None` if that was not published.
    pub fn names_scarce(&self) -> Option<bool> {
        let model = self.model.as_ref()?;
        let published = !self.published_scarce.is_empty();
        published.then(|| self.published_scarce.contains(&model.scarce().scarce))
    }
}

/// All parameters, in the order of their machines.
pub fn parameters() -> Vec<Parameter> {
    let of = |platform, name, value, from| Parameter { platform, name, value, from };
    let taken = rows::Taken::new();
    let rome = "400G machine";
    vec![
        of(
            rome,
            "usable share of STREAM's rate",
            taken.memory_usable,
            "software TLS, one node: 240",
        ),
        of(
            rome,
            "usable share of a port",
            taken.port_usable,
            "a card with software TLS: 190 of 200",
        ),
        of(
            rome,
            "usable share of memory without sendfile",
            taken.memory_without_sendfile,
            "no sendfile, TLS by cards: 95",
        ),
        of(rome, "seconds of a core for a gigabit", taken.base_seconds, "baseline: 375 at 53% CPU"),
        of(rome, "further seconds without LRO", taken.lro_seconds, "no LRO: 330 at 65% CPU"),
        of(rome, "further seconds without TSO", taken.tso_seconds, "no TSO: 180 at 85% CPU"),
        of(rome, "usable share of the cores", taken.cpu_busy_max, "no TSO: 180 at 85% CPU"),
        of(
            "800G prototype",
            "usable share of a link",
            taken.fabric_usable,
            "links at full width: 500",
        ),
        of(
            "Ampere Altra",
            "nanoseconds of a card's read of memory",
            taken.bus_read_ns,
            "32 reads in flight: 240",
        ),
        of(
            "100G appliance of 2016",
            "GB/s of memory that are usable",
            taken.flash_gbytes,
            "kernel TLS: 58",
        ),
    ]
}
