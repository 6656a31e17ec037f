//! Keys: a loopback address belongs to its network namespace.

use governor_core::key::{Address, plain, scoped};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv6Addr};

fn address(text: &str) -> Address {
    match text.parse().expect("an address") {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[test]
fn loopback_in_two_namespaces_is_two_places() {
    for loopback in ["127.0.0.1", "127.255.0.9", "::1"] {
        let loopback = address(loopback);
        assert_ne!(scoped(loopback, 35), scoped(loopback, 36));
        assert_ne!(scoped(loopback, 35), loopback);
        assert_eq!(plain(scoped(loopback, 35)), loopback);
    }
}

#[test]
fn loopback_of_the_host_and_every_other_address_stay_as_they_are() {
    assert_eq!(scoped(address("127.0.0.1"), 0), address("127.0.0.1"));
    for other in [
        "10.0.0.5",
        "126.255.255.255",
        "128.0.0.1",
        "::",
        "::2",
        "fd00::1",
    ] {
        assert_eq!(scoped(address(other), 35), address(other), "{other}");
    }
}

proptest! {
    #[test]
    fn only_what_was_scoped_is_made_plain(bytes in any::<[u8; 16]>(), namespace in any::<u64>()) {
        let at = Ipv6Addr::from(bytes);
        prop_assume!(!at.is_multicast());
        prop_assert_eq!(plain(bytes), bytes);
        prop_assert_eq!(plain(scoped(bytes, namespace)), bytes);
    }
}
