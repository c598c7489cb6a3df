//! Renders `_dist_info.py`: a static text, then generated lines with the version, the targets and
//! the tables of `packages.toml`.
//!
//! Every value is written as a Python literal, so no text in a version, a suffix or a target can
//! become code.

use crate::{
    package::{
        catalog::{Catalog, PackageSpec},
        naming::DistributionMode,
        promise::{LibrarySpec, ScriptSpec},
        python_literal::literal,
        templates,
    },
    run::Platform,
    target::TargetTable,
};

/// The values in the `_dist_info.py` of one package.
#[derive(Clone, Copy, Debug)]
pub struct DistInfo<'a> {
    pub catalog: &'a Catalog,
    pub version: &'a str,
    /// The suffix of the import names of packages with files.
    pub nonce: &'a str,
    pub form: DeviceCodeForm,
    pub default: Option<&'a str>,
    pub available: &'a [String],
    pub linux: &'a [String],
    pub windows: &'a [String],
    /// Names of optional packages that the set does not have.
    pub absent: &'a [String],
    pub this_target: Option<&'a str>,
    pub this_package: &'a str,
    /// The import name of the libraries package. Only device packages have it.
    pub libraries_py_package: Option<&'a str>,
}

/// Where the set has its device code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceCodeForm {
    /// In the libraries package of each family.
    Legacy,
    /// Like `Legacy`, but the text names only the family of its own package, `this_target`.
    Restricted,
    /// In device packages, one per target.
    Split,
}

