//! Requests of one node: what the hooks do with the law, over atomics.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use governor_core::breaker::{Level, Move};
use governor_core::carried::{Paid, carried};
use governor_core::chain::{Advice, Chain, Link, Result as Came};
use governor_core::evidence::{self, Evidence, Name};
use governor_core::judge::{self, Attempt, Decision, Orders};
use governor_core::params::Params;
use governor_core::rules::{Repeat, about};
use governor_core::settle::{Audited, Ending, settle};
use governor_core::units::{Millis, Nanos};
use governor_core::verdict::{Outcome, Ticket};

use super::Node;

/// A request as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub fingerprint: u64,
    /// The try it says it is; 0: it does not say.
    pub declared: u32,
    /// A name of the operation; 0: none.
    pub key: u64,
    /// Bits of [`about`]: what it says of itself.
    pub said: u32,
}

/// A `GET` that says nothing of itself.
pub const fn get(fingerprint: u64) -> Request {
    Request {
        fingerprint,
        declared: 0,
        key: 0,
        said: 0,
    }
}

/// A `POST` without an idempotency key.
pub const fn post(fingerprint: u64) -> Request {
    Request {
        said: about::NOT_IDEMPOTENT,
        ..get(fingerprint)
    }
}

/// A request that was let go.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub caller: usize,
    pub request: Request,
    pub evidence: Evidence,
    pub link: Link,
    pub since: Nanos,
    pub probe: Option<Ticket>,
    pub audited: Audited,
}

/// How an exchange ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub outcome: Outcome,
    pub status: u32,
    pub retry_after: u32,
    pub advice: Advice,
}

impl Answer {
    /// An answer with this status, as the policy sees it.
    pub fn status(p: &Params, status: u32) -> Self {
        Self {
            outcome: p.outcome::<AtomicU64>(status),
            status,
            ..Self::none(Outcome::Success)
        }
    }

    /// No answer.
    pub const fn none(outcome: Outcome) -> Self {
        Self {
            outcome,
            status: 0,
            retry_after: 0,
            advice: Advice::None,
        }
    }
}

type Chains = HashMap<(usize, u64), Rc<Chain<AtomicU64>>>;

/// A node whose callers send requests.
pub struct Requests {
    pub node: Node,
    chains: RefCell<Chains>,
}

impl Requests {
    pub fn new(params: Params, callers: usize) -> Self {
        Self {
            node: Node::new(params, callers),
            chains: RefCell::default(),
        }
    }

    pub fn chain(&self, caller: usize, hash: u64) -> Rc<Chain<AtomicU64>> {
        Rc::clone(self.chains.borrow_mut().entry((caller, hash)).or_default())
    }

    /// What is known of a request.
    pub fn evidence(&self, caller: usize, now: Nanos, request: &Request) -> (Evidence, Link) {
        let (stamp, window) = (now.stamp(), self.node.params.evidence());
        let print = self.chain(caller, request.fingerprint).look(stamp, window);
        let named = self.chain(caller, !request.key).look(stamp, window);
        let name = if request.key == 0 {
            Name::None
        } else {
            Name::Strong(&named)
        };
        let history = self.node.callers[caller].workload.history();
        evidence::of_request(stamp, request.declared, &print, name, history)
    }

    fn judged(
        &self,
        caller: usize,
        now: Nanos,
        request: Request,
        random: u32,
        judge: impl FnOnce(&Attempt) -> Decision,
    ) -> Result<Sent, Decision> {
        let (evidence, link) = self.evidence(caller, now, &request);
        let repeat = Repeat {
            age: Millis(now.stamp().0.saturating_sub(link.started.0)),
            number: link.at_least(request.declared).number,
            about: link.about | request.said,
        };
        let p = &self.node.params;
        let attempt = Attempt::request(p, now, caller as u64 + 1, evidence, &repeat, random);
        let (probe, audited) = match judge(&attempt) {
            Decision::Go => (None, Audited::Admitted),
            Decision::Probe(ticket) => (Some(ticket), Audited::Admitted),
            Decision::WouldDeny(_) => (None, Audited::WouldDeny),
            Decision::Watch => (None, Audited::Watched),
            denied @ Decision::Deny(_) => return Err(denied),
        };
        // What would have been denied was never sent, as far as the law goes (I9).
        if audited != Audited::WouldDeny {
            let (stamp, window) = (now.stamp(), p.evidence());
            let chain = self.chain(caller, request.fingerprint);
            let workload = &self.node.callers[caller].workload;
            workload.learned(chain.sent(stamp, window));
            if request.key != 0 {
                self.chain(caller, !request.key).sent(stamp, window);
            }
        }
        Ok(Sent {
            caller,
            request,
            evidence,
            link,
            since: now,
            probe,
            audited,
        })
    }

