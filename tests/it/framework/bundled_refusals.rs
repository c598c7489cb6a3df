//! What `tie --bundle` refuses, because an installer would overwrite files or find no version; and what it takes from a set
//! with more than one wheel of a name.

use std::slice::from_ref;

use super::{Place, members, set, text};
use crate::support::{
    prelude::{text as text_at, *},
    published::VERSION,
};

const FLAGS: [&str; 3] = ["--bundle", "--target", "gfx942"];

/// What a tie that must be refused says.
fn refused(wheels: &[DemoWheel], flags: &[&str]) -> String {
    let place = Place::new();
    let paths: Vec<PathBuf> = wheels.iter().map(|wheel| place.write(wheel)).collect();
    let said = place.tie(&paths, &set(), &[&FLAGS[..], flags].concat());
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(!place.tied().exists(), "something was written");
    said.stderr
}

fn with_file(mut wheel: DemoWheel, path: &str) -> DemoWheel {
    wheel.add(path, "mine");
    wheel
}

/// A framework that needs the libraries of the demo framework.
fn neighbour() -> DemoWheel {
    let mut wheel = DemoWheel::bare("other");
    let object = SharedObject::new("_other.so").needs("libfw.so").needs("libamdhip64.so.7");
    wheel.add("other/_other.so", object.build());
    wheel
}

/// Files in directories of ROCm packages, whether the set has them or not, and in any case, in each wheel of the command.
#[test]
fn no_wheel_of_the_command_has_files_where_rocm_packages_have_theirs() {
    for path in [
        "_rocm_sdk_core",
        "ROCM_SDK/__init__.py",
        "_rocm_sdk_core/lib/zzz.so.txt",
        "rocm_sdk/mine.py",
        "fw-1.0.data/scripts/hipcc",
    ] {
        let said = refused(&[with_file(DemoWheel::new(), path)], &[]);
        assert_has!(said, &format!("it has `{path}`, and "), "(grafted)");
    }
    let beside = with_file(neighbour(), "rocm_sdk/__init__.py");
    let said = refused(&[DemoWheel::new(), beside], &[]);
    assert_has!(said, "`other-1.0-", "it has `rocm_sdk/__init__.py`, and ");
}

#[test]
fn a_license_file_of_the_wheel_is_not_overwritten() {
    let path = "fw-1.0.dist-info/licenses/rocm-sdk-libraries/share/doc/rocblas/LICENSE.md";
    let said = refused(&[with_file(DemoWheel::new(), path)], &[]);
    assert_has!(said, &format!("it has `{path}`, and a license of ROCm's packages goes there"));
}

#[test]
fn two_versions_of_the_wheel_with_rocm_in_it_cannot_be_required() {
    let mut wheel = neighbour();
    "Requires-Dist: fw==2.0\n".clone_into(&mut wheel.headers);
    let said = refused(&[DemoWheel::new(), wheel], &[]);
    assert_has!(said, "it requires `fw==2.0`, and fw 1.0 is in the group (tied-otherwise)");
}

#[test]
fn extras_are_extras_of_the_set() {
    let said = refused(&[DemoWheel::new()], &["--extras", "nonsense"]);
    assert_has!(said, "has no extra `nonsense`", "--extras ");
    for extra in ["device", "device-gfx1100"] {
        let said = refused(&[DemoWheel::new()], &["--extras", extra]);
        assert_has!(said, &format!("`--extras {extra}` names device code"), "--target");
    }
}

#[test]
fn the_python_that_rocm_needs_is_required() {
    let place = Place::new();
    let wheel = place.write(&DemoWheel::new());
    let said = place.tie(from_ref(&wheel), &set(), &FLAGS).ok();
    assert_has!(said, "+ python   >=3.");
    let members = members(&place.only());
    assert_has!(text(&members, "/METADATA"), "Requires-Python: >=3.");
}

/// Its name sorts before the name of the plain wheel.
#[test]
fn a_variant_wheel_of_the_set_does_not_join() {
    let place = Place::new();
    let with_variant = place.0.path("set");
    fs_err::create_dir(&with_variant).unwrap();
    for entry in fs_err::read_dir(set()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs_err::copy(entry.path(), with_variant.join(entry.file_name())).unwrap();
        }
    }
    let plain = format!("rocm_sdk_core-{VERSION}-py3-none-linux_x86_64");
    let bytes = fs_err::read(with_variant.join(format!("{plain}.whl"))).unwrap();
    fs_err::write(with_variant.join(format!("{plain}-gfx942.whl")), bytes).unwrap();
    let wheel = place.write(&DemoWheel::new());
    let said = place.tie(from_ref(&wheel), &with_variant, &FLAGS).ok();
    assert_has!(said, &format!("+ package {plain}.whl"));
    let other = Place::new();
    other.tie(&[other.write(&DemoWheel::new())], &set(), &FLAGS).ok();
    let [one, two] = [&place, &other].map(|it| fs_err::read(it.only()).unwrap());
    assert!(one == two);
    assert!(!text_at(&place.only()).contains("gfx942"));
}
