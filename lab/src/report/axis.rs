//! Axes: round numbers at even distances.

/// From a range of values to a range of the paper.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// The greatest value; the least is 0.
    pub top: f64,
    /// Where 0 is on the paper.
    pub zero: f64,
    /// Where `top` is.
    pub end: f64,
}

impl Axis {
    /// Where a value is on the paper; what is beyond the axis is at its end.
    pub fn at(self, value: f64) -> f64 {
        let share = (value / self.top).clamp(0.0, 1.0);
        self.zero + share * (self.end - self.zero)
    }

    /// At most `most` round numbers above 0, and 0.
    pub fn ticks(self, most: u32) -> impl Iterator<Item = f64> {
        let step = step(self.top, most);
        let count = (self.top / step * (1.0 + 1e-9)).floor() as u32;
        (0..=count).map(move |at| f64::from(at) * step)
    }
}

/// An axis' top for these values: never 0, so that nothing is divided by it.
pub fn top(values: impl Iterator<Item = f64>) -> f64 {
    let top = values.filter(|it| it.is_finite()).fold(0.0, f64::max);
    if top > 0.0 { top } else { 1.0 }
}

/// A round distance between ticks, so that there are at most `most`.
fn step(top: f64, most: u32) -> f64 {
    let rough = top / f64::from(most);
    let unit = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|round| round * unit)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(top: f64, most: u32) -> Vec<f64> {
        let axis = Axis {
            top,
            zero: 0.0,
            end: 1.0,
        };
        axis.ticks(most).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(ticks(740.0, 5), [0.0, 200.0, 400.0, 600.0]);
        assert_eq!(ticks(1.0, 2), [0.0, 0.5, 1.0]);
        assert_eq!(
            ticks(75.0, 8),
            [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0]
        );
    }

    #[test]
    fn an_axis_of_nothing_still_has_a_length() {
        assert_eq!(top([0.0, f64::NAN].into_iter()), 1.0);
        assert_eq!(top(std::iter::empty()), 1.0);
    }

    #[test]
    fn what_is_beyond_the_axis_is_at_its_end() {
        let axis = Axis {
            top: 10.0,
            zero: 100.0,
            end: 0.0,
        };
        assert_eq!(
            [5.0, 20.0, -1.0].map(|value| axis.at(value)),
            [50.0, 0.0, 100.0]
        );
    }
}
