//! The manifests that a gateway knows: those of the plan, and what clusters followed before while those cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet::Digest;
use placement::ClusterManifest;

/// What is known of the plan.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownManifests {
    /// Its manifests, as far as they could be read.
    of_plan: BTreeMap<Digest, Arc<ClusterManifest>>,
    /// Of clusters whose manifest could not: what they followed last. A cluster must not be told to hold nothing because an object cannot be had.
    earlier: Vec<Arc<ClusterManifest>>,
}

impl KnownManifests {
    /// A manifest of the plan.
    pub(super) fn get(&self, digest: &Digest) -> Option<&Arc<ClusterManifest>> {
        self.of_plan.get(digest)
    }

    /// The manifests of the plan that are known, in order.
    pub(super) fn digests(&self) -> impl Iterator<Item = &Digest> {
        self.of_plan.keys()
    }

    /// What clusters follow, the plan's own manifests first.
    pub(super) fn followed(&self) -> Vec<Arc<ClusterManifest>> {
        self.of_plan.values().chain(&self.earlier).cloned().collect()
    }

    /// From now on the plan is another, or more of it was read. `is_whole`: all of it.
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
        // Of the next plans, one manifest each cannot be read, of b and then of a.
        let known = known.replaced([manifest("a", &["a2"])].into(), false);
        assert_eq!(
            (first_nodes(&known), known.digests().count()),
            (vec!["a2".into(), "b1".into()], 1)
        );
        let known = known.replaced([manifest("b", &["b3"])].into(), false);
        assert_eq!(first_nodes(&known), ["a2", "b3"]);
        let known = known.replaced(BTreeMap::new(), false);
        assert_eq!(first_nodes(&known), ["a2", "b3"]);
        // A plan that is known whole has only what it names.
        let known = known.replaced([manifest("a", &["a4"])].into(), true);
        assert_eq!(first_nodes(&known), ["a4"]);
    }
}
