//! Every kind of bad input, with the exact line it gives.

use super::parse;

pub const HEAD: &str =
    "apiVersion: governor.dev/v1alpha1\nkind: RetryPolicy\nmetadata: {name: a}\n";

pub fn lines(text: &str) -> Vec<String> {
    let errors = parse(text, "f.yaml").err().unwrap_or_default();
    errors.iter().map(ToString::to_string).collect()
}

/// The lines for a flow-style spec, which starts in line 4, column 7.
fn spec_lines(spec: &str) -> Vec<String> {
    lines(&format!("{HEAD}spec: {spec}\n"))
}

/// The only line, without what all of them begin with.
#[track_caller]
pub fn says(spec: &str, expected: &str) {
    let lines = spec_lines(spec);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(lines[0], format!("error: f.yaml:4:{expected}"));
}

#[test]
fn a_right_policy_has_no_errors() {
    assert_eq!(spec_lines("{}"), Vec::<String>::new());
}

#[test]
fn an_unknown_key_is_an_error_with_the_key_that_was_meant() {
    says(
        "{moed: Audit}",
        "8: spec.moed: unknown key: no such key here (did you mean mode?)",
    );
    says(
        "{retry: {backoff: 1s}}",
        "16: spec.retry.backoff: unknown key: no such key here \
         (known keys: attempts, codes, deadline, evidenceWindow, nonIdempotent)",
    );
    says(
        "{circuitBreaker: {OpenDuration: {}}}",
        "25: spec.circuitBreaker.OpenDuration: unknown key: no such key here (did you mean openDuration?)",
    );
}

#[test]
fn a_value_out_of_bounds_states_the_bounds() {
    says(
        "{retryConstraint: {budget: {percent: 120}}}",
        "44: spec.retryConstraint.budget.percent: 120 is out of bounds: 0 to 100",
    );
    says(
        "{retryConstraint: {budget: {interval: 90s}}}",
        "45: spec.retryConstraint.budget.interval: 1m30s is out of bounds: 1s to 1m",
    );
    says(
        "{retry: {attempts: 101}}",
        "26: spec.retry.attempts: 101 is out of bounds: 0 to 100",
    );
    says(
        "{retry: {attempts: -1}}",
        "26: spec.retry.attempts: -1 is out of bounds: 0 to 100",
    );
    says(
        "{retry: {attempts: 99999999999999999999}}",
        "26: spec.retry.attempts: 99999999999999999999 is out of bounds: 0 to 100",
    );
    says(
        "{concurrency: {minLimit: 0}}",
        "32: spec.concurrency.minLimit: 0 is out of bounds: 1 to 100000",
    );
    says(
        "{concurrency: {latencyTolerance: 1}}",
        "40: spec.concurrency.latencyTolerance: 1 is out of bounds: 1.1 to 100",
    );
    says(
        "{destinations: [{ports: [0]}]}",
        "32: spec.destinations[0].ports[0]: 0 is out of bounds: 1 to 65535",
    );
    says(
        "{destinations: [{ports: [70000]}]}",
        "32: spec.destinations[0].ports[0]: 70000 is out of bounds: 1 to 65535",
    );
    says(
        "{circuitBreaker: {openDuration: {max: 10m}}}",
        "45: spec.circuitBreaker.openDuration.max: 10m is out of bounds: 100ms to 5m",
    );
    says(
        "{retry: {codes: [200]}}",
        "24: spec.retry.codes[0]: 200 is out of bounds: 400 to 599",
    );
}

#[test]
fn a_wrong_duration_shows_how_to_write_one() {
    says(
        "{retry: {deadline: 10}}",
        "26: spec.retry.deadline: 10 is not a duration: it has no unit (write 10s, or 10ms)",
    );
    says(
        "{retry: {deadline: 1d}}",
        "26: spec.retry.deadline: 1d is not a duration: its unit is not one of ns, us, ms, s, m, h \
         (write it like 250ms, 10s or 1m30s)",
    );
    says(
        "{deny: {retryAfter: 1500ms}}",
        "27: spec.deny.retryAfter: 1.5s is not a number of seconds: Retry-After carries whole ones (write 2s)",
    );
}

