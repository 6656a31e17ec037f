//! Mistakes between policies and of whole files, with the exact line.

use std::fs;
use std::path::PathBuf;

use super::bad_input_tests::{HEAD, lines, says};
use super::error::Cause;
use super::load;

#[test]
fn two_policies_of_one_name_are_an_error_that_names_the_first() {
    let text = format!("{HEAD}spec: {{}}\n---\n{HEAD}spec: {{workloads: [{{cgroup: /x}}]}}\n");
    assert_eq!(
        lines(&text),
        [
            "error: f.yaml:8:18: metadata.name: a is taken: policy a (f.yaml:3) (give each policy its own name)"
        ]
    );
}

#[test]
fn two_destinations_of_one_name_are_an_error() {
    says(
        "{destinations: [{name: x, ports: [1]}, {name: x, ports: [2]}]}",
        "46: spec.destinations[1].name: x is taken: by destinations[0] (give each destination its own name)",
    );
}

fn two(first: &str, second: &str) -> Vec<String> {
    let b = HEAD.replace("name: a", "name: b");
    lines(&format!("{HEAD}spec: {first}\n---\n{b}spec: {second}\n"))
}

#[test]
fn two_equal_rules_are_an_error_that_names_both_policies() {
    let net = "{destinations: [{name: n, cidrs: [10.0.0.0/8], ports: [80, 81]}]}";
    let mapped = "{destinations: [{cidrs: [\"::ffff:10.0.0.0/104\"], ports: [81, 82]}]}";
    assert_eq!(
        two(net, mapped),
        [
            "error: f.yaml:9:23: spec.destinations[0]: tie: policy a (f.yaml:3) and policy b (f.yaml:8) \
          both name 10.0.0.0/8 port 81 for every workload (remove one, or make one more specific)"
        ]
    );
    assert_eq!(
        two("{}", "{}"),
        [
            "error: f.yaml:8:18: metadata.name: tie: policy a (f.yaml:3) and policy b (f.yaml:8) \
          both name every destination for every workload (remove one, or make one more specific)"
        ]
    );
    let x = "{workloads: [{cgroup: /x}, {cgroup: /y}]}";
    let y = "{workloads: [{cgroup: /y}]}";
    assert_eq!(
        two(x, y),
        [
            "error: f.yaml:8:18: metadata.name: tie: policy a (f.yaml:3) and policy b (f.yaml:8) \
          both name every destination for /y (remove one, or make one more specific)"
        ]
    );
}

#[test]
fn rules_that_differ_in_workload_prefix_or_port_do_not_tie() {
    let none = Vec::<String>::new();
    assert_eq!(two("{}", "{destinations: [{cidrs: [\"::/0\"]}]}"), none);
    assert_eq!(two("{}", "{workloads: [{cgroup: /x}]}"), none);
    assert_eq!(
        two(
            "{workloads: [{cgroup: /x*}]}",
            "{workloads: [{cgroup: /xy}]}"
        ),
        none
    );
    let ports = |port| format!("{{destinations: [{{ports: [{port}]}}]}}");
    assert_eq!(two(&ports(1), &ports(2)), none);
}

#[test]
fn too_many_destinations_are_refused() {
    let entry = |i| format!("{{ports: [{}]}}", i + 1);
    let many = |from, to| (from..to).map(entry).collect::<Vec<_>>().join(", ");
    let lines = two(
        &format!("{{destinations: [{}]}}", many(0, 4000)),
        &format!("{{destinations: [{}]}}", many(4000, 4097)),
    );
    assert_eq!(
        lines,
        ["error: f.yaml:8:18: metadata.name: too many destinations: with this policy over 4096"]
    );
}

/// A directory that goes away with the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("governor-policy-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_directory_is_read_in_name_order() {
    let dir = Dir::new("order");
    let policy = |name: &str| {
        let head = HEAD.replace("name: a", &format!("name: {name}"));
        format!("{head}spec: {{workloads: [{{cgroup: /{name}}}]}}\n")
    };
    dir.write("20.yml", policy("second"));
    dir.write("10.yaml", policy("first"));
    dir.write("readme.txt", "not a policy");
    dir.write(".hidden.yaml", "not a policy");
    let policies = load::directory(&dir.0).unwrap();
    let names: Vec<_> = policies.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
}

#[test]
fn a_tie_across_files_names_both_files() {
    let dir = Dir::new("tie");
    let a = dir.write("a.yaml", format!("{HEAD}spec: {{}}\n"));
    let b = dir.write(
        "b.yaml",
        format!("{}spec: {{}}\n", HEAD.replace("name: a", "name: b")),
    );
    let errors = load::directory(&dir.0).unwrap_err();
    assert_eq!(errors.len(), 1);
    let (a, b) = (a.display(), b.display());
    let expected = format!(
        "error: {b}:3:18: metadata.name: tie: policy a ({a}:3) and policy b ({b}:3) both name"
    );
    assert!(
        errors[0].to_string().starts_with(&expected),
        "{}",
        errors[0]
    );
}

#[test]
fn a_missing_or_empty_directory_is_absence_not_a_mistake() {
    let dir = Dir::new("empty");
    let shown = dir.0.display();
    let errors = load::directory(&dir.0).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        format!(
            "error: {shown}: no policy: no *.yaml or *.yml file in the directory \
             (start from `retry-governor policy default`)"
        )
    );
    assert_eq!(errors[0].cause, Cause::Absent);
    let errors = load::directory(&dir.0.join("missing")).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        format!(
            "error: {shown}/missing: no policy: no such file or directory \
             (start from `retry-governor policy default`)"
        )
    );
    assert_eq!(errors[0].cause, Cause::Absent);
}

#[test]
fn a_file_that_can_not_be_text_is_refused() {
    let dir = Dir::new("files");
    let line = |path: PathBuf| {
        let errors = load::files(&[path]).unwrap_err();
        let line = errors[0].to_string();
        line.replace(&dir.0.display().to_string(), "DIR")
    };
    assert_eq!(
        line(dir.write("big.yaml", vec![b'#'; (1 << 20) + 1])),
        "error: DIR/big.yaml: too large: a policy file has at most 1048576 bytes (split it)"
    );
    assert_eq!(
        line(dir.write("latin.yaml", b"# ok\n# caf\xe9\n")),
        "error: DIR/latin.yaml: not text: line 2 is not UTF-8 (save it as UTF-8)"
    );
    assert_eq!(
        line(dir.0.clone()),
        "error: DIR: can't read it: it is a directory (name the files in it)"
    );
}

#[test]
fn the_mistakes_of_all_files_are_reported() {
    let dir = Dir::new("all");
    dir.write("a.yaml", "a: [");
    dir.write("b.yaml", format!("{HEAD}spec: {{mode: x}}\n"));
    assert_eq!(load::directory(&dir.0).unwrap_err().len(), 2);
}
