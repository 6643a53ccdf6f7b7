//! Keeps the parts of the docs that are written from the model.

use fullbore_capacity::published::{ERROR_MAX, Parameter, PublishedRow, RowUse, parameters, rows};
use fullbore_capacity::{SealedBy, read_machine};
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn machine(name: &str) -> PathBuf {
    repository().join("docs/machines").join(name)
}

/// Rows with one purpose, as a table.
fn table(all: &[PublishedRow], used_for: RowUse) -> String {
    let mut text = String::from(
        "| machine | configuration | model, Gb/s | measured | error | scarce: model | as published | |\n|---|---|---|---|---|---|---|---|\n",
    );
    for row in all.iter().filter(|row| row.used_for == used_for) {
        let (gbps, error) = match (&row.model, row.error()) {
            (Some(model), Some(error)) => {
                (format!("{:.0}", model.gbps), format!("{:+.1}%", error * 100.0))
            }
            _ => ("–".to_owned(), "–".to_owned()),
        };
        let scarce = row.model.as_ref().map_or("–", |model| model.scarce().scarce.name());
        let published: Vec<_> = row.published_scarce.iter().map(|scarce| scarce.name()).collect();
        let published =
            if published.is_empty() { "not said".to_owned() } else { published.join(" or ") };
        let missed = used_for == RowUse::Predicted && !row.is_near();
        let note = if missed { format!("**Missed.** {}", row.note) } else { row.note.to_owned() };
        text.push_str(&format!(
            "| {} | {} | {gbps} | {} | {error} | {scarce} | {published} | {note} |\n",
            row.platform, row.what, row.measured_gbps
        ));
    }
    text
}

fn parameter_table() -> String {
    let mut text =
        String::from("| machine | parameter | value | taken from, Gb/s |\n|---|---|---|---|\n");
    for Parameter { platform, name, value, from } in parameters() {
        let value = if value < 1.0 { format!("{value:.3}") } else { format!("{value:.1}") };
        text.push_str(&format!("| {platform} | {name} | {value} | {from} |\n"));
    }
    text
}

fn verdict(all: &[PublishedRow]) -> String {
    let predicted: Vec<_> = all.iter().filter(|row| row.used_for == RowUse::Predicted).collect();
    let near = predicted.iter().filter(|row| row.is_near()).count();
    let said: Vec<_> = predicted.iter().filter_map(|row| row.names_scarce()).collect();
    let right = said.iter().filter(|right| **right).count();
    format!(
        "**{near} of {} predicted rows ({:.0}%) are within {:.0}%.** Of the {} for which it is published what was scarce, the model names it for {right}. \
         {} parameters were taken from other measurements.\n",
        predicted.len(),
        near as f64 / predicted.len() as f64 * 100.0,
        ERROR_MAX * 100.0,
        said.len(),
        parameters().len()
    )
}

/// Compares a file with the wanted text, or writes it.
fn settle(path: &Path, wanted: &str) {
    if fs::read_to_string(path).unwrap_or_default() != wanted {
        assert!(
            std::env::var_os("FULLBORE_WRITE_DOCS").is_some(),
            "{} is not what the model says: run this test with FULLBORE_WRITE_DOCS=1, then look at what changed",
            path.display()
        );
        fs::write(path, wanted).unwrap();
    }
}

/// Puts each table between its mark and the next `end`.
fn with_tables(text: &str, tables: &[(&str, String)]) -> String {
    let mut text = text.to_owned();
    for (mark, table) in tables {
        let begin = format!("<!-- {mark} -->\n");
        let start = text.find(&begin).unwrap_or_else(|| panic!("no mark {mark}")) + begin.len();
        let end = text[start..].find("<!-- end -->").expect("the mark has an end") + start;
        text.replace_range(start..end, table);
    }
    text
}

#[test]
fn the_notes_show_what_the_model_says() {
    let all = rows();
    let tables = [
        ("verdict", verdict(&all)),
        ("parameters", parameter_table()),
        ("predicted", table(&all, RowUse::Predicted)),
        ("calibrates", table(&all, RowUse::Calibrates)),
        ("inputs", table(&all, RowUse::Input)),
    ];
    let notes = repository().join("docs/notes/plan.md");
    let text = fs::read_to_string(&notes).unwrap();
    settle(&notes, &with_tables(&text, &tables));
}

/// For each machine and each kind of encryption: the headline, and the parts used less than half.
fn shipped() -> String {
    let mut text = String::from(
        "| machine | TLS | Gb/s | scarce first | used less than half |\n|---|---|---|---|---|\n",
    );
    for file in ["10g.toml", "100g.toml", "400g.toml", "800g.toml"] {
        for tls in [SealedBy::Software, SealedBy::Card] {
            let specified = read_machine(&fs::read_to_string(machine(file)).unwrap()).unwrap();
            let specified = specified.with_tls(Some(tls)).unwrap();
            let plan =
                fullbore_capacity::plan(&specified.hardware, &specified.demand, &specified.costs);
            let idle: Vec<_> = plan
                .idle()
                .iter()
                .map(|limit| format!("{} {:.0}%", limit.scarce.name(), plan.used(limit) * 100.0))
                .collect();
            let sealed = if tls == SealedBy::Card { "card" } else { "software" };
            text.push_str(&format!(
                "| [{file}](machines/{file}) | {sealed} | {:.1} | {} | {} |\n",
                plan.gbps,
                plan.scarce().title(),
                idle.join(", ")
            ));
        }
    }
    text
}

#[test]
fn the_guide_shows_the_machines_that_ship() {
    let guide = repository().join("docs/plan.md");
    let text = fs::read_to_string(&guide).unwrap();
    let specified = read_machine(&fs::read_to_string(machine("400g.toml")).unwrap()).unwrap();
    let plan = fullbore_capacity::plan(&specified.hardware, &specified.demand, &specified.costs);
    let example = plan.describe();
    let example: String = example
        .lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") })
        .collect();
    settle(
        &guide,
        &with_tables(&text, &[("machines", shipped()), ("example", format!("\n{example}\n"))]),
    );
}
