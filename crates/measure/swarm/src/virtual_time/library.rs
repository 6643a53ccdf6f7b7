//! The titles of a run, and the servers in each viewer's manifest.

use super::film::{self, Films};
use crate::crowd::Viewer;
use player::presentation::{Presentation, Segments};
use player::url::{Url, UrlError};
use std::sync::Arc;

/// Titles with their manifests. A viewer has as many pathways as the run specifies, starting with a random one, so that servers share the
/// load.
#[derive(Debug)]
pub(crate) struct Library {
    films: Films,
    servers: usize,
    /// For each order, its servers in the order of the pathways' numbers.
    orders: Vec<Vec<usize>>,
    names: Vec<Vec<String>>,
    /// By title, then by order.
    manifests: Vec<Vec<(Url, Arc<Presentation>)>>,
}

impl Library {
    /// Creates this many titles on this many servers, of which each viewer knows `pathways`.
    pub(crate) fn new(
        films: &Films,
        titles: usize,
        servers: usize,
        pathways: usize,
    ) -> Result<Self, UrlError> {
        let order = |first: usize| (0..pathways).map(|step| (first + step) % servers).collect();
        let orders: Vec<Vec<usize>> = (0..servers).map(order).collect();
        let name = |order: &Vec<usize>| order.iter().map(|server| film::name(*server)).collect();
        let names = orders.iter().map(name).collect();
        let mut manifests = Vec::with_capacity(titles);
        for title in 0..titles {
            let lists: Vec<Vec<Arc<Segments>>> = (0..servers)
                .map(|server| films.segment_lists(title, server))
                .collect::<Result<_, _>>()?;
            let manifest = |order: &Vec<usize>| -> Result<_, UrlError> {
                let presentation = Arc::new(films.presentation(order, &lists));
                Ok((film::manifest_url(title, order[0])?, presentation))
            };
            manifests.push(orders.iter().map(manifest).collect::<Result<_, _>>()?);
        }
        Ok(Self { films: films.clone(), servers, orders, names, manifests })
    }

    pub(crate) fn films(&self) -> &Films {
        &self.films
    }

    pub(crate) fn servers(&self) -> usize {
        self.servers
    }

    /// The order of servers in a viewer's manifest.
    pub(crate) fn order_of(&self, viewer: &Viewer) -> usize {
        (viewer.seed % self.orders.len() as u64) as usize
    }

    /// The server behind a pathway.
    pub(crate) fn server(&self, order: usize, pathway: usize) -> usize {
        self.orders[order][pathway]
    }

    pub(crate) fn pathways(&self, order: usize) -> &[String] {
        &self.names[order]
    }

    pub(crate) fn manifest_url(&self, title: usize, order: usize) -> &Url {
        &self.manifests[title][order].0
    }

    pub(crate) fn presentation(&self, title: usize, order: usize) -> Arc<Presentation> {
        Arc::clone(&self.manifests[title][order].1)
    }
}
