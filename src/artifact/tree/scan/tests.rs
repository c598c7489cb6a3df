//! Directories of artifacts, and what is made of them.

use std::fmt::Write as _;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::artifact::{FileKind, TherockManifest};
use rocwheel_base::error::{Exit, render};
use rocwheel_test_files::linker::{Executable, SharedObject};

/// A directory of artifacts in the making.
struct Fixture(TempDir);

impl Fixture {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join(path)
    }

    fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let at = self.path(path);
        fs_err::create_dir_all(at.parent().unwrap()).unwrap();
        fs_err::write(at, content).unwrap();
        self
    }

    fn manifest(self, artifact: &str, basedirs: &str) -> Self {
        self.file(&format!("{artifact}/artifact_manifest.txt"), basedirs)
    }

    fn directory(self, path: &str) -> Self {
        fs_err::create_dir_all(self.path(path)).unwrap();
        self
    }

    #[cfg(unix)]
    fn link(self, path: &str, text: &str) -> Self {
        let at = self.path(path);
        fs_err::create_dir_all(at.parent().unwrap()).unwrap();
        fs_err::os::unix::fs::symlink(text, at).unwrap();
        self
    }

    #[cfg(unix)]
    fn mode(self, path: &str, mode: u32) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let mut permissions = fs_err::metadata(self.path(path)).unwrap().permissions();
        permissions.set_mode(mode);
        fs_err::set_permissions(self.path(path), permissions).unwrap();
        self
    }

    fn scan(&self) -> Result<ArtifactTree> {
        ArtifactTree::scan(self.0.path(), NonZeroUsize::MIN, &Stop::default())
    }

    fn refused(&self) -> String {
        let error = self.scan().expect_err("the tree was accepted");
        assert_eq!(Exit::of(&error).code(), 2);
        render(&error).replace(&self.0.path().display().to_string(), "DIR")
    }
}

/// A tree as text, without what differs from run to run.
fn show(tree: &ArtifactTree) -> String {
    let mut out = String::new();
    for artifact in &tree.artifacts {
        writeln!(out, "{}", artifact.name).unwrap();
        for file in &artifact.files {
            assert!(file.source.is_absolute());
            assert!(file.source.ends_with(file.basedir.join(&file.path).as_str()));
            let what = match &file.content {
                TreeContent::Directory => "directory".to_owned(),
                TreeContent::File(facts) => show_facts(facts),
                TreeContent::Link { text, end } => format!("-> {text}: {}", show_end(end)),
            };
            writeln!(out, "  {} {what}", file.path).unwrap();
        }
    }
    out
}

fn show_end(end: &LinkEnd) -> String {
    match end {
        LinkEnd::File { path, facts, .. } => format!("{path}, {}", show_facts(facts)),
        other => format!("{other:?}"),
    }
}

fn show_facts(facts: &FileFacts) -> String {
    let mut out = format!("{:?}", facts.kind);
    if let Some(elf) = &facts.elf {
        write!(out, " {}", elf.soname.as_deref().unwrap_or("without soname")).unwrap();
    }
    if let Some(damage) = &facts.damage {
        write!(out, " {damage}").unwrap();
    }
    out.push_str(if facts.executable { " executable" } else { "" });
    out
}

