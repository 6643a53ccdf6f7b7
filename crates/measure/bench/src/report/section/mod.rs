//! The page's sections: text, charts, and for each chart the tables with the same figures.

pub(crate) mod ablate;
pub(crate) mod carried;
pub(crate) mod connections;
pub(crate) mod day;
pub(crate) mod disk;
pub(crate) mod distribution;
pub(crate) mod limit;
pub(crate) mod load;
pub(crate) mod machine;
pub(crate) mod method;
pub(crate) mod plan;
pub(crate) mod start;
pub(crate) mod swarm;
pub(crate) mod versus;

use super::chart::Chart;
use super::html;
use std::collections::BTreeSet;

/// A part of the page under its own heading.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// The target of links to it.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Markup.
    pub(crate) body: String,
    /// Charts that are also written as files.
    pub(crate) charts: Vec<Chart>,
    /// Set if they are: a single-file page has no files next to it.
    has_files: bool,
}

impl Section {
    pub(crate) fn new(id: String, title: &str) -> Self {
        let (body, charts, has_files) = (String::new(), Vec::new(), true);
        Self { id, title: title.to_owned(), body, charts, has_files }
    }

    /// A section of a page that has no files next to it.
    pub(crate) fn alone(id: String, title: &str) -> Self {
        Self { has_files: false, ..Self::new(id, title) }
    }

    pub(crate) fn push(&mut self, markup: &str) {
        self.body.push_str(markup);
    }

    /// Shows a chart, if there is one.
    pub(crate) fn show(&mut self, chart: Option<Chart>, caption: &str) {
        if let Some(chart) = chart {
            self.push(&html::figure(&chart, caption, self.has_files));
            self.charts.push(chart);
        }
    }
}

/// Unique names for anchors and files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slugs(BTreeSet<String>);

impl Slugs {
    /// A name derived from `text`, with a number if it is taken.
    pub(crate) fn take(&mut self, text: &str) -> String {
        let plain = html::slug(text);
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let free =
            std::iter::once(plain.clone()).chain(numbered).find(|name| !self.0.contains(name));
        let name = free.expect("numbers do not end");
        self.0.insert(name.clone());
        name
    }
}

/// Shown for a bench that ended early.
const INTERRUPTED: &str =
    "This run was interrupted: the page shows only what was measured until then.";
