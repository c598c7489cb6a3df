//! `build --kpack`: fat artifacts to wheels that are installed, and what every device finds there.

use super::{
    binaries::{code_object, concatenated},
    runtime::compare,
    splitting::{files, put, put_databases, split},
};
pub(super) use crate::support::place::copy_tree as copy;
use crate::support::place::empty;
use crate::support::prelude::*;

const FAT: &str = "blas_lib_gfx94X-dcgpu";
const STAGE: &str = "math-libs/BLAS/rocBLAS/stage";

/// A library of two translation units, for targets that a generic one is beside.
pub(super) fn rocblas() -> Vec<u8> {
    let first = bundles::raw(&[
        ("gfx1100", code_object(&["add", "scale"], 30_000)),
        ("gfx942:xnack+", code_object(&["add", "scale"], 19_000)),
        ("gfx942:xnack-", code_object(&["add", "scale"], 28_000)),
    ]);
    let second = bundles::raw(&[
        ("gfx942", code_object(&["b"], 17_000)),
        ("gfx11-generic", code_object(&["b"], 27_000)),
    ]);
    let second = bundles::compress(&second, 3, "zstd").unwrap();
    let (code, starts) = concatenated(&[first, second]);
    SharedObject::new("librocblas.so.5")
        .needs("libamdhip64.so.7")
        .calls("rocblas_answer", "hip_answer")
        .runpath("$ORIGIN")
        .device_code(&code, &starts, DeviceRelocations::Rela)
        .build()
}

/// The sample as a build would leave it that has not split one of its artifacts.
pub(super) fn place(name: &str) -> PathBuf {
    let place = empty(&format!("kpack/{name}"));
    for (name, bytes) in sample().archives() {
        if !name.starts_with("blas_lib") {
            put(&place, &format!("in/{name}"), &bytes);
        }
    }
    let artifact = place.join("fat").join(FAT);
    put(&artifact, "artifact_manifest.txt", STAGE.as_bytes());
    let stage = artifact.join(STAGE);
    put(&stage, "lib/librocblas.so.5.1", &rocblas());
    std::os::unix::fs::symlink("librocblas.so.5.1", stage.join("lib/librocblas.so.5")).unwrap();
    std::os::unix::fs::symlink("librocblas.so.5", stage.join("lib/librocblas.so")).unwrap();
    put_databases(&stage, "gfx942");
    place
}

fn run(arguments: &[&str], place: &Path) -> String {
    let mut run = command();
    // `rocblas` takes the place of all of the sample's BLAS libraries.
    run.args(arguments).arg("--without=hipblas,hipblaslt,origami");
    Outcome::of(run.current_dir(place).output().unwrap()).all()
}

