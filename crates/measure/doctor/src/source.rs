//! The sources of figures.

/// Measured on a server with 400 Gb/s.
pub(crate) const GALLATIN_2021: &str =
    "Drew Gallatin, \"Serving Netflix Video at 400Gb/s on FreeBSD\", EuroBSDCon 2021";

/// Bytes that cross between nodes.
pub(crate) const GALLATIN_2019: &str =
    "Drew Gallatin, \"NUMA Siloing in the FreeBSD Network Stack\", EuroBSDCon 2019; docs/numa.md";

/// Measured on a server with 800 Gb/s.
pub(crate) const GALLATIN_2022: &str = "Drew Gallatin, Netflix, EuroBSDCon 2022";

/// Our own ablations.
pub(crate) const PERFORMANCE: &str = "docs/notes/performance.md";

/// Our own measurements of buffers.
pub(crate) const BUFFERS: &str = "docs/notes/buffers.md";

/// Our own measurements of leases.
pub(crate) const LEASES: &str = "docs/notes/leases.md";

/// Computed from the values read.
pub(crate) const ARITHMETIC: &str = "arithmetic on what was found";

/// The server's requirements.
pub(crate) const NEEDED: &str = "docs/serve.md";

/// Observed with a card made of software.
pub(crate) const OFFLOAD: &str = "docs/doctor.md";
