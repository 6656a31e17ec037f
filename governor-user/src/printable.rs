//! Text that others chose, where people read it.

/// With every control character but the end of a line escaped: whoever names a
/// cgroup must not move the cursor of the terminal, or colour it.
pub fn printable(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        match c.is_control() && c != '\n' {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_not_speak_to_the_terminal() {
        assert_eq!(
            printable("/a\u{1b}[31m\r\u{9b}b.service"),
            "/a\\u{1b}[31m\\r\\u{9b}b.service"
        );
        assert_eq!(printable("/größe.service\n"), "/größe.service\n");
    }
}
