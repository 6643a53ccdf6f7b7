//! A page about one run of the swarm, as a single file, for readers who want to know what viewers would have seen.

use super::html;
use super::model::Bench;
use super::page::{document, embedded};
use super::section::{Slugs, swarm};
use serde_json::{Value, json};

/// The page of a run, from the JSON that the run writes.
///
/// # Errors
/// If that is not the JSON of a swarm. The text says what is wrong.
pub fn swarm_page(figures: &Value) -> Result<String, String> {
    let Bench::Swarm(run) = Bench::of(figures)? else {
        return Err("it is not what a swarm writes".to_owned());
    };
    let mut slugs = Slugs::default();
    // Reserved for the page's own element.
    slugs.take("data");
    let title = "What viewers saw";
    let mut opening = html::paragraph("over", "Fullbore swarm");
    opening.push_str(&html::heading(1, title));
    opening.push_str(&html::paragraph("lead", &swarm::sentence(&run)));
    for doubt in swarm::doubts(&run) {
        opening.push_str(&html::paragraph("warning", &doubt));
    }
    let mut facts = Vec::new();
    if let Some(seconds) = run.wall_seconds {
        facts.push(format!("{} s", super::number::significant(seconds)));
    }
    if let Some(gbps) = run.gbps {
        facts.push(format!("{} Gb/s", super::number::significant(gbps)));
    }
    opening.push_str(&html::paragraph("aside", &facts.join(", ")));
    let raw = embedded(&json!([{ "file": "swarm.json", "data": figures }]));
    Ok(document(title, &opening, &swarm::alone(&run, &mut slugs), &raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Value {
        serde_json::from_str(include_str!("fixtures/swarm.json")).expect("a fixture")
    }

    #[test]
    fn the_page_shows_what_viewers_saw_by_pathway_and_over_time() {
        let page = swarm_page(&figures()).expect("a page");
        for said in [
            "Of 200 viewers, 198 saw a picture and 192 saw the film without a stall; 2 gave up.",
            "Viewers over time",
            "Time until the first picture",
            "Time stalled",
            "Bit rate",
            "Time to quality",
            "<th scope=\"row\">10.0.0.2:8443</th>",
            "title 2",
            "7 stalls: slow_network",
            "3 requests failed: reset, the first: media https://10.0.0.1:8443/a/1.m4s",
            "3 times: first_failure",
            "lag, p99",
        ] {
            assert!(page.contains(said), "{said}");
        }
        assert!(!page.contains("too slow on this machine") && !page.contains("As a file"));
    }

    #[test]
    fn drawings_are_well_formed_and_links_lead_somewhere() {
        let page = swarm_page(&figures()).expect("a page");
        let drawings: Vec<_> = page.split("<svg").skip(1).collect();
        // Each chart is drawn for wide pages and for phones.
        assert_eq!(drawings.len(), 2 * 5);
        for drawing in drawings {
            let text = format!("<svg{}</svg>", drawing.split("</svg>").next().unwrap_or_default());
            roxmltree::Document::parse(&text).expect("well-formed");
        }
        for target in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(page.contains(&format!(" id=\"{target}\"")), "nothing is called {target}");
        }
        assert_eq!(page.matches("<script").count(), 1);
    }

    #[test]
    fn a_swarm_that_was_too_slow_or_cut_short_is_said_at_the_top() {
        let mut figures = figures();
        figures["own"]["too_slow"] = json!(true);
        figures["interrupted"] = json!(true);
        let page = swarm_page(&figures).expect("a page");
        let top = page.split("<nav").next().unwrap_or_default();
        assert!(top.contains("too slow on this machine") && top.contains("was interrupted"));
    }

    #[test]
    fn a_run_of_nobody_has_a_page_and_other_figures_have_none() {
        let page = swarm_page(&json!({ "version": 1, "kind": "swarm" })).expect("a page");
        assert!(page.ends_with("</html>\n") && !page.contains("NaN"), "{page}");
        for other in
            [json!({ "version": 1, "kind": "load" }), json!({ "version": 2, "kind": "swarm" })]
        {
            assert!(swarm_page(&other).is_err(), "{other}");
        }
    }

    #[test]
    fn names_from_manifests_are_text() {
        let mut figures = figures();
        let hostile = "</script><script>alert(1)</script>";
        let group = figures["pathways"]["10.0.0.1:8443"].clone();
        figures["pathways"][hostile] = group;
        figures["errors"][hostile] = json!({ "count": 1, "example": hostile });
        let page = swarm_page(&figures).expect("a page");
        assert_eq!(page.matches("<script").count(), 1);
    }
}
