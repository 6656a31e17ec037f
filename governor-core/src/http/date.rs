//! Dates of HTTP (RFC 9110 5.6.7) and of AWS, by integers.

/// A date, part by part, as its tokens come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// Numbers in their order, [`BITS`] each.
    pub numbers: u64,
    /// How many; and the month, and whether it came before them.
    pub marks: u32,
}

const BITS: u32 = 12;
const MASK: u64 = (1 << BITS) - 1;
/// Bits of [`Parts::marks`].
const COUNT: u32 = 0xff;
const MONTH_SHIFT: u32 = 8;
const MONTH: u32 = 0xf << MONTH_SHIFT;
const MONTH_FIRST: u32 = 1 << 12;

impl Parts {
    /// A number.
    #[inline(always)]
    pub(super) const fn number(&mut self, number: u64) {
        let count = self.marks & COUNT;
        // What does not fit makes the count wrong.
        let more = if number > MASK { 8 } else { 1 };
        if count < COUNT / 2 {
            self.marks += more;
        }
        self.numbers = self.numbers << BITS | number & MASK;
    }

    /// A word, by its last three letters in lower case.
    #[inline(always)]
    pub(super) const fn word(&mut self, letters: u32) {
        let month = month(letters);
        if month != 0 && self.marks & MONTH == 0 {
            self.marks |= month << MONTH_SHIFT;
            if self.marks & COUNT == 0 {
                self.marks |= MONTH_FIRST;
            }
        }
    }

    /// Seconds since 1970; 0 if it is no date.
    #[inline(always)]
    pub(super) const fn seconds(&self) -> u64 {
        let month = (self.marks & MONTH) >> MONTH_SHIFT;
        if self.marks & COUNT != 5 || month == 0 {
            return 0;
        }
        let n = self.numbers;
        let last = n & MASK;
        let fourth = n >> BITS & MASK;
        let third = n >> (2 * BITS) & MASK;
        let second = n >> (3 * BITS) & MASK;
        let day = n >> (4 * BITS);
        if self.marks & MONTH_FIRST != 0 {
            // asctime: Nov  6 08:49:37 1994
            return seconds(last, month as u64, day, (second, third, fourth));
        }
        // Of RFC 850: two digits.
        let year = if second >= 100 {
            second
        } else if second >= 70 {
            1900 + second
        } else {
            2000 + second
        };
        seconds(year, month as u64, day, (third, fourth, last))
    }
}

/// `20260101T000000Z` without its letters.
#[inline(always)]
pub(super) const fn basic(number: u64) -> u64 {
    let (date, time) = (number / 1_000_000, number % 1_000_000);
    let clock = (time / 10_000, time / 100 % 100, time % 100);
    seconds(date / 10_000, date / 100 % 100, date % 100, clock)
}

/// Seconds since 1970; 0 if there is no such time.
#[inline(always)]
const fn seconds(year: u64, month: u64, day: u64, clock: (u64, u64, u64)) -> u64 {
    let (hour, minute, second) = clock;
    let in_year = month >= 1 && month <= 12 && day >= 1 && day <= 31;
    if year < 1970 || year > 9999 || !in_year || hour > 23 || minute > 59 || second > 60 {
        return 0;
    }
    // Days from civil (H. Hinnant): years begin in March, eras have 400 years.
    let year = if month <= 2 { year - 1 } else { year };
    let since_march = if month <= 2 { month + 9 } else { month - 3 };
    let in_era = year % 400;
    let day_of_year = (153 * since_march + 2) / 5 + day - 1;
    let days = year / 400 * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + day_of_year;
    (days - 719_468) * 86_400 + hour * 3_600 + minute * 60 + second
}

#[inline(always)]
const fn month(letters: u32) -> u32 {
    const fn of(name: &[u8; 3]) -> u32 {
        (name[0] as u32) << 16 | (name[1] as u32) << 8 | name[2] as u32
    }
    const NAMES: [u32; 12] = [
        of(b"jan"),
        of(b"feb"),
        of(b"mar"),
        of(b"apr"),
        of(b"may"),
        of(b"jun"),
        of(b"jul"),
        of(b"aug"),
        of(b"sep"),
        of(b"oct"),
        of(b"nov"),
        of(b"dec"),
    ];
    // By name, not by a loop: the kernel has no table to index.
    match letters {
        it if it == NAMES[0] => 1,
        it if it == NAMES[1] => 2,
        it if it == NAMES[2] => 3,
        it if it == NAMES[3] => 4,
        it if it == NAMES[4] => 5,
        it if it == NAMES[5] => 6,
        it if it == NAMES[6] => 7,
        it if it == NAMES[7] => 8,
        it if it == NAMES[8] => 9,
        it if it == NAMES[9] => 10,
        it if it == NAMES[10] => 11,
        it if it == NAMES[11] => 12,
        _ => 0,
    }
}
