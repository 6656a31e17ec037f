//! A network in the kernel's form: 128 bits, IPv4 as `::ffff:a.b.c.d`.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

/// A network of 128-bit addresses, ordered shortest prefix first. `0.0.0.0/0`
/// is `::ffff:0:0/96`, so `::/0` covers IPv4 too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    len: u8,
    addr: u128,
}

/// An address in the kernel's form.
fn bits(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl Prefix {
    /// Every address.
    pub const ANY: Self = Self { len: 0, addr: 0 };

    /// One address.
    pub fn host(addr: IpAddr) -> Self {
        Self {
            len: 128,
            addr: bits(addr),
        }
    }

    /// Its length, 0 to 128.
    pub fn len(self) -> u8 {
        self.len
    }

    /// Its address in network order.
    pub fn octets(self) -> [u8; 16] {
        self.addr.to_be_bytes()
    }

    /// Its first bits: the network of that length around it.
    pub fn shortened(self, len: u8) -> Self {
        let len = len.min(self.len);
        let keep = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        Self {
            len,
            addr: self.addr & keep,
        }
    }

    /// Whether every address of the other is one of this.
    pub fn covers(self, other: Self) -> bool {
        other.len >= self.len && other.shortened(self.len) == self
    }

    /// Itself and every network around it, longest prefix first.
    pub fn around(self) -> impl Iterator<Item = Self> {
        (0..=self.len).rev().map(move |len| self.shortened(len))
    }
}

impl From<IpNet> for Prefix {
    fn from(net: IpNet) -> Self {
        let len = match net {
            IpNet::V4(v4) => 96 + v4.prefix_len(),
            IpNet::V6(v6) => v6.prefix_len(),
        };
        Self::host(net.addr()).shortened(len)
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let addr = Ipv6Addr::from_bits(self.addr);
        match addr.to_ipv4_mapped() {
            Some(v4) if self.len >= 96 => write!(f, "{v4}/{}", self.len - 96),
            _ => write!(f, "{addr}/{}", self.len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(net: &str) -> Prefix {
        net.parse::<IpNet>().unwrap().into()
    }

    #[test]
    fn ipv4_lives_in_the_mapped_part_of_ipv6() {
        assert_eq!(prefix("0.0.0.0/0"), prefix("::ffff:0:0/96"));
        assert_eq!(prefix("10.0.0.0/8"), prefix("::ffff:10.0.0.0/104"));
        assert_eq!(prefix("10.0.0.0/8").to_string(), "10.0.0.0/8");
        assert_eq!(prefix("::/0"), Prefix::ANY);
        let octets = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 0];
        assert_eq!(prefix("10.0.0.0/8").octets(), octets);
    }

    #[test]
    fn a_network_covers_what_begins_with_it() {
        assert!(prefix("10.0.0.0/8").covers(prefix("10.1.0.0/16")));
        assert!(!prefix("10.1.0.0/16").covers(prefix("10.0.0.0/8")));
        assert!(!prefix("10.0.0.0/8").covers(prefix("11.0.0.1/32")));
        assert!(Prefix::ANY.covers(prefix("11.0.0.1/32")));
        assert!(!prefix("fd00::/8").covers(prefix("10.0.0.0/8")));
    }
}
