//! `framework show`, and the versions of `framework version`.

use super::Place;
use crate::check::windows::dll;
use crate::support::prelude::*;

/// The exit code and all that a program printed.
fn shown(said: &Outcome) -> String {
    format!("exit {}\n{}{}", said.code, said.stdout, said.stderr)
}

#[test]
fn facts_are_shown_with_and_without_a_set() {
    let place = Place::new();
    let wheel = place.write(&DemoWheel::new());
    let wheel = wheel.to_str().unwrap();
    let set = published::sample().dist();
    let shown = rocwheel(&["framework", "show", wheel, "--set", set.to_str().unwrap()]).ok();
    assert_eq!(shown, rocwheel(&["framework", "show", wheel]).ok());
    let lines: Vec<&str> = shown.lines().skip(1).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    tags      py3-none-linux_x86_64 (platlib)
    proved    manylinux_2_17, since `fw/lib/libfw.so` needs GLIBC_2.17
    requires  nothing
    init      fw: no module; imported
    fw/lib/libfw.so
      needs     libhipblas.so.3 librocblas.so.5 (ROCm (math))
      RUNPATH   1 entry of 57 bytes: 1 absolute
      symbols   GLIBC_2.17
    fw/_C.so
      needs     libamdhip64.so.7 (ROCm (core))
      needs     libfw.so (own)
      RUNPATH   3 entries of 26 bytes: 1 absolute, 1 empty, 1 own
    ");
    let json = rocwheel(&["framework", "show", wheel, "--format", "json"]).ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["command"], "framework show");
    assert_eq!(json["wheels"][0]["binaries"][0]["needed"][0]["by"], "ROCm (math)");
}

