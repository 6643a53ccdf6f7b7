//! Tokens that other programs made: the Python package `cwt` 3.3.0, and the npm package `@eyevinn/cat` 0.16.4, which the tests of the whole
//! server also run.

use std::net::IpAddr;

use super::{CatFault, CatRequest, CatSettings};
use crate::KeyRing;

/// By `cwt`: for `.m4s` below `/films/a/`, for GET and HEAD, from 192.0.2.0/24 and from ::1, until 2030.
const OF_CWT: [(&str, &str, &str); 3] = [
    (
        "key-ed",
        "MCowBQYDK2VwAyEABLWUruZHTP4VMqtVUbkTX2+YoRvgwtM2vlRZVopQA/I=",
        "0oRDoQEnoQRGa2V5LWVkWFimAWVweWN3dAQacT-zABkBNgEZATiiA6EBaS9maWxtcy9hLwihAGQubTRzGQE5gmNHRVRkSEVBRBkBN4LYNII\
        YGEPAAALYNlAAAAAAAAAAAAAAAAAAAAABWEBHfaq7831stys-nEXzJQFjVHrQIPfBlx8DhTZ5sCiJvjYxROZNIyIESxhEN1fuNH7sekRG5iXyXwvGfePPgs8H",
    ),
    (
        "key-p256",
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE7IfupgFQ+IG+GKZXzuCp3ovQZj13mxt+0Gg5w7tPaFFf50COAMndXdugQC6T1U29o5NqlSwH2\
        XhT0D0kZmvsxw==",
        "0oRDoQEmoQRIa2V5LXAyNTZYWKYBZXB5Y3d0BBpxP7MAGQE2ARkBOKIDoQFpL2ZpbG1zL2EvCKEAZC5tNHMZATmCY0dFVGRIRUFEGQE3gtg0\
        ghgYQ8AAAtg2UAAAAAAAAAAAAAAAAAAAAAFYQAJc1EbECFDRuLs_C0uGOoGj_Pzm-0dlbS0oFrmhiz1ycdkFnw0P7kJwmoqEOJUXPUH9h3Gir\
        G1OzKU6IpAauEE",
    ),
    (
        "key-rsa",
        "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA0plzVnVr4qJPqLxbuIWLmAhdnWVGue/2c89xqWgJGac7fzg5QTuLKVwip0ERvPIAO\
        PAhov/24UBeBVn+mq8kZtAYgJIzFGSwDJ3km5L+tUqBXmYq5dd/xn2hAQbBpIFWzYlg9CbB5vLkqi7s5rkE0FHlxvXzGXUzNOxj4k+tb1RuXm\
        Eu4EHsNRxx/HA+ijy93yKb2bWmlv4AVz/5uRL29XI0ARofErPp/xW6N67xjiKMVLY1LJKaRVJ9Ehsci6HHLvnyZ0vPNRc7D1dfgCqdF4IrSaA\
        QpMT7Ab3jLRiIdKWtZzpbZjmnHUNZcjA0q4rxrm65IZt6UaBf/xWiDstO9wIDAQAB",
        "0oREoQE4JKEER2tleS1yc2FYWKYBZXB5Y3d0BBpxP7MAGQE2ARkBOKIDoQFpL2ZpbG1zL2EvCKEAZC5tNHMZATmCY0dFVGRIRUFEGQE3gtg0g\
        hgYQ8AAAtg2UAAAAAAAAAAAAAAAAAAAAAFZAQABDoJXkW9_1p6RbukbsHXdbXpMElW_YF2n00v_VdT4z8m5-V5D3HPn44KETxianLtgcgQ9lN\
        yQxBXeHuvLLEjc77ObiGiB5PtPtLQ_3YTlcji0f2qP7xNM2GQxEticzFSRMLJxmAxrIVC-yL2jSzogY82Hr2Yok6UoQI133yFo2KiwRSt5-W66\
        THtiGcgkUdGvwoRM_XyLwoZbYfw58MknCCTZefMMEwaGA-597T8TKnLZh44JH_SLf8ojSSR-KW1H7izwd5ec69_Xb-QeatOl7dLlIRmiaZBpqC\
        5ZLRBWiH4LqgM_f1E6Vq5AfEvjFo295FFVBYY9cjF2tp6ufbGZ",
    ),
];

