//! Tests of the lines that are written, and that they are read back.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::run::Platform;

fn scopes(names: &[&str]) -> Vec<Scope> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn policy() -> &'static Catalog {
    static POLICY: LazyLock<Catalog> = LazyLock::new(|| Catalog::built_in().unwrap());
    &POLICY
}

fn split(available: &[&str], linux: &[&str], windows: &[&str]) -> DistInfo<'static> {
    DistInfo {
        catalog: policy(),
        mode: DistributionMode::Split,
        version: "10.1.0a20260820".to_owned(),
        suffix: String::new(),
        view: PlatformView {
            default: scopes(available).first().cloned(),
            available: scopes(available),
            linux: scopes(linux),
            windows: scopes(windows),
        },
        absent: Vec::new(),
        only: None,
    }
}

#[test]
fn a_split_package_says_the_whole_distribution() {
    let info =
        split(&["gfx1100", "gfx1201", "gfx942"], &["gfx1100", "gfx942"], &["gfx1100", "gfx1201"]);
    insta::assert_snapshot!(generated(&info, "libraries", None).join("\n"), @r#"
    __version__ = '10.1.0a20260820'
    PY_PACKAGE_SUFFIX_NONCE = ''
    DEFAULT_TARGET_FAMILY = 'gfx1100'
    AVAILABLE_TARGET_FAMILIES.append('gfx1100')
    AVAILABLE_TARGET_FAMILIES.append('gfx1201')
    AVAILABLE_TARGET_FAMILIES.append('gfx942')
    LINUX_TARGET_FAMILIES.append('gfx1100')
    LINUX_TARGET_FAMILIES.append('gfx942')
    WINDOWS_TARGET_FAMILIES.append('gfx1100')
    WINDOWS_TARGET_FAMILIES.append('gfx1201')
    THIS_TARGET_FAMILY = None
    THIS_PACKAGE_ENTRY = ALL_PACKAGES['libraries']
    "#);
}

#[test]
fn a_restricted_package_names_no_family_but_its_own() {
    let info = DistInfo {
        only: Some("gfx94X-dcgpu".parse().unwrap()),
        ..split(&["gfx110X-all", "gfx94X-dcgpu"], &["gfx110X-all"], &[])
    };
    insta::assert_snapshot!(generated(&info, "meta", None).join("\n"), @r"
    __version__ = '10.1.0a20260820'
    PY_PACKAGE_SUFFIX_NONCE = ''
    THIS_TARGET_FAMILY = 'gfx94X-dcgpu'
    THIS_PACKAGE_ENTRY = ALL_PACKAGES['meta']
    DEFAULT_TARGET_FAMILY = 'gfx94X-dcgpu'
    AVAILABLE_TARGET_FAMILIES.append('gfx94X-dcgpu')
    ");
}

#[test]
fn a_distribution_says_what_it_goes_without() {
    let info = DistInfo { absent: vec!["profiler".to_owned()], ..split(&[], &[], &[]) };
    insta::assert_snapshot!(generated(&info, "libraries", None)[2..].join("\n"), @r"
    ABSENT_PACKAGES.append('profiler')
    THIS_TARGET_FAMILY = None
    THIS_PACKAGE_ENTRY = ALL_PACKAGES['libraries']
    ");
}

/// The rows of a table, each on a line.
fn rows(json: &str, table: &str) -> Vec<String> {
    let document: serde_json::Value = serde_json::from_str(json).unwrap();
    match &document[table] {
        serde_json::Value::Array(rows) => rows.iter().map(ToString::to_string).collect(),
        serde_json::Value::Object(rows) => rows.iter().map(|(k, v)| format!("{k}: {v}")).collect(),
        other => panic!("{other}"),
    }
}

#[test]
fn the_tables_are_those_of_the_policy() {
    let legacy = Tables::of_packages(policy().packages(), DistributionMode::Legacy);
    let named = "\"rocm-sdk-libraries-{target_family}\"";
    assert!(legacy.render().unwrap().contains(named));
    let tables = Tables::of_packages(policy().packages(), DistributionMode::Split);
    let json = tables.render().unwrap();
    let tables = ["packages", "libraries", "files", "families", "ip_versions", "code_names"];
    let mut lines: Vec<String> = tables.iter().flat_map(|table| rows(&json, table)).collect();
    lines.retain(|line| !line.contains("gfx1") && !line.contains("rocprof"));
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"logical_name":"meta","dist_package_template":"rocm","pure_py_package_name":"rocm_sdk","required":true}
    {"logical_name":"core","dist_package_template":"rocm-sdk-core","pure_py_package_name":"rocm_sdk_core","required":true}
    {"logical_name":"libraries","dist_package_template":"rocm-sdk-libraries","pure_py_package_name":"rocm_sdk_libraries"}
    {"logical_name":"device","dist_package_template":"rocm-sdk-device-{target_family}","pure_py_package_name":"rocm_sdk_device"}
    {"logical_name":"devel","dist_package_template":"rocm-sdk-devel","pure_py_package_name":"rocm_sdk_devel"}
    {"logical_name":"profiler","dist_package_template":"rocm-profiler","pure_py_package_name":"rocm_profiler","sys_platform":"linux"}
    {"shortname":"amdhip64","package_name":"core","so_pattern":"libamdhip64.so*","dll_pattern":"amdhip64*.dll"}
    {"shortname":"hipfile","package_name":"core","so_pattern":"libhipfile.so*","dll_pattern":""}
    {"shortname":"hiprtc","package_name":"core","so_pattern":"libhiprtc.so*","dll_pattern":"hiprtc0*.dll"}
    {"shortname":"roctx64","package_name":"core","so_pattern":"libroctx64.so*","dll_pattern":""}
    {"shortname":"roctracer64","package_name":"core","so_pattern":"libroctracer64.so*","dll_pattern":""}
    {"shortname":"rocm_sysdeps_liblzma","package_name":"core","so_pattern":"librocm_sysdeps_liblzma.so.*","dll_pattern":"","posix_relpath":"lib/rocm_sysdeps/lib"}
    {"shortname":"rocm-openblas","package_name":"core","so_pattern":"librocm-openblas.so.*","dll_pattern":"rocm-openblas*.dll","posix_relpath":"lib/host-math/lib"}
    {"shortname":"amd_comgr","package_name":"core","so_pattern":"libamd_comgr.so*","dll_pattern":"amd_comgr*.dll"}
    {"shortname":"rocm_kpack","package_name":"core","so_pattern":"librocm_kpack.so*","dll_pattern":"rocm_kpack*.dll"}
    {"shortname":"rocm_smi64","package_name":"core","so_pattern":"librocm_smi64.so*","dll_pattern":""}
    {"shortname":"rocdecode","package_name":"core","so_pattern":"librocdecode.so*","dll_pattern":""}
    {"shortname":"rocjpeg","package_name":"core","so_pattern":"librocjpeg.so*","dll_pattern":""}
    {"shortname":"amd_smi","package_name":"core","so_pattern":"libamd_smi.so*","dll_pattern":""}
    {"shortname":"rocdxg","package_name":"core","so_pattern":"librocdxg*.so*","dll_pattern":"","optional":true}
    {"shortname":"rpp","package_name":"libraries","so_pattern":"librpp.so*","dll_pattern":""}
    {"shortname":"hipblas","package_name":"libraries","so_pattern":"libhipblas.so*","dll_pattern":"*hipblas*.dll"}
    {"shortname":"hipblaslt","package_name":"libraries","so_pattern":"libhipblaslt.so*","dll_pattern":"*hipblaslt*.dll"}
    {"shortname":"hipfft","package_name":"libraries","so_pattern":"libhipfft.so*","dll_pattern":"hipfft*.dll"}
    {"shortname":"hiprand","package_name":"libraries","so_pattern":"libhiprand.so*","dll_pattern":"hiprand*.dll"}
    {"shortname":"hipsparse","package_name":"libraries","so_pattern":"libhipsparse.so*","dll_pattern":"hipsparse*.dll"}
    {"shortname":"hipsparselt","package_name":"libraries","so_pattern":"libhipsparselt.so*","dll_pattern":""}
    {"shortname":"hipsolver","package_name":"libraries","so_pattern":"libhipsolver.so*","dll_pattern":"hipsolver*.dll"}
    {"shortname":"rccl","package_name":"libraries","so_pattern":"librccl.so*","dll_pattern":""}
    {"shortname":"miopen","package_name":"libraries","so_pattern":"libMIOpen.so*","dll_pattern":"MIOpen*.dll"}
    {"shortname":"origami","package_name":"libraries","so_pattern":"liborigami.so*","dll_pattern":"origami*.dll"}
    {"shortname":"hipdnn","package_name":"libraries","so_pattern":"libhipdnn_backend.so*","dll_pattern":"hipdnn_backend*.dll"}
    {"package_name":"core","relpath":"lib/llvm/bin/amdclang","command":"amdclang"}
    {"package_name":"core","relpath":"lib/llvm/bin/amdclang++","command":"amdclang++"}
    {"package_name":"core","relpath":"lib/llvm/bin/amdclang-cpp","command":"amdclang-cpp"}
    {"package_name":"core","relpath":"lib/llvm/bin/amdclang-cl","command":"amdclang-cl"}
    {"package_name":"core","relpath":"lib/llvm/bin/amdflang","command":"amdflang"}
    {"package_name":"core","relpath":"lib/llvm/bin/amdlld","command":"amdlld"}
    {"package_name":"core","relpath":"bin/hipcc","command":"hipcc"}
    {"package_name":"core","relpath":"bin/hipconfig","command":"hipconfig"}
    {"package_name":"core","relpath":"bin/hipify-clang","command":"hipify-clang"}
    {"package_name":"core","relpath":"lib/llvm/bin/offload-arch","command":"offload-arch"}
    {"package_name":"core","relpath":"bin/amd-smi","command":"amd-smi","sys_platform":"linux"}
    {"package_name":"core","relpath":"bin/hipify-perl","command":"hipify-perl","sys_platform":"linux"}
    {"package_name":"core","relpath":"bin/rocm_agent_enumerator","command":"rocm_agent_enumerator","sys_platform":"linux"}
    {"package_name":"core","relpath":"bin/rocminfo","command":"rocminfo","sys_platform":"linux"}
    {"package_name":"core","relpath":"bin/rocm-smi","command":"rocm-smi","sys_platform":"linux"}
    {"package_name":"core","relpath":"bin/roccoremerge","command":"roccoremerge","sys_platform":"linux"}
    {"package_name":"core","relpath":"bin/rocgdb","command":"rocgdb","sys_platform":"linux"}
    {"package_name":"core","relpath":"bin/rocpd","command":"rocpd","sys_platform":"linux"}
    {"package_name":"core","relpath":"bin/rocpd2csv","command":"rocpd2csv","sys_platform":"linux"}
    {"package_name":"core","relpath":"bin/rocpd2otf2","command":"rocpd2otf2","sys_platform":"linux"}
    {"package_name":"core","relpath":"bin/rocpd2pftrace","command":"rocpd2pftrace","sys_platform":"linux"}
    {"package_name":"core","relpath":"bin/rocpd2summary","command":"rocpd2summary","sys_platform":"linux"}
    {"package_name":"core","relpath":"bin/hipInfo","command":"hipInfo","sys_platform":"win32"}
    {"package_name":"core","relpath":"bin/roc-obj","command":"roc-obj","optional":true}
    {"package_name":"core","relpath":"bin/roc-obj-extract","command":"roc-obj-extract","optional":true}
    {"package_name":"core","relpath":"bin/roc-obj-ls","command":"roc-obj-ls","optional":true}
    {"package_name":"core","relpath":"bin/rocminfo","command":"rocminfo","sys_platform":"win32","optional":true}
    {"package_name":"devel","relpath":"include/hip/hip_runtime.h"}
    {"package_name":"devel","relpath":"lib/cmake/hip/hip-config.cmake"}
    {"package_name":"devel","relpath":"lib/cmake/hip/hip-targets.cmake"}
    {"package_name":"devel","relpath":"lib/cmake/rocblas/rocblas-config.cmake"}
    {"package_name":"devel","relpath":"lib/cmake/rocprim/rocprim-config.cmake"}
    {"package_name":"devel","relpath":"llvm","sys_platform":"linux"}
    gfx900: ["dgpu-all","gfx900-dgpu"]
    gfx906: ["dgpu-all","gfx906-dgpu"]
    gfx908: ["dcgpu-all","gfx908-dcgpu"]
    gfx90a: ["dcgpu-all","gfx90a-dcgpu"]
    gfx90c: ["igpu-all","gfx90c-igpu"]
    gfx942: ["dcgpu-all","gfx94X-all","gfx94X-dcgpu"]
    gfx950: ["dcgpu-all","gfx950-all","gfx950-dcgpu"]
    gfx900: ["9.0.1"]
    gfx902: ["9.1.0","9.2.2"]
    gfx904: ["9.2.1"]
    gfx906: ["9.4.0"]
    gfx908: ["9.4.1"]
    gfx90a: ["9.4.2"]
    gfx90c: ["9.3.0"]
    gfx942: ["9.4.3","9.4.4"]
    gfx950: ["9.5.0"]
    gfx900: ["vega10"]
    gfx902: ["raven"]
    gfx904: ["vega12"]
    gfx906: ["vega20"]
    gfx908: ["arcturus"]
    gfx90a: ["aldebaran"]
    gfx90c: ["renoir"]
    "#);
}

#[test]
fn what_a_package_promises_is_read_back_from_its_text() {
    let [(_, json), _] = render(&split(&[], &[], &[]), "libraries", None).unwrap();
    let tables = Tables::parse(&json).unwrap();
    assert_eq!(tables, Tables::of_packages(policy().packages(), DistributionMode::Split));
    for platform in Platform::ALL {
        let packages = policy().packages().iter();
        let mut wanted: Vec<_> = packages.flat_map(|one| one.required_files(platform)).collect();
        let mut read = tables.required_files(platform);
        for file in &mut wanted {
            file.artifact = None;
        }
        wanted.sort_by_key(ToString::to_string);
        read.sort_by_key(ToString::to_string);
        assert_eq!(read, wanted);
    }
}

#[test]
fn tables_that_are_not_understood_are_refused() {
    let [(_, json), _] = render(&split(&[], &[], &[]), "libraries", None).unwrap();
    let deep = "[".repeat(100_000);
    let refused = [
        "",
        "[]",
        "{}",
        &deep,
        &json.replace("\"shortname\"", "\"name\""),
        &json.replace("\"gfx942\": [", "\"942\": ["),
    ];
    for json in refused {
        assert!(Tables::parse(json).is_err(), "{json}");
    }
    // A later version may have more fields.
    let more = json.replacen("\"shortname\"", "\"more\": 1, \"shortname\"", 1);
    assert_eq!(Tables::parse(&more).unwrap(), Tables::parse(&json).unwrap());
}

#[test]
fn the_generated_lines_follow_the_template() {
    let [_, (_, text)] = render(&split(&[], &[], &[]), "libraries", None).unwrap();
    assert!(text.starts_with(DIST_INFO));
    assert!(text.ends_with("THIS_PACKAGE_ENTRY = ALL_PACKAGES['libraries']\n"));
}

#[test]
fn the_last_line_that_assigns_a_version_has_it_in_quotes() {
    assert_eq!(assigned_version("__version__ = '7.14.0'\n"), Some("7.14.0"));
    assert_eq!(assigned_version("__version__ = \"7.14.0\""), Some("7.14.0"));
    assert_eq!(assigned_version("__version__: str = \"DEFAULT\""), None);
    assert_eq!(assigned_version("__version__ = compute()"), Some("compute()"));
}

#[test]
fn literals_are_what_python_writes() {
    let cases = [
        ("10.1.0", "'10.1.0'"),
        ("it's", "\"it's\""),
        ("'\"", r#"'\'"'"#),
        ("a\\b\n\r\t\0\x7f", r"'a\\b\n\r\t\x00\x7f'"),
        ("é日\u{a0}\u{2028}\u{202e}", r"'é日\xa0\u2028\u202e'"),
        ("\u{1f600}", r"'\U0001f600'"),
        ("'); import os #", "\"'); import os #\""),
    ];
    for (value, expected) in cases {
        assert_eq!(literal(value), expected);
    }
}

proptest! {
    #[test]
    fn no_text_can_leave_its_literal(text in any::<String>()) {
        let literal = literal(&text);
        prop_assert_eq!(literal.lines().count(), 1);
        let quote = literal.chars().next().unwrap();
        let mut rest = literal[1..].chars();
        let mut inside = 0;
        // A backslash hides the character behind it.
        while let Some(c) = rest.next().filter(|c| *c != quote) {
            inside += 1;
            if c == '\\' {
                rest.next();
            }
        }
        prop_assert_eq!(rest.as_str(), "");
        prop_assert!(inside >= text.chars().count());
    }

    #[test]
    fn hostile_texts_stay_one_line_each(text in r#"['"\\\n\r\u{2028}#;)(]{0,12}"#) {
        let info = DistInfo {
            version: text.clone(),
            suffix: text.clone(),
            absent: vec![text.clone()],
            ..split(&[], &[], &[])
        };
        let rendered = generated(&info, &text, None);
        prop_assert_eq!(rendered.join("\n").lines().count(), rendered.len());
    }
}