#[test]
fn a_wrong_enum_value_lists_the_values() {
    says(
        "{mode: enforce}",
        "14: spec.mode: enforce is not a value here: it is one of Audit, Enforce, Disabled (did you mean Enforce?)",
    );
    says(
        "{protocol: Grpc}",
        "18: spec.protocol: Grpc is not a value here: it is one of Auto, Http1, Opaque",
    );
    says(
        "{deny: {connect: EPERM}}",
        "24: spec.deny.connect: EPERM is not a value here: it is one of ECONNREFUSED, EHOSTUNREACH",
    );
}

#[test]
fn a_boolean_in_place_of_an_enum_is_explained() {
    says(
        "{mode: off}",
        "14: spec.mode: off is not a value here: YAML 1.1 readers make a boolean of it \
         (write one of Audit, Enforce, Disabled)",
    );
    says(
        "{circuitBreaker: {mode: true}}",
        "31: spec.circuitBreaker.mode: true is not a value here: YAML 1.1 readers make a boolean of it \
         (write one of Enabled, Disabled)",
    );
}

#[test]
fn a_boolean_is_true_or_false() {
    says(
        "{pushback: {honorRetryAfter: yes}}",
        "36: spec.pushback.honorRetryAfter: yes is not a boolean: it is true or false",
    );
}

#[test]
fn a_wrong_number_says_what_is_wrong_with_it() {
    let at = "44: spec.retryConstraint.budget.percent";
    let percent = |text: &str| format!("{{retryConstraint: {{budget: {{percent: {text}}}}}}}");
    says(
        &percent("10%"),
        &format!("{at}: 10% is not a percentage: it is not a number (write 10)"),
    );
    says(
        &percent("1.234"),
        &format!(
            "{at}: 1.234 is not a percentage: it has more than two decimals (write it like 10 or 12.5)"
        ),
    );
    says(
        &percent("\"10\""),
        &format!("{at}: quoted text: a number is wanted (remove the quotes)"),
    );
    says(
        &percent(".nan"),
        &format!("{at}: .nan is not a percentage: it is not a number (write it like 10 or 12.5)"),
    );
    says(
        "{retry: {attempts: 010}}",
        "26: spec.retry.attempts: 010 is not a whole number: 0 to 100 is wanted",
    );
    says(
        "{retry: {attempts: 1.5}}",
        "26: spec.retry.attempts: 1.5 is not a whole number: 0 to 100 is wanted",
    );
}

#[test]
fn nothing_is_a_value_only_where_it_has_a_meaning() {
    assert_eq!(
        spec_lines("{circuitBreaker: {failurePercent: null}}"),
        Vec::<String>::new()
    );
    assert_eq!(
        spec_lines("{circuitBreaker: {failurePercent: 50}}"),
        Vec::<String>::new()
    );
    says(
        "{mode: }",
        "12: spec.mode: nothing: a value is wanted (remove the key for the default)",
    );
    says(
        "{retry: ~}",
        "15: spec.retry: nothing: a mapping of keys is wanted (remove the key for the defaults)",
    );
}

#[test]
fn the_wrong_shape_is_named() {
    says(
        "{retry: 3}",
        "15: spec.retry: a single value: a mapping of keys is wanted",
    );
    says(
        "{retry: [3]}",
        "15: spec.retry: a list: a mapping of keys is wanted",
    );
    says(
        "{mode: [Audit]}",
        "14: spec.mode: a list: a single value is wanted",
    );
    says(
        "{retry: {codes: 503}}",
        "23: spec.retry.codes: a single value: a list is wanted (write [a, b])",
    );
    says(
        "{workloads: {cgroup: /a}}",
        "19: spec.workloads: a mapping: a list is wanted (write [a, b])",
    );
}

#[test]
fn an_empty_list_is_not_everything() {
    says(
        "{workloads: []}",
        "19: spec.workloads: 0 items is out of bounds: 1 to 64 (remove the key for the default)",
    );
    assert_eq!(spec_lines("{retry: {codes: []}}"), Vec::<String>::new());
}

