//! The whole server over real sockets, with clients that are not ours (rustls) or that misbehave as badly as possible.
//!
//! [`bytes`]: viewers get exactly the file. [`bad_input`]: each kind of misbehaviour gets its response and its counter.
//! [`dashboard`]: the live figures, once a second.
//! [`entrance`]: proxies announce their clients' addresses, and address lists decide which may connect.
//! [`faults`]: a file or a disk that fails under a response ends it, and no wrong byte is sent.
//! [`folders`]: a disk that dies takes its own titles with it, and nothing else.
//! [`headers`]: files have the configured headers, by their paths.
//! [`hot_set`]: popular parts of films come from memory.
//! [`large_pages`]: the hot set in pages that the operator has reserved.
//! [`moves`]: a connection moves to the silo of its film's disk.
//! [`pages`]: the server's own pages.
//! [`pins`]: pinned titles are in memory before viewers request them.
//! [`quick_viewers`]: the kernel may hold more unsent bytes for viewers who take them fast.
//! [`refusals`]: refusals have no more content than the method allows.
//! [`reloaded_lists`]: address lists change while the server runs.
//! [`rotating`]: disks that rotate are read in whole buffers.
//! [`sites`]: hosts have libraries of their own.
//! [`slow_readers`]: data sent from memory exists only once, and is bounded.
//! [`switches`]: none of this depends on an optimisation.
//! [`while_sending`]: requests and records that arrive in the middle of a film are read.

mod bad_input;
mod bytes;
mod dashboard;
mod entrance;
mod faults;
mod folders;
mod forms;
mod headers;
mod hot_set;
mod large_pages;
mod links;
mod moves;
mod names;
mod pages;
mod pins;
mod quick_viewers;
mod refusals;
mod reloaded_lists;
mod rotating;
mod sites;
mod slow_readers;
mod support;
mod switches;
mod total_rate;
mod while_sending;
