//! Series over time, as a chart shows them: not more columns than eyes can tell apart.

/// At most so many columns in a chart: more is a carpet of noise.
const COLUMNS: f64 = 220.0;

/// How many slots one column of a chart is the mean of.
pub fn slots_per_column(slots: usize) -> usize {
    let rough = slots as f64 / COLUMNS;
    let mut unit = 1.0;
    loop {
        for round in [1.0, 2.0, 5.0] {
            if round * unit >= rough {
                return (round * unit) as usize;
            }
        }
        unit *= 10.0;
    }
}

/// Means of `width` slots each, with the time in the middle of each column: NaN where nothing
/// finite was measured.
pub fn columns(values: &[f64], slot: f64, width: usize) -> Vec<(f64, f64)> {
    let column = |(at, slots): (usize, &[f64])| {
        let middle = (at * width) as f64 + slots.len() as f64 / 2.0;
        (middle * slot, mean(slots).unwrap_or(f64::NAN))
    };
    let chunks = values.chunks(width.max(1)).enumerate();
    chunks.map(column).collect()
}

/// The mean of what is finite, `None` where nothing is.
pub fn mean(values: &[f64]) -> Option<f64> {
    let finite = || values.iter().filter(|it| it.is_finite());
    match finite().count() {
        0 => None,
        count => Some(finite().sum::<f64>() / count as f64),
    }
}

/// The slots of `from..to` seconds.
pub fn span(values: &[f64], slot: f64, from: f64, to: f64) -> &[f64] {
    let at = |seconds: f64| ((seconds / slot).round() as usize).min(values.len());
    values.get(at(from)..at(to)).unwrap_or_default()
}

/// Stretches of equal value above 0: from, to, value.
pub fn stretches(values: &[f64], slot: f64) -> Vec<(f64, f64, f64)> {
    let mut stretches: Vec<(f64, f64, f64)> = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let (from, to) = (at as f64 * slot, (at + 1) as f64 * slot);
        match stretches.last_mut() {
            Some(last) if last.2 == *value => last.1 = to,
            _ => stretches.push((from, to, *value)),
        }
    }
    stretches.retain(|stretch| stretch.2 > 0.0);
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_the_mean_of_whole_slots() {
        let values = [1.0, 3.0, 5.0, f64::NAN, f64::NAN, f64::NAN, 7.0];
        let columns = columns(&values, 0.5, 2);
        assert!(columns[2].1.is_nan());
        let measured = [columns[0], columns[1], columns[3]];
        assert_eq!(measured, [(0.5, 2.0), (1.5, 5.0), (3.25, 7.0)]);
    }

    #[test]
    fn nothing_has_no_columns() {
        assert!(columns(&[], 0.5, 2).is_empty());
    }

    #[test]
    fn there_are_not_too_many_columns() {
        assert_eq!(
            [0, 1, 220, 221, 1_200, 3_600].map(slots_per_column),
            [1, 1, 1, 2, 10, 20]
        );
    }

    #[test]
    fn equal_slots_are_one_stretch() {
        let open = [0.0, 1.0, 1.0, 2.0, 0.0, 1.0];
        assert_eq!(
            stretches(&open, 0.5),
            [(0.5, 1.5, 1.0), (1.5, 2.0, 2.0), (2.5, 3.0, 1.0)]
        );
    }

    #[test]
    fn a_span_outside_the_run_is_empty() {
        assert_eq!(span(&[1.0, 2.0, 3.0], 1.0, 1.0, 9.0), [2.0, 3.0]);
        assert!(span(&[1.0], 1.0, 5.0, 9.0).is_empty());
        assert!(span(&[1.0], 1.0, 1.0, 0.0).is_empty());
    }
}