    /// A request on a connection that has carried one.
    pub fn request(
        &self,
        caller: usize,
        now: Nanos,
        request: Request,
        random: u32,
    ) -> Result<Sent, Decision> {
        let (p, l) = (&self.node.params, self.node.ledgers(caller));
        self.judged(caller, now, request, random, |a| {
            judge::attempt(p, a, &l, &Orders::default())
        })
    }

    /// The first request on a connection.
    pub fn first_on_connection(
        &self,
        caller: usize,
        now: Nanos,
        request: Request,
        paid: Paid,
        orders: &Orders<'_>,
    ) -> Result<Sent, Decision> {
        let (p, l) = (&self.node.params, self.node.ledgers(caller));
        self.judged(caller, now, request, u32::MAX / 2, |a| {
            carried(p, a, paid, &l, orders)
        })
    }

    /// A request that must be let go.
    pub fn send(&self, caller: usize, now: Nanos, request: Request) -> Sent {
        self.request(caller, now, request, u32::MAX / 2)
            .expect("let go")
    }

    /// Sends it; why it is refused.
    pub fn refused(&self, caller: usize, now: Nanos, request: Request) -> Decision {
        self.request(caller, now, request, u32::MAX / 2)
            .expect_err("let go")
    }

    /// Its end.
    pub fn end(&self, sent: &Sent, now: Nanos, answer: Answer, random: u32) -> Move {
        let p = &self.node.params;
        let ending = Ending {
            now,
            entered: match sent.audited {
                Audited::Admitted => sent.since,
                Audited::WouldDeny | Audited::Watched => Nanos(0),
            },
            latency: now.since(sent.since).micros(),
            level: Level::Exchange,
            outcome: answer.outcome,
            status: answer.status,
            retry_after: answer.retry_after,
            probe: sent.probe.into(),
            audited: sent.audited,
            random,
        };
        if sent.audited != Audited::WouldDeny {
            let came = Came::of(answer.outcome, answer.status, answer.advice);
            let (stamp, window) = (now.stamp(), p.evidence());
            let chain = self.chain(sent.caller, sent.request.fingerprint);
            let equals = came.for_equals(answer.outcome, answer.status);
            let learned = chain.ended(stamp, window, &sent.link, equals);
            self.node.callers[sent.caller].workload.learned(learned);
            if sent.request.key != 0 {
                self.chain(sent.caller, !sent.request.key)
                    .ended(stamp, window, &sent.link, came);
            }
        }
        settle(p, &ending, &self.node.ledgers(sent.caller)).moved
    }

    /// Its end, with this status.
    pub fn answer(&self, sent: &Sent, now: Nanos, status: u32) -> Move {
        let answer = Answer::status(&self.node.params, status);
        self.end(sent, now, answer, u32::MAX / 2)
    }

    /// Its caller closes the connection without an answer, not at once: what that is.
    pub fn close(&self, sent: &Sent, now: Nanos) -> Outcome {
        let chain = self.chain(sent.caller, sent.request.fingerprint);
        let outcome = if chain.is_outrun(sent.since.stamp(), now.stamp()) {
            Outcome::Cancelled
        } else {
            Outcome::Timeout
        };
        self.end(sent, now, Answer::none(outcome), u32::MAX / 2);
        outcome
    }

    /// Thirty different requests that succeed: what the law needs to know that
    /// equal ones are the same.
    pub fn distinct(&self, caller: usize, from: Nanos) {
        for n in 0..30 {
            let now = Nanos(from.0 + n * 1_000_000);
            let sent = self.send(caller, now, get(1_000_000 + n));
            self.answer(&sent, Nanos(now.0 + 500_000), 200);
        }
    }
}
