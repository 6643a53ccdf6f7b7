//! Locations of segments: BaseURL elements at each level, and the service locations that they name.
//!
//! A level with several BaseURL elements, or with one that names its service location, offers a choice of pathways. A BaseURL without a
//! name is then named by its text, as the standard requires (ISO/IEC 23009-1 section 5.6.5).

use super::element::{Level, Manifest};
use crate::manifest::hls::UNNAMED_PATHWAY;
use crate::manifest::{ManifestError, PATHWAYS_MAX, resolve};
use crate::url::Url;
use roxmltree::Node;

/// The ids of all pathways, in the manifest's order; a single unnamed one if there is no choice.
pub(super) fn pathways(manifest: &Manifest<'_>) -> Result<Vec<String>, ManifestError> {
    let mut pathways = Vec::new();
    collect(&manifest.level, &mut pathways)?;
    for period in &manifest.periods {
        collect(&period.level, &mut pathways)?;
        for set in &period.sets {
            collect(&set.level, &mut pathways)?;
            set.levels.iter().try_for_each(|level| collect(level, &mut pathways))?;
        }
    }
    if pathways.is_empty() {
        pathways.push(UNNAMED_PATHWAY.to_owned());
    }
    Ok(pathways)
}

fn collect(level: &Level<'_>, pathways: &mut Vec<String>) -> Result<(), ManifestError> {
    if level.bases.len() > PATHWAYS_MAX {
        return Err(ManifestError::Bound("pathways"));
    }
    for id in level.bases.iter().filter(|_| has_choice(level)).map(|base| id_of(*base)) {
        if !pathways.iter().any(|known| known == id) {
            pathways.push(id.to_owned());
        }
    }
    if pathways.len() > PATHWAYS_MAX { Err(ManifestError::Bound("pathways")) } else { Ok(()) }
}

fn has_choice(level: &Level<'_>) -> bool {
    level.bases.len() > 1 || level.bases.iter().any(|base| base.has_attribute("serviceLocation"))
}

fn id_of<'a>(base: Node<'a, '_>) -> &'a str {
    base.attribute("serviceLocation").unwrap_or_else(|| text_of(base))
}

fn text_of<'a>(base: Node<'a, '_>) -> &'a str {
    base.text().unwrap_or("").trim()
}

/// The base URL for references in the innermost of these levels, on a pathway. `None` if the pathway does not have it.
pub(super) fn base(
    manifest: &Url,
    levels: [&Level<'_>; 4],
    pathway: &str,
) -> Result<Option<Url>, ManifestError> {
    let mut base = manifest.clone();
    // If no level offers a choice, all pathways have it.
    let mut is_there = !levels.iter().any(|level| has_choice(level));
    for level in levels {
        let named = level.bases.iter().find(|base| id_of(**base) == pathway);
        let Some(chosen) = named.or(level.bases.first()) else { continue };
        let text = text_of(*chosen);
        if has_choice(level) {
            // A relative reference extends the choice of an outer level; an absolute one leads elsewhere.
            is_there = named.is_some() || (is_there && !is_absolute(text));
        }
        base = resolve(&base, text)?;
    }
    Ok(is_there.then_some(base))
}

fn is_absolute(text: &str) -> bool {
    text.contains("://") || text.starts_with("//")
}
