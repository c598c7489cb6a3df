//! variantlib reads and merges variant wheels as we do, and uv and pip install a set with variant wheels as one
//! without them.

use super::*;
use crate::{judges::variant_tool, publish::judge};

/// Who provides the namespace, for variantlib.
const PROJECT: &str = "[variant.default-priorities]\nnamespace = [\"amd\"]\n\
    [variant.providers.amd]\nrequires = [\"rocm-bootstrap>=0.3.0\"]\n\
    plugin-api = \"rocm_bootstrap.variant_provider:AMDVariantPlugin\"\n";

/// Runs variantlib in a sandbox.
fn variantlib(t: &Sandbox, line: &str) {
    let program = variant_tool("variantlib");
    succeed(&mut t.shell(&format!("{} {line}", text(&program))));
}

#[test]
#[ignore = "slow"]
fn variantlib_makes_wheels_that_we_read_and_merges_them_as_we_do() {
    let t = set_with(&[]);
    t.write("pyproject.toml", PROJECT);
    fs_err::create_dir(t.path("theirs")).unwrap();
    // Their writer takes a comma in a file name for one between the columns of RECORD, and other wheels have some.
    let wheel = format!("set/dist/rocm_profiler-{VERSION}-py3-none-linux_x86_64.whl");
    for target in ["gfx942", "gfx1100"] {
        variantlib(
            &t,
            &format!(
                "make-variant -f {wheel} -o theirs --pyproject-toml pyproject.toml \
                 -p 'amd :: gfx_arch :: {target}' --skip-plugin-validation --variant-label {target}"
            ),
        );
    }
    copy_files(&t.path("theirs"), &t.path("set/dist"));
    variantlib(&t, "generate-index-json -d theirs");
    t.run("index --no-check set").ok();
    let name = format!("rocm_profiler-{VERSION}-variants.json");
    let [theirs, ours] = ["theirs", "set/dist"].map(|directory| {
        let mut document: Value =
            serde_json::from_str(&t.read(&format!("{directory}/{name}"))).unwrap();
        document.as_object_mut().unwrap().remove("$schema");
        document
    });
    assert_eq!(theirs, ours);
    // Their reader takes our file too.
    let read = format!(
        "import json; from variantlib.variants_json import VariantsJson; \
         print(*sorted(VariantsJson(json.load(open('set/dist/{name}'))).variants))"
    );
    let python = variant_tool("python");
    let labels = succeed(&mut t.shell(&format!("{} -c \"{read}\"", text(&python)))).stdout;
    assert_eq!(String::from_utf8(labels).unwrap(), "gfx1100 gfx942\n");
}

/// What uv says of the file of `rocm` that it takes from an index.
fn taken(t: &Sandbox, program: &Path, variables: &[(&str, &str)], index: &str) -> String {
    let mut uv = Command::new(program);
    uv.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    uv.envs(variables.iter().copied());
    uv.args(["pip", "install", "--dry-run", "--verbose", "--no-cache", "--no-config", "--python"]);
    uv.arg(tool("python")).args(["--default-index", index, "--prerelease=allow"]);
    uv.arg("--target").arg(t.path("nowhere")).arg(format!("rocm=={VERSION}"));
    let output = succeed(&mut uv);
    let said = String::from_utf8(output.stderr).unwrap();
    let line = said.lines().find(|line| line.contains("Selecting: rocm=="));
    line.unwrap_or_else(|| panic!("{said}")).trim().to_owned()
}

/// The day on which this test fails is the day to think of building variant wheels.
#[test]
#[ignore = "long"]
fn long_uv_with_its_preview_of_variants_takes_the_sdist() {
    let t = set_with(&["gfx942", "gfx1100"].map(VariantWheel::of));
    t.run("index set").ok();
    let server = Server::start(Site::Directory(t.path("set")));
    let index = format!("{}simple/", server.url);
    let preview = [
        ("UV_PREVIEW_FEATURES", "wheel-variants"),
        ("UV_AMD_GPU_ARCHITECTURE", "gfx942"),
        ("ROCM_BOOTSTRAP_FORCE_GFX_ARCH", "gfx942"),
    ];
    let line = taken(&t, &variant_tool("uv"), &preview, &index);
    assert!(
        line.contains(&format!("rocm-{VERSION}.tar.gz")),
        "uv took another file than the sdist, so it answers for the namespace `amd` now. Variant wheels would help \
         users from here on: decide again whether `build` writes them. It said: {line}"
    );
    let asked = server.requests();
    assert!(asked.iter().any(|path| path.ends_with("-variants.json")), "{asked:#?}");
}

#[test]
#[ignore = "slow"]
fn pip_and_uv_install_the_same_files_with_and_without_variant_wheels() {
    let variants = ["gfx942", "gfx1100"].map(VariantWheel::of);
    let [with, without] = [&variants[..], &[]].map(|wheels| {
        let programs = tool("uv").parent().unwrap().to_owned();
        let t = set_with(wheels).with("PATH", programs);
        t.run("index set").ok();
        let server = Server::start(Site::Directory(t.path("set")));
        let emit = t.run("install set --no-check --target gfx942 --emit requirements").ok();
        let mut taken_files = vec![vec![emit]];
        for source in [
            vec!["--index-url".to_owned(), format!("{}simple/", server.url)],
            vec![
                "--no-index".into(),
                "--find-links".into(),
                format!("{}dist/index.html", server.url),
            ],
        ] {
            let to = t.path("downloaded");
            let mut line = vec![
                "download",
                "--isolated",
                "--no-cache-dir",
                "--quiet",
                "--pre",
                "--no-build-isolation",
                "--dest",
            ];
            line.push(text(&to));
            line.extend(source.iter().map(String::as_str));
            line.push("rocm");
            judge("pip", &line).ok();
            taken_files.push(tree(&to));
            fs_err::remove_dir_all(&to).unwrap();
        }
        for uv in [tool("uv"), variant_tool("uv")] {
            taken_files.push(vec![taken(&t, &uv, &[], &format!("{}simple/", server.url))]);
        }
        let asked = server.requests();
        assert!(!asked.iter().any(|path| path.ends_with("-variants.json")), "{asked:#?}");
        taken_files
    });
    assert_eq!(with, without);
    assert!(with[1].iter().any(|name| name.ends_with(".tar.gz")), "{with:?}");
}
