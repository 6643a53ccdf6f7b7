//! The sources of connections: listening sockets of the kernel, or queues of a network device for the server's own TCP.

use crate::bypass;
use crate::listen::{Listening, listen};
use crate::sandbox;
use crate::start_error::StartError;
use crate::upgrade::ListenerSetup;
use config::{Config, ConfigError, Route};
use delivery::{KernelOffload, own_tcp};
use frames::BuffersInPlace;
use silo_map::SiloMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// The sources of connections.
pub(crate) struct Ingresses {
    /// The address that it serves on.
    pub(crate) address: SocketAddr,
    /// A source for each worker.
    pub(crate) ingress: Vec<Ingress>,
    /// The bypass route's devices and settings, in words.
    pub(crate) bypass: Option<String>,
    /// Each listening socket once, in the order in which they began to listen.
    pub(crate) in_order: Vec<OwnedFd>,
    /// How connections are assigned to them; none if there are none.
    pub(crate) setup: Option<ListenerSetup>,
}

/// One worker's source of connections.
pub(crate) enum Ingress {
    /// Listening sockets of the kernel.
    Listeners(Vec<OwnedFd>),
    /// A queue of a network device, for the server's own TCP.
    Frames(Box<own_tcp::Parts>),
}

impl Ingresses {
    /// Opens a source for each of `count` workers, from the `inherited` listeners if they fit, and then gives up the privileges that this takes.
    /// `lends` are each worker's buffers from which frames may be sent.
    ///
    /// # Errors
    /// The failure, and how to fix it.
    pub(crate) fn open(
        config: &Config,
        offload: KernelOffload,
        map: &mut SiloMap,
        count: usize,
        lends: Vec<BuffersInPlace>,
        inherited: Vec<OwnedFd>,
    ) -> Result<Self, StartError> {
        if config.route != Route::Bypass {
            let Listening { address, of_workers, in_order, setup } =
                listen(config, offload, map, inherited)?;
            let ingress = of_workers.into_iter().map(Ingress::Listeners).collect();
            let setup = Some(setup);
            return Ok(Self { address, ingress, bypass: None, in_order, setup });
        }
        let parts = bypass::open(config, count, lends)?;
        let address =
            bypass::address(config).ok_or(StartError::Config(ConfigError::BypassWithoutAddress))?;
        let given_up = sandbox::give_up_network_privileges();
        let described = format!("{}; {given_up}", bypass::describe(config, &parts));
        let ingress = parts.into_iter().map(|parts| Ingress::Frames(Box::new(parts))).collect();
        let (in_order, setup) = (Vec::new(), None);
        Ok(Self { address, ingress, bypass: Some(described), in_order, setup })
    }
}
