//! One viewer's life: a player, the task that keeps its time, and a task for each open request.

use super::connections::Connections;
use super::crew::Crew;
use super::failed::Failed;
use super::fetch;
use super::posts::{self, Posts};
use super::standing::{State, add};
use super::tap::Tap;
use super::wakeup::Wakeup;
use crate::crowd;
use player::{
    Act, Deed, Failure, Player, PlayerEvent, PlayerOptions, PlayerRequest, RequestId,
    SessionReport, Time,
};
use reactor::{spawn, timeout_at};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

/// A planned seek, as an action for the player.
fn act(seek: &crowd::Seek) -> Act {
    Act { at: seek.after, deed: Deed::SeekTo(seek.to) }
}

/// A viewer.
pub(crate) struct Viewer {
    pub(crate) crew: Rc<Crew>,
    pub(crate) who: crowd::Viewer,
    player: RefCell<Player>,
    pub(crate) connections: RefCell<Connections>,
    /// Its network; `None` takes bytes as fast as they come.
    pub(crate) tap: Option<RefCell<Tap>>,
    /// The events that it posts; none if it posts none.
    pub(crate) posts: Option<Posts>,
    /// Its open requests, each with the signal that ends it.
    open: RefCell<Vec<(RequestId, Rc<Wakeup>)>>,
    /// When its task wakes, unless it is signalled earlier.
    wakes: Cell<Option<Time>>,
    wakeup: Wakeup,
    state: Cell<State>,
}

impl Viewer {
    /// Starts a viewer who presses play now.
    pub(crate) fn begin(crew: &Rc<Crew>, who: crowd::Viewer) -> Rc<Self> {
        let shared = &crew.shared;
        let now = shared.began.elapsed();
        let options = &shared.options;
        let session = options.cmcd.then(|| shared.session_name(who.number));
        let posting = session.clone().filter(|_| options.cmcd_events);
        let player = PlayerOptions {
            cmcd: session,
            plan: who.seeks.iter().map(act).collect(),
            leave_after: Some(who.watches),
            clock: Some(shared.began_since_1970),
            ..options.player.clone()
        };
        let title = options.titles[who.title % options.titles.len()].clone();
        let viewer = Rc::new(Self {
            crew: Rc::clone(crew),
            player: RefCell::new(Player::new(player, title, now)),
            connections: RefCell::default(),
            tap: options.has_networks.then(|| RefCell::new(Tap::new(&who.network, now))),
            posts: posting.map(|session| Posts::new(session, shared.began_since_1970 + now)),
            open: RefCell::default(),
            wakes: Cell::new(None),
            wakeup: Wakeup::default(),
            state: Cell::new(State::Waiting),
            who,
        });
        crew.counters.goes(None, State::Waiting);
        spawn(Rc::clone(&viewer).live());
        viewer
    }

    pub(crate) fn now(&self) -> Time {
        self.crew.shared.began.elapsed()
    }

    /// What it has seen so far.
    pub(crate) fn report(&self) -> SessionReport {
        self.player.borrow().report(self.now())
    }

    /// The names of its pathways, in the order of the player's numbers.
    pub(crate) fn pathways(&self) -> Vec<String> {
        let player = self.player.borrow();
        let known = player.presentation().map(|presentation| presentation.pathways.iter());
        known.into_iter().flatten().map(|pathway| pathway.id.clone()).collect()
    }

    /// Keeps the player's time until the session is over.
    async fn live(self: Rc<Self>) {
        self.turn();
        while !self.player.borrow().is_over() {
            let wakes = self.player.borrow().poll_timeout();
            self.wakes.set(wakes);
            match wakes {
                None => self.wakeup.woken().await,
                Some(at) => {
                    let deadline = self.crew.shared.began + at;
                    if timeout_at(deadline, self.wakeup.woken()).await.is_err() {
                        self.crew.woke(deadline);
                        self.tell(|player, now| player.handle_timeout(now));
                    }
                }
            }
        }
        // Boxed, because most viewers post nothing.
        Box::pin(posts::finish(&self)).await;
        self.part();
    }

