//! Paths through layers. A hop is one workload's calls of one destination; it
//! continues every hop whose destination that workload serves.

use std::collections::HashMap;

/// Longest path that is followed. Nobody stacks that many layers on one node,
/// and chains of calls that bite their own tail have no end of their own.
const DEEPEST: usize = 16;

/// One workload's calls of one destination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hop {
    /// Who calls: a workload's id.
    pub caller: u64,
    /// What is called: number of a destination.
    pub called: usize,
    /// First tries a second, now.
    pub first: f64,
    /// Attempts a second, now.
    pub attempts: f64,
}

/// Hops, and which of them continue which.
#[derive(Debug)]
pub struct Layers<'a> {
    hops: &'a [Hop],
    /// By hop: those that end at its caller.
    before: Vec<Vec<usize>>,
}

/// The worst path that ends with a hop.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// What one operation at its beginning becomes at its end.
    pub product: f64,
    /// Its hops, from the outermost layer.
    pub hops: Vec<usize>,
}

impl<'a> Layers<'a> {
    /// `serves`: the destinations at whose addresses a workload listens.
    pub fn new(hops: &'a [Hop], serves: &HashMap<u64, Vec<usize>>) -> Self {
        let leads_to = |caller: u64| {
            let served = serves.get(&caller).map_or(&[][..], Vec::as_slice);
            let ends_there = |(_, hop): &(usize, &Hop)| served.contains(&hop.called);
            hops.iter()
                .enumerate()
                .filter(ends_there)
                .map(|(index, _)| index)
                .collect()
        };
        let before = hops.iter().map(|hop| leads_to(hop.caller)).collect();
        Self { hops, before }
    }

    /// The worst path to each hop, where a hop multiplies by its weight (at
    /// least 1). No workload comes twice in a path. Exact where calls make no
    /// circle; where they do, a path found early may bar a worse one.
    pub fn worst(&self, weights: &[f64]) -> Vec<Path> {
        let alone = |(index, weight): (usize, &f64)| Path {
            product: *weight,
            hops: vec![index],
        };
        let mut best: Vec<_> = weights.iter().enumerate().map(alone).collect();
        // One layer a round, each from the paths of the round before.
        for _ in 1..DEEPEST {
            let mut next = best.clone();
            for (index, weight) in weights.iter().enumerate() {
                for before in &self.before[index] {
                    let path = &best[*before];
                    let (product, length) = (path.product * weight, path.hops.len() + 1);
                    if next[index].is_less(product, length)
                        && !self.passes(path, self.hops[index].caller)
                    {
                        let hops = path.hops.iter().copied().chain([index]).collect();
                        next[index] = Path { product, hops };
                    }
                }
            }
            if next == best {
                break;
            }
            best = next;
        }
        best
    }

    fn passes(&self, path: &Path, caller: u64) -> bool {
        path.hops.iter().any(|hop| self.hops[*hop].caller == caller)
    }

    /// Operations a second of each hop: first tries without those that only
    /// follow from a retry further up. While callers above retry, one operation
    /// of theirs is several first tries here.
    pub fn operations(&self) -> Vec<f64> {
        let mut operations: Vec<_> = self.hops.iter().map(|hop| hop.first).collect();
        for _ in 0..DEEPEST {
            let below = |(index, hop): (usize, &Hop)| {
                let above = &self.before[index];
                let attempts: f64 = above.iter().map(|it| self.hops[*it].attempts).sum();
                let meant: f64 = above.iter().map(|it| operations[*it]).sum();
                match meant > 0.0 && attempts > meant {
                    true => hop.first * meant / attempts,
                    false => hop.first,
                }
            };
            operations = self.hops.iter().enumerate().map(below).collect();
        }
        operations
    }
}