/// Renders the text of `_dist_info.py`.
pub fn render(info: &DistInfo<'_>) -> String {
    let mut text = String::from(templates::DIST_INFO);
    for line in tables(info).into_iter().chain(generated(info)) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// The generated lines, in their order.
fn generated(info: &DistInfo<'_>) -> Vec<String> {
    let mut lines = vec![
        format!("__version__ = {}", literal(info.version)),
        format!("PY_PACKAGE_SUFFIX_NONCE = {}", literal(info.nonce)),
    ];
    let own = info
        .this_target
        .filter(|_| info.form == DeviceCodeForm::Restricted)
        .map(str::to_owned);
    if own.is_none() {
        lines.extend(distribution(info));
    }
    lines.extend(appends("ABSENT_PACKAGES", info.absent));
    lines.push(format!(
        "THIS_TARGET_FAMILY = {}",
        info.this_target.map_or("None".to_owned(), literal)
    ));
    lines.push(format!(
        "THIS_PACKAGE_ENTRY = ALL_PACKAGES[{}]",
        literal(info.this_package)
    ));
    if let Some(own) = own {
        lines.push(format!("DEFAULT_TARGET_FAMILY = {}", literal(&own)));
        lines.extend(appends("AVAILABLE_TARGET_FAMILIES", &[own]));
    }
    if let Some(name) = info.libraries_py_package {
        lines.push(format!("LIBRARIES_PY_PACKAGE_NAME = {}", literal(name)));
    }
    lines
}

/// The lines that are the same in all packages of a set, if they may name all families.
fn distribution(info: &DistInfo<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(default) = info.default {
        lines.push(format!("DEFAULT_TARGET_FAMILY = {}", literal(default)));
    }
    lines.extend(appends("AVAILABLE_TARGET_FAMILIES", info.available));
    lines.extend(appends("LINUX_TARGET_FAMILIES", info.linux));
    lines.extend(appends("WINDOWS_TARGET_FAMILIES", info.windows));
    lines
}

/// The tables of the policy: packages, libraries and files, and the families of each target.
fn tables(info: &DistInfo<'_>) -> Vec<String> {
    let packages = info.catalog.packages();
    let libraries = packages.iter().flat_map(|package| {
        let libraries = package.libraries.iter();
        libraries.map(|library| library_entry(package, library))
    });
    let files = packages.iter().flat_map(|package| {
        let scripts = package.scripts.iter();
        let programs = scripts.filter_map(|script| program_entry(package, script));
        let files = package.files.iter().map(|file| {
            let mut call = vec![literal(&package.name), literal(&file.path)];
            call.extend(sys_platform(file.platform));
            format!("FileEntry({})", call.join(", "))
        });
        programs.chain(files)
    });
    let table = TargetTable::builtin();
    let families = table.known().map(|target| {
        let families = table.families_of(target).iter();
        let families: Vec<_> = families.map(|one| literal(&one.to_string())).collect();
        let target = literal(&target.to_string());
        format!("_FAMILIES[{target}] = ({},)", families.join(", "))
    });
    let mode = info.form.mode();
    let entries = packages.iter().map(|package| package_entry(package, mode));
    entries
        .chain(libraries)
        .chain(files)
        .chain(families)
        .collect()
}

fn package_entry(package: &PackageSpec, mode: DistributionMode) -> String {
    let template = package.dist_template(mode).python_template();
    let mut call = vec![
        literal(&package.name),
        literal(&template),
        format!("pure_py_package_name={}", literal(&package.python)),
    ];
    call.extend(package.required.then(|| "required=True".to_owned()));
    call.extend(sys_platform(package.only_platform()));
    format!("PackageEntry({})", call.join(", "))
}

fn library_entry(package: &PackageSpec, library: &LibrarySpec) -> String {
    let names = [
        &library.name,
        &package.name,
        &library.linux,
        &library.windows,
    ];
    let mut call = names.map(|name| literal(name)).to_vec();
    if library.directory != "lib" {
        call.push(format!("posix_relpath={}", literal(&library.directory)));
    }
    call.extend(library.optional.then(|| "optional=True".to_owned()));
    format!("LibraryEntry({})", call.join(", "))
}

fn program_entry(package: &PackageSpec, script: &ScriptSpec) -> Option<String> {
    let mut call = vec![
        literal(&package.name),
        literal(script.runs.as_ref()?.as_str()),
    ];
    call.push(format!("command={}", literal(&script.name)));
    call.extend(sys_platform(script.platform));
    call.extend(script.if_present.then(|| "optional=True".to_owned()));
    Some(format!("FileEntry({})", call.join(", ")))
}

fn sys_platform(only: Option<Platform>) -> Option<String> {
    only.map(|platform| format!("sys_platform={}", literal(platform.sys_platform())))
}

impl DeviceCodeForm {
    pub fn mode(self) -> DistributionMode {
        match self {
            Self::Split => DistributionMode::Split,
            Self::Legacy | Self::Restricted => DistributionMode::Legacy,
        }
    }
}

fn appends(list: &str, values: &[String]) -> impl Iterator<Item = String> {
    let list = list.to_owned();
    values
        .iter()
        .map(move |value| format!("{list}.append({})", literal(value)))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::package::promise;
    use proptest::prelude::*;

    fn texts(values: &[&str]) -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    fn policy() -> &'static Catalog {
        static POLICY: LazyLock<Catalog> = LazyLock::new(|| Catalog::built_in().unwrap());
        &POLICY
    }

    fn split<'a>(available: &'a [String], linux: &'a [String]) -> DistInfo<'a> {
        DistInfo {
            catalog: policy(),
            version: "10.1.0a20260820",
            nonce: "",
            form: DeviceCodeForm::Split,
            default: Some("gfx1100"),
            available,
            linux,
            windows: &[],
            absent: &[],
            this_target: None,
            this_package: "libraries",
            libraries_py_package: None,
        }
    }

    #[test]
    fn a_split_package_says_the_whole_distribution() {
        let (all, linux, windows) = (
            texts(&["gfx1100", "gfx1201", "gfx942"]),
            texts(&["gfx1100", "gfx942"]),
            texts(&["gfx1100", "gfx1201"]),
        );
        let info = DistInfo {
            windows: &windows,
            ..split(&all, &linux)
        };
        insta::assert_snapshot!(generated(&info).join("\n"), @r#"
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
    fn a_device_package_names_the_libraries_it_extends() {
        let all = texts(&["gfx942"]);
        let info = DistInfo {
            default: Some("gfx942"),
            this_target: Some("gfx942"),
            this_package: "device",
            libraries_py_package: Some("_rocm_sdk_libraries"),
            ..split(&all, &[])
        };
        insta::assert_snapshot!(generated(&info)[2..].join("\n"), @r"
        DEFAULT_TARGET_FAMILY = 'gfx942'
        AVAILABLE_TARGET_FAMILIES.append('gfx942')
        THIS_TARGET_FAMILY = 'gfx942'
        THIS_PACKAGE_ENTRY = ALL_PACKAGES['device']
        LIBRARIES_PY_PACKAGE_NAME = '_rocm_sdk_libraries'
        ");
    }

    #[test]
    fn a_restricted_package_names_no_family_but_its_own() {
        let all = texts(&["gfx110X-all", "gfx94X-dcgpu"]);
        let info = DistInfo {
            form: DeviceCodeForm::Restricted,
            default: Some("gfx110X-all"),
            this_target: Some("gfx94X-dcgpu"),
            this_package: "meta",
            ..split(&all, &all)
        };
        insta::assert_snapshot!(generated(&info).join("\n"), @r"
        __version__ = '10.1.0a20260820'
        PY_PACKAGE_SUFFIX_NONCE = ''
        THIS_TARGET_FAMILY = 'gfx94X-dcgpu'
        THIS_PACKAGE_ENTRY = ALL_PACKAGES['meta']
        DEFAULT_TARGET_FAMILY = 'gfx94X-dcgpu'
        AVAILABLE_TARGET_FAMILIES.append('gfx94X-dcgpu')
        ");
    }

    #[test]
    fn a_restriction_without_a_target_restricts_nothing() {
        let all = texts(&["gfx110X-all", "gfx94X-dcgpu"]);
        let info = DistInfo {
            form: DeviceCodeForm::Restricted,
            ..split(&all, &[])
        };
        assert!(generated(&info).join("\n").contains("gfx110X-all"));
    }

    #[test]
    fn a_distribution_says_what_it_goes_without() {
        let absent = texts(&["profiler"]);
        let info = DistInfo {
            absent: &absent,
            default: None,
            ..split(&[], &[])
        };
        insta::assert_snapshot!(generated(&info)[2..].join("\n"), @r"
        ABSENT_PACKAGES.append('profiler')
        THIS_TARGET_FAMILY = None
        THIS_PACKAGE_ENTRY = ALL_PACKAGES['libraries']
        ");
    }

    #[test]
    fn the_tables_are_those_of_the_policy() {
        let (all, mut lines) = (texts(&["gfx942"]), tables(&split(&[], &[])));
        let legacy = DistInfo {
            form: DeviceCodeForm::Legacy,
            ..split(&all, &[])
        };
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
        FileEntry('devel', 'lib/cmake/hip/hip-config.cmake')
        FileEntry('devel', 'llvm', sys_platform='linux')
        _FAMILIES['gfx900'] = ('dgpu-all', 'gfx900-dgpu',)
        _FAMILIES['gfx90c'] = ('igpu-all', 'gfx90c-igpu',)
        _FAMILIES['gfx906'] = ('dgpu-all', 'gfx906-dgpu',)
        _FAMILIES['gfx908'] = ('dcgpu-all', 'gfx908-dcgpu',)
        _FAMILIES['gfx90a'] = ('dcgpu-all', 'gfx90a-dcgpu',)
        _FAMILIES['gfx942'] = ('dcgpu-all', 'gfx94X-all', 'gfx94X-dcgpu',)
        _FAMILIES['gfx950'] = ('dcgpu-all', 'gfx950-all', 'gfx950-dcgpu',)
        ");
    }

    #[test]
    fn what_a_package_promises_is_read_back_from_its_text() {
        let text = render(&split(&[], &[]));
        for platform in Platform::ALL {
            let packages = policy().packages().iter();
            let mut wanted: Vec<_> = packages.flat_map(|one| one.promises(platform)).collect();
            let mut found = promise::read(&text, platform).unwrap();
            for promise in &mut wanted {
                promise.artifact = None;
            }
            wanted.sort_by_key(ToString::to_string);
            found.sort_by_key(ToString::to_string);
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn the_generated_lines_follow_the_template() {
        let text = render(&split(&[], &[]));
        assert!(text.starts_with(templates::DIST_INFO));
        assert!(text.ends_with("THIS_PACKAGE_ENTRY = ALL_PACKAGES['libraries']\n"));
    }

    proptest! {
        #[test]
        fn hostile_texts_stay_one_line_each(text in r#"['"\\\n\r\u{2028}#;)(]{0,12}"#) {
            let all = [text.clone()];
            let info = DistInfo { version: &text, nonce: &text, ..split(&all, &all) };
            let rendered = generated(&info);
            prop_assert_eq!(rendered.join("\n").lines().count(), rendered.len());
        }
    }
}
