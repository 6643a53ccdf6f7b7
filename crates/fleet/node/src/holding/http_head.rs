//! Checks the head of a response to the agent. It accepts little: HTTP/1.1, a length, and exactly the requested part.

use fullbore_http::{ResponseHead, Version};

/// No node sends a longer one, and web servers refuse longer ones from clients.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;

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

/// Parses the head at the front of `bytes`. Returns it with its length; `None` if more bytes are needed.
///
/// # Errors
/// [`Unfit::Status`] if it is not a valid head of HTTP/1.1, or its body has a coding.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(ResponseHead, usize)>, Unfit> {
    let parsed = ResponseHead::parse(bytes, HEAD_BYTES_MAX).map_err(|_| Unfit::Status)?;
    let is_coded = |head: &ResponseHead| head.is_chunked || head.is_content_coded;
    match parsed {
        Some((head, _)) if head.version != Version::Http11 || is_coded(&head) => Err(Unfit::Status),
        parsed => Ok(parsed),
    }
}

/// The length of the body, if this response matches the request.
pub(crate) fn check(head: &ResponseHead, wanted: &Wanted) -> Result<usize, Unfit> {
    let length = head.content_length.and_then(|length| usize::try_from(length).ok());
    match *wanted {
        _ if (300..400).contains(&head.status) => Err(Unfit::Redirected),
        Wanted::All { bytes_max } if head.status == 200 => {
            length.filter(|length| *length <= bytes_max).ok_or(Unfit::Length)
        }
        Wanted::Part { from, count, of } if head.status == 206 => {
            let part = (from..from + count as u64, Some(of));
            let is_it = head.content_range.as_ref() == Some(&part);
            length.filter(|length| is_it && *length == count).ok_or(Unfit::Length)
        }
        _ => Err(Unfit::Status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(head: &str, wanted: &Wanted) -> Result<usize, Unfit> {
        let head = format!("{head}\r\n\r\n");
        let (head, _) = parse(head.as_bytes())?.expect("it is complete");
        check(&head, wanted)
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
