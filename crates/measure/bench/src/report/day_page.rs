//! A page about one simulated day of a fleet, as a single file.

use super::html;
use super::page::{document, embedded};
use super::section::{Slugs, day};
use serde::Deserialize;
use serde_json::{Value, json};

/// The page of a day, from the JSON that `fullbore fleet simulate` writes.
///
/// # Errors
/// If that is not the JSON of a day. The text says what is wrong.
pub fn day_page(figures: &Value) -> Result<String, String> {
    if figures["kind"] != "day" || figures["version"] != 1 {
        return Err("it is not what `fullbore fleet simulate` of this release writes".to_owned());
    }
    let run = day::Day::deserialize(figures).map_err(|error| error.to_string())?;
    let mut slugs = Slugs::default();
    // Reserved for the page's own element.
    slugs.take("data");
    let title = "A simulated day of a fleet";
    let mut opening = html::paragraph("over", "Fullbore fleet");
    opening.push_str(&html::heading(1, title));
    opening.push_str(&html::paragraph("lead", &day::sentence(&run)));
    for doubt in day::doubts(&run) {
        opening.push_str(&html::paragraph("warning", &doubt));
    }
    opening.push_str(&html::paragraph("aside", &day::facts(&run)));
    let raw = embedded(&json!([{ "file": "day.json", "data": figures }]));
    Ok(document(title, &opening, &day::sections(&run, &mut slugs), &raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Value {
        let hour = |hour: u64| json!({ "hour": hour, "plays": 100, "watched_bytes": 4e12, "filled_bytes": 1e12, "content": 3, "health": 5 });
        json!({
            "version": 1, "kind": "day", "nodes": 20, "titles": 200, "seed": 7, "hours": 3, "room_percent": 100, "healthy": false,
            "plays": 300, "unfilled": 4, "origin_bytes": 2e12, "breaches": 0, "told": [],
            "placement": { "first_choice_ppm": 987_654, "fill_ppm": 12_345 },
            "consistent_hashing": { "first_choice_ppm": 800_000, "fill_ppm": 20_000 },
            "lru_pull_through": { "first_choice_ppm": 900_000, "fill_ppm": 100_000 },
            "by_reason": { "first_choice": 90, "content": 5, "health": 3, "lost": 1, "nowhere": 1 },
            "by_hour": [hour(2), hour(3), hour(4)],
            "by_site": [
                { "site": "s0", "region": "north", "peak_permille": 710 },
                { "site": "s1", "region": "north", "peak_permille": 1030 },
                { "site": "s2", "region": "south", "peak_permille": 400 }
            ]
        })
    }

    #[test]
    fn the_page_shows_ranks_fill_labels_and_load() {
        let page = day_page(&figures()).expect("a page");
        for said in [
            "98.77\u{202f}% of watched bytes came from the viewer",
            "consistent hashing: 80.00",
            "Share of bytes by rank",
            "C: the best site lacks it: 5.00",
            "filled: at most 1;",
            "H: full or unwell: at most 5;",
            "3 sites in 2 regions; the highest load is 103 percent, 1 sites reached 90",
            "4 copies did not fit into the window. 2.00 terabytes came from the origin.",
        ] {
            assert!(page.contains(said), "{said}");
        }
        assert!(!page.contains("class=\"warning\"") && !page.contains("As a file"));
        assert_eq!(page.matches("<script").count(), 1);
        assert!(!page.contains("http://") || page.matches("http://www.w3.org").count() > 0);
    }

    #[test]
    fn drawings_are_well_formed_and_breaches_are_said_at_the_top() {
        let mut figures = figures();
        figures["breaches"] = json!(2);
        figures["told"] = json!(["step 3: </script><script>alert(1)</script> lacks title 4"]);
        let page = day_page(&figures).expect("a page");
        let drawings: Vec<_> = page.split("<svg").skip(1).collect();
        // Each chart is drawn for wide pages and for phones.
        assert_eq!(drawings.len(), 2 * 6);
        for drawing in drawings {
            let text = format!("<svg{}</svg>", drawing.split("</svg>").next().unwrap_or_default());
            roxmltree::Document::parse(&text).expect("well-formed");
        }
        let top = page.split("<nav").next().unwrap_or_default();
        assert!(top.contains("Invariants were broken 2 times") && top.contains("step 3"));
        assert_eq!(page.matches("<script").count(), 1);
    }

    #[test]
    fn a_day_of_nobody_has_a_page_and_other_figures_have_none() {
        let page = day_page(&json!({ "version": 1, "kind": "day" })).expect("a page");
        assert!(page.ends_with("</html>\n") && !page.contains("NaN"), "{page}");
        for other in
            [json!({ "version": 1, "kind": "swarm" }), json!({ "version": 2, "kind": "day" })]
        {
            assert!(day_page(&other).is_err(), "{other}");
        }
    }
}
