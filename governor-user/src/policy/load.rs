//! Policies from files: all of them, or every mistake.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::error::{Cause, PolicyError, Wrong};
use super::schema::Policy;
use super::{check, set};

/// Larger files are refused unread: 4096 destinations fit in a quarter of it.
const LARGEST: u64 = 1 << 20;

const START: &str = "start from `retry-governor policy default`";

/// The policies of a directory: its `*.yaml` and `*.yml` files in name order.
pub fn directory(dir: &Path) -> Result<Vec<Policy>, Vec<PolicyError>> {
    let shown = dir.display().to_string();
    let files = policy_files(dir).map_err(|error| vec![unreadable(&shown, &error)])?;
    if files.is_empty() {
        let wrong = Wrong::new("no policy: no *.yaml or *.yml file in the directory");
        return Err(vec![PolicyError::absent(&shown, wrong.hint(START))]);
    }
    self::files(&files).map_err(|errors| {
        // A file that vanished meanwhile, or a dead link: something was meant.
        let invalid = |error| PolicyError {
            cause: Cause::Invalid,
            ..error
        };
        errors.into_iter().map(invalid).collect()
    })
}

/// The policies of these files.
pub fn files(paths: &[PathBuf]) -> Result<Vec<Policy>, Vec<PolicyError>> {
    let mut policies = Vec::new();
    let mut errors = Vec::new();
    for path in paths {
        let shown = path.display().to_string();
        let read = text(path, &shown).map_err(|error| vec![error]);
        match read.and_then(|text| check::read(&text, &shown)) {
            Ok(more) => policies.extend(more),
            Err(more) => errors.extend(more),
        }
    }
    // Also where a file has mistakes: what can be read is worth comparing.
    errors.extend(set::check(&policies).err().unwrap_or_default());
    match errors.is_empty() {
        true => Ok(policies),
        false => Err(errors),
    }
}

fn policy_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let yaml = path.extension().is_some_and(|e| e == "yaml" || e == "yml");
        // Follows links: a mounted ConfigMap is nothing but links. A dead one is
        // kept and reported; a fifo would block for ever.
        let readable = fs::metadata(&path).map_or(true, |meta| meta.is_file());
        if yaml && !hidden && readable {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn text(path: &Path, shown: &str) -> Result<String, PolicyError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(shown, &error))?;
    if bytes.len() as u64 > LARGEST {
        let wrong = Wrong::new(format!(
            "too large: a policy file has at most {LARGEST} bytes"
        ));
        return Err(PolicyError::file(shown, wrong.hint("split it")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..good).unwrap_or_default();
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        let wrong = Wrong::new(format!("not text: line {line} is not UTF-8"));
        PolicyError::file(shown, wrong.hint("save it as UTF-8"))
    })
}

fn unreadable(shown: &str, error: &io::Error) -> PolicyError {
    let kind = error.kind();
    match kind {
        io::ErrorKind::NotFound => {
            let wrong = Wrong::new("no policy: no such file or directory");
            PolicyError::absent(shown, wrong.hint(START))
        }
        io::ErrorKind::PermissionDenied => {
            let wrong = Wrong::new("can't read it: permission denied");
            PolicyError::file(shown, wrong.hint("run as root, or allow reading"))
        }
        io::ErrorKind::NotADirectory => {
            PolicyError::file(shown, Wrong::new("can't read it: not a directory"))
        }
        io::ErrorKind::IsADirectory => {
            let wrong = Wrong::new("can't read it: it is a directory");
            PolicyError::file(shown, wrong.hint("name the files in it"))
        }
        _ => PolicyError::file(shown, Wrong::new(format!("can't read it: {error}"))),
    }
}
