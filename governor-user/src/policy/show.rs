//! Policies as text again, with every default filled in.

use serde::Serialize;

use super::schema::{API_VERSION, Policy};

/// As a file of policies; reads back as the same ones.
pub fn yaml(policies: &[Policy]) -> anyhow::Result<String> {
    let documents: Result<Vec<_>, _> = policies.iter().map(serde_saphyr::to_string).collect();
    Ok(documents?.join("---\n"))
}

/// As one JSON list, in the shape of kubectl.
pub fn json(policies: &[Policy]) -> anyhow::Result<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        api_version: &'a str,
        kind: &'a str,
        items: &'a [Policy],
    }
    Ok(serde_json::to_string_pretty(&List {
        api_version: API_VERSION,
        kind: "RetryPolicyList",
        items: policies,
    })?)
}
