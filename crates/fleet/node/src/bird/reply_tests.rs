//! Tests with replies of a real BIRD 2.0.12, and with invalid ones.

use super::*;

fn read(text: &[u8]) -> Result<BirdRoutes, BirdError> {
    let mut reader = RoutesReader::default();
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    loop {
        let line = lines.next().unwrap_or(b"the reply has no end");
        if reader.line(line.strip_suffix(b"\n").unwrap_or(line))? {
            return Ok(reader.routes());
        }
    }
}

fn told(routes: &BirdRoutes) -> Vec<String> {
    routes.announced.iter().map(Announced::to_string).collect()
}

#[test]
fn routes_of_bgp_are_read_with_their_path_and_the_boxs_own_are_not() {
    let routes = read(include_bytes!("recorded/primary.txt")).expect("a reply");
    assert_eq!(
        told(&routes),
        [
            "192.0.2.0/24 as_path_length=1",
            "198.51.100.0/24 as_path_length=1",
            "203.0.113.7/32 as_path_length=1",
            "::/0 as_path_length=1",
            "2001:db8:1::/48 as_path_length=1",
            "2001:db8:2::/48 as_path_length=3",
        ]
    );
    // The default route and an unreachable one are static, and two belong to the interface.
    assert_eq!((routes.own, routes.dead), (4, 0));
    // A second route to a prefix is not the one that BIRD uses.
    assert_eq!(read(include_bytes!("recorded/all.txt")), Ok(routes));
}

#[test]
fn a_table_of_its_own_is_read_and_an_empty_one_is_no_mistake() {
    let routes = read(include_bytes!("recorded/table.txt")).expect("a reply");
    assert_eq!((routes.announced.len(), routes.own), (3, 0));
    assert_eq!(read(include_bytes!("recorded/empty.txt")), Ok(BirdRoutes::default()));
}

#[test]
fn a_route_that_leads_nowhere_is_counted_and_not_announced() {
    let routes = read(include_bytes!("recorded/dead.txt")).expect("a reply");
    assert_eq!(
        told(&routes),
        [
            "192.0.2.0/24 as_path_length=2 med=70",
            "198.51.100.0/24 as_path_length=1",
            "2001:db8:1::/48 as_path_length=1 med=4294967295",
            "2001:db8:2::/48 as_path_length=1 med=4294967295",
        ]
    );
    assert_eq!((routes.own, routes.dead), (2, 2));
}

#[test]
fn bird_tells_when_it_started() {
    let mut reader = ReplyReader::default();
    let lines = include_bytes!("recorded/status.txt").split(|byte| *byte == b'\n');
    let lines = lines.take(6).filter_map(|line| reader.line(line).expect("a line"));
    let starts: Vec<_> = lines.filter_map(|line| started(&line).map(str::to_owned)).collect();
    assert_eq!(starts.len(), 1, "{starts:?}");
    assert!(starts[0].starts_with("2026-11-23 06:08:14"), "{starts:?}");
}

#[test]
fn refusals_and_nonsense_are_errors_that_say_so() {
    let cases: [(&[u8], &str); 8] = [
        (b"9001 syntax error, unexpected CF_SYM_UNDEFINED\n", "BIRD says: syntax error"),
        (b"8007 Access denied\n", "BIRD says: Access denied"),
        (b"HTTP/1.1 400 Bad Request\r\n", "a line has no code"),
        (b" 192.0.2.0/24 unicast\n", "half a reply"),
        (b"\n", "a line has no code"),
        (b"10\xff7-x\n", "it is not text"),
        ("1007ü\n".as_bytes(), "a line has no code"),
        (b"1007-Table master4:\n", "a line has no code"),
    ];
    for (text, why) in cases {
        let error = read(text).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn log_lines_between_and_prefixes_of_other_kinds_do_not_matter() {
    let text =
        b"+<INFO> Reconfigured\n1007-Table t:\n 192.0.2.1/24 unicast [x]\n1008-\tType: BGP univ\n\
        1007-flow4 { dst 10.0.0.0/8; } [x]\n1007-10.0.0.0/8-24 AS1 [x]\n1012-\tBGP.med: 1\n0000 \n";
    assert_eq!(read(text), Ok(BirdRoutes::default()));
}

#[test]
fn paths_are_measured_as_bgp_does() {
    for (path, length) in [
        ("", 0),
        (" 64501 ", 1),
        (" 64501 64501 65010", 3),
        (" 64501 {1 2 3} 65010", 3),
        (" { 1 2 }", 1),
        (" (65001 65002) 64501", 1),
        (" ({65001 65002}) 64501", 1),
    ] {
        assert_eq!(path_length(path), length, "{path:?}");
    }
    assert_eq!(path_length(&" 1".repeat(1000)), u8::MAX);
}

#[test]
fn more_routes_than_a_node_passes_on_are_an_error() {
    let mut text = String::from("1007-Table master4:\n");
    for number in 0..=ROUTES_MAX as u32 {
        let address = std::net::Ipv4Addr::from_bits(number);
        text.push_str(&format!("1007-{address}/32 unicast [f] *\n1008-\tType: BGP univ\n"));
    }
    assert_eq!(read((text + "0000 \n").as_bytes()), Err(BirdError::TooMany));
}
