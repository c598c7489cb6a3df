//! The linkers that the C compiler of this machine can use.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use crate::skipped::skipped;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linker {
    Bfd,
    Gold,
    Lld,
    Mold,
}

/// All that are here. GNU ld and the one that comes with Rust always are.
pub fn linkers() -> &'static [Linker] {
    static FOUND: OnceLock<Vec<Linker>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let all = [Linker::Bfd, Linker::Gold, Linker::Lld, Linker::Mold];
        let found: Vec<Linker> = all.into_iter().filter(|linker| linker.works()).collect();
        say(&[format!("linkers: {found:?}")]);
        let lacks = |linker| !found.contains(&linker);
        assert!(!lacks(Linker::Bfd), "install `gcc` and `binutils`");
        assert!(!lacks(Linker::Lld), "install Rust with rustup");
        for linker in all.into_iter().filter(|it| lacks(*it)) {
            skipped(&format!("for the linker {linker:?}, which is not here"));
        }
        found
    })
}

impl Linker {
    pub fn name(self) -> &'static str {
        match self {
            Self::Bfd => "bfd",
            Self::Gold => "gold",
            Self::Lld => "lld",
            Self::Mold => "mold",
        }
    }

    /// Options that no version of a linker knows.
    pub fn lacks(self, options: &[&str]) -> bool {
        let unknown = ["-Wl,-z,pack-relative-relocs", "-Wl,-z,noseparate-code"];
        self == Self::Gold && options.iter().any(|option| unknown.contains(option))
    }

    pub fn build(self, place: &Path, source: &str, flags: &[&str], dependency: &Path) -> PathBuf {
        let code = place.join("source.c");
        let built = place.join("built");
        fs_err::write(&code, source).unwrap();
        let output = self.compile(&code, &built, flags, Some(dependency));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{self:?} {flags:?}: {errors}");
        built
    }

    fn compile(
        self,
        code: &Path,
        built: &Path,
        flags: &[&str],
        dependency: Option<&Path>,
    ) -> Output {
        let mut command = Command::new("cc");
        command.args(["-O1", "-o"]).arg(built).args(flags).arg(code);
        command.args(dependency).arg(format!("-fuse-ld={}", self.name()));
        if self == Self::Lld {
            let tools = "lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld";
            command.arg("-B").arg(sysroot().join(tools));
        }
        command.output().expect("no C compiler: install `gcc`")
    }

    fn works(self) -> bool {
        let place = tempfile::tempdir().unwrap();
        let code = place.path().join("source.c");
        fs_err::write(&code, "int f(void) { return 1; }").unwrap();
        let built = place.path().join("built");
        let output = self.compile(&code, &built, &["-shared", "-fPIC"], None);
        output.status.success()
    }
}

/// Shows what a test saw, when it fails or is run with `--nocapture`.
#[expect(clippy::print_stdout, reason = "the test harness keeps it")]
pub fn say(lines: &[String]) {
    println!("{}", lines.join("\n"));
}

/// Where Rust keeps its own libraries and tools.
pub fn sysroot() -> PathBuf {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}