#[test]
fn a_list_that_is_too_long_is_refused_once() {
    let codes = vec!["x"; 201].join(",");
    says(
        &format!("{{retry: {{codes: [{codes}]}}}}"),
        "23: spec.retry.codes: 201 items is out of bounds: 0 to 200",
    );
}

#[test]
fn a_repeat_in_a_list_is_an_error() {
    says(
        "{retry: {codes: [503, 503]}}",
        "29: spec.retry.codes[1]: a repeat: it is in the list already (remove it)",
    );
}

#[test]
fn values_that_contradict_each_other_are_errors() {
    says(
        "{circuitBreaker: {openDuration: {base: 6s}}}",
        "46: spec.circuitBreaker.openDuration.base: base 6s is over max 5s: \
         the first open time can't be longer than the longest (set both)",
    );
    says(
        "{concurrency: {mode: Fixed}}",
        "21: spec.concurrency.limit: missing: mode Fixed needs a limit (write limit: 100)",
    );
    says(
        "{concurrency: {limit: 5}}",
        "29: spec.concurrency.limit: no use for it: the mode is Adaptive (set mode: Fixed, or remove limit)",
    );
}

#[test]
fn a_destination_names_something_that_can_be_looked_up() {
    says(
        "{destinations: [{name: x}]}",
        "23: spec.destinations[0]: names nothing: hosts, cidrs or ports are wanted \
         (for every destination leave destinations out)",
    );
    says(
        "{destinations: [{hosts: [10.0.0.1]}]}",
        "32: spec.destinations[0].hosts[0]: 10.0.0.1 is not a host name: it is an address (list it under cidrs)",
    );
    says(
        "{destinations: [{hosts: [\"*.internal\"]}]}",
        "32: spec.destinations[0].hosts[0]: *.internal is not a host name: labels of letters, digits and - \
         are wanted, the last not a number (a name is resolved, so it can't hold *; list networks under cidrs)",
    );
    says(
        "{destinations: [{hosts: [\"auth:80\"]}]}",
        "32: spec.destinations[0].hosts[0]: auth:80 is not a host name: labels of letters, digits and - \
         are wanted, the last not a number (ports go under ports)",
    );
    says(
        "{destinations: [{cidrs: [10.0.0.5/24]}]}",
        "32: spec.destinations[0].cidrs[0]: 10.0.0.5/24 is not a network: it has bits behind the prefix \
         (write 10.0.0.0/24 or 10.0.0.5)",
    );
    says(
        "{destinations: [{cidrs: [10.0.0.0/33]}]}",
        "32: spec.destinations[0].cidrs[0]: 10.0.0.0/33 is not a network: an address and a prefix length are wanted \
         (write it like 10.0.8.0/24 or \"fd00:8::/64\")",
    );
}

#[test]
fn a_glob_that_can_match_no_cgroup_is_an_error() {
    let hint = "(write it like \"/system.slice/my-*.service\")";
    let at = "29: spec.workloads[0].cgroup";
    says(
        "{workloads: [{cgroup: a.service}]}",
        &format!(
            "{at}: a.service is not a cgroup glob: a path below the cgroup root starts with / {hint}"
        ),
    );
    says(
        "{workloads: [{cgroup: /a/}]}",
        &format!("{at}: /a/ is not a cgroup glob: a level is empty, . or .. {hint}"),
    );
    says(
        "{workloads: [{cgroup: \"/a[\"}]}",
        &format!("{at}: /a[ is not a cgroup glob: unclosed character class; missing ']' {hint}"),
    );
    says(
        "{workloads: [{}]}",
        "20: spec.workloads[0].cgroup: missing: the key is required (write cgroup: \"/system.slice/my-*.service\")",
    );
}

#[test]
fn a_file_of_many_unknown_keys_is_refused_in_time() {
    let start = std::time::Instant::now();
    let keys: String = (0..50_000).map(|i| format!("  k{i}: 1\n")).collect();
    assert_eq!(lines(&format!("{HEAD}spec:\n{keys}")).len(), 50_000);
    assert!(start.elapsed().as_secs() < 10);
}

