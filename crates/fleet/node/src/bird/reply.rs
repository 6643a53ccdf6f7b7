//! Parses BIRD's replies on its control socket.
//!
//! A reply consists of lines. A line starts with a code of four digits, then `-` if the reply continues, or a space in its last line. A
//! line that starts with a space instead continues with the code of the line before. A line that starts with `+` is not part of the reply.
//! Codes below 8000 mean success, others are refusals, with the reason as their text. This is how BIRD lists a table of routes; only the
//! annotated parts are used:
//!
//! ```text
//! 1007-Table master4:
//!  192.0.2.0/24         unicast [feed 06:03:52.763] * (100) [AS64501i]     the prefix, and whether it leads anywhere
//!  <tab>via 10.9.0.2 on v0
//! 1008-<tab>Type: BGP univ                                                where it is from
//! 1012-<tab>BGP.origin: IGP
//!  <tab>BGP.as_path: 64501 65011 65010                                    how long the path is
//!  <tab>BGP.med: 50                                                       which of two links the neighbour prefers
//! 1007-                     unicast [s4 06:08:14.376] (50)                a second route to the same prefix: not read
//! 0000
//! ```

use fleet_protocol::{Announced, Prefix, ROUTES_MAX};

/// The longest line: the path or the communities of one route fill at most a BGP message (RFC 8654: 64 KiB), and their text is longer than
/// that.
pub const LINE_BYTES_MAX: usize = 512 << 10;

/// Why a reply of BIRD cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BirdError {
    /// BIRD refuses, with this text.
    #[error("BIRD says: {0}")]
    Refused(String),
    /// It is not a reply of BIRD.
    #[error("this is not BIRD's control socket: {0}")]
    NotBird(&'static str),
    /// It has more routes than a node forwards.
    #[error(
        "BIRD has more than {ROUTES_MAX} routes here: name a table with fewer (--bird-table), which a filter in bird.conf fills"
    )]
    TooMany,
}

/// One line of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLine<'l> {
    /// Its code.
    pub code: u16,
    /// Whether the reply ends here.
    pub is_last: bool,
    /// The text.
    pub text: &'l str,
}

/// Splits a reply into its lines.
#[derive(Clone, Debug, Default)]
pub struct ReplyReader {
    code: Option<u16>,
}

impl ReplyReader {
    /// Parses a line without its end. `None`: it is not part of the reply.
    ///
    /// # Errors
    /// If BIRD does not write such lines, or refuses.
    pub fn line<'l>(&mut self, line: &'l [u8]) -> Result<Option<ReplyLine<'l>>, BirdError> {
        let line = std::str::from_utf8(line).map_err(|_| BirdError::NotBird("it is not text"))?;
        if line.starts_with('+') {
            return Ok(None);
        }
        if let Some(text) = line.strip_prefix(' ') {
            let code = self.code.ok_or(BirdError::NotBird("it begins with half a reply"))?;
            return Ok(Some(ReplyLine { code, is_last: false, text }));
        }
        let no_code = BirdError::NotBird("a line has no code");
        let (digits, text) = line.split_at_checked(5).ok_or_else(|| no_code.clone())?;
        let (digits, mark) = digits.split_at_checked(4).ok_or_else(|| no_code.clone())?;
        let is_code = digits.bytes().all(|byte| byte.is_ascii_digit());
        let code = digits.parse().ok().filter(|_| is_code).ok_or_else(|| no_code.clone())?;
        let is_last = match mark {
            " " => true,
            "-" => false,
            _ => return Err(no_code),
        };
        if code >= 8000 {
            return Err(BirdError::Refused(text.trim().to_owned()));
        }
        self.code = (!is_last).then_some(code);
        Ok(Some(ReplyLine { code, is_last, text }))
    }
}

/// The prefixes that a site's network reaches, according to BIRD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BirdRoutes {
    /// Prefixes from BGP that lead somewhere: sorted, without duplicates.
    pub announced: Vec<Announced>,
    /// Prefixes from BGP that lead nowhere: their next hop cannot be reached, or they are configured to be dropped.
    pub dead: usize,
    /// The box's own prefixes: its interfaces, static routes, routes of other protocols.
    pub own: usize,
}

