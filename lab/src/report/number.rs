//! Numbers as people read them.

/// `12,345`, `640`, `4.2`, `0.05`: three figures or all of a whole number.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "unknown".to_owned();
    }
    match size {
        100.0.. => grouped(value),
        10.0.. => trimmed(format!("{value:.1}")),
        0.0995.. => trimmed(format!("{value:.2}")),
        _ => trimmed(format!("{value:.3}")),
    }
}

/// For the scale of an axis, where there is room for seven letters: `640`, `12,345`, `1.5 M`.
pub fn scale(value: f64) -> String {
    match value {
        1e12.. => format!("{value:.0e}"),
        1e9.. => format!("{} G", number(value / 1e9)),
        1e6.. => format!("{} M", number(value / 1e6)),
        _ => number(value),
    }
}

/// `98 %`, `0.4 %`
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        return "unknown".to_owned();
    }
    match percent.abs() {
        9.95.. => format!("{} %", grouped(percent)),
        0.05.. => format!("{} %", trimmed(format!("{percent:.1}"))),
        _ => "0 %".to_owned(),
    }
}

/// `45 s`, `12 min`, `1 h 5 min`
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..3_570 => format!("{} min", (seconds + 30) / 60),
        _ => {
            let minutes = (seconds + 30) / 60;
            format!("{} h {} min", minutes / 60, minutes % 60)
        }
    }
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0.0 { format!("-{out}") } else { out }
}

/// Without zeros at its end.
fn trimmed(number: String) -> String {
    let short = number.trim_end_matches('0').trim_end_matches('.');
    match short {
        "-0" | "" => "0".to_owned(),
        short => short.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_figures() {
        let read = [
            (0.0, "0"),
            (1_234_567.8, "1,234,568"),
            (640.4, "640"),
            (42.0, "42"),
            (42.35, "42.4"),
            (4.0, "4"),
            (0.95, "0.95"),
            (0.0512, "0.051"),
            (-0.0001, "0"),
            (f64::NAN, "unknown"),
        ];
        for (value, words) in read {
            assert_eq!(number(value), words);
        }
        assert_eq!(percent(0.976), "98 %");
        assert_eq!(percent(0.0042), "0.4 %");
        assert_eq!(percent(0.0), "0 %");
    }

    #[test]
    fn a_scale_is_never_wider_than_its_room() {
        let read = [
            (640.0, "640"),
            (999_999.0, "999,999"),
            (1_500_000.0, "1.5 M"),
            (4e9, "4 G"),
            (2e19, "2e19"),
        ];
        for (value, words) in read {
            assert_eq!(scale(value), words);
        }
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        assert_eq!(duration(45.4), "45 s");
        assert_eq!(duration(725.0), "12 min");
        assert_eq!(duration(3_900.0), "1 h 5 min");
        assert_eq!(duration(-1.0), "0 s");
    }
}
