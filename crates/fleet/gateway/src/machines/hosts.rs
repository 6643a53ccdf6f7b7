//! Which host a machine may have. Viewers are sent there, and its owner may request a certificate for it, so no two machines of a fleet share one.
//!
//! Loopback addresses may be shared: a test fleet on a single machine has nothing else.

use fleet_protocol::{Name, host_of_url, is_own_machine, plain_host};
use identity::RefusalReason;

use super::{MachineApi, MachineRefusal};
use crate::live::World;
use store::records::InviteRecord;

impl MachineApi {
    /// Checks that a machine may join as `host`. `world` must include machines that joined a moment ago through another gateway.
    pub(super) fn check_host(
        &self,
        world: &World,
        invite: &InviteRecord,
        host: &str,
    ) -> Result<(), MachineRefusal> {
        let wanted = plain_host(host);
        let fixed = invite.host.as_deref().map(plain_host);
        if let Some(fixed) = fixed.as_ref().filter(|fixed| **fixed != wanted) {
            let text = format!(
                "the invitation is for a box with the host {fixed}: join with --host {fixed}"
            );
            return Err(MachineRefusal::new(RefusalReason::TokenForOther, text));
        }
        if is_own_machine(host) {
            return Ok(());
        }
        if let Some(holder) = holder(world, &wanted) {
            let text = format!(
                "node {holder} has the host {wanted}: choose another with --host, or revoke that node first if this box takes its place"
            );
            return Err(MachineRefusal::new(RefusalReason::HostTaken, text));
        }
        let own = self.machines.hosts.iter().chain(&self.machines.public_host);
        let mut gateways =
            own.map(String::as_str).chain(world.gateways.iter().map(|url| host_of_url(url)));
        if fixed.is_none() && gateways.any(|gateway| plain_host(gateway) == wanted) {
            let text = format!(
                "a gateway has the host {wanted}: choose another with --host, or ask for an invitation that names it (control invite --host {wanted})"
            );
            return Err(MachineRefusal::new(RefusalReason::HostTaken, text));
        }
        Ok(())
    }
}

/// The node that has a host; revoked ones don't count. If there are several, from before this was checked, the one that joined first.
fn holder<'w>(world: &'w World, plain: &str) -> Option<&'w Name> {
    let nodes = world.nodes.iter().filter(|(_, node)| !node.is_revoked);
    let holders = nodes.filter(|(_, node)| plain_host(&node.host) == plain);
    let joined = |name: &Name| world.joined.get(name).map_or(0, |joined| joined.unix_seconds);
    holders.map(|(name, _)| name).min_by_key(|name| joined(name))
}

/// Checks that `node` may request a certificate for its host: it is the only node with it, or had it first.
pub(super) fn check_own_host(world: &World, node: &Name, host: &str) -> Result<(), MachineRefusal> {
    let wanted = plain_host(host);
    match holder(world, &wanted).filter(|holder| *holder != node) {
        Some(holder) if !is_own_machine(host) => Err(MachineRefusal::new(
            RefusalReason::HostTaken,
            format!(
                "node {holder} has the host {wanted}, too, and had it first: this node may not request its certificate"
            ),
        )),
        _ => Ok(()),
    }
}
