//! What `--listen` serves: metrics and health.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::task::block_in_place;

use super::node::Node;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The routes of `--listen`.
pub fn router(node: Arc<Node>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        // Alive: it answers. Whether anything is attached is for readiness: a
        // restart would not bring back a cgroup that is gone.
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state(node)
}

async fn metrics(State(node): State<Arc<Node>>) -> Response {
    match block_in_place(|| node.metrics()) {
        Ok(text) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(failure) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{failure}\n")).into_response(),
    }
}

async fn ready(State(node): State<Arc<Node>>) -> Response {
    let missing = block_in_place(|| node.not_attached());
    if missing.is_empty() {
        return "ok\n".into_response();
    }
    let why = format!(
        "not attached to {}: {}\n",
        node.root.display(),
        missing.join(", ")
    );
    (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
}
