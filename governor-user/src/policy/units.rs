//! Values with their unit in the type: durations as Go writes them, percents
//! and factors as whole hundredths, so that the kernel gets integers.

use std::fmt::{self, Display, Formatter, Write as _};
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A duration, written `250ms`, `1m30s`, `1.5h`; whole nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(u64);

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl GoDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// So many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// So many milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// So many seconds.
    pub const fn secs(secs: u64) -> Self {
        Self::millis(secs * 1_000)
    }

    /// So many minutes.
    pub const fn mins(mins: u64) -> Self {
        Self::secs(mins * 60)
    }

    /// As the kernel counts it.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// As the standard library counts it.
    pub const fn get(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl FromStr for GoDuration {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "0" {
            return Ok(Self::ZERO);
        }
        if text.is_empty() {
            return Err("it is empty");
        }
        let mut rest = text;
        let mut nanos = 0u64;
        while !rest.is_empty() {
            let end = |s: &str, ok: fn(char) -> bool| s.find(|c| !ok(c)).unwrap_or(s.len());
            let (number, tail) = rest.split_at(end(rest, |c| c.is_ascii_digit() || c == '.'));
            let (unit, tail) = tail.split_at(end(tail, char::is_alphabetic));
            if number.is_empty() {
                return Err("it is not a number with a unit");
            }
            if unit.is_empty() {
                return Err("it has no unit");
            }
            let (_, scale) = UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .ok_or("its unit is not one of ns, us, ms, s, m, h")?;
            nanos = nanos
                .checked_add(scaled(number, *scale)?)
                .ok_or("it is too long")?;
            rest = tail;
        }
        Ok(Self(nanos))
    }
}

/// `1.5` of a unit, in nanoseconds; what is finer than one is cut, as Go does.
fn scaled(number: &str, scale: u64) -> Result<u64, &'static str> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err("it is not a number with a unit");
    }
    let whole = match whole {
        "" => 0,
        digits => digits.parse::<u64>().map_err(|_| "it is too long")?,
    };
    let mut part = 0;
    let mut place = scale;
    for digit in fraction.bytes() {
        part += place * u64::from(digit - b'0') / 10;
        if !place.is_multiple_of(10) {
            break;
        }
        place /= 10;
    }
    whole
        .checked_mul(scale)
        .and_then(|nanos| nanos.checked_add(part))
        .ok_or("it is too long")
}

impl Display for GoDuration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const SECOND: u64 = 1_000_000_000;
        match self.0 {
            0 => f.write_str("0s"),
            n if n < 1_000 => write!(f, "{n}ns"),
            n if n < 1_000_000 => write!(f, "{}us", Decimal(n, 1_000)),
            n if n < SECOND => write!(f, "{}ms", Decimal(n, 1_000_000)),
            n => {
                let (minutes, rest) = (n / (60 * SECOND), n % (60 * SECOND));
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes % 60 != 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                if rest != 0 {
                    write!(f, "{}s", Decimal(rest, SECOND))?;
                }
                Ok(())
            }
        }
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `n / one` (a power of ten) in the fewest digits.
struct Decimal(u64, u64);

impl Display for Decimal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(n, one) = *self;
        write!(f, "{}", n / one)?;
        let mut rest = n % one;
        if rest != 0 {
            f.write_char('.')?;
        }
        let mut place = one / 10;
        while rest != 0 {
            write!(f, "{}", rest / place)?;
            rest %= place;
            place /= 10;
        }
        Ok(())
    }
}

/// A share of a hundred, in basis points: 10000 is 100 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u32);

impl Percent {
    /// So many percent.
    pub const fn whole(percent: u32) -> Self {
        Self(percent * 100)
    }

    /// Basis points: 10000 is 100 %.
    pub const fn basis_points(self) -> u32 {
        self.0
    }
}

/// How many times as much, in hundredths: 200 is 2.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(u32);

