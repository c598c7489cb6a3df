//! Tests of the contents and the metadata of the sdist.

use std::sync::LazyLock;

use super::*;
use crate::policy::Catalog;
use rocwheel_base::target::PlatformView;

fn policy() -> &'static Catalog {
    static POLICY: LazyLock<Catalog> = LazyLock::new(|| Catalog::built_in().unwrap());
    &POLICY
}

fn scopes(names: &[&str]) -> Vec<Scope> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn info(linux: &[&str], windows: &[&str]) -> DistInfo<'static> {
    let mut available = [linux, windows].concat();
    available.sort_unstable();
    available.dedup();
    DistInfo {
        catalog: policy(),
        mode: DistributionMode::Split,
        version: "10.1.0a20260820".to_owned(),
        suffix: String::new(),
        view: PlatformView {
            default: scopes(&available).first().cloned(),
            available: scopes(&available),
            linux: scopes(linux),
            windows: scopes(windows),
        },
        absent: Vec::new(),
        only: None,
    }
}

fn text(info: &DistInfo<'_>, path: &str) -> String {
    let files = files(info).unwrap();
    let mut files = files.into_iter();
    files.find(|(name, _)| name.as_str() == path).unwrap().1
}

fn head(text: &str) -> &str {
    let start = text.find("Dynamic").unwrap();
    &text[start..text.find("\n\n").unwrap()]
}

#[test]
fn extras_and_markers_follow_the_targets_of_both_platforms() {
    let info = info(&["gfx1100", "gfx942"], &["gfx1100", "gfx1201"]);
    insta::assert_snapshot!(head(&text(&info, "PKG-INFO")), @r#"
    Dynamic: Provides-Extra
    Dynamic: Requires-Dist
    Requires-Dist: rocm-sdk-core==10.1.0a20260820
    Provides-Extra: libraries
    Requires-Dist: rocm-sdk-libraries==10.1.0a20260820; extra == "libraries"
    Provides-Extra: device
    Provides-Extra: devel
    Requires-Dist: rocm-sdk-devel==10.1.0a20260820; extra == "devel"
    Provides-Extra: profiler
    Requires-Dist: rocm-profiler==10.1.0a20260820; sys_platform == "linux" and extra == "profiler"
    Provides-Extra: device-gfx1100
    Requires-Dist: rocm-sdk-device-gfx1100==10.1.0a20260820; extra == "device-gfx1100"
    Provides-Extra: device-gfx1201
    Requires-Dist: rocm-sdk-device-gfx1201==10.1.0a20260820; sys_platform == "win32" and extra == "device-gfx1201"
    Provides-Extra: device-gfx942
    Requires-Dist: rocm-sdk-device-gfx942==10.1.0a20260820; sys_platform == "linux" and extra == "device-gfx942"
    Provides-Extra: device-all
    Requires-Dist: rocm-sdk-device-gfx1100==10.1.0a20260820; extra == "device-all"
    Requires-Dist: rocm-sdk-device-gfx1201==10.1.0a20260820; sys_platform == "win32" and extra == "device-all"
    Requires-Dist: rocm-sdk-device-gfx942==10.1.0a20260820; sys_platform == "linux" and extra == "device-all"
    "#);
}

#[test]
fn requirements_of_one_platform_have_sections_of_their_own() {
    let info = info(&["gfx1100", "gfx942"], &["gfx1100"]);
    insta::assert_snapshot!(requires_txt(&info), @r#"
    rocm-sdk-core==10.1.0a20260820

    [devel]
    rocm-sdk-devel==10.1.0a20260820

    [device]

    [device-all]
    rocm-sdk-device-gfx1100==10.1.0a20260820

    [device-all:sys_platform == "linux"]
    rocm-sdk-device-gfx942==10.1.0a20260820

    [device-gfx1100]
    rocm-sdk-device-gfx1100==10.1.0a20260820

    [device-gfx942]

    [device-gfx942:sys_platform == "linux"]
    rocm-sdk-device-gfx942==10.1.0a20260820

    [libraries]
    rocm-sdk-libraries==10.1.0a20260820

    [profiler]

    [profiler:sys_platform == "linux"]
    rocm-profiler==10.1.0a20260820
    "#);
}

#[test]
fn one_target_needs_no_choice_and_can_be_asked_for_by_name() {
    let info = info(&["gfx942:xnack+", "gfx942"], &[]);
    let names: Vec<String> = extras(&info)
        .into_iter()
        .map(|(name, requirements)| {
            let pins: Vec<String> = requirements.into_iter().map(|(pin, _)| pin).collect();
            format!("{name}: {}", pins.join(" "))
        })
        .collect();
    insta::assert_snapshot!(names.join("\n"), @"
    libraries: rocm-sdk-libraries==10.1.0a20260820
    device: rocm-sdk-device-gfx942==10.1.0a20260820
    devel: rocm-sdk-devel==10.1.0a20260820
    profiler: rocm-profiler==10.1.0a20260820
    device-gfx942: rocm-sdk-device-gfx942==10.1.0a20260820
    device-all: rocm-sdk-device-gfx942==10.1.0a20260820
    ");
}

#[test]
fn a_legacy_set_has_libraries_per_family_and_no_device_extra() {
    let info = info(&["gfx110X-all", "gfx94X-dcgpu"], &[]);
    let legacy = DistInfo { mode: DistributionMode::Legacy, ..info };
    let restricted = DistInfo { only: Some("gfx94X-dcgpu".parse().unwrap()), ..legacy.clone() };
    let info = text(&restricted, "PKG-INFO");
    assert!(info.contains("rocm-sdk-libraries-gfx94X-dcgpu==10.1.0a20260820; extra"));
    assert!(!head(&info).contains("device"));
    assert!(!text(&restricted, "src/rocm_sdk/_dist_info.py").contains("append('gfx110X-all')"));
    let names: Vec<String> = extras(&legacy).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "libraries",
            "devel",
            "profiler",
            "libraries-gfx110X-all",
            "libraries-gfx94X-dcgpu",
            "libraries-all"
        ]
    );
}

#[test]
fn what_the_sdist_says_of_itself_is_in_the_catalog() {
    let catalog = Catalog::built_in().unwrap();
    let info = info(&["gfx942"], &[]);
    let text = self::text(&info, "PKG-INFO");
    let common = &catalog.metadata;
    for (label, url) in &common.urls {
        assert!(text.contains(&format!("Project-URL: {label}, {url}\n")));
    }
    assert!(text.contains(&format!("License-Expression: {}\n", common.license)));
    assert!(text.contains(&format!("Requires-Python: {}\n", common.requires_python)));
    let summary = catalog.get("meta").unwrap().summary(None);
    assert!(text.contains(&format!("Summary: {summary}\n")));
}

#[test]
fn a_set_without_targets_or_packages_still_has_an_sdist() {
    let mut info = info(&[], &[]);
    info.absent = vec!["devel".into(), "profiler".into(), "device".into()];
    let names: Vec<String> = extras(&info).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["libraries"]);
    assert!(files(&info).is_ok());
}

