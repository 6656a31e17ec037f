//! The control socket's requests and answers.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, FromRequest, Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Json, Router};
use futures_util::{Stream, StreamExt as _, stream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::block_in_place;

use super::eventlog::{Entry, Kind};
use super::gain;
use super::node::Node;
use super::operators::Declined;
use super::orders::{Breakers, Retries, Shed};
use super::serve::{Peer, Streaming};
use crate::client::Refusal;
use crate::errors::Failure;
use crate::policy;

/// Largest request body: policies have a mebibyte on disk, but nobody sends one here.
const LARGEST: usize = 64 * 1024;
/// Event streams at once: half of the connections stay for orders.
const STREAMS: usize = 32;

/// The daemon, and how many may listen to it.
#[derive(Clone)]
struct Control {
    node: Arc<Node>,
    streams: Arc<Semaphore>,
}

/// The routes of the control socket.
pub fn router(node: Arc<Node>) -> Router {
    let control = Control {
        node,
        streams: Arc::new(Semaphore::new(STREAMS)),
    };
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/gain", get(gain))
        .route("/v1/events", get(events))
        .route("/v1/orders", get(orders))
        .route("/v1/retries", put(retries))
        .route("/v1/shed", put(shed))
        .route("/v1/breakers/{destination}", put(breakers))
        .route("/v1/policy", get(show_policy))
        .route("/v1/policy/check", post(check_policy))
        .fallback(async || no(StatusCode::NOT_FOUND, "path: there is nothing here"))
        .method_not_allowed_fallback(async || {
            no(StatusCode::METHOD_NOT_ALLOWED, "method: not allowed here")
        })
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(control)
}

/// An answer that says no, in one line.
fn no(status: StatusCode, why: impl Into<String>) -> Response {
    let error = why.into().split_whitespace().collect::<Vec<_>>().join(" ");
    (status, Json(Refusal { error })).into_response()
}

impl IntoResponse for Declined {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(why) => no(StatusCode::BAD_REQUEST, why),
            Self::Unknown(why) => no(StatusCode::NOT_FOUND, why),
            Self::Overruled(why) => no(StatusCode::CONFLICT, why),
            Self::Failed(failure) => failed(&failure),
        }
    }
}

fn failed(failure: &Failure) -> Response {
    let line = failure.to_string();
    no(
        StatusCode::INTERNAL_SERVER_ERROR,
        line.trim_start_matches("error: "),
    )
}

/// A body in JSON, whatever its content type: `curl -d` says it is a form.
struct Sent<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let Text(text) = Text::from_request(request, state).await?;
        match serde_json::from_str(&text) {
            Ok(value) => Ok(Self(value)),
            Err(error) => Err(no(StatusCode::BAD_REQUEST, format!("body: {error}"))),
        }
    }
}

/// A body that is text, and not too long.
struct Text(String);

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        match String::from_request(request, state).await {
            Ok(text) => Ok(Self(text)),
            Err(rejected) => Err(no(
                rejected.status(),
                format!("body: {}", rejected.body_text()),
            )),
        }
    }
}

fn answer<T: Serialize>(result: Result<T, Declined>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(declined) => declined.into_response(),
    }
}

async fn status(State(control): State<Control>) -> Response {
    answer(block_in_place(|| control.node.status()).map_err(Declined::from))
}

