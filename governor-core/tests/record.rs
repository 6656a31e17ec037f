//! What a socket's record holds when it begins.

use bytemuck::Zeroable;
use governor_core::key::EndpointKey;
use governor_core::record::Record;

const ENDPOINT: EndpointKey = EndpointKey {
    workload: 1,
    address: [7; 16],
    port: 80,
    reserved: 0,
};

#[test]
fn a_socket_that_connects_again_has_nothing_of_its_record_left() {
    let begun = Record {
        endpoint: ENDPOINT,
        ..Record::zeroed()
    };
    let mut new = Record::zeroed();
    new.begin(&ENDPOINT);
    assert_eq!(new, begun);

    let mut old: Record = bytemuck::cast([0xff_u8; size_of::<Record>()]);
    old.begin(&ENDPOINT);
    assert_eq!(old, begun);
}
