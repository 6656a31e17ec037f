//! Medians with their interval, from order statistics: no assumption about the noise.

/// What several rounds gave.
#[derive(Clone, Debug)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Of these values; at least one.
    pub fn new(mut values: Vec<f64>) -> Self {
        assert!(!values.is_empty(), "a sample has values");
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never: a sample has values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        let n = self.0.len();
        f64::midpoint(self.0[(n - 1) / 2], self.0[n / 2])
    }

    /// The smallest: what it costs when nothing disturbs.
    pub fn least(&self) -> f64 {
        self.0[0]
    }

    /// Where the true median lies in 95 of 100 cases (binomial, by its normal approximation;
    /// below six values that is the whole range, and less sure).
    pub fn interval(&self) -> (f64, f64) {
        let n = self.0.len();
        let half = 0.98 * (n as f64).sqrt();
        let low = (n as f64 / 2.0 - half).floor().max(0.0) as usize;
        (self.0[low], self.0[n - 1 - low])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(Sample::new(vec![4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert_eq!(Sample::new(vec![3.0, 1.0, 2.0]).median(), 2.0);
    }

    /// The table of the sign test has ranks 10 and 21 for 30 values.
    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        let sample = Sample::new((1..=30).map(f64::from).collect());
        assert_eq!(sample.interval(), (10.0, 21.0));
    }

    #[test]
    fn a_single_value_is_its_own_interval() {
        assert_eq!(Sample::new(vec![7.0]).interval(), (7.0, 7.0));
    }
}