/// `GET /v1/gain`, `?seconds=0.5`.
async fn gain(
    State(control): State<Control>,
    wanted: Result<Query<gain::Wanted>, QueryRejection>,
) -> Response {
    match wanted {
        Ok(Query(wanted)) => answer(gain::measure(&control.node, wanted).await),
        Err(rejected) => no(
            rejected.status(),
            format!("query: {}", rejected.body_text()),
        ),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Concerned {
    destination: Option<String>,
}

/// `GET /v1/orders`, `?destination=auth`.
async fn orders(
    State(control): State<Control>,
    concerned: Result<Query<Concerned>, QueryRejection>,
) -> Response {
    match concerned {
        Ok(Query(concerned)) => answer(block_in_place(|| match &concerned.destination {
            None => Ok(control.node.orders()),
            Some(name) => control.node.orders_of(name),
        })),
        Err(rejected) => no(
            rejected.status(),
            format!("query: {}", rejected.body_text()),
        ),
    }
}

async fn retries(
    State(control): State<Control>,
    Extension(peer): Extension<Peer>,
    Sent(request): Sent<Retries>,
) -> Response {
    answer(block_in_place(|| {
        control.node.order_retries(&request, peer.into())
    }))
}

async fn shed(
    State(control): State<Control>,
    Extension(peer): Extension<Peer>,
    Sent(request): Sent<Shed>,
) -> Response {
    answer(block_in_place(|| {
        control.node.order_shed(&request, peer.into())
    }))
}

async fn breakers(
    State(control): State<Control>,
    Extension(peer): Extension<Peer>,
    destination: Result<Path<String>, PathRejection>,
    Sent(request): Sent<Breakers>,
) -> Response {
    let destination = match destination {
        Ok(Path(destination)) => destination,
        Err(rejected) => return no(rejected.status(), format!("path: {}", rejected.body_text())),
    };
    answer(block_in_place(|| {
        control
            .node
            .order_breakers(&destination, &request, peer.into())
    }))
}

async fn show_policy(State(control): State<Control>) -> Response {
    let state = control.node.state();
    match policy::show::json(&state.in_force.policies) {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => failed(&Failure::from(error)),
    }
}

/// `POST /v1/policy/check`: the text of a policy file, answered with every mistake.
async fn check_policy(Text(text): Text) -> Response {
    #[derive(Serialize)]
    struct Checked {
        valid: bool,
        policies: Vec<String>,
        notes: Vec<String>,
        errors: Vec<String>,
    }
    let checked = match policy::parse(&text, "request") {
        Ok(policies) => Checked {
            valid: true,
            notes: policy::notes::notes(&policies),
            policies: policies.into_iter().map(|policy| policy.name).collect(),
            errors: Vec::new(),
        },
        Err(errors) => Checked {
            valid: false,
            policies: Vec::new(),
            notes: Vec::new(),
            errors: errors.iter().map(ToString::to_string).collect(),
        },
    };
    Json(checked).into_response()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    destination: Option<String>,
    #[serde(default = "follow")]
    follow: bool,
}

fn follow() -> bool {
    true
}

/// `GET /v1/events`: what is kept, then what comes, one JSON object per line.
async fn events(
    State(control): State<Control>,
    Extension(streaming): Extension<Streaming>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let wanted = match wanted {
        Ok(Query(wanted)) => wanted,
        Err(rejected) => {
            return no(
                rejected.status(),
                format!("query: {}", rejected.body_text()),
            );
        }
    };
    if let Some(name) = &wanted.destination
        && let Err(Declined::Unknown(why)) = control.node.knows(name)
    {
        return no(StatusCode::NOT_FOUND, why);
    }
    let Ok(place) = Arc::clone(&control.streams).try_acquire_owned() else {
        return no(
            StatusCode::TOO_MANY_REQUESTS,
            format!("events: {STREAMS} listeners already (end one)"),
        );
    };
    let (kept, live) = control.node.events.follow();
    let live = match wanted.follow {
        true => {
            streaming.begin();
            Some(live)
        }
        false => None,
    };
    let entries = stream::iter(kept).chain(following(live, place));
    let lines = entries.filter_map(move |entry| {
        let wanted = wanted
            .destination
            .as_deref()
            .is_none_or(|destination| entry.concerns(destination));
        let line = wanted
            .then(|| serde_json::to_string(&*entry).ok())
            .flatten();
        std::future::ready(line.map(|line| Ok::<_, Infallible>(line + "\n")))
    });
    (
        [(header::CONTENT_TYPE, "application/jsonl")],
        Body::from_stream(lines),
    )
        .into_response()
}

/// New entries, for as long as they are wanted. Who is too slow is told what it missed.
fn following(
    live: Option<broadcast::Receiver<Arc<Entry>>>,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = Arc<Entry>> {
    stream::unfold((live, place), async |(mut live, place)| {
        let entry = match live.as_mut()?.recv().await {
            Ok(entry) => entry,
            Err(RecvError::Closed) => return None,
            Err(RecvError::Lagged(missed)) => Arc::new(Entry {
                count: Some(missed),
                ..Entry::now(
                    Kind::Lost,
                    format!("{missed} events were missed: this listener is too slow"),
                )
            }),
        };
        Some((entry, (live, place)))
    })
}
