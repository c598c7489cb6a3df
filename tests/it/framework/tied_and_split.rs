//! `tie --split` makes what `tie` and then `split` make.

use std::{collections::BTreeMap, path::Path};

use super::{
    Place, assert_loads, members, runtime,
    split::{names, split, wheel, wheels_of},
    text, unpack,
};
use crate::support::{
    demo::{DemoWheel, HOOK},
    linker::SharedObject,
    program::rocwheel,
    published,
};

/// What METADATA and the record of the tie say, by the names of the wheels.
fn texts(directory: &Path) -> BTreeMap<String, [String; 2]> {
    let wheels = wheels_of(directory).into_iter();
    let texts = wheels.map(|it| {
        let all = members(&it);
        let record = all.iter().find(|it| it.0.ends_with("/rocm_tie.json"));
        let record = record.map(|it| String::from_utf8(it.2.clone()).unwrap());
        let name = it.file_name().unwrap().to_str().unwrap().to_owned();
        (name, [text(&all, "/METADATA"), record.unwrap_or_default()])
    });
    texts.collect()
}

/// Ties and splits a framework and one that is built on it, which has no device code.
fn made(place: &Place, flags: &[&str]) -> std::path::PathBuf {
    let mut fw = wheel();
    fw.add("fw/__init__.py", HOOK);
    let mut more = DemoWheel::bare("fw_more");
    let needs = SharedObject::new("_more.so").needs("libamdhip64.so.7");
    more.add("fw_more/_more.so", needs.needs("libfw.so").build());
    let wheels = [place.write(&fw), place.write(&more)];
    place.tie(&wheels, &published::sample().dist(), flags).ok();
    place.tied()
}

#[test]
fn one_step_makes_what_two_make() {
    let set = published::sample().dist();
    let (one, two) = (Place::new(), Place::new());
    let at_once = made(&one, &["--split", "--version-suffix", "set"]);
    let tied = made(&two, &["--version-suffix", "set"]);
    let parts = two.0.path("parts");
    let fat = tied.join("fw-1.0+devrocm0.0.1.dev0-py3-none-linux_x86_64.whl");
    split(&[fat], &parts, &["--set", set.to_str().unwrap()]).ok();
    let more = "fw_more-1.0+devrocm0.0.1.dev0-py3-none-linux_x86_64.whl";
    fs_err::copy(tied.join(more), parts.join(more)).unwrap();
    assert_eq!(names(&at_once), names(&parts));
    assert!(names(&at_once).len() == 6, "{:?}", names(&at_once));
    assert_eq!(texts(&at_once), texts(&parts));
    for name in names(&parts).iter().filter(|it| !it.starts_with("fw-")) {
        let [one, two] = [&at_once, &parts].map(|it| fs_err::read(it.join(name)).unwrap());
        assert!(one == two, "{name}");
    }

    // The binaries find their libraries, and have the marker that leads to their code.
    let site = one.0.path("site");
    unpack(wheels_of(&at_once).into_iter().chain(runtime(&set)), &site);
    for file in ["fw/lib/libfw.so", "fw_more/_more.so", "fw_alone.so"] {
        assert_loads(&site.join(file));
    }
}

#[test]
fn a_plan_shows_both_and_little_savings_leave_the_wheel_whole() {
    let place = Place::new();
    let set = published::sample().dist();
    let fat = place.write(&wheel());
    let said = place
        .tie(std::slice::from_ref(&fat), &set, &["--split", "--plan"])
        .ok();
    assert!(
        said.contains("  ties      3 of 3 binaries") && said.contains("  splits    3 binaries"),
        "{said}"
    );
    assert!(said.contains("  - requires rocm[device]=="), "{said}");
    assert!(!place.tied().exists());
    place
        .tie(&[fat], &set, &["--split", "--min-saving", "99"])
        .ok();
    let whole = members(&place.only());
    assert!(text(&whole, "/METADATA").contains("rocm[device]=="));
    // A wheel that was split already is tied again with its device wheels.
    let parts = Place::new();
    made(&parts, &["--split"]);
    let again = Place::new();
    again
        .tie(&wheels_of(&parts.tied()), &set, &["--split"])
        .ok();
    assert_eq!(names(&again.tied()), names(&parts.tied()));
    let help = rocwheel(&["framework", "tie", "--help"]).ok();
    assert!(help.contains("Split options:"), "{help}");
}
