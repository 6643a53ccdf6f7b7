//! A page about a machine's predicted capacity, as a single file, and a chart of predicted and measured rates.

use super::chart::foretold::{self, Foretold};
use super::html;
use super::page::{document, embedded};
use super::section::{Slugs, plan};
use serde::Deserialize;
use serde_json::{Value, json};

/// The page of a plan, from the JSON that `fullbore plan` writes.
///
/// # Errors
/// If that is not the JSON of a plan. The text says what is wrong.
pub fn plan_page(figures: &Value) -> Result<String, String> {
    if figures["kind"] != "plan" || figures["version"] != 1 {
        return Err("it is not what `fullbore plan` of this release writes".to_owned());
    }
    let planned = plan::Planned::deserialize(figures).map_err(|error| error.to_string())?;
    let mut slugs = Slugs::default();
    // Reserved for the page's own element.
    slugs.take("data");
    let title = format!("{}, planned", planned.name);
    let mut opening = html::paragraph("over", "Fullbore plan");
    opening.push_str(&html::heading(1, &title));
    opening.push_str(&html::paragraph("lead", &planned.headline));
    if let Some(verdict) = plan::verdict(&planned) {
        opening.push_str(&html::paragraph("", &verdict));
    }
    opening.push_str(&html::paragraph("aside", &planned.way));
    let raw = embedded(&json!([{ "file": "plan.json", "data": figures }]));
    Ok(document(&title, &opening, &plan::sections(&planned, &mut slugs), &raw))
}

/// A chart of predicted and measured figures, as a separate file. `None` if there are no rows.
pub fn foretold_chart(title: &str, rows: &[Foretold], axis: &str) -> Option<String> {
    Some(foretold::chart("foretold", title, rows, axis)?.standalone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Value {
        let node = |cpu: f64| {
            json!({ "disk_gbytes_per_second": 11.0, "disks": 6.0, "memory_gbytes_per_second": 24.0, "memory_usable_gbytes_per_second": 35.0,
                "cpu_reads_gbytes_per_second": cpu, "cpu_writes_gbytes_per_second": cpu, "cores_busy": 4.0, "cores": 8.0, "card_gbps": 95.0,
                "card_usable_gbps": 95.0 })
        };
        json!({
            "version": 1, "kind": "plan", "name": "a box", "headline": "a box: 380 Gb/s.", "way": "TLS by the cards", "text": "in <words>",
            "gbps": 380.0, "wanted_gbps": 320.0, "fabric_gbytes_per_second": 57.0,
            "limits": [
                { "title": "network ports", "gbps": 380.0, "arithmetic": "4 x 95" },
                { "title": "memory bandwidth", "gbps": 560.0, "arithmetic": "<script>" }
            ],
            "moves": [{ "what": "disk writes memory", "bytes": 1.0 }],
            "crossing": { "worst": 2.0, "average": 1.25 },
            "nodes": [node(0.0), node(11.0)],
            "what_if": [
                { "change": "one more port", "gbps": 475.0, "gained_gbps": 95.0 },
                { "change": "one more core", "gbps": 380.0, "gained_gbps": 0.0 }
            ]
        })
    }

    #[test]
    fn the_page_shows_parts_flows_changes_and_arithmetic() {
        let page = plan_page(&figures()).expect("a page");
        for said in [
            "a box: 380 Gb/s.",
            "That is enough for your viewers",
            "network ports: 380",
            "node 0: disks read 11.0 GB/s, cores read 0 and write 0, cards send 11.9",
            "57.0 GB/s cross between nodes",
            "one more port: 475",
            "one more core",
            "1.25 of these cross to another node on average, 2 at worst",
            "&lt;script",
        ] {
            assert!(page.contains(said), "{said}");
        }
        assert_eq!(page.matches("<script").count(), 1);
    }

    #[test]
    fn drawings_are_well_formed() {
        let page = plan_page(&figures()).expect("a page");
        let drawings: Vec<_> = page.split("<svg").skip(1).collect();
        // Each chart is drawn for wide pages and for phones.
        assert_eq!(drawings.len(), 2 * 3);
        for drawing in drawings {
            let text = format!("<svg{}</svg>", drawing.split("</svg>").next().unwrap_or_default());
            roxmltree::Document::parse(&text).expect("well-formed");
        }
        let row = |predicted| Foretold {
            label: "<a>".to_owned(),
            predicted,
            measured: 350.0,
            error_max: 0.15,
        };
        let chart =
            foretold_chart("Predicted", &[row(380.0), row(62.0)], "Gb/s").expect("two rows");
        roxmltree::Document::parse(&chart).expect("well-formed");
        assert!(chart.contains("+9%") && chart.contains("-82%"), "{chart}");
        assert!(foretold_chart("Predicted", &[], "Gb/s").is_none());
    }

    #[test]
    fn a_plan_of_nothing_has_a_page_and_other_figures_have_none() {
        let page = plan_page(&json!({ "version": 1, "kind": "plan" })).expect("a page");
        assert!(page.ends_with("</html>\n") && !page.contains("NaN"), "{page}");
        for other in
            [json!({ "version": 1, "kind": "day" }), json!({ "version": 2, "kind": "plan" })]
        {
            assert!(plan_page(&other).is_err(), "{other}");
        }
    }
}
