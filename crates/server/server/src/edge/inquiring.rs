//! Operators' questions about what is kept, which the helper answers.

use super::EdgeLink;
use super::key::{KeyRules, NO_URL, holding_rule, stored_beginning, stored_under};
use edge::contract::EdgeAsk;
use edge::inquiry::{Findings, Inquiry};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long the helper may take. It looks at its memory, and at few files. Upgrades and purges wait behind the question.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The questions under way. They come from one thread, one at a time.
#[derive(Default)]
pub(super) struct Inquiring {
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    open: BTreeMap<u64, Open>,
}

struct Open {
    inquiry: Inquiry,
    outcome: Option<Result<Findings, String>>,
}

impl Inquiring {
    fn begin(&self, inquiry: Inquiry) -> (u64, EdgeAsk) {
        let mut state = self.state();
        state.last += 1;
        let ticket = state.last;
        state.open.insert(ticket, Open { inquiry: inquiry.clone(), outcome: None });
        (ticket, EdgeAsk::Inquire { ticket, inquiry })
    }

    /// The helper has answered.
    pub(super) fn done(&self, ticket: u64, findings: Findings) {
        if let Some(open) = self.state().open.get_mut(&ticket) {
            open.outcome.get_or_insert(Ok(findings));
        }
        self.answered.notify_all();
    }

    /// There is no helper.
    pub(super) fn fail(&self, why: &str) {
        for open in self.state().open.values_mut() {
            open.outcome.get_or_insert_with(|| Err(why.to_owned()));
        }
        self.answered.notify_all();
    }

    /// The messages for a new helper.
    pub(super) fn again(&self) -> Vec<EdgeAsk> {
        let state = self.state();
        let open = state.open.iter().filter(|(_, one)| one.outcome.is_none());
        let ask = |(ticket, one): (&u64, &Open)| EdgeAsk::Inquire {
            ticket: *ticket,
            inquiry: one.inquiry.clone(),
        };
        open.map(ask).collect()
    }

    /// Blocks until the outcome is known.
    fn wait(&self, ticket: u64) -> Result<Findings, String> {
        let deadline = Instant::now() + ANSWER_MAX;
        let mut state = self.state();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.open.get(&ticket).is_none_or(|one| one.outcome.is_some()) {
                let late = || format!("no answer after {} s", ANSWER_MAX.as_secs());
                let outcome = state.open.remove(&ticket).and_then(|one| one.outcome);
                return outcome.unwrap_or_else(|| Err(late()));
            }
            let waited = self.answered.wait_timeout(state, left);
            state = waited.expect("no holder of this lock can panic").0;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock can panic")
    }
}

impl EdgeLink {
    /// Answers an operator's question, whose URL or prefix is as people write it. Blocks until it is answered.
    ///
    /// # Errors
    /// Why it is not.
    pub(crate) fn inquire(&self, asked: Inquiry, rules: &KeyRules) -> Result<Findings, String> {
        let rule = match &asked {
            Inquiry::Why { url } => holding_rule(url, rules),
            Inquiry::List { .. } => None,
        };
        let (ticket, ask) = self.inquiring.begin(inquiry_of(asked, rules)?);
        // After it is listed: so either this or the thread that records the helper's end sees the other.
        match self.trouble() {
            Some(why) => self.inquiring.fail(&why),
            None => self.ask(ask),
        }
        let findings = self.inquiring.wait(ticket)?;
        Ok(Findings { rule, ..findings })
    }
}

/// The question with its URL as responses are stored under it by these `rules`.
fn inquiry_of(asked: Inquiry, rules: &KeyRules) -> Result<Inquiry, &'static str> {
    match asked {
        Inquiry::Why { url } => Ok(Inquiry::Why { url: stored_under(&url, rules).ok_or(NO_URL)? }),
        Inquiry::List { prefix, after } => {
            Ok(Inquiry::List { prefix: stored_beginning(&prefix, rules)?, after })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_given_to_the_next_helper_until_it_is_answered() {
        let inquiring = Inquiring::default();
        let (ticket, ask) = inquiring.begin(Inquiry::Why { url: "/a".into() });
        assert_eq!(inquiring.again(), [ask]);
        inquiring.done(ticket, Findings::default());
        assert!(inquiring.again().is_empty());
        inquiring.fail("it is gone");
        assert_eq!(inquiring.wait(ticket), Ok(Findings::default()));
        let (ticket, _) = inquiring.begin(Inquiry::Why { url: "/a".into() });
        inquiring.fail("it is gone");
        assert_eq!(inquiring.wait(ticket), Err("it is gone".into()));
        assert!(inquiring.state().open.is_empty());
    }

    #[test]
    fn a_question_names_what_requests_are_stored_under() {
        let rules = &KeyRules::default();
        let why = |url: &str| inquiry_of(Inquiry::Why { url: url.into() }, rules);
        let stored = Inquiry::Why { url: "/a%20b?x=1".into() };
        assert_eq!(why("https://edge.example//a b?x=1&token=t"), Ok(stored));
        assert_eq!(why("a"), Err(NO_URL));
    }
}
