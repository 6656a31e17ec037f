//! Status codes of HTTP, as the law sees them.

/// Codes that are counted by themselves, and the other codes of 4xx and of 5xx.
pub const STATUSES: usize = 9;

/// Where a failed answer is counted.
#[inline(always)]
pub const fn index(status: u32) -> usize {
    match status {
        408 => 0,
        425 => 1,
        429 => 2,
        500 => 3,
        502 => 4,
        503 => 5,
        504 => 6,
        400..=499 => 7,
        _ => 8,
    }
}

/// The name of a count: the code, or the class.
pub const fn name(index: usize) -> &'static str {
    match index {
        0 => "408",
        1 => "425",
        2 => "429",
        3 => "500",
        4 => "502",
        5 => "503",
        6 => "504",
        7 => "4xx",
        _ => "5xx",
    }
}

/// Whether an answer says that there is no room now.
#[inline(always)]
pub const fn is_pushback(status: u32) -> bool {
    status == 429 || status == 503
}

/// Whether a caller has no business to send an equal request again: it was
/// told that the request is wrong, and not that its time is.
///
/// People poll on 404 until something exists, race on 409 and 412, wait for
/// locks on 409 and 423, and 408, 425 and 429 speak of time. After 401 and 407
/// the protocol itself sends again, with credentials that are no part of a
/// fingerprint (RFC 9110 11.6), after 417 without an expectation and after 421
/// on another connection (15.5.18, 15.5.20).
#[inline(always)]
pub const fn is_final(status: u32) -> bool {
    match status {
        401 | 404 | 407 | 408 | 409 | 412 | 417 | 421 | 423 | 425 | 429 => false,
        400..=499 => true,
        _ => false,
    }
}

/// Whether a final answer is about what is written in the request, so that one
/// that is written alike will get it as well: wrong syntax, no length, too large,
/// of a kind that is not understood (RFC 9110 15.5), header fields too large
/// (RFC 6585). Not who asks (403) or for what (405, 406, 410, 451).
#[inline(always)]
pub const fn is_about_the_request(status: u32) -> bool {
    matches!(status, 400 | 411 | 413 | 414 | 415 | 422 | 431)
}

/// Whether a request that failed so may have taken effect all the same
/// (RFC 9110 9.2.2): not where the answer says that it was not processed.
#[inline(always)]
pub const fn may_have_taken_effect(status: u32) -> bool {
    status >= 500 && status != 503
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_named_after_what_it_counts() {
        let named = |code: u32| name(index(code));
        let (apart, others): (Vec<_>, Vec<_>) =
            (400..600).partition(|code| named(*code) == code.to_string());
        assert_eq!(apart, [408, 425, 429, 500, 502, 503, 504]);
        assert_eq!(apart.len() + 2, STATUSES);
        for code in others {
            assert_eq!(named(code), if code < 500 { "4xx" } else { "5xx" });
        }
        assert!((400..600).all(|code| index(code) < STATUSES));
    }

    #[test]
    fn people_poll_race_and_wait_for_locks() {
        for code in [404, 408, 409, 412, 423, 425, 429] {
            assert!(!is_final(code), "{code}");
        }
        for code in [400, 402, 403, 405, 406, 410, 411, 413, 414, 415, 422, 451] {
            assert!(is_final(code), "{code}");
        }
    }

    #[test]
    fn the_protocol_itself_sends_again_after_some_answers() {
        for code in [401, 407, 417, 421] {
            assert!(!is_final(code), "{code}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_request_is_wrong_with_equal_ones() {
        let about: Vec<_> = (100..600)
            .filter(|&code| is_about_the_request(code))
            .collect();
        assert_eq!(about, [400, 411, 413, 414, 415, 422, 431]);
        assert!(about.into_iter().all(is_final));
    }

    #[test]
    fn an_answer_that_was_no_failure_is_not_final() {
        assert!(![100, 200, 304, 500, 503, 599].into_iter().any(is_final));
    }
}
