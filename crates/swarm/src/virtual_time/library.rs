//! The titles of a run, and which servers each viewer's manifest names.

use super::film::{self, Films};
use crate::crowd::Viewer;
use player::presentation::{Presentation, Segments};
use player::url::{Url, UrlError};
use std::sync::Arc;

/// Titles with their manifests. A viewer has as many pathways as the run says, beginning with one drawn for it, so that servers share the load.
#[derive(Debug)]
pub(crate) struct Library {
    films: Films,
    servers: usize,
    /// The servers of each order, as the numbers of pathways go.
    orders: Vec<Vec<usize>>,
    names: Vec<Vec<String>>,
    /// By title, then by order.
    manifests: Vec<Vec<(Url, Arc<Presentation>)>>,
}

impl Library {
    /// So many titles on so many servers, of which each viewer knows `pathways`.
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

    /// Which order of servers a viewer's manifest has.
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