    fn part(&self) {
        self.open.borrow_mut().drain(..).for_each(|(_, wakeup)| wakeup.wake());
        self.connections.borrow_mut().close();
        self.go(State::Gone);
        self.crew.is_over(self);
    }

    /// Reports something to the player, and does what it then asks for.
    pub(crate) fn tell(self: &Rc<Self>, what: impl FnOnce(&mut Player, Time)) {
        let now = self.now();
        what(&mut self.player.borrow_mut(), now);
        self.turn();
    }

    /// Does what the player asks for: ends requests, begins others, records events.
    fn turn(self: &Rc<Self>) {
        // Each is taken in a separate statement, so that the player is not borrowed while it is handled.
        loop {
            let cancelled = self.player.borrow_mut().poll_cancel();
            let Some(id) = cancelled else { break };
            self.end(id);
        }
        loop {
            let request = self.player.borrow_mut().poll_request(self.now());
            let Some(request) = request else { break };
            self.start(request);
        }
        loop {
            let event = self.player.borrow_mut().poll_event();
            let Some(event) = event else { break };
            self.note(&event);
        }
        if self.posts.as_ref().is_some_and(Posts::are_due) {
            let viewer = Rc::clone(self);
            spawn(async move { posts::post(&viewer).await });
        }
        let player = self.player.borrow();
        let is_sooner = match (player.poll_timeout(), self.wakes.get()) {
            (Some(wanted), Some(wakes)) => wanted < wakes,
            (wanted, None) => wanted.is_some(),
            (None, Some(_)) => false,
        };
        if is_sooner || player.is_over() {
            self.wakeup.wake();
        }
    }

    fn start(self: &Rc<Self>, request: PlayerRequest) {
        let wakeup = Rc::new(Wakeup::default());
        self.open.borrow_mut().push((request.id, Rc::clone(&wakeup)));
        let viewer = Rc::clone(self);
        spawn(async move {
            let fetched = wakeup.unless_woken(fetch::fetch(&viewer, &request)).await;
            viewer.open.borrow_mut().retain(|(id, _)| *id != request.id);
            if let Some(Err(failed)) = fetched {
                viewer.failed(&request, &failed);
            }
        });
    }

    fn failed(self: &Rc<Self>, request: &PlayerRequest, failed: &Failed) {
        let failure = failed.as_failure();
        // The player reports silence itself.
        if failure != Failure::Silence {
            let what = request.kind.as_str();
            self.crew.failed(failure, || format!("{what} {}: {failed}", request.address()));
        }
        // The player already knows the status from the head.
        if !matches!(failed, Failed::Status(_)) {
            self.tell(|player, now| player.handle_failure(request.id, failure, now));
        }
    }

    /// Ends an open request, and its connection with it.
    fn end(&self, id: RequestId) {
        let mut open = self.open.borrow_mut();
        if let Some(index) = open.iter().position(|(open, _)| *open == id) {
            open.swap_remove(index).1.wake();
        }
    }

    fn note(&self, event: &PlayerEvent) {
        if let Some(posts) = &self.posts {
            posts.note(event, self.crew.shared.began_since_1970, self.now());
        }
        match event {
            PlayerEvent::Started { .. } | PlayerEvent::Resumed { .. } => self.go(State::Playing),
            PlayerEvent::Stalled { .. } => {
                add(&self.crew.counters.stalls, 1);
                self.go(State::Stalled);
            }
            PlayerEvent::Failed { kind, pathway, failure: failure @ Failure::Silence } => {
                let pathways = self.pathways();
                let name = pathways.get(*pathway).map_or("", String::as_str);
                self.crew.failed(*failure, || format!("{} from {name}: {failure}", kind.as_str()));
            }
            _ => {}
        }
    }

    fn go(&self, to: State) {
        let from = self.state.replace(to);
        self.crew.counters.goes(Some(from), to);
    }

    /// Waits until `at`.
    pub(crate) async fn sleep_until(&self, at: Time) {
        let deadline = self.crew.shared.began + at;
        if Instant::now() < deadline {
            reactor::sleep_until(deadline).await;
            self.crew.woke(deadline);
        }
    }
}