#[test]
#[ignore = "slow"]
fn fat_artifacts_become_wheels_in_which_every_device_finds_its_code() {
    let place = place("installed");
    copy(&place.join("fat").join(FAT), &place.join("in"));
    let summary = ["--summary", "summary.md"];
    let pipeline = ["pipeline", "--artifact-dir", "in", "--output-dir", "out"];
    let said = run(&[&pipeline[..], &summary[..]].concat(), &place);
    assert!(said.starts_with("exit 0"), "{said}");
    assert_has!(said, "Splitting 1 fat artifact: blas_lib_gfx94X-dcgpu");
    assert_has!(said, "with split device code", "Split 4 archives of device code, 122.55 KiB");
    assert!(!place.join("out/packages/kpack.part").exists());
    let summary = fs_err::read_to_string(place.join("summary.md")).unwrap();
    assert_has!(summary, "gfx942", "gfx1100");
    let install = "install --quiet --no-index --no-deps --target site --find-links out/packages/dist \
                   rocm-sdk-core rocm-sdk-libraries rocm-sdk-device-gfx942 rocm-sdk-device-gfx1100";
    let mut pip = Command::new(tool("pip"));
    succeed(pip.args(install.split(' ')).current_dir(&place));
    let root = place.join("site/_rocm_sdk_libraries");
    assert_eq!(compare(&rocblas(), &root, "lib/librocblas.so.5"), 50);
    let names: Vec<String> = files(&root).into_keys().collect();
    let code = names.iter().filter(|name| name.contains("blas") && name.contains("gfx"));
    insta::assert_snapshot!(code.cloned().collect::<Vec<_>>().join("\n"), @"
    .kpack/blas_lib_d4005b17_0_gfx1100.kpack
    .kpack/blas_lib_d4005b17_0_gfx942.kpack
    .kpack/blas_lib_d4005b17_1_gfx11-generic.kpack
    .kpack/blas_lib_d4005b17_1_gfx942.kpack
    lib/rocblas/library/Kernels_gfx942.hsaco
    lib/rocblas/library/gfx1100/Manifest.txt
    ");
    let split = fs_err::read(root.join("lib/librocblas.so.5")).unwrap();
    let lost = rocblas().len() - split.len();
    assert!(lost > 50_000, "{lost}");
}

#[test]
fn a_build_splits_as_split_does() {
    let place = place("equal");
    let said = split(&place.join("fat"), &place.join("apart"), "2");
    assert!(said.starts_with("exit 0"), "{said}");
    for (input, artifacts) in [("a", "fat"), ("b", "apart")] {
        copy(&place.join("in"), &place.join(input));
        for child in fs_err::read_dir(place.join(artifacts)).unwrap() {
            copy(&child.unwrap().path(), &place.join(input));
        }
        let dest = format!("{input}-out");
        let line = ["build", "--artifact-dir", input, "--dest-dir", &dest];
        let said = run(&line, &place);
        assert!(said.starts_with("exit 0"), "{said}");
    }
    let dist = |name: &str| -> BTreeMap<String, Vec<u8>> { files(&place.join(name).join("dist")) };
    let (one, other) = (dist("a-out"), dist("b-out"));
    assert!(one.keys().eq(other.keys()));
    for (name, bytes) in &one {
        assert!(*bytes == other[name], "{name}");
    }
}

#[test]
fn what_happens_to_code_in_binaries_is_a_choice() {
    let place = place("choice");
    copy(&place.join("fat").join(FAT), &place.join("in"));
    let build = |more: &[&str]| {
        let build = ["build", "--artifact-dir=in", "--dest-dir=out", "--plan"];
        run(&[&build[..], more].concat(), &place)
    };
    // The build says that code is apart: users ask for that of a target, and there is none.
    insta::assert_snapshot!(build(&["--kpack", "keep", "-q"]), @"
    exit 2
    error: a set with split device code has packages for targets, but `blas_lib_gfx94X-dcgpu` is for the family `gfx94X-dcgpu`

    hint: `--kpack split` takes device code out of fat artifacts; of a run that is split, fetch the artifacts of its targets
    ");
    let split = build(&["--kpack", "split", "--format", "json"]);
    let archive = r#"{"path":"_rocm_sdk_libraries/.kpack/blas_lib_"#;
    let (_, rest) = split.split_once(archive).expect("an archive in the plan");
    let (member, _) = rest.split_once('}').unwrap();
    assert_lacks!(member, "size");
    assert!(!place.join("out/kpack.part").exists());
    let refused = |why: &str| {
        let refused = build(&["--kpack", "split"]);
        assert!(refused.starts_with("exit 2"), "{refused}");
        assert_has!(refused, why);
    };
    // The binaries of two families are not the same without their code.
    let other = place.join("in/blas_lib_gfx110X-all");
    copy(&place.join("fat").join(FAT), &other);
    refused(
        "error: `blas_lib_gfx110X-all` and `blas_lib_gfx94X-dcgpu` would both become `blas_lib_generic`",
    );
    fs_err::remove_dir_all(other).unwrap();
    // Beside its generic part, a fat artifact is one too many.
    put(&place.join("in/blas_lib_generic"), "artifact_manifest.txt", b"");
    refused("error: only one of `blas_lib_generic` and `blas_lib_gfx94X-dcgpu` is split");
}
