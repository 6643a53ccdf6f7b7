//! The manifests that a gateway knows: those of the plan, and the previous ones of clusters whose new manifest cannot be read yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet_protocol::Digest;
use placement::ClusterManifest;

/// Known manifests.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownManifests {
    /// The plan's manifests that could be read.
    of_plan: BTreeMap<Digest, Arc<ClusterManifest>>,
    /// Previous manifests of clusters whose new one could not be read. An unreadable object must not make a cluster drop its titles.
    earlier: Vec<Arc<ClusterManifest>>,
}

impl KnownManifests {
    /// A manifest of the plan.
    pub(super) fn get(&self, digest: &Digest) -> Option<&Arc<ClusterManifest>> {
        self.of_plan.get(digest)
    }

    /// Digests of the known manifests of the plan, in order.
    pub(super) fn digests(&self) -> impl Iterator<Item = &Digest> {
        self.of_plan.keys()
    }

    /// The manifests that clusters follow, with the plan's own first.
    pub(super) fn followed(&self) -> Vec<Arc<ClusterManifest>> {
        self.of_plan.values().chain(&self.earlier).cloned().collect()
    }

    /// Replaces the plan's manifests, after a new plan or when more of it could be read. `is_whole`: `read` has all of them.
    pub(super) fn replaced(
        self,
        read: BTreeMap<Digest, Arc<ClusterManifest>>,
        is_whole: bool,
    ) -> Self {
        let cluster = |one: &ClusterManifest| (one.site.clone(), one.cluster.clone());
        let mut known: BTreeSet<_> = read.values().map(|one| cluster(one)).collect();
        let mut earlier: Vec<_> = self.of_plan.into_values().chain(self.earlier).collect();
        earlier.retain(|one| !is_whole && known.insert(cluster(one)));
        Self { of_plan: read, earlier }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(cluster: &str, nodes: &[&str]) -> (Digest, Arc<ClusterManifest>) {
        let name = |text: &str| text.parse().expect("a name");
        let made = ClusterManifest {
            version: 1,
            site: name("here"),
            cluster: name(cluster),
            nodes: nodes.iter().map(|node| name(node)).collect(),
            titles: Vec::new(),
        };
        (made.digest(), Arc::new(made))
    }

    fn first_nodes(known: &KnownManifests) -> Vec<String> {
        let mut nodes: Vec<_> =
            known.followed().iter().map(|one| one.nodes[0].to_string()).collect();
        nodes.sort_unstable();
        nodes
    }

    #[test]
    fn a_cluster_follows_what_it_followed_last_until_all_of_the_plan_is_known() {
        let first = [manifest("a", &["a1"]), manifest("b", &["b1"])];
        let known = KnownManifests::default().replaced(first.into(), true);
        assert_eq!(first_nodes(&known), ["a1", "b1"]);
        // One manifest of each of the next plans cannot be read: first that of b, then that of a.
        let known = known.replaced([manifest("a", &["a2"])].into(), false);
        assert_eq!(
            (first_nodes(&known), known.digests().count()),
            (vec!["a2".into(), "b1".into()], 1)
        );
        let known = known.replaced([manifest("b", &["b3"])].into(), false);
        assert_eq!(first_nodes(&known), ["a2", "b3"]);
        let known = known.replaced(BTreeMap::new(), false);
        assert_eq!(first_nodes(&known), ["a2", "b3"]);
        // With a completely known plan, only its own manifests remain.
        let known = known.replaced([manifest("a", &["a4"])].into(), true);
        assert_eq!(first_nodes(&known), ["a4"]);
    }
}
