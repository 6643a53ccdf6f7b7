//! The caching edge on a node's box, as its agent reaches it: by the same socket as `fullbore edge purge`.

use std::path::{Path, PathBuf};

use config::Config;
use edge::purge::{Purge, PurgeScope};
use fleet_protocol::{FleetPurge, PurgeTarget};
use node::{EdgeFound, EdgePurgeError, EdgeServer};
use server::upgrade::{self, EdgeRequestError};

/// A caching edge, which runs as this user.
#[derive(Debug)]
pub(super) struct EdgeOnBox {
    socket: PathBuf,
}

impl EdgeOnBox {
    /// The edge with this configuration file.
    ///
    /// # Errors
    /// If the file can't be read.
    pub(super) fn of(config: &Path) -> Result<Self, String> {
        let config = Config::read(config).map_err(|error| error.to_string())?;
        Ok(Self { socket: upgrade::socket_path(&config) })
    }
}

impl EdgeServer for EdgeOnBox {
    fn name(&self) -> String {
        self.socket.to_string_lossy().into_owned()
    }

    fn purge(&self, purge: &FleetPurge) -> Result<EdgeFound, EdgePurgeError> {
        let (mut found, mut refused) = (EdgeFound::default(), None);
        for scope in scopes(&purge.target) {
            let asked = Purge { scope, is_soft: purge.is_soft };
            match upgrade::purge(&self.socket, asked) {
                Ok(purged) => {
                    found.films += purged.films;
                    found.responses += purged.responses;
                }
                // The others are purged, whatever is wrong with this one.
                Err(error @ EdgeRequestError::Misused(_)) => {
                    refused.get_or_insert(EdgePurgeError::Refused(error.to_string()));
                }
                Err(error) => return Err(EdgePurgeError::Trouble(error.to_string())),
            }
        }
        refused.map_or(Ok(found), Err)
    }
}

/// The purges of an edge that make up one of the fleet: an edge takes one URL at a time.
fn scopes(target: &PurgeTarget) -> Vec<PurgeScope> {
    match target {
        PurgeTarget::Urls(urls) => urls.iter().cloned().map(PurgeScope::Url).collect(),
        PurgeTarget::Prefix(prefix) => vec![PurgeScope::Prefix(prefix.clone())],
        PurgeTarget::Tags(tags) => vec![PurgeScope::Tags(tags.clone())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_takes_what_an_edge_takes() {
        let tags = |count, tag: &str| PurgeTarget::Tags(vec![tag.to_owned(); count]);
        let (most, longest) = (tags(256, "film-7"), tags(1, &"x".repeat(24 << 10)));
        for target in [PurgeTarget::Prefix("/".into()), most, longest] {
            let (scope, purge) = (scopes(&target).remove(0), FleetPurge { target, is_soft: false });
            assert_eq!((scope.check(), purge.check()), (Ok(()), Ok(())), "{purge:?}");
        }
        let (many, long) = (tags(257, "film-7"), tags(1, &"x".repeat((24 << 10) + 1)));
        for target in [PurgeTarget::Prefix("films".into()), many, long, tags(1, ""), tags(0, "")] {
            let (scope, purge) = (scopes(&target).remove(0), FleetPurge { target, is_soft: false });
            assert!(scope.check().is_err() && purge.check().is_err(), "{purge:?}");
        }
    }
}