/// By `@eyevinn/cat`, with the tag of a CBOR Web Token and without: for `/films/a/`, GET, 192.0.2.0/24, 2001:db8::1 and AS64496, until 2030.
const OF_NODE: [&str; 2] = [
    "2D3RhEOhAQWhBEJrMVhRpgFnZXlldmlubgQacT-zABkBNgEZATeD2DSCGBhEwAACANg2UCABDbgAAAAAAAAAAAAAAAEZ-_AZATihA6EBaS9maW\
    xtcy9hLxkBOYFjR0VUWCB5XCBnWwu3358vmRKGcCx2Ib4ePWYF3M84rBgxA7kJ7Q",
    "0YRDoQEFoQRCazF4omE2MDE2NzY1Nzk2NTc2Njk2ZTZlMDQxYTcxM2ZiMzAwMTkwMTM2MDExOTAxMzc4M2Q4MzQ4MjE4MTg0NGMwMDAwMjAwZD\
    gzNjUwMjAwMTBkYjgwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDExOWZiZjAxOTAxMzhhMTAzYTEwMTY5MmY2NjY5NmM2ZDczMmY2MTJmMTkwMTM5\
    ODE2MzQ3NDU1NFggpuvlVmi74l4oEs0e0G2NmRMhyxwO16tOcIHTTR9gIfU",
];

/// Its key, of the examples in its guide.
const KEY_OF_NODE: &str = "k1:403697de87af64611c1d32a05dab0fe1fcb715a86ab435f1ec99192d79569388";

/// Requests, and the claim that refuses them.
const REQUESTS: [(&str, &str, &str, Option<&str>); 5] = [
    ("GET", "films/a/x.m4s", "192.0.2.7", None),
    ("HEAD", "films/a/x.m4s", "192.0.2.7", Some("catm")),
    ("GET", "films/ab/x.m4s", "192.0.2.7", Some("catu")),
    ("GET", "films/a/x.mp4", "192.0.2.7", Some("catu")),
    ("GET", "films/a/x.m4s", "192.0.3.7", Some("catnip")),
];

fn check(
    ring: &KeyRing,
    token: &str,
    (method, path, client): (&str, &str, IpAddr),
) -> Result<(), CatFault> {
    let request = CatRequest {
        method,
        is_tls: true,
        host: b"tv.example",
        paths: [path.as_bytes(); 2],
        query: b"",
        client,
        now_unix_seconds: 1_899_999_999,
    };
    let late = CatRequest { now_unix_seconds: 1_900_000_000, ..request };
    assert_eq!(ring.check_cat(token.as_bytes(), &late), Err(CatFault::Expired));
    ring.check_cat(token.as_bytes(), &request)
}

#[test]
fn tokens_of_the_python_package_cwt_are_understood() {
    for (name, key, token) in OF_CWT {
        let text =
            format!("kid {name}\n-----BEGIN PUBLIC KEY-----\n{key}\n-----END PUBLIC KEY-----\n");
        let ring = KeyRing::none().with_cats_of(&text, &CatSettings::default()).unwrap();
        assert!(!ring.is_secret());
        for (method, path, client, refused_by) in REQUESTS {
            let checked = check(&ring, token, (method, path, client.parse().unwrap()));
            // Those of Python are for HEAD, too.
            let refused_by = refused_by.filter(|claim| *claim != "catm");
            let expected = refused_by.map_or(Ok(()), |claim| Err(CatFault::NotAllowed(claim)));
            assert_eq!(checked, expected, "{name}: {method} {path} {client}");
        }
        let other = format!("kid {name}\n{}", KEY_OF_NODE.split_once(':').unwrap().1);
        let other = KeyRing::none().with_cats_of(&other, &CatSettings::default()).unwrap();
        assert!(other.check_cat(token.as_bytes(), &request_of_all()).is_err());
    }
}

#[test]
fn tokens_of_the_npm_package_are_understood() {
    let ring = KeyRing::none().with_cats_of(KEY_OF_NODE, &CatSettings::default()).unwrap();
    for token in OF_NODE {
        for (method, path, client, refused_by) in REQUESTS {
            let checked = check(&ring, token, (method, path, client.parse().unwrap()));
            let is_of_extension = path.ends_with(".mp4");
            let refused_by = refused_by.filter(|_| !is_of_extension);
            let expected = refused_by.map_or(Ok(()), |claim| Err(CatFault::NotAllowed(claim)));
            assert_eq!(checked, expected, "{method} {path} {client}");
        }
    }
}

fn request_of_all() -> CatRequest<'static> {
    CatRequest {
        method: "GET",
        is_tls: true,
        host: b"h",
        paths: [b"films/a/x.m4s"; 2],
        query: b"",
        client: IpAddr::from([192, 0, 2, 7]),
        now_unix_seconds: 1,
    }
}