#[cfg(unix)]
#[test]
fn files_links_and_directories_become_facts() {
    let library = SharedObject::new("libx.so.1").build();
    let tree = Fixture::new()
        .manifest("x_lib_generic", "b/stage\n\nnot/there\na/stage\n")
        .file("x_lib_generic/b/stage/lib/libx.so.1.2", &library)
        .link("x_lib_generic/b/stage/lib/libx.so.1", "libx.so.1.2")
        .link("x_lib_generic/b/stage/lib/libx.so", "libx.so.1")
        .link("x_lib_generic/b/stage/lib64", "lib")
        .link("x_lib_generic/b/stage/through", "lib64/libx.so")
        .link("x_lib_generic/b/stage/dangling", "lib/liby.so")
        .link("x_lib_generic/b/stage/circle", "circle")
        .link("x_lib_generic/b/stage/absolute", "/etc/passwd")
        .link("x_lib_generic/b/stage/up", "../../a/stage/tool")
        .directory("x_lib_generic/b/stage/empty")
        .file("x_lib_generic/a/stage/tool", Executable::new().build())
        .mode("x_lib_generic/a/stage/tool", 0o4555)
        .file("x_lib_generic/a/stage/script", "#!/bin/sh")
        .mode("x_lib_generic/a/stage/script", 0o755)
        .file("x_lib_generic/a/stage/z.co", &library)
        .file("x_lib_generic/a/stage/libz.a", "!<arch>\nmore")
        .file("x_lib_generic/a/stage/a.h", "")
        .file("x_lib_generic/a/stage/half.so", &library[..100])
        .file("x_lib_generic/a/stage/tiny", b"\x7fEL")
        .file("x_lib_generic/outside", "is not looked at")
        .manifest("x_dev_gfx942:xnack+", "")
        .manifest("base_lib_gfx94X-dcgpu", "s\n")
        .directory("base_lib_gfx94X-dcgpu/s")
        .scan()
        .unwrap();
    insta::assert_snapshot!(show(&tree), @"
    base_lib_gfx94X-dcgpu
    x_dev_gfx942:xnack+
    x_lib_generic
      absolute -> /etc/passwd: Escapes
      circle -> circle: Dangling
      dangling -> lib/liby.so: Dangling
      empty directory
      lib directory
      lib/libx.so -> libx.so.1: lib/libx.so.1.2, SharedObject libx.so.1
      lib/libx.so.1 -> libx.so.1.2: lib/libx.so.1.2, SharedObject libx.so.1
      lib/libx.so.1.2 SharedObject libx.so.1
      lib64 -> lib: Directory
      through -> lib64/libx.so: lib/libx.so.1.2, SharedObject libx.so.1
      up -> ../../a/stage/tool: Escapes
      a.h Text
      half.so Other a damaged ELF file: the program header table lies outside the file: 336 bytes at 64 of 100
      libz.a Archive
      script Script executable
      tiny Other
      tool Executable without soname executable
      z.co Hsaco
    ");
}

#[test]
fn what_is_no_artifact_is_skipped_with_the_reason() {
    let fixture = Fixture::new()
        .manifest("x_lib_generic", "a\n")
        .manifest("a_b", "a\n")
        .manifest("a_b_c_d", "a\n")
        .manifest("blas_src_generic", "a\n")
        .manifest("blas_lib_gfx942.part", "a\n")
        .directory("blas_lib_generic")
        .file("blas_run_generic", "")
        .file("blas_dev_generic.tar.zst", "")
        .file("blas.tar.zst", "")
        .file("index.html", "");
    let skipped = fixture.scan().unwrap().skipped;
    let lines: Vec<String> =
        skipped.iter().map(|skipped| format!("{}: {}", skipped.name, skipped.reason)).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    a_b: not of the form `name_component_scope`: "a_b"
    a_b_c_d: not of the form `name_component_scope`: "a_b_c_d"
    blas.tar.zst: not of the form `name_component_scope`: "blas"
    blas_dev_generic.tar.zst: an archive that is not unpacked
    blas_lib_generic: it has no `artifact_manifest.txt`
    blas_lib_gfx942.part: an artifact that is not whole
    blas_run_generic: not a directory
    blas_src_generic: not one of the components `lib`, `run`, `dbg`, `dev`, `doc` and `test`: "src"
    index.html: not of the form `name_component_scope`: "index.html"
    "#);
}

#[test]
fn a_directory_without_artifacts_is_an_error() {
    insta::assert_snapshot!(Fixture::new().refused(), @"
    error: no artifacts in `DIR`, which is empty

    hint: fetch a run into it: `rocwheel fetch --run-id ID --output-dir DIR`
    ");
    insta::assert_snapshot!(Fixture::new().file("a_lib_generic.tar.xz", "").file("b", "").refused(), @"
    error: no artifacts in `DIR`; `a_lib_generic.tar.xz`: an archive that is not unpacked (and 1 more)

    hint: fetch a run into it: `rocwheel fetch --run-id ID --output-dir DIR`
    ");
    // The directory that `pipeline` wrote to.
    let around = Fixture::new().file("artifacts/x", "").file(".rocwheel-unpacked.txt", "");
    insta::assert_snapshot!(around.refused(), @r#"
    error: no artifacts in `DIR`; `artifacts`: not of the form `name_component_scope`: "artifacts"

    hint: pass `DIR/artifacts`, which is a directory of artifacts
    "#);
    let missing = ArtifactTree::scan(Path::new("/not/here"), NonZeroUsize::MIN, &Stop::default());
    assert!(render(&missing.unwrap_err()).contains("`/not/here`"));
}

#[test]
fn a_bad_manifest_is_named_with_the_fix() {
    insta::assert_snapshot!(Fixture::new().manifest("x_lib_generic", "a\n../b\n").refused(), @r#"
    error: failed to read `DIR/x_lib_generic/artifact_manifest.txt`
      caused by: line 2: a path with `..`: "../b"

    hint: fetch `x_lib_generic` again
    "#);
    insta::assert_snapshot!(Fixture::new().manifest("x_lib_generic", &"\n".repeat(2 << 20)).refused(), @"
    error: more than 1048576 bytes: `DIR/x_lib_generic/artifact_manifest.txt`

    hint: fetch `x_lib_generic` again
    ");
    let directory = Fixture::new().directory("x_lib_generic/artifact_manifest.txt");
    insta::assert_snapshot!(directory.refused(), @"
    error: not a regular file: `DIR/x_lib_generic/artifact_manifest.txt`

    hint: fetch `x_lib_generic` again
    ");
    let file = Fixture::new().manifest("x_lib_generic", "a/b\n").file("x_lib_generic/a", "");
    insta::assert_snapshot!(file.refused(), @"
    error: not a directory: `DIR/x_lib_generic/a`

    hint: fetch `x_lib_generic` again
    ");
}

#[cfg(unix)]
#[test]
fn no_link_leads_the_scan_out_of_an_artifact() {
    let outside = TempDir::new().unwrap();
    fs_err::write(outside.path().join("secret"), "a\n").unwrap();
    let to = outside.path().to_str().unwrap();
    let basedir = Fixture::new().manifest("x_lib_generic", "a/stage\n").link("x_lib_generic/a", to);
    insta::assert_snapshot!(basedir.refused(), @"
    error: a link in place of a base directory: `DIR/x_lib_generic/a`

    hint: fetch `x_lib_generic` again
    ");
    let manifest =
        Fixture::new().link("x_lib_generic/artifact_manifest.txt", &format!("{to}/secret"));
    insta::assert_snapshot!(manifest.refused(), @"
    error: not a regular file: `DIR/x_lib_generic/artifact_manifest.txt`

    hint: fetch `x_lib_generic` again
    ");
    let below = Fixture::new().manifest("x_lib_generic", "a\n").link("x_lib_generic/a/out", to);
    insta::assert_snapshot!(show(&below.scan().unwrap()).replace(to, "OUTSIDE"), @"
    x_lib_generic
      out -> OUTSIDE: Escapes
    ");
}

#[cfg(unix)]
#[test]
fn an_artifact_may_be_a_link_to_a_directory() {
    let real = Fixture::new().manifest("elsewhere", "a\n").file("elsewhere/a/x", "");
    let fixture = Fixture::new().link("x_lib_generic", real.path("elsewhere").to_str().unwrap());
    assert_eq!(fixture.scan().unwrap().artifacts[0].files.len(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn names_and_things_that_no_package_can_hold_are_refused() {
    use std::os::unix::{ffi::OsStrExt, net::UnixListener};

    let fixture = || Fixture::new().manifest("x_lib_generic", "a\n").directory("x_lib_generic/a/d");
    let latin = fixture();
    let name = std::ffi::OsStr::from_bytes(b"\xe9");
    fs_err::write(latin.path("x_lib_generic/a/d").join(name), "").unwrap();
    insta::assert_snapshot!(latin.refused(), @r#"
    error: failed to scan `DIR/x_lib_generic/a/d`
      caused by: a name that is not UTF-8: "�"
    "#);
    let backslash = fixture().file("x_lib_generic/a/d/a\\b", "");
    insta::assert_snapshot!(backslash.refused(), @r#"
    error: failed to scan `DIR/x_lib_generic/a/d`
      caused by: a backslash in a path: "a\\b"
    "#);
    let socket = fixture();
    let _listener = UnixListener::bind(socket.path("x_lib_generic/a/d/s")).unwrap();
    insta::assert_snapshot!(socket.refused(), @"
    error: failed to scan `DIR/x_lib_generic/a/d`
      caused by: neither a file, a directory nor a link: `d/s`
    ");
    let link = fixture();
    fs_err::os::unix::fs::symlink(name, link.path("x_lib_generic/a/d/l")).unwrap();
    assert!(link.refused().contains("a text that is not UTF-8"));
}

#[test]
fn the_order_of_directories_and_the_number_of_threads_do_not_show() {
    let mut names: Vec<String> = (0..60).map(|n| format!("d{}/f{n}", n % 7)).collect();
    let mut shown = Vec::new();
    for jobs in [1, 2, 8] {
        names.reverse();
        names.rotate_left(13);
        let mut fixture = Fixture::new();
        for artifact in ["z_lib_generic", "z-a_lib_generic", "a_run_gfx942"] {
            fixture = fixture.manifest(artifact, "two\none\n");
            for name in &names {
                fixture = fixture
                    .file(&format!("{artifact}/one/{name}"), SharedObject::new(name).build())
                    .file(&format!("{artifact}/two/{name}.txt"), "");
            }
        }
        let jobs = NonZeroUsize::new(jobs).unwrap();
        let tree = ArtifactTree::scan(fixture.0.path(), jobs, &Stop::default()).unwrap();
        shown.push(show(&tree));
    }
    assert!(shown[0].starts_with("a_run_gfx942\n  d0 directory\n  d0/f0.txt Text"));
    assert_eq!(shown[0], shown[1]);
    assert_eq!(shown[0], shown[2]);
}

#[test]
fn what_the_build_says_of_itself_is_found() {
    let base = format!("{}/s", TherockManifest::ARTIFACT);
    let fixture = |manifest: &str| {
        Fixture::new()
            .manifest(TherockManifest::ARTIFACT, "s\n")
            .file(&format!("{base}/{}", TherockManifest::PATH), manifest)
    };
    let split = fixture(r#"{"flags": {"KPACK_SPLIT_ARTIFACTS": 1}}"#);
    let tree = split.scan().unwrap();
    assert!(tree.therock_manifest().unwrap().kpack_split);

    let named = |fixture: &Fixture| {
        let error = fixture.scan().unwrap().therock_manifest().unwrap_err();
        render(&error).replace(&fixture.0.path().display().to_string(), "DIR")
    };
    insta::assert_snapshot!(named(&fixture("{")), @"
    error: failed to read `DIR/base_lib_generic/s/share/therock/therock_manifest.json`
      caused by: EOF while parsing an object at line 1 column 1
    ");
    insta::assert_snapshot!(named(&Fixture::new().manifest("x_lib_generic", "")), @"
    error: no `share/therock/therock_manifest.json` in the artifact `base_lib_generic` of `DIR`

    hint: fetch `base_lib_generic` too
    ");
    insta::assert_snapshot!(named(&Fixture::new().manifest(TherockManifest::ARTIFACT, "")), @"
    error: no `share/therock/therock_manifest.json` in the artifact `base_lib_generic` of `DIR`

    hint: every build of ROCm writes it: fetch the artifact again
    ");
}

#[test]
fn of_two_manifests_of_the_build_the_later_base_directory_counts() {
    let fixture = Fixture::new()
        .manifest(TherockManifest::ARTIFACT, "z\na\n")
        .file(
            &format!("base_lib_generic/z/{}", TherockManifest::PATH),
            r#"{"rocm_package_version": "1"}"#,
        )
        .file(
            &format!("base_lib_generic/a/{}", TherockManifest::PATH),
            r#"{"rocm_package_version": "2"}"#,
        );
    let manifest = fixture.scan().unwrap().therock_manifest().unwrap();
    assert_eq!(manifest.package_version.as_deref(), Some("2"));
}

#[test]
fn a_huge_manifest_of_the_build_is_not_read() {
    let path = format!("base_lib_generic/s/{}", TherockManifest::PATH);
    let fixture = Fixture::new().manifest(TherockManifest::ARTIFACT, "s\n").file(&path, "");
    let file = fs_err::OpenOptions::new().write(true).open(fixture.path(&path)).unwrap();
    file.set_len(TherockManifest::MAX_LEN + 1).unwrap();
    let error = fixture.scan().unwrap().therock_manifest().unwrap_err();
    assert!(render(&error).contains("more than 16777216 bytes"));
}

#[test]
fn a_library_cut_off_anywhere_is_a_fact_and_no_error() {
    let library = SharedObject::new("libx.so.1").build();
    let mut fixture = Fixture::new().manifest("x_lib_generic", "a\n");
    for len in (0..library.len()).step_by(61) {
        fixture = fixture.file(&format!("x_lib_generic/a/{len}"), &library[..len]);
    }
    let tree = fixture.scan().unwrap();
    let files = tree.artifacts[0].files.iter();
    let damaged = files.filter(|file| match &file.content {
        TreeContent::File(facts) => facts.damage.is_some() && facts.kind == FileKind::Other,
        _ => false,
    });
    assert!(damaged.count() > 10);
}

#[cfg(unix)]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_link_ends_where_the_kernel_says(links in prop::collection::btree_map(
        "(a|b|c|d/[abc]|d/e/[abc])",
        r"(\.\./|[abcdef]/|\./){0,4}(a|b|c|d|e|f|\.\.|\.)/?",
        1..6,
    )) {
        let mut fixture = Fixture::new()
            .manifest("x_lib_generic", "in\n")
            .file("x_lib_generic/in/d/e/f", "");
        for (path, text) in &links {
            fixture = fixture.link(&format!("x_lib_generic/in/{path}"), text);
        }
        let root = fixture.path("x_lib_generic/in").canonicalize().unwrap();
        for file in &fixture.scan().unwrap().artifacts[0].files {
            let TreeContent::Link { end, .. } = &file.content else { continue };
            let real = file.source.canonicalize().ok();
            match end {
                LinkEnd::File { source, .. } => {
                    prop_assert_eq!(real, Some(source.canonicalize().unwrap()));
                }
                LinkEnd::Directory => prop_assert!(real.is_some_and(|real| real.starts_with(&root))),
                LinkEnd::Dangling => prop_assert_eq!(real, None),
                // Above the top the kernel may still find something, or nothing.
                LinkEnd::Escapes => prop_assert!(real.is_none_or(|real| !real.starts_with(&root))),
            }
        }
    }
}