#[test]
fn the_files_come_in_the_order_of_an_sdist() {
    let info = info(&["gfx942"], &[]);
    let names: Vec<String> = files(&info)
        .unwrap()
        .iter()
        .map(|(path, _)| path.to_string())
        .filter(|path| !path.contains("/rocm_sdk/_") && !path.contains("/tests/"))
        .collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    MANIFEST.in
    PKG-INFO
    README.md
    pyproject.toml
    rocm_build.py
    setup.cfg
    setup.py
    src/rocm.egg-info/PKG-INFO
    src/rocm.egg-info/SOURCES.txt
    src/rocm.egg-info/dependency_links.txt
    src/rocm.egg-info/entry_points.txt
    src/rocm.egg-info/requires.txt
    src/rocm.egg-info/top_level.txt
    src/rocm_sdk/py.typed
    ");
}

#[test]
fn the_list_of_sources_is_sorted_and_leaves_out_what_is_made_later() {
    let info = info(&["gfx942"], &[]);
    let listed = text(&info, "src/rocm.egg-info/SOURCES.txt");
    assert!(!listed.ends_with('\n'));
    let mut expected: Vec<String> = files(&info)
        .unwrap()
        .iter()
        .map(|(path, _)| path.to_string())
        .filter(|path| path != "PKG-INFO" && path != "setup.cfg")
        .collect();
    expected.sort();
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn the_extras_reach_into_the_package_only_through_its_generated_lines() {
    let info = info(&["gfx1100"], &["gfx1201"]);
    let rendered = text(&info, "src/rocm_sdk/_dist_info.py");
    assert!(rendered.ends_with("THIS_PACKAGE_ENTRY = ALL_PACKAGES['meta']\n"));
}
