//! Which kernel this is.

/// Whether it is of this release or a later one; what can't be read is not.
pub fn at_least(major: u32, minor: u32) -> bool {
    let Ok(uname) = nix::sys::utsname::uname() else {
        return false;
    };
    parse(&uname.release().to_string_lossy()).is_some_and(|release| release >= (major, minor))
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
        assert_eq!(parse("6.18.44"), Some((6, 18)));
        assert_eq!(parse("7.0"), Some((7, 0)));
        assert_eq!(parse("next"), None);
    }

    #[test]
    fn this_kernel_is_at_least_the_oldest_one_we_load_on() {
        assert!(at_least(5, 18));
        assert!(!at_least(1_000, 0));
    }
}
