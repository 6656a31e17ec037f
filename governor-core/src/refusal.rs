//! What a refused caller is told: a whole answer, in plain HTTP/1.1.
//!
//! It closes the connection, so that no client keeps it, and says when to come
//! back, which `curl --retry` and urllib3 obey (a reset makes several clients
//! send the request again at once, by themselves). The last header says why.

/// Bytes before the reason. The seconds are written when it is sent.
const HEAD: &[u8; 108] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Connection: close\r\n\
    Content-Length: 0\r\n\
    Retry-After:\0\0\0\0\r\n\
    x-retry-governor: ";

/// Where the seconds are: one word, aligned.
pub const SECONDS: u32 = 84;

/// The most that a word can say, s: a blank and three digits.
const MOST_SECONDS: u32 = 999;

/// Bytes of the longest answer, and of the words it is kept in.
pub const LONGEST: usize = 128;

/// Every reason as the header has it, by the number of its [`Reason`](crate::verdict::Reason).
const NAMES: [&str; 9] = [
    "budget",
    "breaker",
    "concurrency",
    "shed",
    "retry-after",
    "deadline",
    "attempts",
    "not-retryable",
    "non-idempotent",
];

/// An answer. In two parts: in the kernel only the one that differs takes
/// room on a stack of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its text, with zeroes for the seconds.
    pub text: &'static Text,
    /// The word at [`SECONDS`].
    pub seconds: u32,
}

/// A text, filled up with zeroes: the kernel's checksum helper wants words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Text {
    /// Its bytes.
    pub words: [u32; LONGEST / 4],
    /// How many of them.
    pub length: u32,
}

impl Refusal {
    /// For a reason by its number; more seconds than three digits hold are as many.
    #[inline(always)]
    pub fn new(reason: u32, seconds: u32) -> Self {
        let seconds = if seconds > MOST_SECONDS {
            MOST_SECONDS
        } else {
            seconds
        };
        let digit = |worth: u32| match seconds / worth {
            0 if worth > 1 => b' ',
            count => b'0' + (count % 10) as u8,
        };
        Self {
            // A power of two, so that a mask keeps the index inside: no branch, no panic.
            text: &TEXTS[reason as usize % TEXTS.len()],
            seconds: u32::from_ne_bytes([b' ', digit(100), digit(10), digit(1)]),
        }
    }
}

/// A text for each reason. What is unknown is shed, as in
/// [`Reason::from_number`](crate::verdict::Reason::from_number).
static TEXTS: [Text; 16] = {
    let mut texts = [text("shed"); 16];
    let mut reason = 0;
    while reason < NAMES.len() {
        texts[reason] = text(NAMES[reason]);
        reason += 1;
    }
    texts
};

const fn text(reason: &str) -> Text {
    let mut bytes = [0; LONGEST];
    let end = put(&mut bytes, 0, HEAD);
    let end = put(&mut bytes, end, reason.as_bytes());
    let end = put(&mut bytes, end, b"\r\n\r\n");
    let mut words = [0; LONGEST / 4];
    let mut at = 0;
    while at < words.len() {
        let [a, b, c, d] = [
            bytes[4 * at],
            bytes[4 * at + 1],
            bytes[4 * at + 2],
            bytes[4 * at + 3],
        ];
        words[at] = u32::from_ne_bytes([a, b, c, d]);
        at += 1;
    }
    Text {
        words,
        length: end as u32,
    }
}

/// Puts `more` at `at`; where it ends.
const fn put(bytes: &mut [u8; LONGEST], at: usize, more: &[u8]) -> usize {
    let mut done = 0;
    while done < more.len() {
        bytes[at + done] = more[done];
        done += 1;
    }
    at + done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Reason;

    fn said(reason: u32, seconds: u32) -> String {
        let refusal = Refusal::new(reason, seconds);
        let mut words = refusal.text.words;
        words[SECONDS as usize / 4] = refusal.seconds;
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        let (said, rest) = bytes.split_at(refusal.text.length as usize);
        assert!(rest.iter().all(|byte| *byte == 0));
        String::from_utf8(said.to_vec()).unwrap()
    }

    #[test]
    fn the_answer_is_a_whole_one_that_ends_the_connection() {
        let expected = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\
            Content-Length: 0\r\nRetry-After:   1\r\nx-retry-governor: budget\r\n\r\n";
        assert_eq!(said(0, 1), expected);
    }

    #[test]
    fn seconds_are_three_digits_at_most() {
        let seconds_said = |seconds| {
            let text = said(1, seconds);
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("Retry-After:"));
            line.unwrap().trim().parse::<u32>().unwrap()
        };
        for seconds in [0, 1, 9, 10, 30, 99, 100, 105, 500, 999] {
            assert_eq!(seconds_said(seconds), seconds);
        }
        assert_eq!(seconds_said(1_000), 999);
        assert_eq!(seconds_said(u32::MAX), 999);
    }

    #[test]
    fn every_reason_is_told_by_its_name() {
        for reason in Reason::ALL {
            let mut kebab = String::new();
            for letter in reason.name().chars() {
                if letter.is_uppercase() {
                    kebab.push('-');
                }
                kebab.push(letter.to_ascii_lowercase());
            }
            let line = format!("\r\nx-retry-governor: {kebab}\r\n\r\n");
            assert!(said(reason as u32, 1).ends_with(&line), "{kebab}");
        }
    }

    #[test]
    fn a_reason_nobody_knows_is_shed() {
        assert_eq!(said(12, 1), said(Reason::Shed as u32, 1));
        assert_eq!(said(u32::MAX, 1), said(Reason::Shed as u32, 1));
    }
}
