//! Events that a player posts to the server that sends its film, as they happen: CMCD version 2 (CTA-5004-B), event mode.
//!
//! A viewer has one post under way. What happens meanwhile is in the next one, so events arrive in order.

use super::fetch;
use super::viewer::Viewer;
use load::Url;
use player::{GiveUp, PlayerEvent, Time};
use reactor::{sleep, timeout_at};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a viewer who leaves waits for its last post.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often it checks whether another task has sent that.
const GLANCE: Duration = Duration::from_millis(5);

/// The events of one session.
pub(crate) struct Posts {
    session: Arc<str>,
    lines: RefCell<Vec<String>>,
    number: Cell<u64>,
    /// The latest address of media: its server gets the events.
    server: RefCell<Option<Url>>,
    is_posting: Cell<bool>,
}

impl Posts {
    /// The events of the session of this name, whose viewer has just pressed play.
    pub(crate) fn new(session: Arc<str>, at: Time) -> Self {
        let posts = Self {
            session,
            lines: RefCell::default(),
            number: Cell::new(0),
            server: RefCell::default(),
            is_posting: Cell::new(false),
        };
        posts.add(at, "s", None);
        posts
    }

    /// Media comes from this address now.
    pub(crate) fn serve_from(&self, url: &Url) {
        let mut server = self.server.borrow_mut();
        if server.as_ref().is_none_or(|known| !known.is_same_origin(url)) {
            *server = Some(url.clone());
        }
    }

    /// Adds what the server should know of `event`. Times are those of the wall clock.
    pub(crate) fn note(&self, event: &PlayerEvent, began: Duration, now: Time) {
        let now = began + now;
        match event {
            PlayerEvent::Started { after } => self.add(now, "p", Some(*after)),
            PlayerEvent::Stalled { at, .. } => self.add(began + *at, "r", None),
            PlayerEvent::Resumed { at, .. } => self.add(began + *at, "p", None),
            PlayerEvent::Sought { is_buffered, .. } => {
                self.add(now, "k", None);
                if *is_buffered {
                    self.add(now, "p", None);
                }
            }
            PlayerEvent::GaveUp { reason: GiveUp::Manifest | GiveUp::Segments } => {
                self.add(now, "f", None);
            }
            PlayerEvent::GaveUp { .. } | PlayerEvent::Left => self.add(now, "q", None),
            PlayerEvent::Ended => self.add(now, "e", None),
            _ => {}
        }
    }

    fn add(&self, since_1970: Duration, state: &str, delay: Option<Duration>) {
        let number = self.number.replace(self.number.get() + 1);
        let delay = delay.map(|delay| format!("msd={},", delay.as_millis())).unwrap_or_default();
        let (session, ms) = (&self.session, since_1970.as_millis());
        self.lines
            .borrow_mut()
            .push(format!("e=ps,{delay}sid=\"{session}\",sn={number},sta={state},ts={ms},v=2"));
    }

    /// Whether there is something to post, a server to post it to, and no other post under way.
    pub(crate) fn are_due(&self) -> bool {
        let is_idle = !self.is_posting.get();
        is_idle && self.server.borrow().is_some() && !self.lines.borrow().is_empty()
    }

    /// The next post, which is under way until [`Self::posted`].
    fn begin(&self) -> Option<(Url, String)> {
        let server = self.server.borrow().clone().filter(|_| self.are_due())?;
        self.is_posting.set(true);
        Some((server, self.lines.take().join("\n")))
    }

    fn posted(&self) {
        self.is_posting.set(false);
    }
}

/// Posts the viewer's events until there are no more, unless that is under way.
pub(crate) async fn post(viewer: &Rc<Viewer>) {
    let Some(posts) = &viewer.posts else { return };
    while let Some((server, body)) = posts.begin() {
        let posted = fetch::post(viewer, &server, &body).await;
        posts.posted();
        if let Err(failed) = posted {
            let authority = server.authority();
            viewer.crew.failed(failed.as_failure(), || format!("post to {authority}: {failed}"));
        }
    }
}

/// Posts the last events of a viewer who is leaving.
pub(crate) async fn finish(viewer: &Rc<Viewer>) {
    let Some(posts) = &viewer.posts else { return };
    let finishing = async {
        while posts.is_posting.get() || posts.are_due() {
            post(viewer).await;
            if posts.is_posting.get() {
                sleep(GLANCE).await;
            }
        }
    };
    // A post that takes longer is lost: only the end of a session.
    let _ = timeout_at(Instant::now() + PATIENCE, finishing).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Duration = Duration::from_secs(1_790_000_000);

    #[test]
    fn what_happens_is_posted_once_and_in_order() {
        let s = Duration::from_secs;
        let posts = Posts::new("swarm-1".into(), BEGAN);
        let reason = player::StallReason::Silence;
        for (at, event) in [
            (s(1), PlayerEvent::Started { after: Duration::from_millis(812) }),
            (s(9), PlayerEvent::Stalled { at: s(8), reason }),
            (s(11), PlayerEvent::Resumed { at: s(10), after: s(2) }),
            (s(12), PlayerEvent::Sought { to: s(90), is_buffered: true }),
            (s(13), PlayerEvent::Sought { to: s(190), is_buffered: false }),
            (s(20), PlayerEvent::Left),
        ] {
            posts.note(&event, BEGAN, at);
        }
        assert!(!posts.are_due() && posts.begin().is_none(), "no server is known");
        posts.serve_from(&"http://h:81/film/1.m4s".parse().unwrap());
        let (server, body) = posts.begin().unwrap();
        assert_eq!(server.authority(), "h:81");
        assert!(posts.begin().is_none(), "one post is under way");
        let line = |number: usize, seconds: u64, state: &str, delay: &str| {
            let ms = (BEGAN + s(seconds)).as_millis();
            format!("e=ps,{delay}sid=\"swarm-1\",sn={number},sta={state},ts={ms},v=2")
        };
        let expected = [
            line(0, 0, "s", ""),
            line(1, 1, "p", "msd=812,"),
            line(2, 8, "r", ""),
            line(3, 10, "p", ""),
            line(4, 12, "k", ""),
            line(5, 12, "p", ""),
            line(6, 13, "k", ""),
            line(7, 20, "q", ""),
        ];
        assert_eq!(body, expected.join("\n"));
        posts.posted();
        assert!(posts.begin().is_none() && !posts.are_due(), "all is posted");
    }
}