#[test]
fn a_version_names_the_set() {
    let set = published::sample().dist();
    let t = Sandbox::new();
    let version = |flags: &str| shown(&t.run(&format!("framework version 2.12.0 --set {flags}")));
    let seen = [
        version(&format!("'{}'", set.display())),
        version("7.14.0 --commit 1a2b3c4d5e6f70819203a4b5c6d7e8f901234567"),
        version("7.12.0.dev0+e1a5d395 --for jax"),
    ];
    insta::assert_snapshot!(seen.join("\n"), @"
    exit 0
    2.12.0+devrocm0.99.1.dev0

    exit 0
    2.12.0+git1a2b3c4d.rocm7.14.0

    exit 0
    2.12.0+rocm7.12.0.dev0.e1a5d395
    ");
}

#[test]
fn a_workflow_reads_the_versions_of_wheels_and_the_variables_of_a_build() {
    let t = Sandbox::new().with("GITHUB_OUTPUT", "outputs").with("GITHUB_ENV", "env");
    let wheels =
        ["torch-2.12.0+rocm7.14.0-cp312-cp312-linux_x86_64.whl", "apex-1.0-py3-none-any.whl"];
    for name in wheels {
        t.write(&format!("dist/{name}"), "");
    }
    t.write("dist/index.html", "");
    let versions = "torch_version=2.12.0+rocm7.14.0\napex_version=1.0\n";
    assert_eq!(t.run("framework version dist").ok(), versions);
    // The names are enough: a wheel need not be on this disk.
    assert_eq!(t.run(&format!("framework version {}", wheels.join(" "))).ok(), versions);
    assert_has!(t.read("outputs"), "torch_version<<", "\n2.12.0+rocm7.14.0\n");
    assert!(!t.path("env").exists(), "no set was named");
    t.run("framework version 2.12.0 --set 7.12.0.dev0+e1a5d395").ok();
    assert_has!(
        t.read("env"),
        "version_suffix<<",
        "\n+devrocm7.12.0.dev0-e1a5d395\n",
        "optional_build_prod_arguments<<",
        "\n--rocm-sdk-version ==7.12.0.dev0+e1a5d395 --version-suffix +devrocm7.12.0.dev0-e1a5d395\n",
    );
    t.write("dist/torch-2.13.0-cp312-cp312-linux_x86_64.whl", "");
    t.write("none/x.txt", "");
    let refused =
        ["dist", "none", "2.12.0"].map(|it| shown(&t.run(&format!("framework version {it}"))));
    insta::assert_snapshot!(refused.join("\n"), @"
    exit 2
    error: `torch-2.12.0+rocm7.14.0-cp312-cp312-linux_x86_64.whl` and `torch-2.13.0-cp312-cp312-linux_x86_64.whl` have different versions

    hint: pass the wheels of one build

    exit 2
    error: no wheel of PyTorch, JAX, or what is built for them

    hint: pass the directory with the wheels of a build

    exit 2
    error: no ROCm packages for the version of `2.12.0`

    hint: pass `--set`, or the path of a wheel or of a directory with wheels
    ");
}

#[test]
fn files_for_other_platforms_are_shown() {
    let place = Place::new();
    let mut wheel = DemoWheel::bare("fw");
    wheel.platform = "any".to_owned();
    wheel.add("fw/_C.pyd", dll(&[], &["amdhip64_7.dll", "KERNEL32.dll"]));
    let mut aarch64 = SharedObject::new("x.so").needs("libc.so.6").build();
    aarch64[18] = 183;
    wheel.add("fw/arm/x.so", aarch64);
    let wheel = place.write(&wheel);
    let shown = rocwheel(&["framework", "show", wheel.to_str().unwrap()]).ok();
    let lines: Vec<&str> = shown.lines().skip(1).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    tags      py3-none-any (platlib)
    requires  nothing
    init      no `_rocm_init.py`, and no hook
    fw/arm/x.so
      machine   AArch64
    fw/_C.pyd
      imports   KERNEL32.dll amdhip64_7.dll
    ");
}

#[test]
fn a_build_gets_the_variables_of_an_installed_set() {
    let t = Sandbox::new();
    let env = |flags: &str| shown(&t.run(&format!("framework env --site site {flags}")));
    t.write("site/empty", "");
    let mut seen = vec![env("")];
    for name in ["rocm_sdk_core-7.14.0", "rocm_sdk_device_gfx942-7.14.0"] {
        t.write(&format!("site/{name}.dist-info/METADATA"), "");
    }
    seen.push(env(""));
    t.write("site/_rocm_sdk_devel/lib/host-math/empty", "");
    seen.push(env("--for triton"));
    seen.push(env("--targets gfx1100"));
    insta::assert_snapshot!(seen.join("\n"), @r#"
    exit 2
    error: no `rocm-sdk-core` is installed in `HERE/site`

    hint: pass the `site-packages` into which `rocm[libraries,devel]` was installed

    exit 2
    error: no development files in `HERE/site`

    hint: install `rocm[libraries,devel]`, and run `rocm-sdk init`

    exit 0
    export PYTHONUTF8='1'
    export ROCM_PATH='HERE/site/_rocm_sdk_devel'
    export ROCM_HOME='HERE/site/_rocm_sdk_devel'
    export TRITON_APPEND_CMAKE_ARGS='-DCMAKE_PREFIX_PATH=HERE/site/_rocm_sdk_devel/lib/cmake'
    export PATH='HERE/site/_rocm_sdk_devel/bin'"${PATH:+:$PATH}"
    export CXXFLAGS='-Wno-error=maybe-uninitialized -Wno-error=uninitialized -Wno-error=restrict'"${CXXFLAGS:+ $CXXFLAGS}"
    export CPPFLAGS='-Wno-error=maybe-uninitialized -Wno-error=uninitialized -Wno-error=restrict'"${CPPFLAGS:+ $CPPFLAGS}"
    export TRITON_WHEEL_VERSION_SUFFIX='+rocm7.14.0'
    note: left out: HIP_DEVICE_LIB_PATH, since the packages have no `lib/llvm/amdgcn/bitcode`

    exit 2
    error: no device code for gfx1100 is installed, only for gfx942

    hint: add `rocm-sdk-device-gfx1100`, or leave gfx1100 out of `--target`
    "#);
}

#[test]
fn a_shell_reads_the_variables_of_any_directory() {
    let place = Place::new();
    let site = place.0.path(r#"it's "a" $HOME \b;c"#);
    fs_err::create_dir_all(site.join("rocm_sdk_core-7.14.0.dist-info")).unwrap();
    fs_err::create_dir(site.join("_rocm_sdk_devel")).unwrap();
    let env = |site: &Path| {
        let site = site.to_str().unwrap();
        rocwheel(&["framework", "env", "--site", site, "--for", "torch"])
    };
    let script = format!("{}\nprintf %s \"$ROCM_PATH|$PATH\"", env(&site).ok());
    let mut sh = Command::new("sh");
    let said = succeed(sh.args(["-euc", &script]).env("PATH", "/bin")).stdout;
    let root = site.join("_rocm_sdk_devel");
    let root = root.to_str().unwrap();
    assert_eq!(String::from_utf8(said).unwrap(), format!("{root}|{root}/bin:/bin"));
    // A line break would begin another line.
    let odd = place.0.path("a\nEVIL=1");
    fs_err::rename(&site, &odd).unwrap();
    let refused = env(&odd);
    assert_eq!(refused.code, 2);
    assert_has!(refused.stderr, "control character");
}