impl Factor {
    /// So many hundredths: 200 is 2.0.
    pub const fn from_hundredths(hundredths: u32) -> Self {
        Self(hundredths)
    }

    /// Hundredths: 200 is 2.0.
    pub const fn hundredths(self) -> u32 {
        self.0
    }
}

/// A decimal with at most two places, in hundredths. The text is read digit by
/// digit: 12.34 has no exact double, and these become integers in the kernel.
fn hundredths(text: &str) -> Result<u32, &'static str> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err("it is not a number");
    }
    if fraction.len() > 2 {
        return Err("it has more than two decimals");
    }
    let fraction = fraction
        .bytes()
        .fold(0, |n, b| n * 10 + u32::from(b - b'0'))
        * if fraction.len() == 1 { 10 } else { 1 };
    whole
        .parse::<u32>()
        .ok()
        .and_then(|n| n.checked_mul(100)?.checked_add(fraction))
        .ok_or("it is too large")
}

macro_rules! written_as_hundredths {
    ($($unit:ident),*) => {$(
        impl FromStr for $unit {
            type Err = &'static str;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                hundredths(text).map(Self)
            }
        }

        impl Display for $unit {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                Decimal(u64::from(self.0), 100).fmt(f)
            }
        }

        impl Serialize for $unit {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.0 % 100 {
                    0 => serializer.serialize_u32(self.0 / 100),
                    _ => serializer.serialize_f64(f64::from(self.0) / 100.0),
                }
            }
        }
    )*};
}

written_as_hundredths!(Percent, Factor);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("250ms", 250_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("2.s", 2_000_000_000),
            ("1us", 1_000),
            ("1µs", 1_000),
            ("1.0000000019s", 1_000_000_001),
            ("1h0m0.5s", 3_600_500_000_000),
        ] {
            assert_eq!(text.parse(), Ok(GoDuration(nanos)), "{text}");
        }
    }

    #[test]
    fn what_go_would_not_read_is_refused_with_its_reason() {
        for (text, why) in [
            ("", "it is empty"),
            ("10", "it has no unit"),
            ("s", "it is not a number with a unit"),
            ("-1s", "it is not a number with a unit"),
            (".s", "it is not a number with a unit"),
            ("1.2.3s", "it is not a number with a unit"),
            ("1 s", "it has no unit"),
            ("1d", "its unit is not one of ns, us, ms, s, m, h"),
            ("5sec", "its unit is not one of ns, us, ms, s, m, h"),
            ("99999999999h", "it is too long"),
            ("99999999999999999999s", "it is too long"),
        ] {
            assert_eq!(text.parse::<GoDuration>(), Err(why), "{text}");
        }
    }

    #[test]
    fn percents_keep_two_decimals_exactly() {
        assert_eq!("12.34".parse(), Ok(Percent(1234)));
        assert_eq!("12.3".parse(), Ok(Percent(1230)));
        assert_eq!("100".parse(), Ok(Percent::whole(100)));
        assert_eq!(
            "0.001".parse::<Percent>(),
            Err("it has more than two decimals")
        );
        for text in ["", ".", "1.", ".5", "-1", "+1", "1e1", "10%", "0x1", "1_0"] {
            assert_eq!(text.parse::<Percent>(), Err("it is not a number"), "{text}");
        }
        assert_eq!("99999999".parse::<Percent>(), Err("it is too large"));
    }

    proptest! {
        #[test]
        fn a_duration_reads_back_as_it_was_written(nanos in any::<u64>()) {
            let duration = GoDuration(nanos);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn a_percent_reads_back_as_it_was_written(hundredths in any::<u32>()) {
            let percent = Percent(hundredths);
            prop_assert_eq!(percent.to_string().parse(), Ok(percent));
        }

        #[test]
        fn any_text_is_a_duration_or_a_reason(text in ".*") {
            let _ = text.parse::<GoDuration>();
            let _ = text.parse::<Percent>();
        }
    }
}
