//! The API's description, compared with its behaviour.

use fullbore_gateway::api::OPERATIONS;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::fleet::{Running, folder};
use crate::titles::with_a_film;

#[tokio::test(flavor = "multi_thread")]
async fn what_the_description_has_is_there_and_needs_a_token() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    let (status, document) = fleet.ask(None, Method::GET, "/api/v1/openapi.json", None).await;
    assert_eq!((status, document["openapi"].as_str()), (StatusCode::OK, Some("3.1.0")));
    let mut count = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            let method: Method = method.to_ascii_uppercase().parse().expect("a method");
            let path = path.replace(['{', '}'], "");
            let (status, answer) = fleet.ask(None, method.clone(), &path, None).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}: {answer}");
            count += 1;
        }
    }
    // The stream and the metrics are not in the table.
    assert_eq!(count, OPERATIONS.len() + 2);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_have_the_fields_that_the_description_promises() {
    let folder = folder();
    let fleet = with_a_film(folder.path()).await;
    for operation in OPERATIONS.iter().filter(|operation| operation.method == Method::GET) {
        let query = match operation.path {
            "/api/v1/explain" => "?address=192.0.2.1&title=films/a",
            "/api/v1/where" => "?title=films/a",
            "/api/v1/certificates/{node}/request" => continue, // needs a node's request; the fleet's tests ask it
            _ => "",
        };
        let path = operation.path.replace("{site}", "paris");
        let answer = fleet.get(&format!("{path}{query}")).await;
        assert_eq!(answer["version"], 1, "{}", operation.path);
        for field in operation.answer {
            let value = &answer[field.name];
            let is_there = if field.is_required { !value.is_null() } else { true };
            assert!(is_there, "{} lacks {}: {answer}", operation.path, field.name);
        }
        let known = |name: &str| {
            name == "version" || operation.answer.iter().any(|field| field.name == name)
        };
        for name in answer.as_object().expect("an object").keys() {
            assert!(known(name), "{} has {name}, which its description lacks", operation.path);
        }
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fleet_page_gets_one_event_at_once_and_one_a_second() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris")]).await;
    let token = std::fs::read_to_string(fleet.gateway.state().admin_token()).expect("a token");
    let request = format!(
        "GET /api/v1/fleet HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
        token.trim()
    );
    let mut readers = Vec::new();
    for _ in 0..3 {
        let mut stream = tokio::net::TcpStream::connect(fleet.admin).await.expect("connected");
        stream.write_all(request.as_bytes()).await.expect("written");
        readers.push(stream);
    }
    for mut stream in readers {
        let mut text = String::new();
        while text.matches("event: fleet\n").count() < 3 {
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).await.expect("read");
            assert!(count > 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        assert!(text.contains("text/event-stream"), "{text}");
        let line = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("an event");
        let event: Value = serde_json::from_str(line).expect("JSON in one line");
        assert_eq!((&event["version"], &event["nodes"][0]["name"]), (&1.into(), &"n1".into()));
        for name in ["gateway", "unix_millis", "store", "decisions", "moves", "sites", "titles"] {
            assert!(!event[name].is_null(), "{name}: {event}");
        }
    }
    fleet.stop().await;
}
