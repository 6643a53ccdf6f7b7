//! Building blocks of the page. Text is escaped here, and markup comes only from here.

use super::chart::Chart;
use super::svg::escaped;

/// The content of a table cell.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    /// Aligned right.
    Number(String),
    /// Aligned left.
    Words(String),
}

impl Cell {
    /// A number, or a dash if there is none.
    pub(crate) fn number(figure: Option<f64>, write: impl Fn(f64) -> String) -> Self {
        Self::Number(figure.map_or_else(|| "–".to_owned(), write))
    }

    /// Text, or nothing if there is none.
    pub(crate) fn words(text: Option<&str>) -> Self {
        Self::Words(text.unwrap_or("").to_owned())
    }
}

pub(crate) fn paragraph(class: &str, text: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!("<p{class}>{}</p>\n", escaped(text))
}

pub(crate) fn heading(level: u8, text: &str) -> String {
    format!("<h{level}>{}</h{level}>\n", escaped(text))
}

pub(crate) fn commands(lines: &str) -> String {
    let lines: Vec<_> = lines.lines().map(escaped).collect();
    format!("<pre><code>{}</code></pre>\n", lines.join("\n"))
}

pub(crate) fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escaped(item))).collect();
    format!("<ul>\n{items}</ul>\n")
}

/// Terms and their definitions.
pub(crate) fn definitions(pairs: &[(&str, String)]) -> String {
    let pairs: String = pairs
        .iter()
        .map(|(name, is)| format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(is)))
        .collect();
    format!("<dl>\n{pairs}</dl>\n")
}

/// A chart with its caption, and a link to its file if there is one next to the page.
pub(crate) fn figure(chart: &Chart, caption: &str, has_file: bool) -> String {
    let link = match has_file {
        true => format!(" <a href=\"{}.svg\">As a file</a>", chart.slug),
        false => String::new(),
    };
    format!(
        "<figure>\n{}<figcaption>{}{link}</figcaption>\n</figure>\n",
        chart.inline(),
        escaped(caption)
    )
}

/// Tables with a chart's figures.
pub(crate) fn details(summary: &str, content: &str) -> String {
    format!("<details>\n<summary>{}</summary>\n{content}</details>\n", escaped(summary))
}

/// A table that scrolls on its own if it is too wide. Headings of number columns are aligned like the numbers.
pub(crate) fn table(caption: &str, head: &[&str], rows: &[Vec<Cell>]) -> String {
    let is_number = |column: usize| {
        matches!(rows.first().and_then(|row| row.get(column)), Some(Cell::Number(_)))
    };
    let head: String = head
        .iter()
        .enumerate()
        .map(|(column, name)| {
            let class = if is_number(column) { " class=\"number\"" } else { "" };
            format!("<th scope=\"col\"{class}>{}</th>", escaped(name))
        })
        .collect();
    let rows: String = rows.iter().map(|cells| format!("<tr>{}</tr>\n", row(cells))).collect();
    let caption = escaped(caption);
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\n<table>\n<caption>{caption}</caption>\n\
         <thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n"
    )
}

fn row(cells: &[Cell]) -> String {
    cells
        .iter()
        .enumerate()
        .map(|(column, cell)| match (column, cell) {
            (0, Cell::Words(text)) => format!("<th scope=\"row\">{}</th>", escaped(text)),
            (_, Cell::Words(text)) if text.chars().count() > 30 => {
                format!("<td class=\"words\">{}</td>", escaped(text))
            }
            (_, Cell::Words(text)) => format!("<td>{}</td>", escaped(text)),
            (_, Cell::Number(text)) => format!("<td class=\"number\">{}</td>", escaped(text)),
        })
        .collect()
}

/// A name for files and anchors: lower-case letters, digits and hyphens, not overly long, never empty.
pub(crate) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for character in text.chars().take(80) {
        match character.to_ascii_lowercase() {
            kept @ ('a'..='z' | '0'..='9') => slug.push(kept),
            _ if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "unnamed".to_owned() } else { slug.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_safe_as_names_of_files() {
        assert_eq!(slug("versus TLS-warm ../../etc/nginx"), "versus-tls-warm-etc-nginx");
        assert_eq!(slug("\u{202e}//"), "unnamed");
        assert_eq!(slug(&"x/".repeat(5000)).len(), 79);
    }

    #[test]
    fn whatever_is_text_is_escaped() {
        let hostile = "<script>alert(1)</script>";
        let cells = vec![vec![Cell::Words(hostile.into()), Cell::Number(hostile.into())]];
        let pieces = [
            paragraph("", hostile),
            heading(2, hostile),
            commands(hostile),
            list(&[hostile.into()]),
            definitions(&[(hostile, hostile.into())]),
            table(hostile, &[hostile], &cells),
            details(hostile, ""),
        ];
        for piece in pieces {
            assert!(!piece.contains("<script") && piece.contains("&lt;script"), "{piece}");
        }
    }
}
