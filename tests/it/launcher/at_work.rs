//! Launchers as processes.

use std::{
    ffi::OsStr,
    io::Write as _,
    os::{
        fd::AsRawFd as _,
        unix::{ffi::OsStrExt as _, process::CommandExt as _},
    },
    process::Stdio,
};

use crate::support::prelude::*;

/// A directory to run launchers in.
pub(super) struct Stage {
    folder: TempDir,
}

impl Stage {
    pub(super) fn new() -> Self {
        // Not the system's directory for temporary files, where nothing may be executable.
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self { folder }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn path(&self, path: impl AsRef<OsStr>) -> PathBuf {
        self.root().join(Path::new(&path))
    }

    pub(super) fn launcher(&self, path: impl AsRef<OsStr>, target: impl AsRef<[u8]>) -> PathBuf {
        self.program(path, &rocwheel_elf::launcher(target.as_ref()).unwrap())
    }

    /// A launcher of the shell, which can tell what it was started with.
    fn shell(&self, path: impl AsRef<OsStr>) -> PathBuf {
        let directories = self.path(&path).components().count() - 2;
        self.launcher(path, "../".repeat(directories) + "bin/sh")
    }

    /// An executable, written by another process: what another test starts meanwhile inherits the
    /// files that this one has open to write, and while it does, the kernel will not run them.
    pub(super) fn program(&self, path: impl AsRef<OsStr>, bytes: &[u8]) -> PathBuf {
        let path = self.path(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        let mut writer = Command::new("sh")
            .args(["-c", r#"cat > "$0" && chmod 755 "$0""#])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        writer.stdin.take().unwrap().write_all(bytes).unwrap();
        assert!(writer.wait().unwrap().success());
        path
    }

    pub(super) fn link(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::os::unix::fs::symlink(text, &path).unwrap();
        path
    }

    /// Exit code and standard error of a launcher, without the name of this directory.
    pub(super) fn failure(&self, command: &mut Command) -> String {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let root = self.root();
        let said = said.replace(root.to_str().unwrap(), "…");
        format!("{} {}", output.status, said.trim_end())
    }
}

/// A static executable that prints its `argv[0]` and exits with 7.
pub(super) fn static_program() -> Vec<u8> {
    let code = [
        &[0x48, 0x8b, 0x74, 0x24, 0x08, 0x31, 0xd2][..], // rsi = argv[0], edx = 0
        &[0x80, 0x3c, 0x16, 0x00, 0x74, 0x05],           // while rsi[rdx] is not 0
        &[0x48, 0xff, 0xc2, 0xeb, 0xf5],                 // rdx += 1
        &[0xbf, 1, 0, 0, 0, 0xb8, 1, 0, 0, 0, 0x0f, 0x05], // write(1, rsi, rdx)
        &[0xbf, 7, 0, 0, 0, 0xb8, 231, 0, 0, 0, 0x0f, 0x05], // exit_group(7)
    ]
    .concat();
    let (base, headers) = (0x40_0000_u64, 64 + 56);
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let magic = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    let entry: Vec<u8> = words(&[base + headers, 64, 0]);
    let sizes = b"\0\0\0\0\x40\0\x38\0\x01\0\x40\0\0\0\0\0".to_vec();
    let len = headers + code.len() as u64;
    let segment = words(&[1 | 5 << 32, 0, base, base, len, len, 4096]);
    [magic, entry, sizes, segment, code].concat()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
pub(super) fn ran(output: &Output, name: &str) {
    let said = (text(&output.stdout), text(&output.stderr));
    assert_eq!(said, (name.to_owned(), String::new()));
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn arguments_and_exit_code_pass_through_a_chain() {
    let stage = &Stage::new();
    let first = stage.launcher("bin/clang++", "clang");
    stage.launcher("bin/clang", "../lib/llvm/bin/clang-22");
    stage.shell("lib/llvm/bin/clang-22");
    let arguments: [&[u8]; 8] = [
        b"-c",
        b"cat /proc/$$/cmdline; exit 7",
        b"two words",
        b"",
        b"\xff\xfe",
        b"line\nline",
        b"$HOME * \"'\\",
        "ü".as_bytes(),
    ];
    let mut first = Command::new(first);
    first.arg0("any name/at all");
    let output = first.args(arguments.map(OsStr::from_bytes)).output().unwrap();
    let seen: Vec<_> = output.stdout.split(|byte| *byte == 0).collect();
    let passed = [&[&b"any name/at all"[..]], &arguments[..], &[b""]].concat();
    assert_eq!(seen, passed, "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn the_environment_passes_untouched() {
    let stage = &Stage::new();
    let variables: [(&[u8], &[u8]); 4] = [
        (b"EMPTY", b""),
        (b"LD_LIBRARY_PATH", b"/nowhere"),
        (b"ODD \xff", b"\xfe = \n"),
        (b"PATH", b"/usr/bin:/bin"),
    ];
    let output = Command::new(stage.shell("bin/sh"))
        .args(["-c", "cat /proc/$$/environ; exit 7"])
        .env_clear()
        .envs(variables.map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value))))
        .output()
        .unwrap();
    let passed = variables.map(|(name, value)| [name, b"=", value, b"\0"].concat());
    assert_eq!(text(&output.stdout), text(&passed.concat()));
    assert_eq!(output.stdout, passed.concat());
}

#[test]
fn the_target_gets_no_open_file_of_the_launcher() {
    let stage = &Stage::new();
    let open_files = |shell: &Path| {
        let mut command = Command::new(shell);
        let output = command.args(["-c", "ls /proc/$$/fd; exit 7"]).output();
        text(&output.unwrap().stdout)
    };
    let without = open_files(Path::new("/bin/sh"));
    assert_eq!(open_files(&stage.shell("bin/sh")), without);
    assert!(without.starts_with("0\n1\n"), "{without}");
}

#[test]
fn the_target_beside_a_launcher_runs_however_the_launcher_is_called() {
    let stage = &Stage::new();
    let launcher = stage.launcher("real/bin/clang", "clang-22");
    stage.program("real/bin/clang-22", &static_program());
    stage.link("directory", "real/bin");
    stage.link("a/first", "second");
    stage.link("a/second", "../directory/clang");
    let beside = stage.path("real/bin");
    let [mut by_name, mut relative] = ["clang", "./clang"].map(Command::new);
    let links = ["a/first", "directory/clang"].map(|link| stage.path(link));
    let opened = fs_err::File::open(&launcher).unwrap();
    let mut deleted = Command::new(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    ran(&by_name.env("PATH", &beside).output().unwrap(), "clang");
    ran(&relative.current_dir(beside).output().unwrap(), "./clang");
    for link in links {
        let name = link.to_str().unwrap();
        ran(&Command::new(&link).output().unwrap(), name);
    }
    fs_err::remove_file(launcher).unwrap();
    ran(&deleted.arg0("clang").output().unwrap(), "clang");
}

#[test]
fn the_target_is_run_by_its_real_path() {
    let stage = &Stage::new();
    let script = stage.program("lib/deep/script", b"#!/bin/sh\nprintf %s \"$0\"; exit 7\n");
    stage.link("lib/linked", "deep");
    stage.link("lib/alias", "linked/script");
    let launcher = stage.launcher("bin/tool", "../lib/./linked/../alias");
    let output = Command::new(launcher).output().unwrap();
    ran(&output, script.to_str().unwrap());
}

#[test]
fn any_bytes_may_stand_in_a_path() {
    let stage = &Stage::new();
    let directory = OsStr::from_bytes(b"a b\n\"c'$d\\e\xff");
    let program = Path::new(directory).join("new\nline");
    stage.program(&program, &static_program());
    let target = [directory.as_bytes(), b"/new\nline"].concat();
    let inside = stage.launcher(Path::new(directory).join("tool"), "new\nline");
    let outside = stage.launcher("tool", target);
    for launcher in [inside, outside] {
        let output = Command::new(launcher).arg0("tool").output();
        ran(&output.unwrap(), "tool");
    }
}

#[test]
fn a_target_that_cannot_run_is_named_with_the_reason() {
    let stage = &Stage::new();
    stage.program("lib/script", b"no interpreter");
    stage.program("lib/for another machine", b"\x7fELF");
    fs_err::write(stage.path("lib/text"), "#!/bin/sh\n").unwrap();
    stage.link("bin/circle", "circle");
    let targets = "../lib/clang-22 ../lib/text ../lib ../lib/script ../lib/text/clang circle";
    let said = targets.split(' ').map(|target| {
        let launcher = stage.launcher("bin/clang", target);
        stage.failure(&mut Command::new(launcher))
    });
    let said: Vec<String> = said.collect();
    insta::assert_snapshot!(said.join("\n"), @"
    exit status: 1 could not exec …/bin/../lib/clang-22: No such file or directory
    exit status: 1 could not exec …/lib/text: Permission denied
    exit status: 1 could not exec …/lib: Permission denied
    exit status: 1 could not exec …/lib/script: Exec format error
    exit status: 1 could not exec …/bin/../lib/text/clang: Not a directory
    exit status: 1 could not exec …/bin/circle: Too many levels of symbolic links
    ");
}

#[test]
fn a_launcher_does_not_run_itself() {
    let stage = &Stage::new();
    stage.link("bin/alias", "../bin/clang");
    for target in ["clang", "./clang", "../bin/clang", "alias"] {
        let launcher = stage.launcher("bin/clang", target);
        let said = stage.failure(&mut Command::new(launcher));
        let expected = "exit status: 1 could not exec …/bin/clang: the launcher would run itself";
        assert_eq!(said, expected);
    }
}

/// The kernel takes paths of up to 4095 bytes.
#[test]
fn paths_may_be_as_long_as_the_kernel_takes_them() {
    let stage = &Stage::new();
    let mut directory = stage.root();
    while directory.as_os_str().len() < 3800 {
        directory.push("d".repeat(200));
    }
    directory.push("e".repeat(4093 - directory.as_os_str().len() - 1));
    stage.program(directory.join("t"), &static_program());
    let launcher = stage.launcher(directory.join("l"), "t");
    assert_eq!(launcher.as_os_str().len(), 4095);
    ran(&Command::new(&launcher).arg0("l").output().unwrap(), "l");

    let launcher = stage.launcher(directory.join("l"), "tt");
    let failure = stage.failure(&mut Command::new(&launcher));
    let start = "exit status: 1 could not exec …/ddd";
    assert!(failure.starts_with(start), "{failure}");
    assert!(failure.ends_with("e/tt: File name too long"), "{failure}");
}

#[test]
fn a_launcher_too_deep_for_the_kernel_to_name_runs_its_target() {
    let stage = &Stage::new();
    let launcher = stage.launcher("launcher", "clang-22");
    let program = stage.program("program", &static_program());
    let in_the_deep = |commands: &str| {
        let down = r#"{ mkdir -p "$0" && cd -P "$0"; }"#;
        let descend = [down; 22].join(" && ");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{descend} && {commands}"), &"d".repeat(200)]);
        command.args([&launcher, &program]).current_dir(stage.root());
        command
    };
    let mut complete = in_the_deep(r#"cp "$1" clang && cp "$2" clang-22 && exec ./clang"#);
    ran(&complete.output().unwrap(), "./clang");

    let mut incomplete = in_the_deep("rm clang-22 && exec ./clang");
    insta::assert_snapshot!(stage.failure(&mut incomplete), @"
        exit status: 1 could not exec ./clang-22: No such file or directory
        hint: cannot read /proc/self/exe (File name too long)
        ");
}
