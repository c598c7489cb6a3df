//! What changes in a text, and what does not.

use super::*;

fn change(from: &str, to: &str) -> VersionChange {
    VersionChange {
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        targets: TargetChange::default(),
    }
}

fn dropping(kept: &[&str], dropped: &[&str]) -> VersionChange {
    let targets = |names: &[&str]| names.iter().map(|it| it.parse().unwrap()).collect();
    VersionChange {
        targets: TargetChange { kept: targets(kept), dropped: targets(dropped) },
        ..change("1.0rc1", "1.0")
    }
}

#[test]
fn only_whole_versions_of_our_packages_change() {
    let text = "rocm-sdk-core==7.14.0rc1\nrocm-sdk-core==7.14.0rc12\nother==7.14.0rc1\n\
        \"rocm[libraries,devel]==7.14.0rc1\"\nROCm_SDK.core (== 7.14.0-RC.1)\nrocm===7.14.0rc1\n\
        xrocm==7.14.0rc1\nInstall rocm==7.14.0rc1.\nrocm==7.14.0rc1.*\nrocm>=7.14.0rc1\n";
    insta::assert_snapshot!(change("7.14.0rc1", "7.14.0").change_pins(text), @r#"
    rocm-sdk-core==7.14.0
    rocm-sdk-core==7.14.0rc12
    other==7.14.0rc1
    "rocm[libraries,devel]==7.14.0"
    ROCm_SDK.core (== 7.14.0)
    rocm===7.14.0rc1
    xrocm==7.14.0rc1
    Install rocm==7.14.0.
    rocm==7.14.0rc1.*
    rocm>=7.14.0rc1
    "#);
}

#[test]
fn what_is_left_is_found_as_a_whole() {
    let change = change("7.14.0rc1", "7.14.0");
    for text in ["7.14.0rc1", "v7.14.0rc1,", "+rocm7.14.0rc1.x"] {
        assert!(change.is_left_in(text.as_bytes()), "{text}");
    }
    for text in ["7.14.0rc12", "17.14.0rc1", "1.7.14.0rc1", "7.14.0"] {
        assert!(!change.is_left_in(text.as_bytes()), "{text}");
    }
    // A final release is part of the numbers of libraries and of CMake.
    let post = super::tests::change("7.14.0", "7.14.0.post1");
    assert!(!post.is_left_in(b"set(PACKAGE_VERSION 7.14.0)"));
}

#[test]
fn metadata_keeps_all_other_bytes() {
    let text = "Metadata-Version: 2.4\r\nName: rocm\nVersion: 1.0rc1\r\nSummary: rocm 1.0rc1\n\
        Requires-Dist: rocm-sdk-core==1.0rc1; sys_platform == \"linux\"\n\nVersion: 1.0rc1\nrocm==1.0rc1\n";
    let changed = change("1.0rc1", "1.0").apply(TextForm::Metadata, text);
    insta::assert_snapshot!(changed.unwrap().replace('\r', "<CR>"), @r#"
    Metadata-Version: 2.4<CR>
    Name: rocm
    Version: 1.0<CR>
    Summary: rocm 1.0rc1
    Requires-Dist: rocm-sdk-core==1.0; sys_platform == "linux"

    Version: 1.0rc1
    rocm==1.0
    "#);
}

#[test]
fn extras_of_dropped_targets_go() {
    let change = dropping(&["gfx942"], &["gfx950", "gfx1100"]);
    let text = "Name: rocm\nVersion: 1.0rc1\nRequires-Dist: rocm-sdk-core==1.0rc1\n\
        Provides-Extra: device\nProvides-Extra: device-gfx1100\n\
        Requires-Dist: rocm-sdk-device-gfx1100==1.0rc1; extra == \"device-gfx1100\"\n\
        Provides-Extra: device-gfx942\n\
        Requires-Dist: rocm-sdk-device-gfx942==1.0; extra == \"device-gfx942\"\n\
        Provides-Extra: device-all\n\
        Requires-Dist: rocm-sdk-device-gfx950==1.0rc1; extra == \"device-all\"\n\
        Requires-Dist: rocm-sdk-device-gfx942==1.0; extra == \"device-all\"\n";
    insta::assert_snapshot!(change.apply(TextForm::Metadata, text).unwrap(), @r#"
    Name: rocm
    Version: 1.0
    Requires-Dist: rocm-sdk-core==1.0
    Provides-Extra: device
    Requires-Dist: rocm-sdk-device-gfx942==1.0; extra == "device"
    Provides-Extra: device-gfx942
    Requires-Dist: rocm-sdk-device-gfx942==1.0; extra == "device-gfx942"
    Provides-Extra: device-all
    Requires-Dist: rocm-sdk-device-gfx942==1.0; extra == "device-all"
    "#);
    let text = "rocm-sdk-core==1.0rc1\n\n[device]\n\n[device-all]\nrocm-sdk-device-gfx942==1.0\n\n\
        [device-all:sys_platform == \"linux\"]\nrocm-sdk-device-gfx950==1.0rc1\n\n[device-gfx1100]\n\
        rocm-sdk-device-gfx1100==1.0rc1\n\n[device-gfx942]\nrocm-sdk-device-gfx942==1.0\n\n\
        [device-gfx950]\n\n[device-gfx950:sys_platform == \"linux\"]\nrocm-sdk-device-gfx950==1.0rc1\n";
    insta::assert_snapshot!(change.apply(TextForm::Requires, text).unwrap(), @"
    rocm-sdk-core==1.0

    [device]
    rocm-sdk-device-gfx942==1.0

    [device-all]
    rocm-sdk-device-gfx942==1.0

    [device-gfx942]
    rocm-sdk-device-gfx942==1.0
    ");
    let text = "__version__ = '1.0rc1'\nDEFAULT_TARGET_FAMILY = 'gfx1100'\n\
        AVAILABLE_TARGET_FAMILIES.append('gfx1100')\nAVAILABLE_TARGET_FAMILIES.append('gfx942')\n\
        AVAILABLE_TARGET_FAMILIES.append('gfx950:xnack+')\nLINUX_TARGET_FAMILIES.append('gfx1100')\n";
    insta::assert_snapshot!(change.apply(TextForm::Python, text).unwrap(), @"
    __version__ = '1.0'
    DEFAULT_TARGET_FAMILY = 'gfx942'
    AVAILABLE_TARGET_FAMILIES.append('gfx942')
    LINUX_TARGET_FAMILIES.append('gfx1100')
    ");
}

#[test]
fn texts_without_their_version_are_refused_in_words() {
    let change = change("1.0rc1", "1.0");
    let said = [
        (TextForm::Metadata, "Name: rocm\nVersion: 1.0rc2\n"),
        (TextForm::Metadata, "Name: rocm\n\nVersion: 1.0rc1\n"),
        (TextForm::Python, "__version__ = '1.0'\n"),
        (TextForm::Python, "version = '1.0rc1'\n"),
        (TextForm::Json, "{\"version\": \"1.0\"}"),
        (
            TextForm::Json,
            "{\"x\": [\"version\"], \"version\": \"1.0rc1\", \"version\": \"1.0rc1\"}",
        ),
        (TextForm::Json, "[]"),
    ];
    let said = said.map(|(form, text)| change.apply(form, text).unwrap_err().to_string());
    insta::assert_snapshot!(said.join("\n"), @"
    its `Version` is not 1.0rc1
    its `Version` is not 1.0rc1
    its `__version__` is not 1.0rc1
    it has no line `__version__ = …`
    its `version` is not 1.0rc1
    a document that names `version` more than once
    a document without `version`
    ");
    let links = "{\n  \"version\": \"1.0rc1\",\n  \"links\": [{\"target\": \"\\u00fc\"}]\n}";
    assert_eq!(change.apply(TextForm::Json, links).unwrap(), links.replace("1.0rc1", "1.0"));
}

proptest::proptest! {
    #[test]
    fn any_text_is_changed_or_refused(text in "(Name: a\nVersion: 1.0rc1\n|__version__ = '1.0rc1'\n|\\[device\\]\n|rocm ?==1.0rc1|[\\PC\r\n=]{0,9}){0,9}") {
        let change = dropping(&["gfx942"], &["gfx1100"]);
        for form in [TextForm::Metadata, TextForm::Requires, TextForm::Pins, TextForm::Python, TextForm::Json] {
            let _ = change.apply(form, &text);
        }
    }
}

#[test]
fn the_policy_says_which_texts_name_the_version() {
    let policy = VersionTexts::builtin();
    let form = |path| policy.form(path);
    let metadata = "rocm_sdk_core-7.14.0rc1.dist-info/METADATA";
    assert_eq!(form(metadata), Some(TextForm::Metadata));
    let links = "_rocm_sdk_libraries/.devel_links/gfx942.json";
    assert_eq!(form(links), Some(TextForm::Json));
    assert_eq!(form("_rocm_sdk_core/share/README.md"), None);
    assert!(policy.is_searched("_rocm_sdk_core/lib/cmake/hip/a.cmake", 10));
    assert!(!policy.is_searched("_rocm_sdk_core/lib/cmake/hip/a.cmake", 1 << 21));
    let manifest = "_rocm_sdk_core/share/therock/therock_manifest.json";
    assert!(!policy.is_searched(manifest, 10));
}
