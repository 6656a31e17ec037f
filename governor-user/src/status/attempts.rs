//! Attempts of both levels. A connect and the first request on it are one: the
//! request counts, as a retry if either is known as one.

use governor_core::ledger::count;

/// First tries and retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    /// Those that repeat nothing.
    pub first: u64,
    /// Those that repeat a failed one.
    pub retries: u64,
}

impl Attempts {
    /// Those that reached the network; `of` is a [`count`].
    pub fn reached(of: impl Fn(usize) -> u64) -> Self {
        let first = of(count::FIRST) + of(count::REQUEST_FIRST);
        let retries = of(count::RETRY) + of(count::REQUEST_RETRY);
        Self { first, retries }.without_carried(of)
    }

    /// The same, denied ones included.
    pub fn offered(of: impl Fn(usize) -> u64) -> Self {
        let first = of(count::OFFERED_FIRST) + of(count::REQUEST_OFFERED_FIRST);
        let retries = of(count::OFFERED_RETRY) + of(count::REQUEST_OFFERED_RETRY);
        Self { first, retries }.without_carried(of)
    }

    /// All of them.
    pub const fn total(self) -> u64 {
        self.first + self.retries
    }

    /// Takes out the connects whose request counts. The counts are read one
    /// after the other while the kernel goes on: what is taken out may be newer.
    fn without_carried(self, of: impl Fn(usize) -> u64) -> Self {
        let retries = of(count::CARRIED_RETRY);
        let first = of(count::CARRIED).saturating_sub(retries);
        Self {
            first: self.first.saturating_sub(first),
            retries: self.retries.saturating_sub(retries),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(counts: &[(usize, u64)]) -> [Attempts; 2] {
        let of = |which| {
            let found = counts.iter().find(|(count, _)| *count == which);
            found.map_or(0, |(_, count)| *count)
        };
        [Attempts::reached(of), Attempts::offered(of)]
    }

    #[test]
    fn ten_requests_on_two_connections_are_ten_attempts() {
        let [reached, offered] = attempts(&[
            (count::FIRST, 2),
            (count::OFFERED_FIRST, 2),
            (count::REQUEST_FIRST, 7),
            (count::REQUEST_RETRY, 2),
            (count::REQUEST_OFFERED_FIRST, 7),
            (count::REQUEST_OFFERED_RETRY, 3),
            (count::CARRIED, 2),
        ]);
        assert_eq!((reached.first, reached.retries), (7, 2));
        assert_eq!((offered.first, offered.retries), (7, 3));
    }

    #[test]
    fn a_connect_and_its_request_are_one_retry() {
        let [reached, _] = attempts(&[
            (count::RETRY, 1),
            (count::REQUEST_RETRY, 1),
            (count::CARRIED, 1),
            (count::CARRIED_RETRY, 1),
        ]);
        assert_eq!((reached.first, reached.retries), (0, 1));
    }

    #[test]
    fn a_count_that_is_read_later_makes_no_negative_one() {
        let [reached, _] = attempts(&[(count::CARRIED, 1)]);
        assert_eq!(reached.total(), 0);
    }
}
