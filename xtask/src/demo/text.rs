//! Numbers as people read them.

use super::record::{PerSecond, Seconds};

/// `12,345`
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `643/s`
pub fn rate(rate: PerSecond) -> String {
    format!("{}/s", count(rate.0.round().max(0.0) as u64))
}

/// `98 %`
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `0.08 ms`, `7.2 ms`, `702 ms`, `4.7 s`
pub fn duration(Seconds(seconds): Seconds) -> String {
    let millis = seconds * 1e3;
    match millis {
        ..1.0 => format!("{millis:.2} ms"),
        1.0..10.0 => format!("{millis:.1} ms"),
        10.0..999.5 => format!("{millis:.0} ms"),
        _ => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(rate(PerSecond(1234.5)), "1,235/s");
        assert_eq!(percent(0.976), "98 %");
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        assert_eq!(duration(Seconds(0.000_081)), "0.08 ms");
        assert_eq!(duration(Seconds(0.007_24)), "7.2 ms");
        assert_eq!(duration(Seconds(0.702)), "702 ms");
        assert_eq!(duration(Seconds(4.71)), "4.7 s");
    }
}
