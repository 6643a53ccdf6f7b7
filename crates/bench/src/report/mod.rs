//! A page to look at, made of what the benches wrote: `fullbore bench report`.
//!
//! One HTML file that needs no script, no font and no host, light or dark as its reader has it, with the same figures as charts
//! and as tables; and each chart as an SVG file beside it. It says what the data say, losses as plainly as wins.
//!
//! It draws no conclusion that the files do not hold, and refuses files of other versions rather than guess. What is in the files
//! is not trusted: every text is escaped, every figure may be missing.
//!
//! Read `page` for the order of things, `chart` for how figures become drawings, `verdict` for how they become words.

mod chart;
mod html;
mod model;
mod number;
mod page;
mod scale;
mod section;
mod source;
mod steps;
mod style;
mod svg;
#[cfg(test)]
mod tests;
mod verdict;

pub use source::Skipped;
pub use steps::{Extent, run_all};

use page::Material;
use source::Source;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use steps::Taken;

/// Figures that a page can be made of.
#[derive(Clone, Debug, Default)]
pub struct Report {
    sources: Vec<Source>,
    skipped: Vec<Skipped>,
    steps: Vec<Taken>,
}

impl Report {
    /// Reads the `.json` files of earlier runs in a folder, whatever they are called.
    ///
    /// # Errors
    /// When the folder cannot be read. Files that cannot be used are [`Report::skipped`] instead.
    pub fn read(directory: &Path) -> io::Result<Self> {
        let (sources, skipped) = source::read_directory(directory)?;
        Ok(Self { sources, skipped, steps: Vec::new() })
    }

    /// Files that were left out.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Whether there is no figure at all.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Writes `index.html` and the charts' files into a folder, which is made if need be, and returns the page's path.
    ///
    /// # Errors
    /// When a file cannot be written: with its name.
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
