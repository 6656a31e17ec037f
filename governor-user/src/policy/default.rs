//! The default policy as a commented file, for `policy default`.

/// The file.
pub const TEXT: &str = include_str!("default.yaml");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parse;
    use crate::policy::schema::Spec;

    #[test]
    fn the_default_file_says_the_default_values() {
        let policies = parse(TEXT, "default.yaml").unwrap();
        assert_eq!(policies.len(), 1);
        assert_eq!(policies[0].name, "default");
        assert_eq!(policies[0].spec, Spec::default());
    }

    #[test]
    fn the_default_file_shows_every_key() {
        fn keys(value: &serde_json::Value, found: &mut Vec<String>) {
            for (key, value) in value.as_object().into_iter().flatten() {
                found.push(key.clone());
                keys(value, found);
            }
        }
        let mut found = Vec::new();
        keys(&serde_json::to_value(Spec::default()).unwrap(), &mut found);
        found.extend(["workloads", "cgroup", "destinations", "limit"].map(String::from));
        assert!(found.len() > 40);
        for key in found {
            assert!(TEXT.contains(&format!("{key}:")), "{key} is not shown");
        }
    }

    #[test]
    fn the_examples_in_its_comments_are_right() {
        let text = TEXT
            .lines()
            .map(|line| match line.strip_prefix("  # ") {
                Some(rest) if rest.starts_with(['w', 'd']) || rest.starts_with("  - ") => {
                    format!("  {rest}\n")
                }
                _ => format!("{line}\n"),
            })
            .collect::<String>();
        let policies = parse(&text, "default.yaml").unwrap();
        assert_eq!(policies[0].spec.workloads.len(), 1);
        assert_eq!(policies[0].spec.destinations.len(), 2);
    }
}
