//! Variant wheels that go away, that move with a set, and that lie where none is expected.

use super::*;

#[test]
fn a_document_of_ours_goes_with_the_last_variant_wheel() {
    let t = set_with(&[VariantWheel::of("gfx942")]);
    t.run("index --no-check set").ok();
    let document = format!("set/dist/rocm-{VERSION}-variants.json");
    assert!(t.path(&document).is_file());
    // The document of somebody else, which no page of ours lists.
    let other = "set/dist/torch-2.9.0-variants.json";
    t.write(other, t.read(&document));
    fs_err::remove_file(t.path("set/dist").join(VariantWheel::of("gfx942").name())).unwrap();
    let plan = t.run("index --no-check set --dry-run");
    assert_has!(plan.ok(), &format!("dist/rocm-{VERSION}-variants.json"));
    assert!(t.path(&document).is_file());
    t.run("index --no-check set").ok();
    assert!(!t.path(&document).exists());
    assert!(t.path(other).is_file());
    assert_lacks!(t.read("set/SHA256SUMS"), "variants.json");
}

#[test]
fn a_document_that_somebody_has_changed_stays() {
    let t = set_with(&[VariantWheel::of("gfx942")]);
    t.run("index --no-check set").ok();
    let document = format!("set/dist/rocm-{VERSION}-variants.json");
    let changed = t.read(&document).replace("gfx942", "gfx90a");
    t.write(&document, &changed);
    fs_err::remove_file(t.path("set/dist").join(VariantWheel::of("gfx942").name())).unwrap();
    t.run("index --no-check set").ok();
    assert_eq!(t.read(&document), changed);
}

#[test]
fn a_promotion_takes_variant_wheels_along() {
    let t = set_with(&[VariantWheel::of("gfx942")]);
    t.run("index --no-check set").ok();
    t.run("promote set --to same --no-check --into out").ok();
    let names = tree(&t.path("out"));
    let document = format!("rocm-{VERSION}-variants.json");
    for wanted in [VariantWheel::of("gfx942").name(), document] {
        assert!(names.iter().any(|name| name.ends_with(&wanted)), "{wanted}: {names:?}");
    }
    let refused =
        t.run("promote set --to same --no-check --layout product --into place").refused(1);
    assert_has!(refused, "a variant wheel, which a release place does not take");
}

#[test]
fn a_release_place_has_no_page_for_a_variant_wheel() {
    let t = Sandbox::new();
    let directory = t.path("place/rocm/core/whl-next/rocm");
    fs_err::create_dir_all(&directory).unwrap();
    let sdist = format!("rocm-{VERSION}.tar.gz");
    fs_err::copy(sample().dist().join(&sdist), directory.join(&sdist)).unwrap();
    let wheel = VariantWheel::of("gfx942");
    wheel.write(&directory);
    let said = t.run("index --layout product place");
    assert_has!(
        said.stderr,
        &format!("{}` is on no page: a release place takes no variant wheel", wheel.name())
    );
    said.ok();
    let page = t.read("place/rocm/core/whl-next/rocm/index.html");
    assert_has!(page, &sdist);
    assert_lacks!(page, "gfx942");
}
