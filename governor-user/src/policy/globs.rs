//! Which workloads a policy names: globs of cgroup paths.
//!
//! `*` stays within one level, `**` crosses levels. A backslash is a backslash:
//! systemd writes `-` in a unit name as `\x2d`, and such a path must work as it
//! was copied. What lies below a selected cgroup is selected: a workload can't
//! leave its policy by making a child cgroup.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::error::{Wrong, one_line};
use super::schema::Policy;
use super::yaml::Scalar;

/// A glob that works, as it was written.
pub fn check(scalar: &Scalar) -> Result<String, Wrong> {
    let text = scalar.text.as_str();
    let example = "write it like \"/system.slice/my-*.service\"";
    let shown = one_line(text);
    let refuse = |why: &str| {
        let wrong = Wrong::new(format!("{shown} is not a cgroup glob: {why}"));
        Err(wrong.hint(example))
    };
    if !text.starts_with('/') {
        return refuse("a path below the cgroup root starts with /");
    }
    if text.len() > 4096 {
        return refuse("a path has at most 4096 bytes");
    }
    if text.len() > 1
        && text
            .split('/')
            .skip(1)
            .any(|l| matches!(l, "" | "." | ".."))
    {
        return refuse("a level is empty, . or ..");
    }
    // Also what the glob grows to is bounded; only building it tells.
    match glob(text).and_then(|glob| GlobSetBuilder::new().add(glob).build()) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => refuse(&error.kind().to_string()),
    }
}

fn glob(text: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(text)
        .literal_separator(true)
        .backslash_escape(false)
        .build()
}

/// The globs of all policies.
#[derive(Debug)]
pub struct Selectors {
    globs: GlobSet,
    /// The policy of each glob.
    policies: Vec<usize>,
}

impl Selectors {
    /// Compiles the globs of these policies.
    pub fn new(policies: &[Policy]) -> Result<Self, globset::Error> {
        let mut builder = GlobSetBuilder::new();
        let mut owners = Vec::new();
        for (index, policy) in policies.iter().enumerate() {
            for workload in &policy.spec.workloads {
                builder.add(glob(&workload.cgroup)?);
                owners.push(index);
            }
        }
        Ok(Self {
            globs: builder.build()?,
            policies: owners,
        })
    }

    /// The policies that name this cgroup or one above it, in file order.
    pub fn policies_of(&self, cgroup_path: &str) -> Vec<usize> {
        let mut found: Vec<_> = self_and_ancestors(cgroup_path)
            .flat_map(|path| self.globs.matches(path))
            .filter_map(|glob| self.policies.get(glob).copied())
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

fn self_and_ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rfind('/')? {
        0 if path.len() > 1 => Some("/"),
        0 => None,
        end => path.get(..end),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let mut builder = GlobSetBuilder::new();
        builder.add(glob(pattern).unwrap());
        let selectors = Selectors {
            globs: builder.build().unwrap(),
            policies: vec![0],
        };
        !selectors.policies_of(path).is_empty()
    }

    #[test]
    fn a_star_stays_within_one_level() {
        assert!(matches(
            "/system.slice/legacy-*.service",
            "/system.slice/legacy-a.service"
        ));
        assert!(!matches(
            "/system.slice/*.service",
            "/system.slice/x.slice/a.service"
        ));
        assert!(matches(
            "/system.slice/**/a.service",
            "/system.slice/x.slice/a.service"
        ));
        assert!(!matches("/system.slice/legacy-*", "/other.slice/legacy-a"));
    }

    #[test]
    fn what_lies_below_a_selected_cgroup_is_selected() {
        assert!(matches(
            "/system.slice/a.service",
            "/system.slice/a.service/own/leaf"
        ));
        assert!(!matches(
            "/system.slice/a.service",
            "/system.slice/a.service2"
        ));
        assert!(matches("/", "/system.slice"));
    }

    #[test]
    fn a_path_with_the_escapes_of_systemd_matches_as_it_was_copied() {
        assert!(matches(
            r"/system.slice/a\x2db-*.service",
            r"/system.slice/a\x2db-1.service"
        ));
    }

    #[test]
    fn a_path_and_its_ancestors_end_at_the_root() {
        let all: Vec<_> = self_and_ancestors("/a/b").collect();
        assert_eq!(all, ["/a/b", "/a", "/"]);
        assert_eq!(self_and_ancestors("/").collect::<Vec<_>>(), ["/"]);
        assert_eq!(self_and_ancestors("").collect::<Vec<_>>(), [""]);
    }
}
