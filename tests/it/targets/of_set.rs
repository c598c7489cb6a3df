//! `targets --of`: the targets of package sets.

use crate::support::{place::text, program::rocwheel, published::sets};

#[test]
fn a_set_has_the_targets_of_its_device_packages() {
    let places = sets().map(|set| (set, set.dist()));
    for (set, dist) in &places {
        let of = |more: &[&str]| rocwheel(&[&["targets", "--of", text(dist)], more].concat()).ok();
        assert_eq!(of(&[]), format!("{}\n", set.targets.join(" ")));
        assert_eq!(of(&["--common"]), format!("{}\n", set.targets.join(" ")));
    }
    let [(_, first), (_, second)] = &places;
    let both = [
        "targets",
        "--of",
        text(first),
        text(second),
        "--except",
        "hipBLASLt",
    ];
    assert_eq!(rocwheel(&both).ok(), "gfx1100 gfx942\n");
}
