//! A viewer's connections: opened as requests need them, kept for the next request to the same server.

use load::Connection;

/// As many as browsers keep to one server. A player has fewer requests open at once.
const IDLE_MAX: usize = 6;

/// Connections without a request.
#[derive(Default)]
pub(crate) struct Connections {
    /// Each with the number of its server; the one that was used last is at the end.
    idle: Vec<(usize, Connection)>,
}

impl Connections {
    /// A connection to the server that was used before, if there is one.
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

    /// Ends them all.
    pub(crate) fn close(&mut self) {
        self.idle.drain(..).for_each(|(_, connection)| connection.close());
    }
}
