//! What `check` says of variant wheels.

use crate::{
    support::{prelude::*, published::VERSION},
    variants::{VariantWheel, set_with},
};

/// The findings of `check`, with the exit code before them.
fn found(t: &Sandbox) -> String {
    let Outcome { code, stdout, .. } = t.run("check set");
    let findings = stdout.split_once("\n\n").map_or("", |(findings, _)| findings);
    format!("exit {code}\n{findings}\n").replace(&format!("{VERSION}-py3-none-any"), "V")
}

/// What is found after one change of the wheel for gfx942.
fn after(change: impl FnOnce(&mut VariantWheel)) -> String {
    let mut wheel = VariantWheel::of("gfx942");
    change(&mut wheel);
    found(&set_with(&[wheel, VariantWheel::of("gfx1100")]))
}

#[test]
fn a_set_with_variant_wheels_has_no_finding() {
    insta::assert_snapshot!(after(|_| {}), @"exit 0");
    let t = set_with(&[VariantWheel::of("gfx942"), VariantWheel::of("gfx1100")]);
    t.run("index set").ok();
    insta::assert_snapshot!(found(&t), @"exit 0");
}

#[test]
fn a_label_without_its_meaning_is_found() {
    insta::assert_snapshot!(after(|it| it.document = Value::Null), @"
    exit 1
    rocm-V-gfx942.whl
      error   RW128 bad-variant: no `*.dist-info/variant.json`, which says what `gfx942` means
    ");
}

#[test]
fn a_document_that_installers_refuse_is_found() {
    insta::assert_snapshot!(after(|it| it.document["more"] = json!(1)), @"
    exit 1
    rocm-V-gfx942.whl
      error   RW128 bad-variant: `rocm-0.99.1.dev0.dist-info/variant.json`: unknown field `more`, expected one of `$schema`, `default-priorities`, `providers`, `variants` at line 1 column 298
    ");
}

#[test]
fn wheels_that_disagree_are_found() {
    insta::assert_snapshot!(after(|it| {
        it.document["providers"]["amd"]["requires"] = json!(["rocm-bootstrap"]);
    }), @"
    exit 1
    rocm-V-gfx942.whl
      error   RW217 variants-disagree: two wheels have different providers of `amd`
    ");
}

#[test]
fn properties_that_ignore_the_hardware_are_found() {
    let of_every_machine = json!({"static-properties": {"gfx_arch": ["gfx942", "gfx1100"]}});
    let wheels = ["gfx942", "gfx1100"].map(|target| {
        let mut wheel = VariantWheel::of(target);
        wheel.document["providers"]["amd"] = of_every_machine.clone();
        wheel
    });
    insta::assert_snapshot!(found(&set_with(&wheels)), @"
    exit 1
    rocm-V-gfx1100.whl
      error   RW218 static-gpu: `static-properties` give `amd` to every machine
    rocm-V-gfx942.whl
      error   RW218 static-gpu: `static-properties` give `amd` to every machine
    ");
}

#[test]
fn a_null_variant_that_hides_the_device_code_is_found() {
    insta::assert_snapshot!(found(&set_with(&[VariantWheel::null()])), @"
    exit 1
    rocm-V-null.whl
      error   RW219 greedy-null-variant: installers prefer it to `rocm-0.99.1.dev0.tar.gz`, which brings device code
    ");
}

#[test]
fn requirements_that_depend_on_the_variant_are_found() {
    const MARKER: &str = "Requires-Dist: rocm-sdk-device-gfx942==0.99.1.dev0; \
        extra == 'device' and 'amd :: gfx_arch :: gfx942' in variant_properties\n";
    insta::assert_snapshot!(after(|it| it.headers.push_str(MARKER)), @"
    exit 0
    rocm-V-gfx942.whl
      warning RW130 unread-variant-marker: the requirement of `rocm-sdk-device-gfx942` depends on `extra == 'device' and 'amd :: gfx_arch :: gfx942' in variant_properties`
    ");
    let t = set_with(&[]);
    let plain = VariantWheel { headers: MARKER.to_owned(), ..VariantWheel::of("gfx942") };
    let path = plain.write(&t.path("set/dist"));
    let name = text(&path).replace("-gfx942.whl", ".whl");
    fs_err::rename(&path, name).unwrap();
    insta::assert_snapshot!(found(&t), @"
    exit 1
    rocm-V.whl
      error   RW129 variant-marker: the requirement of `rocm-sdk-device-gfx942` depends on `extra == 'device' and 'amd :: gfx_arch :: gfx942' in variant_properties`
    ");
}

#[test]
fn variant_wheels_without_any_other_file_are_found() {
    let t = set_with(&[VariantWheel::of("gfx942")]);
    fs_err::remove_file(t.path(format!("set/dist/rocm-{VERSION}.tar.gz"))).unwrap();
    let shown = t.run("check set --select RW220");
    insta::assert_snapshot!(shown.all(), @"
    exit 0
    the set
      warning RW220 variants-only: `rocm` 0.99.1.dev0 has variant wheels only

         1 warning RW220 variants-only
                   publish the sdist, or a wheel without a label, beside the variant wheels

    1 warning, 1 finding skipped in 7 packages
         Checked 7 packages: 1 warning, 1 finding skipped
    ");
}

#[test]
fn a_file_of_the_index_that_does_not_say_what_the_wheels_say_is_found() {
    let t = set_with(&[VariantWheel::of("gfx942")]);
    t.run("index set").ok();
    let document = format!("set/dist/rocm-{VERSION}-variants.json");
    let before = t.read(&document);
    t.write(&document, before.replace("gfx_arch", "gfx_other"));
    insta::assert_snapshot!(found(&t), @"
    exit 1
    rocm-0.99.1.dev0-variants.json
      error   RW707 variants-json-disagrees: `SHA256SUMS` has the SHA-256 of another file
      error   RW707 variants-json-disagrees: `dist/index.html` has the SHA-256 of another file
      error   RW707 variants-json-disagrees: `simple/rocm/` has the SHA-256 of another file
      error   RW707 variants-json-disagrees: it does not say what the wheels say that `index.html` lists
      error   RW707 variants-json-disagrees: it does not say what the wheels say that `simple/` lists
    ");
    fs_err::remove_file(t.path(&document)).unwrap();
    insta::assert_snapshot!(found(&t), @"
    exit 1
    rocm-0.99.1.dev0-variants.json
      error   RW707 variants-json-disagrees: it does not exist, but is listed by `simple/rocm/`, `dist/index.html`, `SHA256SUMS`
    ");
    let page = t.read("set/simple/rocm/index.html");
    let lines = page.lines().filter(|line| !line.contains("variants.json"));
    t.write(&document, before);
    t.write("set/simple/rocm/index.html", lines.collect::<Vec<_>>().join("\n"));
    insta::assert_snapshot!(found(&t), @"
    exit 1
    rocm-0.99.1.dev0-variants.json
      error   RW707 variants-json-disagrees: `simple/` lists variant wheels, and not this file
    ");
}
