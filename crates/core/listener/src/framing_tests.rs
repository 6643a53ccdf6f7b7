use super::*;

/// Everything that is passed on of `bytes`, which arrive in pieces of `step` bytes, and why the last request is refused.
fn passed(bodies: Bodies, bytes: &[u8], step: usize) -> (String, Option<ListenerRefusal>) {
    let mut framing = Framing::new(bodies);
    let (mut out, mut refused) = (Vec::new(), None);
    for piece in bytes.chunks(step) {
        let mut piece = piece;
        while !piece.is_empty() {
            let count = match framing.phase() {
                Phase::Over => break,
                Phase::Body(left) => {
                    let count = piece.len().min(left as usize);
                    out.extend_from_slice(&piece[..count]);
                    framing.pass_body(count as u64);
                    count
                }
                Phase::Head => {
                    let count = piece.len().min(framing.room());
                    refused = refused.or(framing.take(&piece[..count]));
                    count
                }
            };
            piece = &piece[count..];
            loop {
                let ready = framing.ready().to_vec();
                out.extend_from_slice(&ready);
                framing.pass(ready.len());
                refused = refused.or(framing.advance());
                if framing.ready().is_empty() {
                    break;
                }
            }
        }
    }
    (String::from_utf8(out).unwrap(), refused)
}

/// The same result, whatever the size of the pieces.
fn all_of(bodies: Bodies, bytes: &str) -> (String, Option<ListenerRefusal>) {
    let whole = passed(bodies, bytes.as_bytes(), bytes.len());
    for step in [1, 2, 7] {
        assert_eq!(passed(bodies, bytes.as_bytes(), step), whole, "{bytes:?} by {step}");
    }
    whole
}

fn refused(bodies: Bodies, bytes: &str) -> ListenerRefusal {
    let (out, refused) = all_of(bodies, bytes);
    let refused = refused.unwrap_or_else(|| panic!("{bytes:?} is passed on: {out:?}"));
    assert!(out.starts_with(&format!("REFUSED /{}?", refused.as_str())), "{out:?}");
    refused
}

const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn whole_requests_are_passed_on_as_they_are() {
    let two = [GET, GET].concat();
    assert_eq!(all_of(Bodies::None, &two), (two.clone(), None));
    let post = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde";
    let some = [post, GET, post].concat();
    assert_eq!(all_of(Bodies::OfKnownLength, &some), (some.clone(), None));
    let waits = "PUT /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(all_of(Bodies::OfKnownLength, waits), (waits.to_owned(), None));
    assert_eq!(all_of(Bodies::None, "GET /a HTTP/1.1\r\nHo").0, "");
}

#[test]
fn no_request_hides_in_a_body() {
    let hidden = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\nGET /victim HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(refused(Bodies::OfKnownLength, hidden), ListenerRefusal::NoLength);
    assert_eq!(refused(Bodies::None, hidden), ListenerRefusal::Head(Reject::MethodNotAllowed));
    let of_get = hidden.replace("POST", "GET");
    assert_eq!(refused(Bodies::None, &of_get), ListenerRefusal::Body);
    let (out, _) = all_of(Bodies::OfKnownLength, &[GET, hidden, GET].concat());
    assert!(out.starts_with(GET) && !out.contains("victim"), "{out}");
    assert_eq!(out.matches("HTTP/1.1").count(), 2, "{out}");
    for both in ["Content-Length: 3\r\nTransfer-Encoding: chunked", "Content-Length: 3, 3"] {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{both}\r\n\r\nabc");
        assert_eq!(
            refused(Bodies::OfKnownLength, &text),
            ListenerRefusal::Head(Reject::BadFraming)
        );
    }
}

#[test]
fn bodies_are_refused_where_none_is_taken() {
    let with_body =
        |method: &str| format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    let of = |method: &str| refused(Bodies::None, &with_body(method));
    assert_eq!(of("GET"), ListenerRefusal::Head(Reject::BodyTooLarge));
    assert_eq!(of("POST"), ListenerRefusal::Head(Reject::MethodNotAllowed));
    let empty = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(all_of(Bodies::None, empty), (empty.to_owned(), None));
}

#[test]
fn heads_are_refused_as_rfc_9112_says() {
    for (text, reason) in [
        ("GET / HTTP/1.1\r\n\r\n", Reject::BadHost),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Reject::BadHost),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Reject::BadHost),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", Reject::BadTarget),
        ("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", Reject::MethodNotImplemented),
        ("GET / HTTP/1.1\nHost: a\n\n", Reject::BadLineEnd),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Reject::VersionUnsupported),
    ] {
        assert_eq!(refused(Bodies::None, text), ListenerRefusal::Head(reason), "{text:?}");
    }
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9000));
    assert_eq!(refused(Bodies::None, &long), ListenerRefusal::Head(Reject::UriTooLong));
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(17_000));
    assert_eq!(refused(Bodies::None, &large), ListenerRefusal::Head(Reject::HeadTooLarge));
    let method = format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "X".repeat(100_000));
    assert_eq!(refused(Bodies::None, &method), ListenerRefusal::Head(Reject::MethodNotImplemented));
}

#[test]
fn a_later_minor_version_is_passed_on_as_1_1() {
    let later = "\r\nGET /1.2 HTTP/1.2\r\nHost: a\r\n\r\n";
    assert_eq!(all_of(Bodies::None, later).0, "\r\nGET /1.2 HTTP/1.1\r\nHost: a\r\n\r\n");
    let earlier = "GET / HTTP/1.0\r\n\r\n";
    assert_eq!(all_of(Bodies::None, earlier).0, earlier);
}

#[test]
fn a_refusal_knows_that_a_head_has_no_content() {
    let out = all_of(Bodies::None, "HEAD / HTTP/1.1\r\n\r\n").0;
    assert!(out.starts_with("REFUSED /bad_host?head HTTP/1.1\r\n"), "{out}");
    assert_eq!(
        refused(Bodies::None, "REFUSED /bad_host HTTP/1.1\r\nHost: a\r\n\r\n"),
        ListenerRefusal::Head(Reject::MethodNotImplemented)
    );
}

#[test]
fn an_unfinished_head_takes_bounded_memory() {
    let mut framing = Framing::new(Bodies::None);
    framing.take(b"GET / HTTP/1.1\r\nHost: a\r\nX: ");
    while framing.phase() == Phase::Head {
        let count = framing.room().min(1000);
        assert!(count > 0);
        framing.take(&vec![b'x'; count]);
    }
    assert!(framing.ready().starts_with(b"REFUSED /head_too_large?"));
}