/// A route whose lines have not all been read.
#[derive(Clone, Copy, Debug)]
struct Open {
    prefix: Prefix,
    leads_somewhere: bool,
    is_bgp: bool,
    as_path_length: u8,
    med: u32,
}

/// Parses the reply to `show route all primary`.
#[derive(Clone, Debug, Default)]
pub struct RoutesReader {
    reply: ReplyReader,
    open: Option<Open>,
    routes: BirdRoutes,
}

impl RoutesReader {
    /// Parses a line without its end. `true`: the reply is complete.
    ///
    /// # Errors
    /// If BIRD does not write such lines, refuses, or has too many routes.
    pub fn line(&mut self, line: &[u8]) -> Result<bool, BirdError> {
        let Some(ReplyLine { code, is_last, text }) = self.reply.line(line)? else {
            return Ok(false);
        };
        match (code, text.strip_prefix('\t')) {
            (1007, None) => self.begin(text)?,
            (1008 | 1012, Some(attribute)) => self.note(attribute),
            _ => {}
        }
        if is_last {
            self.close()?;
        }
        Ok(is_last)
    }

    /// The routes, after the last line of the last reply.
    pub fn routes(self) -> BirdRoutes {
        let mut routes = self.routes;
        let best = |one: &Announced| (one.prefix, one.as_path_length, one.med);
        routes.announced.sort_unstable_by_key(best);
        // A prefix may be in several tables.
        routes.announced.dedup_by_key(|one| one.prefix);
        routes
    }

    /// Parses a line with a prefix, with a further route to it, or with the name of a table.
    fn begin(&mut self, text: &str) -> Result<(), BirdError> {
        self.close()?;
        let mut words = text.split_ascii_whitespace();
        let is_further = text.starts_with(' ');
        // Routes without a prefix (VPNs, flows, RPKI) do not matter to viewers.
        let prefix = words.next().and_then(|word| word.parse().ok());
        if let (false, Some(prefix)) = (is_further, prefix) {
            let leads_somewhere = words.next() == Some("unicast");
            let (is_bgp, as_path_length, med) = (false, 0, 0);
            self.open = Some(Open { prefix, leads_somewhere, is_bgp, as_path_length, med });
        }
        Ok(())
    }

    /// BIRD 3 spells the names of attributes differently.
    fn note(&mut self, attribute: &str) {
        let Some(open) = &mut self.open else { return };
        let (name, value) = attribute.split_once(':').unwrap_or((attribute, ""));
        match name.trim() {
            "Type" => open.is_bgp = value.trim_start().starts_with("BGP"),
            "BGP.as_path" | "bgp_path" => open.as_path_length = path_length(value),
            "BGP.med" | "bgp_med" => open.med = value.trim().parse().unwrap_or(u32::MAX),
            _ => {}
        }
    }

    fn close(&mut self) -> Result<(), BirdError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        match (open.is_bgp, open.leads_somewhere) {
            (false, _) => self.routes.own += 1,
            (true, false) => self.routes.dead += 1,
            (true, true) => {
                if self.routes.announced.len() == ROUTES_MAX {
                    return Err(BirdError::TooMany);
                }
                let Open { prefix, as_path_length, med, .. } = open;
                self.routes.announced.push(Announced { prefix, as_path_length, med });
            }
        }
        Ok(())
    }
}

/// The length of a path: a set counts as one system (RFC 4271, section 9.1.2.2), a confederation as none (RFC 5065, section 5.3).
fn path_length(path: &str) -> u8 {
    let (mut count, mut in_set, mut in_confederation) = (0_usize, false, false);
    for word in path.split_ascii_whitespace() {
        let begins_set = word.starts_with('{');
        in_confederation |= word.starts_with('(');
        if begins_set || !in_set {
            count += usize::from(!in_confederation);
        }
        in_set = (in_set || begins_set) && !word.ends_with('}');
        in_confederation &= !word.ends_with(')');
    }
    u8::try_from(count).unwrap_or(u8::MAX)
}

/// When BIRD started, from a line of the reply to `show status`.
pub(super) fn started<'l>(line: &ReplyLine<'l>) -> Option<&'l str> {
    line.text.strip_prefix("Last reboot on ")
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
