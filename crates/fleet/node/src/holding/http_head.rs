//! Parses the head of a response to the agent. It accepts little: HTTP/1.1, a length, and exactly the requested part.

/// No node sends a longer one, and web servers refuse longer ones from clients.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
const END: &[u8] = b"\r\n\r\n";

/// A part of a file, or all of one whose length is not known.
pub(crate) enum Wanted {
    Part { from: u64, count: usize, of: u64 },
    All { bytes_max: usize },
}

/// Why a response does not match the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It is a redirect.
    Redirected,
    /// Not a valid head, or another status.
    Status,
    /// Another part, or another length.
    Length,
}

/// The fields that matter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    status: u16,
    /// The body's length.
    length: Option<u64>,
    /// `Content-Range`.
    part: Option<String>,
    /// The server closes the connection after the response.
    pub(crate) is_last: bool,
}

impl Head {
    /// Where the head at the beginning of `bytes` ends, if it is complete. The first `seen` bytes do not contain its end.
    pub(crate) fn end(bytes: &[u8], seen: usize) -> Option<usize> {
        let from = seen.saturating_sub(END.len() - 1);
        let at = bytes[from..].windows(END.len()).position(|four| four == END)?;
        Some(from + at + END.len())
    }

    /// Parses a complete head; `None` if it is not acceptable.
    pub(crate) fn parse(head: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(head).ok()?;
        let mut lines = text.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.split(' ').next()?;
        let status = Some(status).filter(|status| status.len() == 3)?.parse().ok()?;
        let mut own = Self { status, length: None, part: None, is_last: false };
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            if is("transfer-encoding") || is("content-encoding") {
                return None;
            } else if is("content-length") {
                let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
                let length = Some(value).filter(|_| is_number)?.parse().ok()?;
                // Two different lengths: the end of the body is ambiguous.
                if own.length.replace(length).is_some_and(|before| before != length) {
                    return None;
                }
            } else if is("connection") {
                own.is_last |= value.eq_ignore_ascii_case("close");
            } else if is("content-range") && own.part.replace(value.to_owned()).is_some() {
                return None;
            }
        }
        Some(own)
    }

    /// The length of the body, if this response matches the request.
    pub(crate) fn check(&self, wanted: &Wanted) -> Result<usize, Unfit> {
        if (300..400).contains(&self.status) {
            return Err(Unfit::Redirected);
        }
        let length = self.length.and_then(|length| usize::try_from(length).ok());
        match *wanted {
            Wanted::All { bytes_max } if self.status == 200 => {
                length.filter(|length| *length <= bytes_max).ok_or(Unfit::Length)
            }
            Wanted::Part { from, count, of } if self.status == 206 => {
                let said = format!("bytes {from}-{}/{of}", from + count as u64 - 1);
                let is_it = self.part.as_deref() == Some(&said);
                length.filter(|length| is_it && *length == count).ok_or(Unfit::Length)
            }
            _ => Err(Unfit::Status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(head: &str, wanted: &Wanted) -> Result<usize, Unfit> {
        let head = format!("{head}\r\n\r\n");
        Head::parse(head.as_bytes()).ok_or(Unfit::Status)?.check(wanted)
    }

    #[test]
    fn only_the_part_that_was_asked_for_is_taken() {
        let part = Wanted::Part { from: 4, count: 3, of: 10 };
        let of = |head: &str| checked(head, &part);
        let good =
            "HTTP/1.1 206 Partial Content\r\ncontent-LENGTH: 3\r\nContent-Range: bytes 4-6/10";
        assert_eq!(of(good), Ok(3));
        for (change, fault) in [
            ("HTTP/1.1 200 OK", Unfit::Status),
            ("HTTP/1.1 404 No", Unfit::Status),
            ("HTTP/1.1 301 Moved", Unfit::Redirected),
            ("HTTP/1.0 206 Partial Content", Unfit::Status),
            ("HTTP/1.1 2060 x", Unfit::Status),
            ("ICY 206 x", Unfit::Status),
        ] {
            let odd = good.replace("HTTP/1.1 206 Partial Content", change);
            assert_eq!(of(&odd), Err(fault), "{odd}");
        }
        for (from, to, fault) in [
            ("4-6/10", "5-7/10", Unfit::Length),
            ("4-6/10", "4-6/11", Unfit::Length),
            ("4-6/10", "4-6/*", Unfit::Length),
            ("LENGTH: 3", "LENGTH: 4", Unfit::Length),
            ("content-LENGTH: 3", "x: 3", Unfit::Length),
            ("LENGTH: 3", "LENGTH: 3\r\nContent-Length: 4", Unfit::Status),
            ("LENGTH: 3", "LENGTH: +3", Unfit::Status),
            ("LENGTH: 3", "LENGTH: 99999999999999999999", Unfit::Status),
            ("LENGTH: 3", "LENGTH: 3\r\nTransfer-Encoding: chunked", Unfit::Status),
            ("LENGTH: 3", "LENGTH: 3\r\nContent-Encoding: gzip", Unfit::Status),
            ("LENGTH: 3", "LENGTH: 3\r\nno colon", Unfit::Status),
            ("\r\nContent-Range", "\r\nContent-Range: x\r\nContent-Range", Unfit::Status),
        ] {
            let odd = good.replace(from, to);
            assert_eq!(of(&odd), Err(fault), "{odd}");
        }
    }

    #[test]
    fn a_small_file_has_a_length_within_its_bound() {
        let all = Wanted::All { bytes_max: 5 };
        let of =
            |length: &str| checked(&format!("HTTP/1.1 200 OK\r\nContent-Length: {length}"), &all);
        assert_eq!((of("0"), of("5"), of("6")), (Ok(0), Ok(5), Err(Unfit::Length)));
        assert_eq!(checked("HTTP/1.1 200 OK", &all), Err(Unfit::Length));
        assert_eq!(checked("HTTP/1.1 206 x\r\nContent-Length: 3", &all), Err(Unfit::Status));
    }
}
