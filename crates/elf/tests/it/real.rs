//! Programs as they are shipped: those of the Rust toolchain are on every machine that runs this.

use rocwheel_test_files::{
    compiled::sysroot,
    programs::{Place, run},
};

use crate::with_rpath;

#[test]
fn a_shipped_program_finds_its_libraries_from_another_place() {
    let rust = sysroot();
    let place = Place::make();
    let libraries = rust.join("lib").display().to_string();
    let objcopy = "lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-objcopy";
    for program in [objcopy, "bin/rustc"] {
        let before = fs_err::read(rust.join(program)).unwrap();
        let lost = place.put("a/b/program", &before);
        assert!(run(&lost).is_err(), "{program}");
        let (_, after) = with_rpath(&before, &format!("/nowhere:{libraries}")).unwrap();
        let found = place.put("a/b/program", &after);
        assert!(run(&found).is_ok(), "{program}");
    }
}
