//! `--interface`: which devices the user wants governed.

use std::str::FromStr;

use super::device::Link;
use crate::errors::{Exit, Failure, Result};

/// Longest name of a device, without the end that C adds.
const LONGEST: usize = libc::IFNAMSIZ - 1;

/// Which devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Every one that can be governed, as they come and go.
    Auto,
    /// None: connects only.
    None,
    /// Those with these names.
    Named(Vec<String>),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::Auto),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let mut names: Vec<String> = Vec::new();
        for name in text.split(',') {
            let fits = !name.is_empty()
                && name.len() <= LONGEST
                && !name.contains(|c: char| c == '/' || c.is_whitespace());
            if !fits {
                return Err(format!("`{name}` is no name of an interface"));
            }
            if ["auto", "none"].contains(&name) {
                return Err(format!("`{name}` stands alone"));
            }
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Ok(Self::Named(names))
    }
}

impl Wanted {
    /// Whether a device is one of them.
    pub fn wants(&self, link: &Link) -> bool {
        match self {
            Self::Auto => true,
            Self::None => false,
            Self::Named(names) => names.contains(&link.name),
        }
    }

    /// Fails for a name that no device has, and for one that can't be governed.
    /// A device that is down is waited for.
    pub fn check(&self, links: &[Link]) -> Result<()> {
        let Self::Named(names) = self else {
            return Ok(());
        };
        for name in names {
            let Some(link) = links.iter().find(|link| link.name == *name) else {
                let there: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
                let why = "there is no such interface in this network namespace";
                return Err(
                    Failure::new(Exit::Usage, format!("--interface {name}"), why)
                        .hint(format!("there are: {}", there.join(", "))),
                );
            };
            if !link.layer.has_ethernet_header() {
                let why = "its packets have no Ethernet header: requests can't be refused there";
                return Err(Failure::new(
                    Exit::Usage,
                    format!("--interface {name}"),
                    why,
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::device::Layer;

    fn named(names: &[&str]) -> Wanted {
        Wanted::Named(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn words_and_names_are_told_apart() {
        assert_eq!("auto".parse(), Ok(Wanted::Auto));
        assert_eq!("none".parse(), Ok(Wanted::None));
        assert_eq!("lo,eth0.10,lo".parse(), Ok(named(&["lo", "eth0.10"])));
        for wrong in ["", "lo,", "auto,lo", "a name", "a/b", "sixteen-letters-"] {
            assert!(wrong.parse::<Wanted>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_that_nobody_has_is_told_with_those_that_there_are() {
        let links = [
            Link::named(1, "lo", Layer::Loopback),
            Link::named(4, "tun0", Layer::Other),
        ];
        let refused = |names: &[&str]| named(names).check(&links).unwrap_err().to_string();
        assert_eq!(
            refused(&["eth9"]),
            "error: --interface eth9: there is no such interface in this network namespace \
             (there are: lo, tun0)"
        );
        assert!(refused(&["lo", "tun0"]).contains("Ethernet"));
        assert!(named(&["lo"]).check(&links).is_ok());
        assert!(Wanted::Auto.check(&links).is_ok());
    }
}