impl Path {
    /// Of equal products the one that shows more layers is the greater.
    fn is_less(&self, product: f64, length: usize) -> bool {
        self.product < product || self.product == product && self.hops.len() < length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGE: u64 = 1;
    const MID: u64 = 2;
    const LEAF: u64 = 3;

    fn hop(caller: u64, called: usize) -> Hop {
        rated(caller, called, 0.0, 0.0)
    }

    fn rated(caller: u64, called: usize, first: f64, attempts: f64) -> Hop {
        Hop {
            caller,
            called,
            first,
            attempts,
        }
    }

    fn products(hops: &[Hop], serves: &[(u64, usize)], weights: &[f64]) -> Vec<f64> {
        let worst = Layers::new(hops, &served(serves)).worst(weights);
        worst.into_iter().map(|path| path.product).collect()
    }

    fn served(serves: &[(u64, usize)]) -> HashMap<u64, Vec<usize>> {
        let mut by: HashMap<u64, Vec<usize>> = HashMap::new();
        for (workload, destination) in serves {
            by.entry(*workload).or_default().push(*destination);
        }
        by
    }

    #[test]
    fn three_layers_of_three_tries_make_27() {
        // In no order: the leaf's hop comes first.
        let hops = [hop(LEAF, 3), hop(EDGE, 1), hop(MID, 2)];
        let serves = served(&[(MID, 1), (LEAF, 2)]);
        let worst = Layers::new(&hops, &serves).worst(&[3.0, 3.0, 3.0]);
        assert_eq!(worst[0].product, 27.0);
        assert_eq!(worst[0].hops, [1, 2, 0]);
        assert_eq!((worst[1].product, worst[2].product), (3.0, 9.0));
    }

    #[test]
    fn a_layer_that_does_not_retry_is_shown_and_multiplies_by_one() {
        let hops = [hop(EDGE, 1), hop(MID, 2)];
        let serves = served(&[(MID, 1)]);
        let worst = Layers::new(&hops, &serves).worst(&[3.0, 1.0]);
        assert_eq!(
            (worst[1].product, worst[1].hops.as_slice()),
            (3.0, &[0, 1][..])
        );
        let calm = Layers::new(&hops, &serves).worst(&[1.0, 1.0]);
        assert_eq!(calm[1].hops, [0, 1]);
    }

    #[test]
    fn the_worst_of_several_callers_counts() {
        // Two workloads call what MID serves, one with 2 tries, one with 5.
        let hops = [hop(EDGE, 1), hop(9, 1), hop(MID, 2)];
        assert_eq!(
            products(&hops, &[(MID, 1)], &[2.0, 5.0, 3.0]),
            [2.0, 5.0, 15.0]
        );
    }

    #[test]
    fn calls_in_a_circle_end_and_pass_each_workload_once() {
        // EDGE -> MID -> LEAF -> EDGE.
        let hops = [hop(EDGE, 1), hop(MID, 2), hop(LEAF, 0)];
        let all = products(&hops, &[(MID, 1), (LEAF, 2), (EDGE, 0)], &[3.0, 3.0, 3.0]);
        assert_eq!(all, [27.0, 27.0, 27.0]);
        // Who calls itself is one layer.
        assert_eq!(products(&[hop(MID, 1)], &[(MID, 1)], &[3.0]), [3.0]);
    }

    #[test]
    fn a_hundred_workloads_that_all_call_each_other_end() {
        let hops: Vec<_> = (0..100u64)
            .map(|caller| hop(caller, usize::try_from((caller + 1) % 100).unwrap()))
            .collect();
        let serves: Vec<_> = (0..100)
            .flat_map(|w| (0..100).map(move |d| (w, d)))
            .collect();
        let worst = Layers::new(&hops, &served(&serves)).worst(&[2.0; 100]);
        assert!(worst.iter().all(|path| path.hops.len() <= DEEPEST));
        assert!(worst.iter().all(|path| path.product.is_finite()));
    }

    #[test]
    fn operations_are_first_tries_without_what_retries_above_made_of_them() {
        // 10 operations a second, each tried 3 times by two layers.
        let hops = [
            rated(EDGE, 1, 10.0, 30.0),
            rated(MID, 2, 30.0, 90.0),
            rated(LEAF, 3, 90.0, 270.0),
        ];
        let serves = served(&[(MID, 1), (LEAF, 2)]);
        let operations = Layers::new(&hops, &serves).operations();
        assert_eq!(operations, [10.0, 10.0, 10.0]);
    }

    #[test]
    fn a_call_that_becomes_two_is_two_operations() {
        let hops = [rated(EDGE, 1, 10.0, 10.0), rated(MID, 2, 20.0, 20.0)];
        let operations = Layers::new(&hops, &served(&[(MID, 1)])).operations();
        assert_eq!(operations, [10.0, 20.0]);
    }
}
