//! A viewer's connections: opened when requests need them, and kept for the next request to the same server.

use load::Connection;

/// As many as browsers keep open to one server. A player has fewer requests open at once.
const IDLE_MAX: usize = 6;

/// Idle connections.
#[derive(Default)]
pub(crate) struct Connections {
    /// Each with the number of its server; the most recently used one is last.
    idle: Vec<(usize, Connection)>,
}

impl Connections {
    /// An idle connection to this server, if there is one.
    pub(crate) fn take(&mut self, server: usize) -> Option<Connection> {
        let index = self.idle.iter().rposition(|(of, _)| *of == server)?;
        Some(self.idle.remove(index).1)
    }

    /// Keeps a connection whose response is over.
    pub(crate) fn keep(&mut self, server: usize, connection: Connection) {
        if self.idle.len() == IDLE_MAX {
            self.idle.remove(0).1.close();
        }
        self.idle.push((server, connection));
    }

    /// Closes all of them.
    pub(crate) fn close(&mut self) {
        self.idle.drain(..).for_each(|(_, connection)| connection.close());
    }
}
