//! Where a packet may be delayed: only `fq` keeps a packet back until its time.
//! Elsewhere the time is ignored, or worse, taken for one of another clock.

use std::collections::BTreeSet;

use super::device::{Kind, Link, Qdisc};

/// How many devices may lie below one another: a tag on a bond of tags.
const DEPTH: u32 = 4;

/// The devices at which an admitted retry may be delayed.
pub fn paced(links: &[Link], qdiscs: &[Qdisc], uplinks: &[u32]) -> BTreeSet<u32> {
    let known = Known { links, qdiscs };
    let mut uplinks = uplinks
        .iter()
        .filter(|device| known.link(**device).is_some_and(|link| link.up))
        .peekable();
    // What comes out of a container leaves the node by an uplink: which one is not
    // known yet where it comes in, so all of them must be able to.
    let world = uplinks.peek().is_some() && uplinks.all(|device| known.delays(*device, DEPTH));
    let paced = |link: &&Link| known.delays(link.index, DEPTH) || (link.is_host_side() && world);
    links.iter().filter(paced).map(|link| link.index).collect()
}

struct Known<'a> {
    links: &'a [Link],
    qdiscs: &'a [Qdisc],
}

impl Known<'_> {
    fn link(&self, device: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.index == device)
    }

    /// Whether packets that leave by a device wait in an `fq`, its own or one of
    /// every device below it.
    fn delays(&self, device: u32, depth: u32) -> bool {
        let Some(link) = self.link(device) else {
            return false;
        };
        let of_device = || self.qdiscs.iter().filter(|qdisc| qdisc.device == device);
        let root = of_device().find(|qdisc| qdisc.parent.is_none());
        match root.map_or("noqueue", |root| root.kind.as_str()) {
            "fq" => true,
            "mq" => {
                let major = |handle: u32| handle >> 16;
                let own = root.map_or(0, |root| major(root.handle));
                let mut queues = of_device()
                    .filter(|qdisc| qdisc.parent.is_some_and(|parent| major(parent) == own))
                    .peekable();
                queues.peek().is_some() && queues.all(|queue| queue.kind == "fq")
            }
            "noqueue" if depth > 0 => {
                let mut below = self.below(link).peekable();
                below.peek().is_some() && below.all(|lower| self.delays(lower, depth - 1))
            }
            _ => false,
        }
    }

    /// The devices by which what was sent to a device leaves.
    fn below<'s>(&'s self, of: &'s Link) -> impl Iterator<Item = u32> + 's {
        let parts = self.links.iter().filter(move |link| {
            of.kind == Kind::Bond && link.up && link.master.is_some_and(|(of_, _)| of_ == of.index)
        });
        let tagged = of.lower.filter(|_| of.kind == Kind::Vlan);
        parts.map(|link| link.index).chain(tagged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::device::{Layer, Master};

    fn link(index: u32, kind: Kind) -> Link {
        Link {
            up: true,
            kind,
            ..Link::named(index, "x", Layer::Ethernet)
        }
    }

    fn qdisc(device: u32, kind: &str) -> Qdisc {
        Qdisc {
            device,
            handle: 0x8001_0000,
            parent: None,
            kind: kind.to_owned(),
        }
    }

    fn queue(device: u32, number: u32, kind: &str) -> Qdisc {
        Qdisc {
            handle: 0,
            parent: Some(0x8001_0000 | number),
            ..qdisc(device, kind)
        }
    }

    fn paced_of(links: &[Link], qdiscs: &[Qdisc], uplinks: &[u32]) -> Vec<u32> {
        paced(links, qdiscs, uplinks).into_iter().collect()
    }

    #[test]
    fn only_fq_delays() {
        let links = [
            link(2, Kind::Other),
            link(3, Kind::Other),
            link(4, Kind::Other),
        ];
        let qdiscs = [qdisc(2, "fq"), qdisc(3, "fq_codel"), qdisc(4, "noqueue")];
        assert_eq!(paced_of(&links, &qdiscs, &[]), [2]);
    }

    #[test]
    fn of_many_queues_every_one_must_delay() {
        let links = [link(2, Kind::Other)];
        let mut qdiscs = vec![qdisc(2, "mq"), queue(2, 1, "fq"), queue(2, 2, "fq")];
        assert_eq!(paced_of(&links, &qdiscs, &[]), [2]);
        // A classifier is not a queue.
        qdiscs.push(Qdisc {
            parent: Some(0xffff_fff1),
            ..qdisc(2, "clsact")
        });
        assert_eq!(paced_of(&links, &qdiscs, &[]), [2]);
        qdiscs.push(queue(2, 3, "pfifo_fast"));
        assert!(paced_of(&links, &qdiscs, &[]).is_empty());
        assert!(paced_of(&links, &qdiscs[..1], &[]).is_empty());
    }

    #[test]
    fn a_container_is_paced_where_every_way_out_delays() {
        let host_side = Link {
            peer_elsewhere: true,
            ..link(9, Kind::Veth)
        };
        let down = Link {
            up: false,
            ..link(4, Kind::Other)
        };
        let links = [link(2, Kind::Other), link(3, Kind::Other), down, host_side];
        let qdiscs = [qdisc(2, "fq"), qdisc(3, "fq_codel")];
        assert_eq!(paced_of(&links, &qdiscs, &[2]), [2, 9]);
        assert_eq!(paced_of(&links, &qdiscs, &[2, 4]), [2, 9]);
        assert_eq!(paced_of(&links, &qdiscs, &[2, 3]), [2]);
        assert_eq!(paced_of(&links, &qdiscs, &[]), [2]);
    }

    #[test]
    fn a_tag_and_a_bond_delay_where_what_is_below_them_does() {
        let part = |index| Link {
            master: Some((5, Master::Other)),
            ..link(index, Kind::Other)
        };
        let tag = Link {
            lower: Some(5),
            ..link(6, Kind::Vlan)
        };
        let links = [part(2), part(3), link(5, Kind::Bond), tag];
        let both = [qdisc(2, "fq"), qdisc(3, "fq"), qdisc(5, "noqueue")];
        assert_eq!(paced_of(&links, &both, &[]), [2, 3, 5, 6]);
        let one = [qdisc(2, "fq"), qdisc(3, "mq"), qdisc(5, "noqueue")];
        assert_eq!(paced_of(&links, &one, &[]), [2]);
    }
}