#[test]
fn a_name_fits_labels_and_urls() {
    let named = |name: &str| {
        lines(&format!(
            "{}spec: {{}}\n",
            HEAD.replace("name: a", &format!("name: {name}"))
        ))
    };
    assert_eq!(
        named("My_Auth"),
        [
            "error: f.yaml:3:18: metadata.name: My_Auth is not a name: 1 to 63 of a-z, 0-9, - and ., \
          first and last a letter or digit (write my-auth)"
        ]
    );
    assert_eq!(
        named("other"),
        ["error: f.yaml:3:18: metadata.name: other is not a name: metrics put the rest under it"]
    );
}

#[test]
fn every_required_key_that_is_missing_is_named() {
    assert_eq!(
        lines("metadata: {}\n"),
        [
            "error: f.yaml:1:1: apiVersion: missing: the key is required (write apiVersion: governor.dev/v1alpha1)",
            "error: f.yaml:1:1: kind: missing: the key is required (write kind: RetryPolicy)",
            "error: f.yaml:1:1: spec: missing: the key is required (write spec: {} for the defaults)",
            "error: f.yaml:1:11: metadata.name: missing: the key is required (write name: my-policy)",
        ]
    );
}

#[test]
fn another_kind_or_version_is_refused() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nspec: {}\n";
    assert_eq!(
        lines(text),
        [
            "error: f.yaml:1:13: apiVersion: v1 is not known here: it is governor.dev/v1alpha1",
            "error: f.yaml:2:7: kind: ConfigMap is not known here: it is RetryPolicy",
        ]
    );
}

#[test]
fn all_mistakes_of_a_file_are_reported_in_order() {
    let text = format!(
        "{HEAD}spec:\n  mode: audit\n  retyr: {{}}\n---\n{HEAD}spec: {{retry: {{attempts: x}}}}\n"
    );
    let lines = lines(&text);
    let starts = [
        "error: f.yaml:5:9: spec.mode:",
        "error: f.yaml:6:3: spec.retyr:",
        "error: f.yaml:11:26: spec.retry.attempts:",
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
}

#[test]
fn what_is_not_yaml_is_refused_where_it_breaks() {
    assert_eq!(
        lines("a: [1\n"),
        ["error: f.yaml:1:4: not YAML: unclosed bracket '['"]
    );
    let text = format!("{HEAD}spec:\n  mode: Audit\n\tretry: {{}}\n");
    assert_eq!(
        lines(&text),
        [
            "error: f.yaml:5:9: not YAML: while scanning a plain scalar, found a tab (indent with spaces)"
        ]
    );
    assert_eq!(
        lines(&"[".repeat(10_000)),
        [
            "error: f.yaml:1:17: not YAML: recursion limit exceeded (a policy needs less than 16 levels)"
        ]
    );
}

#[test]
fn a_key_given_twice_names_the_first() {
    says(
        "{mode: Audit, mode: Enforce}",
        "21: mode: the key is given twice, first in line 4",
    );
}

#[test]
fn aliases_tags_and_keys_that_are_not_text_are_refused() {
    assert_eq!(
        spec_lines("{retry: &r {attempts: 1}, pacing: *r}")[0],
        "error: f.yaml:4:41: alias: a policy file has none (write the value out)"
    );
    says(
        "{mode: !!str Audit}",
        "20: tag: a policy file has none (remove the !)",
    );
    says("{[a]: 1}", "8: key: it is not text");
}

#[test]
fn a_text_without_policies_is_refused() {
    for text in ["", "# nothing\n", "---\n---\n"] {
        assert_eq!(
            lines(text),
            [
                "error: f.yaml: no policy: the file holds nothing (start from `retry-governor policy default`)"
            ]
        );
    }
    assert_eq!(
        lines("- a\n"),
        ["error: f.yaml:1:1: a list: a mapping of keys is wanted"]
    );
}

#[test]
fn a_text_of_the_user_can_not_break_the_line() {
    let lines = spec_lines("{\"a\\nb\\e[31m\": 1}");
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].contains(r"spec.a\nb\u{1b}[31m: unknown key"),
        "{}",
        lines[0]
    );
    let lines = spec_lines(&format!("{{mode: {}}}", "x".repeat(5000)));
    assert!(lines[0].len() < 300);
}
