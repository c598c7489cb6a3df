//! Tests of the lines that are written, and that they are read back.

use std::sync::LazyLock;

use proptest::prelude::*;
use ruff_python_parser::parse_expression;

use super::*;

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

#[test]
fn the_tables_are_those_of_the_policy() {
    let mut lines = tables(&split(&[], &[], &[]));
    let legacy = DistInfo { mode: DistributionMode::Legacy, ..split(&["gfx942"], &[], &[]) };
    assert!(tables(&legacy).contains(&"PackageEntry('libraries', 'rocm-sdk-libraries-{target_family}', pure_py_package_name='rocm_sdk_libraries')".to_owned()));
    lines.retain(|line| !line.contains("gfx1") && !line.contains("rocprof"));
    insta::assert_snapshot!(lines.join("\n"), @"
    PackageEntry('meta', 'rocm', pure_py_package_name='rocm_sdk', required=True)
    PackageEntry('core', 'rocm-sdk-core', pure_py_package_name='rocm_sdk_core', required=True)
    PackageEntry('libraries', 'rocm-sdk-libraries', pure_py_package_name='rocm_sdk_libraries')
    PackageEntry('device', 'rocm-sdk-device-{target_family}', pure_py_package_name='rocm_sdk_device')
    PackageEntry('devel', 'rocm-sdk-devel', pure_py_package_name='rocm_sdk_devel')
    PackageEntry('profiler', 'rocm-profiler', pure_py_package_name='rocm_profiler', sys_platform='linux')
    LibraryEntry('amdhip64', 'core', 'libamdhip64.so*', 'amdhip64*.dll')
    LibraryEntry('hipfile', 'core', 'libhipfile.so*', '')
    LibraryEntry('hiprtc', 'core', 'libhiprtc.so*', 'hiprtc0*.dll')
    LibraryEntry('roctx64', 'core', 'libroctx64.so*', '')
    LibraryEntry('roctracer64', 'core', 'libroctracer64.so*', '')
    LibraryEntry('rocm_sysdeps_liblzma', 'core', 'librocm_sysdeps_liblzma.so.*', '', posix_relpath='lib/rocm_sysdeps/lib')
    LibraryEntry('rocm-openblas', 'core', 'librocm-openblas.so.*', 'rocm-openblas*.dll', posix_relpath='lib/host-math/lib')
    LibraryEntry('amd_comgr', 'core', 'libamd_comgr.so*', 'amd_comgr*.dll')
    LibraryEntry('rocm_kpack', 'core', 'librocm_kpack.so*', 'rocm_kpack*.dll')
    LibraryEntry('rocm_smi64', 'core', 'librocm_smi64.so*', '')
    LibraryEntry('rocdecode', 'core', 'librocdecode.so*', '')
    LibraryEntry('rocjpeg', 'core', 'librocjpeg.so*', '')
    LibraryEntry('amd_smi', 'core', 'libamd_smi.so*', '')
    LibraryEntry('rocdxg', 'core', 'librocdxg*.so*', '', optional=True)
    LibraryEntry('rpp', 'libraries', 'librpp.so*', '')
    LibraryEntry('hipblas', 'libraries', 'libhipblas.so*', '*hipblas*.dll')
    LibraryEntry('hipblaslt', 'libraries', 'libhipblaslt.so*', '*hipblaslt*.dll')
    LibraryEntry('hipfft', 'libraries', 'libhipfft.so*', 'hipfft*.dll')
    LibraryEntry('hiprand', 'libraries', 'libhiprand.so*', 'hiprand*.dll')
    LibraryEntry('hipsparse', 'libraries', 'libhipsparse.so*', 'hipsparse*.dll')
    LibraryEntry('hipsparselt', 'libraries', 'libhipsparselt.so*', '')
    LibraryEntry('hipsolver', 'libraries', 'libhipsolver.so*', 'hipsolver*.dll')
    LibraryEntry('rccl', 'libraries', 'librccl.so*', '')
    LibraryEntry('miopen', 'libraries', 'libMIOpen.so*', 'MIOpen*.dll')
    LibraryEntry('origami', 'libraries', 'liborigami.so*', 'origami*.dll')
    LibraryEntry('hipdnn', 'libraries', 'libhipdnn_backend.so*', 'hipdnn_backend*.dll')
    FileEntry('core', 'lib/llvm/bin/amdclang', command='amdclang')
    FileEntry('core', 'lib/llvm/bin/amdclang++', command='amdclang++')
    FileEntry('core', 'lib/llvm/bin/amdclang-cpp', command='amdclang-cpp')
    FileEntry('core', 'lib/llvm/bin/amdclang-cl', command='amdclang-cl')
    FileEntry('core', 'lib/llvm/bin/amdflang', command='amdflang')
    FileEntry('core', 'lib/llvm/bin/amdlld', command='amdlld')
    FileEntry('core', 'bin/hipcc', command='hipcc')
    FileEntry('core', 'bin/hipconfig', command='hipconfig')
    FileEntry('core', 'bin/hipify-clang', command='hipify-clang')
    FileEntry('core', 'lib/llvm/bin/offload-arch', command='offload-arch')
    FileEntry('core', 'bin/amd-smi', command='amd-smi', sys_platform='linux')
    FileEntry('core', 'bin/hipify-perl', command='hipify-perl', sys_platform='linux')
    FileEntry('core', 'bin/rocm_agent_enumerator', command='rocm_agent_enumerator', sys_platform='linux')
    FileEntry('core', 'bin/rocminfo', command='rocminfo', sys_platform='linux')
    FileEntry('core', 'bin/rocm-smi', command='rocm-smi', sys_platform='linux')
    FileEntry('core', 'bin/roccoremerge', command='roccoremerge', sys_platform='linux')
    FileEntry('core', 'bin/rocgdb', command='rocgdb', sys_platform='linux')
    FileEntry('core', 'bin/rocpd', command='rocpd', sys_platform='linux')
    FileEntry('core', 'bin/rocpd2csv', command='rocpd2csv', sys_platform='linux')
    FileEntry('core', 'bin/rocpd2otf2', command='rocpd2otf2', sys_platform='linux')
    FileEntry('core', 'bin/rocpd2pftrace', command='rocpd2pftrace', sys_platform='linux')
    FileEntry('core', 'bin/rocpd2summary', command='rocpd2summary', sys_platform='linux')
    FileEntry('core', 'bin/hipInfo', command='hipInfo', sys_platform='win32')
    FileEntry('core', 'bin/roc-obj', command='roc-obj', optional=True)
    FileEntry('core', 'bin/roc-obj-extract', command='roc-obj-extract', optional=True)
    FileEntry('core', 'bin/roc-obj-ls', command='roc-obj-ls', optional=True)
    FileEntry('core', 'bin/rocminfo', command='rocminfo', sys_platform='win32', optional=True)
    FileEntry('devel', 'include/hip/hip_runtime.h')
    FileEntry('devel', 'lib/cmake/hip/hip-config.cmake')
    FileEntry('devel', 'lib/cmake/hip/hip-targets.cmake')
    FileEntry('devel', 'lib/cmake/rocblas/rocblas-config.cmake')
    FileEntry('devel', 'lib/cmake/rocprim/rocprim-config.cmake')
    FileEntry('devel', 'llvm', sys_platform='linux')
    _FAMILIES['gfx900'] = ('dgpu-all', 'gfx900-dgpu',)
    _FAMILIES['gfx90c'] = ('igpu-all', 'gfx90c-igpu',)
    _FAMILIES['gfx906'] = ('dgpu-all', 'gfx906-dgpu',)
    _FAMILIES['gfx908'] = ('dcgpu-all', 'gfx908-dcgpu',)
    _FAMILIES['gfx90a'] = ('dcgpu-all', 'gfx90a-dcgpu',)
    _FAMILIES['gfx942'] = ('dcgpu-all', 'gfx94X-all', 'gfx94X-dcgpu',)
    _FAMILIES['gfx950'] = ('dcgpu-all', 'gfx950-all', 'gfx950-dcgpu',)
    _IP_VERSIONS['gfx900'] = ('9.0.1',)
    _IP_VERSIONS['gfx902'] = ('9.1.0', '9.2.2',)
    _IP_VERSIONS['gfx904'] = ('9.2.1',)
    _IP_VERSIONS['gfx906'] = ('9.4.0',)
    _IP_VERSIONS['gfx908'] = ('9.4.1',)
    _IP_VERSIONS['gfx90a'] = ('9.4.2',)
    _IP_VERSIONS['gfx90c'] = ('9.3.0',)
    _IP_VERSIONS['gfx942'] = ('9.4.3', '9.4.4',)
    _IP_VERSIONS['gfx950'] = ('9.5.0',)
    _CODE_NAMES['gfx900'] = ('vega10',)
    _CODE_NAMES['gfx902'] = ('raven',)
    _CODE_NAMES['gfx904'] = ('vega12',)
    _CODE_NAMES['gfx906'] = ('vega20',)
    _CODE_NAMES['gfx908'] = ('arcturus',)
    _CODE_NAMES['gfx90a'] = ('aldebaran',)
    _CODE_NAMES['gfx90c'] = ('renoir',)
    ");
}

#[test]
fn what_a_package_promises_is_read_back_from_its_text() {
    let text = render(&split(&[], &[], &[]), "libraries", None);
    for platform in Platform::ALL {
        let packages = policy().packages().iter();
        let mut wanted: Vec<_> = packages.flat_map(|one| one.required_files(platform)).collect();
        let mut found = read(&text, platform).unwrap();
        for file in &mut wanted {
            file.artifact = None;
        }
        wanted.sort_by_key(ToString::to_string);
        found.sort_by_key(ToString::to_string);
        assert_eq!(found, wanted);
    }
}

#[test]
fn the_generated_lines_follow_the_template() {
    let text = render(&split(&[], &[], &[]), "libraries", None);
    assert!(text.starts_with(DIST_INFO));
    assert!(text.ends_with("THIS_PACKAGE_ENTRY = ALL_PACKAGES['libraries']\n"));
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
        let parsed = parse_expression(&literal).unwrap();
        let read = parsed.expr().as_string_literal_expr().unwrap();
        prop_assert_eq!(read.value.to_str(), text);
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
