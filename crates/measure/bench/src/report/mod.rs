//! Makes a page from the files of the benches: `fullbore bench report`.
//!
//! The page is one HTML file, in light or dark as its reader prefers, that needs no script, no font and no other host. It shows the same
//! figures as charts and as tables. Each chart is also an SVG file next to it. The page reports losses as plainly as wins.
//!
//! It draws no conclusion that the files do not support, and refuses files of other versions instead of guessing. The files are not
//! trusted: all text is escaped, and any figure may be missing.
//!
//! Read `page` for the order of the page, `chart` for how figures become drawings, `verdict` for how they become words.

mod chart;
mod day_page;
mod html;
mod model;
mod number;
mod page;
mod plan_page;
mod scale;
mod section;
mod source;
mod steps;
mod style;
mod svg;
mod swarm_page;
#[cfg(test)]
mod tests;
mod verdict;

pub use chart::curves::Curve;
pub use chart::foretold::Foretold;
pub use day_page::day_page;
pub use plan_page::{foretold_chart, plan_page};
pub use source::Skipped;
pub use steps::{Extent, run_all};
pub use swarm_page::swarm_page;

use page::Material;
use source::Source;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use steps::Taken;

/// Curves as an SVG file of their own. `None` if no curve has two points.
pub fn curves_chart(title: &str, curves: &[Curve], axis: &str) -> Option<String> {
    Some(chart::curves::chart("curves", title, curves, axis)?.standalone())
}

/// Figures for a page.
#[derive(Clone, Debug, Default)]
pub struct Report {
    sources: Vec<Source>,
    skipped: Vec<Skipped>,
    steps: Vec<Taken>,
}

impl Report {
    /// Reads the `.json` files of earlier runs in a folder, whatever their names.
    ///
    /// # Errors
    /// If the folder cannot be read. Unusable files are in [`Report::skipped`] instead.
    pub fn read(directory: &Path) -> io::Result<Self> {
        let (sources, skipped) = source::read_directory(directory)?;
        Ok(Self { sources, skipped, steps: Vec::new() })
    }

    /// Files that were left out.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Returns true if there is no figure at all.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Writes `index.html` and the charts' files to a folder, which is created if necessary. Returns the page's path.
    ///
    /// # Errors
    /// If a file cannot be written, with its name.
    pub fn write(&self, directory: &Path) -> io::Result<PathBuf> {
        let material =
            Material { sources: &self.sources, skipped: &self.skipped, steps: &self.steps };
        let (page, charts) = page::render(material);
        fs::create_dir_all(directory).map_err(|error| named(directory, &error))?;
        for chart in charts {
            write(&directory.join(format!("{}.svg", chart.slug)), &chart.standalone())?;
        }
        let path = directory.join("index.html");
        write(&path, &page)?;
        Ok(path)
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}
