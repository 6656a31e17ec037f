//! Which kernel this is.

/// The oldest release that any of this was tried on (`cargo xtask vmtest`).
pub const OLDEST_TRIED: (u32, u32) = (6, 1);
/// What to do about an older one.
pub const NEWER: &str = "Linux 6.1 or newer";

/// The name of this kernel's release; empty where it can't be read.
pub fn name() -> String {
    let name = nix::sys::utsname::uname();
    name.map_or_else(
        |_| String::new(),
        |uname| uname.release().to_string_lossy().into_owned(),
    )
}

/// Whether `release` is this one or a later one; what can't be read is not.
pub fn at_least(release: &str, (major, minor): (u32, u32)) -> bool {
    parse(release).is_some_and(|release| release >= (major, minor))
}

/// The first two numbers of `6.1.0-57-cloud-amd64`.
fn parse(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_its_first_two_numbers() {
        assert_eq!(parse("6.1.0-57-cloud-amd64"), Some((6, 1)));
        assert_eq!(parse("5.4.17-2136.el8uek"), Some((5, 4)));
        assert_eq!(parse("6.18.44"), Some((6, 18)));
        assert_eq!(parse("7.0"), Some((7, 0)));
        assert_eq!(parse("next"), None);
    }

    #[test]
    fn this_kernel_is_none_that_was_never_tried() {
        assert!(at_least(&name(), OLDEST_TRIED));
        assert!(!at_least(&name(), (1_000, 0)));
    }

    #[test]
    fn one_number_is_told() {
        let (major, minor) = OLDEST_TRIED;
        assert_eq!(NEWER, format!("Linux {major}.{minor} or newer"));
    }
}
