//! What is written is what is read; and nothing that is read panics.

use proptest::prelude::*;

use super::bad_input_tests::HEAD;
use super::{arbitrary, parse, show};

#[test]
fn every_key_of_a_policy_is_understood() {
    let text = format!(
        "{HEAD}spec:
  mode: Audit
  workloads:
    - cgroup: \"/system.slice/legacy-*.service\"
  destinations:
    - {{name: auth, hosts: [auth.internal], ports: [8080]}}
    - {{name: db, cidrs: [10.0.8.0/24, \"fd00:8::/64\"], ports: [5432, 6432]}}
  protocol: Auto
  retryConstraint:
    budget: {{percent: 10, interval: 10s}}
    minRetryRate: {{count: 10, interval: 1s}}
    maxReserveShare: 50
  retry:
    attempts: 3
    codes: [429, 500, 502, 503, 504]
    deadline: 30s
    evidenceWindow: 10s
    nonIdempotent: Deny
  circuitBreaker:
    mode: Enabled
    silence: {{failures: 20, duration: 2s}}
    consecutiveFailures: 7
    failurePercent: null
    interval: 10s
    openDuration: {{base: 1s, max: 5s, jitterPercent: 50}}
    probeTimeout: 5s
    ramp: 1s
  concurrency: {{mode: Adaptive, minLimit: 1, latencyTolerance: 2.0}}
  pacing: {{jitter: Full, maxDelay: 250ms}}
  pushback: {{honorRetryAfter: true, maxRetryAfter: 30s}}
  deny: {{connect: ECONNREFUSED, request: Respond503, retryAfter: 1s}}
"
    );
    let mut policies = parse(&text, "auth.yaml").unwrap();
    let spec = &mut policies[0].spec;
    assert_eq!(spec.workloads.len(), 1);
    assert_eq!(spec.destinations[1].label(), "db");
    spec.workloads.clear();
    spec.destinations.clear();
    assert_eq!(*spec, super::schema::Spec::default());
}

#[test]
fn a_destination_without_a_name_is_called_by_what_it_names() {
    let entries = "{hosts: [a.b], ports: [80, 81]}, {cidrs: [10.0.0.0/8]}, {cidrs: [\"fd00::/8\"], ports: [1]}, {ports: [8080]}";
    let text = format!("{HEAD}spec: {{destinations: [{entries}]}}\n");
    let policies = parse(&text, "f.yaml").unwrap();
    let labels: Vec<_> = policies[0]
        .spec
        .destinations
        .iter()
        .map(|d| d.label())
        .collect();
    assert_eq!(
        labels,
        ["a.b:80,81", "10.0.0.0/8", "[fd00::/8]:1", "*:8080"]
    );
}

#[test]
fn json_is_a_list_in_camel_case() {
    let policies = parse(&format!("{HEAD}spec: {{}}\n"), "f.yaml").unwrap();
    let json: serde_json::Value = serde_json::from_str(&show::json(&policies).unwrap()).unwrap();
    assert_eq!(json["kind"], "RetryPolicyList");
    let policy = &json["items"][0];
    assert_eq!(policy["apiVersion"], "governor.dev/v1alpha1");
    assert_eq!(policy["metadata"]["name"], "a");
    assert_eq!(
        policy["spec"]["circuitBreaker"]["failurePercent"],
        serde_json::Value::Null
    );
    assert_eq!(
        policy["spec"]["retryConstraint"]["budget"]["interval"],
        "10s"
    );
    assert_eq!(policy["spec"]["deny"]["connect"], "ECONNREFUSED");
}

proptest! {
    #[test]
    fn a_policy_reads_back_as_it_was_shown(policies in arbitrary::policies()) {
        let text = show::yaml(&policies).unwrap();
        match super::check::read(&text, "shown.yaml") {
            Ok(again) => prop_assert_eq!(again, policies),
            Err(errors) => prop_assert!(false, "{}\n{}", errors[0], text),
        }
    }

    #[test]
    fn any_bytes_are_policies_or_errors_on_one_line(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        each_on_one_line(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn any_yaml_punctuation_is_policies_or_errors_on_one_line(text in "([-a:{}\\[\\]&*!|>'\"%#?,~ \n\t]|spec|---|\r\n){0,80}") {
        each_on_one_line(&text)?;
    }

    #[test]
    fn a_damaged_policy_is_a_policy_or_errors_on_one_line(
        at in 0..super::default::TEXT.len(),
        len in 0usize..40,
        put in "\\PC{0,4}|\n|\t",
    ) {
        let text = super::default::TEXT;
        let cut = |i: usize| (0..=i.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap();
        let (start, end) = (cut(at), cut(at + len));
        each_on_one_line(&format!("{}{put}{}", &text[..start], &text[end..]))?;
    }
}

fn each_on_one_line(text: &str) -> Result<(), TestCaseError> {
    for error in parse(text, "any.yaml").err().unwrap_or_default() {
        let line = error.to_string();
        prop_assert!(line.starts_with("error: any.yaml"));
        prop_assert!(!line.contains(['\n', '\r', '\t', '\u{1b}']), "{}", line);
    }
    Ok(())
}
