//! Variant wheels of other projects at a place of ROCm: what they say is theirs, and never stops our packages.

use super::*;

const UPLOAD: &str = "upload set --no-check --run-id=42 --bucket=mine --platform=linux --multi-target --output-dir out";
const PLACE: &str = "out/42-linux/python";
const THEIRS: &str = "out/42-linux/python/dist/torchx-1.0-variants.json";

/// Writes a variant wheel of `torchx` with this `variant.json`.
fn write(t: &Sandbox, directory: &str, label: &str, document: &str) {
    let info = "torchx-1.0.dist-info";
    let wheel = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let mut members: Members = [
        ("torchx/__init__.py".to_owned(), label.to_owned()),
        (format!("{info}/METADATA"), "Metadata-Version: 2.1\nName: torchx\nVersion: 1.0\n".into()),
        (format!("{info}/WHEEL"), wheel.to_owned()),
        (format!("{info}/variant.json"), document.to_owned()),
        (format!("{info}/RECORD"), String::new()),
    ]
    .map(|(path, text)| (path, 0o100_644, text.into_bytes()))
    .into();
    record(&mut members);
    let name = format!("torchx-1.0-py3-none-any-{label}.whl");
    fs_err::write(t.path(directory).join(name), zipped(&members)).unwrap();
}

fn document(label: &str) -> Value {
    VariantWheel::of(label).document
}

/// A place with a set, to which another job has added wheels of two labels and their document.
fn place(labels: [&str; 2], theirs: &Value) -> Sandbox {
    let t = set_with(&[]);
    t.run(UPLOAD).ok();
    for label in labels {
        write(&t, &format!("{PLACE}/dist"), label, &document(label).to_string());
    }
    t.write(THEIRS, theirs.to_string());
    t
}

#[test]
fn a_document_that_says_more_than_the_wheels_stays_and_is_listed() {
    let mut theirs = document("gfx942");
    for label in ["gfx1100", "gfx90a"] {
        theirs["variants"][label] = document(label)["variants"][label].clone();
    }
    let t = place(["gfx942", "gfx1100"], &theirs);
    for command in [UPLOAD, &format!("index --no-check {PLACE}")] {
        let said = t.run(command);
        assert_has!(said.stderr, "stays as another program wrote it");
        said.ok();
        assert_eq!(t.read(THEIRS), theirs.to_string());
        let digest = Sha256::of(theirs.to_string().as_bytes()).to_string();
        assert_has!(t.read(&format!("{PLACE}/simple/torchx/index.html")), &digest);
    }
    let said = t.run(&format!("check {PLACE}"));
    assert_lacks!(said.all(), "RW707");
}

/// A wheel that cannot be read yet does not take its label out of their document.
#[test]
fn a_wheel_with_a_later_schema_keeps_its_label() {
    let mut theirs = document("gfx942");
    theirs["variants"]["gfx1100"] = document("gfx1100")["variants"]["gfx1100"].clone();
    let t = place(["gfx942", "gfx1100"], &theirs);
    let later = document("gfx942").to_string().replace("v0.2.0", "v9.9.9");
    write(&t, &format!("{PLACE}/dist"), "gfx942", &later);
    t.run(UPLOAD).ok();
    assert_eq!(t.read(THEIRS), theirs.to_string());
}

#[test]
fn a_document_of_ours_follows_the_wheels_of_others() {
    let t = set_with(&[]);
    for label in ["gfx942", "gfx1100"] {
        write(&t, "set/dist", label, &document(label).to_string());
    }
    t.run("index --no-check set").ok();
    let ours = "set/dist/torchx-1.0-variants.json";
    assert_has!(t.read(ours), "gfx942", "gfx1100");
    fs_err::remove_file(t.path("set/dist/torchx-1.0-py3-none-any-gfx942.whl")).unwrap();
    t.run("index --no-check set").ok();
    assert_has!(t.read(ours), "gfx1100");
    assert_lacks!(t.read(ours), "gfx942");
}

