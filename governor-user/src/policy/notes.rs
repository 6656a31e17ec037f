//! What is valid and does less than it says.

use super::choices::Protocol;
use super::schema::Policy;

/// One line for each, `FILE:LINE: ...`.
pub fn notes(policies: &[Policy]) -> Vec<String> {
    let http1 = policies
        .iter()
        .filter(|policy| policy.spec.protocol == Protocol::Http1);
    let note = |Policy { name, source, .. }: &Policy| {
        format!(
            "{}:{}: policy {name}: spec.protocol: Http1 does what Auto does: what can't be read as HTTP/1 is not \
             refused, and is followed as turns (bytes out, bytes in)",
            source.file, source.name.line
        )
    };
    http1.map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_that_is_no_more_than_auto_is_noted_with_its_place() {
        let of = |protocol: &str| {
            let text = format!(
                "apiVersion: governor.dev/v1alpha1\nkind: RetryPolicy\nmetadata: {{name: auth}}\n\
                 spec: {{protocol: {protocol}}}\n"
            );
            notes(&crate::policy::parse(&text, "auth.yaml").unwrap())
        };
        assert!(of("Http1")[0].starts_with("auth.yaml:3: policy auth: spec.protocol: Http1 does"));
        assert!(of("Auto").is_empty() && of("Opaque").is_empty());
    }
}
