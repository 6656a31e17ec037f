//! Builds the kernel programs and hands the object to `include_bytes_aligned!`
//! as `env!("GOVERNOR_OBJECT")`: one binary, no files beside it.

use std::{path::Path, process::ExitCode};

fn main() -> ExitCode {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().unwrap_or(here);
    let toolchain = match kernel_toolchain::find(root) {
        Ok(toolchain) => toolchain,
        // cargo shows this as one line; a failing exit code would add a page.
        Err(why) => {
            println!("cargo::error={why}");
            return ExitCode::SUCCESS;
        }
    };
    for input in toolchain.inputs() {
        println!("cargo::rerun-if-changed={}", input.display());
    }
    match toolchain.build() {
        Ok(object) => {
            println!("cargo::rustc-env=GOVERNOR_OBJECT={}", object.display());
            ExitCode::SUCCESS
        }
        // The compiler's words are on standard error, which cargo shows only
        // for a failing exit code.
        Err(why) => {
            println!("cargo::error={why}");
            ExitCode::FAILURE
        }
    }
}
