//! `/api/v1/titles`: all titles of the fleet.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use catalog::encode_path;
use fleet_protocol::PublishedTitle;
use serde::Serialize;
use steering::Fleet;

use crate::answering::Answers;
use crate::manifest::ManifestKind;
use crate::reply::{JSON, counted, reply};

#[derive(Serialize)]
struct Titles<'a> {
    version: u32,
    titles: Vec<ListedTitle<'a>>,
}

#[derive(Serialize)]
struct ListedTitle<'a> {
    title: &'a str,
    duration_seconds: f64,
    bytes: u64,
    hls: String,
    dash: String,
    watch: String,
}

/// The last list, and the fleet that it was made from. It is shared, so it is in memory once or twice, however many viewers fetch it slowly.
#[derive(Default)]
pub(crate) struct TitleList(Mutex<Option<(Arc<Fleet>, Bytes)>>);

impl TitleList {
    fn of(&self, fleet: Arc<Fleet>) -> Bytes {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, list)) = &*made {
            if Arc::ptr_eq(of, &fleet) || of.snapshot().titles == fleet.snapshot().titles {
                return list.clone();
            }
        }
        let titles = fleet.snapshot().titles.iter().map(listed).collect();
        // It has only strings and numbers, which JSON can express.
        let list = serde_json::to_vec(&Titles { version: 1, titles }).unwrap_or_default();
        let list = Bytes::from(list);
        *made = Some((fleet, list.clone()));
        list
    }
}

fn listed(title: &PublishedTitle) -> ListedTitle<'_> {
    let path = encode_path(Path::new(&title.path));
    ListedTitle {
        title: &title.path,
        duration_seconds: title.duration_seconds,
        bytes: title.bytes,
        hls: format!("/play/{path}/{}", ManifestKind::Hls.file()),
        dash: format!("/play/{path}/{}", ManifestKind::Dash.file()),
        // These characters may be in paths but not in queries.
        watch: format!("/watch?title={}", path.replace('&', "%26").replace('+', "%2B")),
    }
}

pub(crate) async fn titles(State(answers): State<Arc<Answers>>) -> Response {
    let list = answers.fleet().map(|fleet| reply(JSON, answers.list.of(fleet)));
    counted(&answers, "titles", list)
}