#[test]
fn wheels_of_others_that_disagree_do_not_stop_ours() {
    let t = place(["gfx942", "gfx1100"], &document("gfx942"));
    fs_err::remove_file(t.path(THEIRS)).unwrap();
    let other = document("gfx942").to_string().replace("rocm-bootstrap>=0.3.0", "rocm-bootstrap");
    write(&t, &format!("{PLACE}/dist"), "gfx942", &other);
    for command in [UPLOAD, &format!("index --no-check {PLACE}")] {
        let said = t.run(command);
        assert_has!(said.stderr, "torchx-1.0-variants.json` is not written", "do not agree");
        said.ok();
        assert!(!t.path(THEIRS).exists());
    }
    let said = t.run(&format!("check {PLACE}"));
    assert_has!(said.all(), "RW127");
    assert_lacks!(said.all(), "RW217", "RW707");
}

#[test]
fn a_document_that_another_program_has_replaced_is_not_removed() {
    let t = set_with(&[VariantWheel::of("gfx942")]);
    t.run(UPLOAD).ok();
    let path = format!("{PLACE}/dist/rocm-{VERSION}-variants.json");
    let theirs = t.read(&path).replace("gfx942", "gfx90a");
    let ours = t.read(&path);
    fs_err::remove_file(t.path("set/dist").join(VariantWheel::of("gfx942").name())).unwrap();
    t.write(&path, &theirs);
    let overwrite = format!("{UPLOAD} --overwrite");
    t.run(&overwrite).ok();
    assert_eq!(t.read(&path), theirs);
    // The document that this program wrote goes.
    let t = set_with(&[VariantWheel::of("gfx942")]);
    t.run(UPLOAD).ok();
    assert_eq!(t.read(&path), ours);
    fs_err::remove_file(t.path("set/dist").join(VariantWheel::of("gfx942").name())).unwrap();
    t.run(&overwrite).ok();
    assert!(!t.path(&path).exists());
}

#[test]
fn a_null_variant_beside_a_package_with_device_in_the_name_of_a_requirement_is_fine() {
    let t = set_with(&[]);
    let mut null = document("gfx942");
    null["variants"] = json!({"null": {}});
    write(&t, "set/dist", "null", &null.to_string());
    let mut plain = DemoWheel::bare("torchx");
    "Requires-Dist: usb-device-tools\n".clone_into(&mut plain.headers);
    plain.write(&t.path("set/dist"));
    assert_lacks!(t.run("check set").all(), "RW219");
}

#[test]
fn check_refuses_a_variant_json_that_index_does_not_read() {
    let t = set_with(&[]);
    let blanks = " ".repeat(2 << 20);
    write(&t, "set/dist", "gfx942", &format!("{}{blanks}", document("gfx942")));
    assert_has!(t.run("check set").all(), "RW128", "has more than 1048576 bytes");
}

#[test]
fn what_set_json_says_of_a_label_is_read_as_strictly_as_a_wheel() {
    let t = set_with(&[VariantWheel::of("gfx942")]);
    t.run("index --no-check set").ok();
    let mut set: Value = serde_json::from_str(&t.read("set/set.json")).unwrap();
    let files = set["files"].as_array_mut().unwrap();
    let variant = files.iter_mut().find(|file| file.get("variant").is_some()).unwrap();
    variant["variant"]["variants"] = json!({"zzz": {"nvidia": {"X Y": ["!!"]}}});
    t.write("set/set.json", set.to_string());
    let said = t.run("list set");
    assert_ne!(said.code, 0);
    assert_has!(said.stderr, "failed to read a file of a set");
}

/// A find-links page leaves yanked files out.
#[test]
fn a_set_with_yanked_files_is_whole() {
    let t = set_with(&[VariantWheel::of("gfx942"), VariantWheel::of("gfx1100")]);
    t.run("index --no-check set").ok();
    let mut set: Value = serde_json::from_str(&t.read("set/set.json")).unwrap();
    for file in set["files"].as_array_mut().unwrap() {
        let path = file["path"].as_str().unwrap();
        if path.contains("rocm_sdk_device_gfx1100") || path.ends_with("any-gfx1100.whl") {
            file["yanked"] = json!("wrong code");
        }
    }
    t.write("set/set.json", set.to_string());
    t.run("index --no-check set").ok();
    assert_has!(t.read("set/simple/rocm/index.html"), "data-yanked");
    assert_lacks!(t.run("check set").all(), "RW704", "RW707");
}
