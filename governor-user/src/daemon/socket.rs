//! The control socket's file: for root alone, or for a group as well.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group, chown};
use tokio::net::UnixListener;

use crate::errors::{Exit, Failure, Result};

/// A socket file that goes with its guard.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Gone already: somebody tidied up.
        let _ = fs::remove_file(&self.0);
    }
}

/// A group by name or number.
pub fn group(name: &str) -> Result<Gid> {
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        Ok(None) => Err(Failure::new(
            Exit::Usage,
            format!("--socket-group {name}"),
            "no such group",
        )),
        Err(error) => Err(Failure::failed(format!("--socket-group {name}"), error)),
    }
}

/// Listens at `path`. The caller holds the daemon's lock: a socket file that is there was left
/// behind, unless somebody answers. That is a daemon with another BPF file system, whose lock we
/// do not see (two containers that share /run), and its operators must not lose it.
pub fn listen(path: &Path, group: Option<Gid>) -> Result<(UnixListener, SocketFile)> {
    let failed =
        |error: io::Error| Failure::failed(format!("control socket {}", path.display()), error);
    if let Some(directory) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o755)
            .create(directory)
            .map_err(failed)?;
    }
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                let what = format!("control socket {}", path.display());
                return Err(Failure::failed(what, "another daemon answers there")
                    .hint("stop it first, or name another --socket"));
            }
            fs::remove_file(path).map_err(failed)?
        }
        Ok(_) => {
            let what = format!("control socket {}", path.display());
            return Err(Failure::failed(what, "a file that is no socket is there")
                .hint("remove it, or name another --socket"));
        }
        Err(_) => {}
    }
    // Nobody may connect in the moment before the mode is set: bound under
    // another name, in the same directory, and renamed when it is right.
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let listener = UnixListener::bind(&fresh).map_err(failed)?;
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    let ready = chown(&fresh, None, group)
        .map_err(io::Error::from)
        .and_then(|()| fs::set_permissions(&fresh, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&fresh, path));
    if let Err(error) = ready {
        let _ = fs::remove_file(&fresh);
        return Err(failed(error));
    }
    Ok((listener, SocketFile(path.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_the_new_one_is_for_its_owner() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("run/control.sock");
        fs::create_dir(scratch.path().join("run")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let (_listener, file) = listen(&path, None).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
        drop(file);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn the_socket_of_a_daemon_that_answers_is_left_to_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("control.sock");
        let (_listener, _file) = listen(&path, None).unwrap();
        let refused = listen(&path, None).unwrap_err().to_string();
        assert!(refused.contains("another daemon answers"), "{refused}");
        assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
    }

    #[tokio::test]
    async fn a_group_may_connect_where_one_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("control.sock");
        let own = nix::unistd::getgid();
        let (_listener, _file) = listen(&path, Some(own)).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o660
        );
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("control.sock");
        fs::write(&path, "precious").unwrap();
        assert!(
            listen(&path, None)
                .unwrap_err()
                .to_string()
                .contains("no socket")
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_group_is_named_or_numbered() {
        assert_eq!(group("0").unwrap(), Gid::from_raw(0));
        assert_eq!(group("no-such-group-here").unwrap_err().exit, Exit::Usage);
    }
}
