//! Announcements of sites that come from a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use fleet_protocol::{Announced, Digest, Name, Prefix};

use super::changes::By;
use super::{Gateway, lock};
use crate::api::ApiError;
use crate::live::{AllowList, Sifted, World, told_refused};
use store::records::{AnnouncedFile, SiteRecord};

/// Most prefixes in an allow-list: it is part of the site's record.
const ALLOWED_MAX: usize = 10_000;

/// The result of uploading a file.
pub(crate) struct Announcement {
    /// Number of prefixes in it.
    pub(crate) prefixes: usize,
    /// Its prefixes after the allow-list.
    pub(crate) sifted: Sifted,
}

impl Gateway {
    /// Replaces the file of prefixes that `site` announces.
    pub(crate) async fn announce(
        &self,
        by: &By,
        site: &Name,
        text: &str,
    ) -> Result<Announcement, ApiError> {
        let announced = Announced::read_file(text)
            .map_err(|error| ApiError::Wrong(format!("the file cannot be used: {error}")))?;
        let by = &By { detail: format!("{} prefixes", announced.len()), ..by.clone() };
        let file = match announced.is_empty() {
            true => None,
            false => Some(AnnouncedFile {
                sha256: self.objects.put(Bytes::from(Announced::write_file(&announced))).await?,
                prefixes: u32::try_from(announced.len()).unwrap_or(u32::MAX),
                since_unix_seconds: self.now().unix_seconds(),
            }),
        };
        self.change_site(by, site, |record| record.announced_file = file).await?;
        let world = self.live.world();
        let sifted = world.allowed.get(site).map(|allowed| allowed.sift(&announced));
        Ok(Announcement { prefixes: announced.len(), sifted: sifted.unwrap_or_default() })
    }

    /// Replaces the allow-list of `site`.
    pub(crate) async fn allow(
        &self,
        by: &By,
        site: &Name,
        allowed: Vec<Prefix>,
    ) -> Result<(), ApiError> {
        if allowed.len() > ALLOWED_MAX {
            return Err(ApiError::Wrong(format!(
                "{} prefixes are more than an allow-list may have ({ALLOWED_MAX}): allow the ones that cover them",
                allowed.len()
            )));
        }
        self.change_site(by, site, |record| record.allowed.clone_from(&allowed)).await
    }

    async fn change_site(
        &self,
        by: &By,
        site: &Name,
        edit: impl Fn(&mut SiteRecord),
    ) -> Result<(), ApiError> {
        let missing = || ApiError::NotFound(format!("there is no site {site}"));
        let edited = self.change(by, site.as_str(), |before: Option<SiteRecord>| {
            let mut record = before.ok_or_else(missing)?;
            edit(&mut record);
            Ok(record)
        });
        edited.await.map(drop)
    }

    /// Adds the announcements in sites' files, and applies the allow-lists to all announcements.
    pub(super) async fn with_files(
        &self,
        mut world: World,
        files: &BTreeMap<Name, Digest>,
    ) -> World {
        let had = std::mem::take(&mut *lock(&self.files));
        let mut read = BTreeMap::new();
        for (site, digest) in files {
            let announced = match had.get(digest) {
                Some(announced) => Some(Arc::clone(announced)),
                None => self.read_announced(site, digest).await,
            };
            let Some(announced) = announced else { continue };
            if let Some(site) = world.sites.get_mut(site) {
                site.announced.extend_from_slice(&announced);
            }
            read.insert(*digest, announced);
        }
        *lock(&self.files) = read;
        let before = self.live.world();
        for (name, site) in &mut world.sites {
            let allowed = world.allowed.get(name).cloned().unwrap_or_default();
            let sifted = sift(&mut site.announced, &allowed);
            if sifted.refused > 0 {
                world.refused.insert(name.clone(), sifted);
            }
        }
        for (site, sifted) in
            world.refused.iter().filter(|(site, sifted)| before.refused.get(*site) != Some(*sifted))
        {
            self.tell(&told_refused(site, "its file", sifted));
        }
        world
    }

    async fn read_announced(&self, site: &Name, digest: &Digest) -> Option<Arc<[Announced]>> {
        let bytes = self.bring_document(digest).await?;
        let text = std::str::from_utf8(&bytes).map_err(|error| error.to_string());
        let read =
            text.and_then(|text| Announced::read_file(text).map_err(|error| error.to_string()));
        match read {
            Ok(announced) => Some(announced.into()),
            Err(why) => {
                self.tell(&format!("the file of site {site} cannot be used: {why}"));
                None
            }
        }
    }
}

/// Keeps the permitted announcements, and returns the result with the refused ones.
fn sift(announced: &mut Vec<Announced>, allowed: &AllowList) -> Sifted {
    if allowed.is_open() {
        return Sifted::default();
    }
    let mut sifted = allowed.sift(announced);
    *announced = std::mem::take(&mut sifted.believed);
    sifted
}
