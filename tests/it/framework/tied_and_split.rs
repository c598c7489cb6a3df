//! A wheel that is tied and then split, and its parts when they are tied again.

use super::{
    Place, assert_loads, runtime, set,
    split::{names, split, wheel, wheels_of},
    unpack,
};
use crate::support::demo::HOOK;
use crate::support::prelude::*;

#[test]
fn a_tied_wheel_is_split_and_its_parts_are_tied_again() {
    let (set, place) = (set(), Place::new());
    // A framework, and one that is built on it, which has no device code.
    let mut fw = wheel();
    fw.add("fw/__init__.py", HOOK);
    let mut more = DemoWheel::bare("fw_more");
    let needs = SharedObject::new("_more.so").needs("libamdhip64.so.7");
    more.add("fw_more/_more.so", needs.needs("libfw.so").build());
    let wheels = [place.write(&fw), place.write(&more)];
    place.tie(&wheels, &set, &["--version-suffix", "set"]).ok();
    let parts = place.0.path("parts");
    let tied = wheels_of(&place.tied());
    let said = split(&tied, &parts, &["--set", set.to_str().unwrap()]).ok();
    assert_has!(said, "stays     as it is: no binary has device code");
    assert_eq!(names(&parts).len(), 6, "{:?}", names(&parts));

    // The binaries find their libraries, and have the marker that leads to their code.
    let site = place.0.path("site");
    unpack(wheels_of(&parts).into_iter().chain(runtime(&set)), &site);
    for file in ["fw/lib/libfw.so", "fw_more/_more.so", "fw_alone.so"] {
        assert_loads(&site.join(file));
    }

    let again = Place::new();
    again.tie(&wheels_of(&parts), &set, &[]).ok();
    assert_eq!(names(&again.tied()), names(&parts));
}
