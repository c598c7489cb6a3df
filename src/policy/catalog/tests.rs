//! Tests of the built-in policy, and of the errors in invalid ones.

use super::*;

fn name(text: &str) -> ArtifactName {
    text.parse().unwrap()
}

fn takes(package: &str, artifact: &str, scope: Option<&str>) -> bool {
    let catalog = Catalog::built_in().unwrap();
    let scope = scope.map(|scope| scope.parse().unwrap());
    catalog.get(package).unwrap().takes(&name(artifact), DistributionMode::Split, scope.as_ref())
}

#[test]
fn device_packages_take_library_artifacts_of_their_target_and_its_variants() {
    for artifact in ["blas_lib_gfx942", "rccl_lib_gfx942:xnack+", "hipkernelprovider_lib_gfx942"] {
        assert!(takes("device", artifact, Some("gfx942")), "{artifact}");
    }
    for artifact in [
        "blas_lib_generic",
        "blas_lib_gfx1100",
        "blas_test_gfx942",
        "core-hip_lib_gfx942",
        "rpp_lib_gfx942",
    ] {
        assert!(!takes("device", artifact, Some("gfx942")), "{artifact}");
    }
}

#[test]
fn the_core_package_takes_one_part_of_a_simulator_and_headers_of_two_projects() {
    for artifact in ["rocjitsu-hotswap_lib_generic", "core-hip_dev_generic", "core-ocl_dev_generic"]
    {
        assert!(takes("core", artifact, None), "{artifact}");
    }
    for artifact in ["rocjitsu_lib_generic", "rocjitsu-hotswap_run_generic", "blas_dev_generic"] {
        assert!(!takes("core", artifact, None), "{artifact}");
    }
}

#[test]
fn without_the_split_libraries_take_their_family_too() {
    let catalog = Catalog::built_in().unwrap();
    let libraries = catalog.get("libraries").unwrap();
    let family = "gfx94X-dcgpu".parse().unwrap();
    let legacy =
        |artifact| libraries.takes(&name(artifact), DistributionMode::Legacy, Some(&family));
    assert!(legacy("blas_lib_gfx94X-dcgpu") && legacy("rpp_lib_generic"));
    assert!(!legacy("blas_lib_gfx110X-all"));
    assert!(!libraries.takes(&name("blas_lib_gfx94X-dcgpu"), DistributionMode::Split, None));
    assert_eq!(
        libraries.dist_name(DistributionMode::Legacy, Some(&family)),
        "rocm-sdk-libraries-gfx94X-dcgpu"
    );
}

#[test]
fn a_script_for_a_file_is_there_only_with_the_file() {
    let catalog = Catalog::built_in().unwrap();
    let core = catalog.get("core").unwrap();
    let scripts = |platform, has: bool| {
        let lines = core.scripts(platform, |_| has).unwrap();
        move |line: &str| lines.iter().any(|it| it == line)
    };
    let rocminfo = "rocminfo = rocm_sdk_core._cli:rocm_info";
    let hip_info = "hipInfo = rocm_sdk_core._cli:hipInfo";
    let roc_obj = "roc-obj-ls = rocm_sdk_core._cli:roc_obj_ls";
    assert!(scripts(Platform::Windows, true)(rocminfo));
    let windows = scripts(Platform::Windows, false);
    assert!(!windows(rocminfo) && windows(hip_info));
    assert!(scripts(Platform::Linux, true)(roc_obj));
    let linux = scripts(Platform::Linux, false);
    assert!(!linux(roc_obj) && linux(rocminfo) && !linux(hip_info));
}

fn refusal(text: &str) -> String {
    format!("{:#}", Catalog::parse(text).unwrap_err())
}

#[test]
fn a_mistake_in_the_policy_is_named() {
    let with = |from: &str, to: &str| refusal(&BUILT_IN.replacen(from, to, 1));
    insta::assert_snapshot!(with("kind = \"selector\"", "kind = \"selecter\""), @r#"
    TOML parse error at line 104, column 8
        |
    104 | kind = "selecter"
        |        ^^^^^^^^^^
    unknown variant `selecter`, expected one of `selector`, `runtime`, `device`, `devel`
    "#);
    insta::assert_snapshot!(with("overlay = \"libraries\"", "overlay = \"librarys\""), @"package `device`: `overlay` names no runtime package: `librarys`");
    insta::assert_snapshot!(with("name = \"libraries\"", "name = \"core\""), @"two packages are called `core`");
    insta::assert_snapshot!(with("\"lib/llvm/lib\"", "\"/lib/llvm/lib\""), @r#"
    TOML parse error at line 133, column 9
        |
    133 | rpath = ["/lib/llvm/lib", "lib/llvm/lib/*-linux-gnu", "lib/rocm_sysdeps/lib"]
        |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    an absolute path: "/lib/llvm/lib"
    "#);
    let inline = "schema = 2\nmetadata = { license = 'a', requires-python = 'a', urls = {} }\n\
        package = [{ name = 'a', kind = 'selector', dist = 'a', python = 'a', summary = '', platforms = [] }]";
    insta::assert_snapshot!(refusal(inline), @r#"package `a`: `summary`: an empty value: """#);
    let taken = with("[not-shipped]\n", "[not-shipped]\nfft = \"\"\n");
    insta::assert_snapshot!(taken, @r#"`not-shipped.fft`: an empty value: """#);
    let taken = with("[not-shipped]\n", "[not-shipped]\nfft = \"tests\"\n");
    insta::assert_snapshot!(taken, @"`not-shipped.fft`: package `libraries` takes the artifact");
    insta::assert_snapshot!(with("schema = 2", "schema = 3"), @"`schema` is 3, and this program reads 2");
}

#[test]
fn a_package_has_the_licenses_of_all_its_artifacts() {
    let catalog = Catalog::built_in().unwrap();
    let takes = catalog.packages.iter().flat_map(|it| &it.take);
    let named: BTreeSet<&String> = takes.flat_map(|it| &it.artifacts).collect();
    let known: BTreeSet<&String> = catalog.licenses.keys().collect();
    assert_eq!(named, known, "each artifact has a row, and each row an artifact");
    assert_eq!(catalog.license([]), "MIT");
    assert_eq!(catalog.license(["core-hip", "fft"]), "MIT");
    assert_eq!(
        catalog.license(["rocgdb", "base", "amd-llvm", "sysdeps-gmp", "new+er"]),
        "(GPL-2.0-or-later OR LGPL-3.0-or-later) AND Apache-2.0 WITH LLVM-exception AND GPL-3.0-or-later \
         AND LicenseRef-ROCm-new-er AND MIT AND NCSA"
    );
    let text = include_str!("../packages.toml").replace("\"NCSA\"", "\"NCSA\\nx\"");
    let said = Catalog::parse(&text).unwrap_err().to_string();
    assert!(said.contains("`licenses.rocr-debug-agent` is no SPDX expression"), "{said}");
}
