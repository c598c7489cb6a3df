//! Libraries and programs as the linkers make them: each is loaded before and after the change,
//! with a dependency that only the new run path leads to.

use std::io::Read as _;

use rocwheel_elf::{EditPlan, ElfError, PatchedReader, plan_rpath};
use rocwheel_test_files::{
    compiled::{Linker, linkers, say, sysroot},
    programs::{Place, call, linked, run},
};

use crate::support::prelude::*;

const GOAL: &str = "$ORIGIN/../nowhere:$ORIGIN/../dep";

const LIBRARY: &str = r#"
extern int y_answer(void);
static __thread int local = 2;
static int started;
__attribute__((constructor)) static void start(void) { started = 1; }
static int chosen(void) { return 3; }
static int (*choose(void))(void) { return chosen; }
int by_choice(void) __attribute__((ifunc("choose")));
static int one = 1, two = 2;
int *volatile pointers[] = { &one, &two, &one, &two };
char unused[UNUSED] = { 0 };
int x(void) {
    unused[UNUSED - 1] = 0;
    return y_answer() + local + started + by_choice() + *pointers[0] + *pointers[3];
}
"#;

const PROGRAM: &str = r"
#include <stdlib.h>
extern int y_answer(void);
static __thread int local = 2;
static int started;
__attribute__((constructor)) static void start(void) { started = 1; }
char unused[UNUSED];
int main(void) { unused[UNUSED - 1] = 0; exit(y_answer() + local + started + 6); }
";

/// What both return with the dependency that returns 33.
const ANSWER: i32 = 42;

/// How a file is linked; `-DUNUSED` is the size of its memory that is not in the file.
const SHARED: [(&str, &str); 16] = [
    ("plain", ""),
    ("runpath", "-Wl,-rpath,/opt/rocm/lib -Wl,--enable-new-dtags"),
    ("rpath", "-Wl,-rpath,$ORIGIN -Wl,--disable-new-dtags"),
    ("build id", "-Wl,--build-id=sha1"),
    ("no build id", "-Wl,--build-id=none"),
    ("sysv hash", "-Wl,--hash-style=sysv"),
    ("both hashes", "-Wl,--hash-style=both"),
    ("one segment of code and data", "-Wl,-z,noseparate-code"),
    ("huge pages", "-Wl,-z,max-page-size=0x200000"),
    ("no relro", "-Wl,-z,norelro"),
    ("bound at once", "-Wl,-z,now"),
    ("relr", "-Wl,-z,pack-relative-relocs"),
    ("stripped", "-s"),
    ("debug", "-g"),
    ("cet", "-fcf-protection=full -nostartfiles"),
    ("much memory", "-UUNUSED -DUNUSED=(1<<30) -mcmodel=medium"),
];

#[rustfmt::skip]
const PROGRAMS: [(&str, &str); 8] = [
    ("pie", "-fPIE -pie"),
    ("pie, runpath", "-fPIE -pie -Wl,-rpath,/opt/rocm/lib -Wl,--enable-new-dtags"),
    ("pie, bound at once", "-fPIE -pie -Wl,-z,now"),
    ("pie, much memory", "-fPIE -pie -UUNUSED -DUNUSED=(64<<20)"),
    ("fixed", "-fno-PIE -no-pie"),
    ("fixed, stripped", "-fno-PIE -no-pie -s"),
    ("fixed, one segment", "-fno-PIE -no-pie -Wl,-z,noseparate-code"),
    ("fixed, much memory", "-fno-PIE -no-pie -UUNUSED -DUNUSED=(64<<20)"),
];

#[test]
#[ignore = "slow"]
fn libraries_of_every_linker_load_after_the_change() {
    let flags = "-shared -fPIC -Wl,-soname,libx.so.1";
    work_after_the_change(LIBRARY, flags, &SHARED, linked);
}

#[test]
#[ignore = "slow"]
fn programs_of_every_linker_run_after_the_change() {
    work_after_the_change(PROGRAM, "", &PROGRAMS, ran);
}

fn ran(program: &Path, _: &str) -> Result<i32, String> {
    run(program).map(|(_, code)| code)
}

fn work_after_the_change(
    source: &str,
    common: &str,
    ways: &[(&str, &str)],
    answer: fn(&Path, &str) -> Result<i32, String>,
) {
    let place = Bench::new();
    let mut strategies = Vec::new();
    for &linker in linkers() {
        for (name, options) in ways {
            let flags: Vec<&str> =
                [common, *options].into_iter().flat_map(str::split_whitespace).collect();
            if linker.lacks(&flags) {
                continue;
            }
            let file = place.build(linker, source, &flags);
            let what = format!("{}, {name}", linker.name());
            strategies.push(format!("{what}: {}", place.judge(&what, &file, &answer)));
        }
    }
    say(&strategies);
    // GNU strip puts the program headers of ordinary files where it expects them to have been.
    for seen in strategies {
        assert_lacks!(seen, "Relocate");
    }
}

/// patchelf refuses these; here the program headers have to move.
#[test]
#[ignore = "slow"]
fn files_without_section_headers_load_after_the_change() {
    let place = Bench::new();
    for &linker in linkers() {
        let shared = ["-shared", "-fPIC"];
        let file = place.build_bare(linker, LIBRARY, &shared);
        place.judge_loading(linker.name(), &file, &linked);
        for kind in [["-fPIE", "-pie"], ["-fno-PIE", "-no-pie"]] {
            let file = place.build_bare(linker, PROGRAM, &kind);
            place.judge_loading(&format!("{}, {}", linker.name(), kind[1]), &file, &ran);
        }
    }
}

#[test]
#[ignore = "slow"]
fn dlopen_takes_what_every_linker_made() {
    let place = Bench::new();
    for &linker in linkers() {
        let file = place.build(linker, LIBRARY, &["-shared", "-fPIC"]);
        let after = with_rpath(&fs_err::read(file).unwrap(), GOAL).unwrap().1;
        let path = place.place.put("lib/after.so", &after);
        assert_eq!(call(&path, "x"), Ok(ANSWER), "{}", linker.name());
    }
}

type Answer = dyn Fn(&Path, &str) -> Result<i32, String>;

/// A place with the dependency where only the goal leads to.
struct Bench {
    place: Place,
}

impl Bench {
    fn new() -> Self {
        let place = Place::make();
        let dependency = SharedObject::new("liby.so.2").function("y_answer", 33);
        place.put("dep/liby.so.2", &dependency.build());
        Self { place }
    }

    fn build(&self, linker: Linker, source: &str, flags: &[&str]) -> PathBuf {
        let dependency = self.place.path().join("dep/liby.so.2");
        let mut flags = flags.to_vec();
        flags.insert(0, "-DUNUSED=5000");
        linker.build(self.place.path(), source, &flags, &dependency)
    }

    fn build_bare(&self, linker: Linker, source: &str, flags: &[&str]) -> PathBuf {
        let mut file = fs_err::read(self.build(linker, source, flags)).unwrap();
        file[40..48].fill(0);
        file[60..64].fill(0);
        self.place.put("bare", &file)
    }

    /// Everything that must hold of a file and its change; how the change was made.
    fn judge(&self, what: &str, file: &Path, answer: &Answer) -> String {
        let seen = self.judge_loading(what, file, answer);
        let [unchanged, changed] = ["bin/before", "bin/after"].map(|it| self.place.path().join(it));
        self.assert_as_patchelf(what, &unchanged, &changed, answer);
        self.assert_tools_still_work(what, &changed, answer);
        seen
    }

    /// The same without any other tool.
    fn judge_loading(&self, what: &str, file: &Path, answer: &Answer) -> String {
        let before = fs_err::read(file).unwrap();
        let unchanged = self.place.put("bin/before", &before);
        assert!(answer(&unchanged, "x").is_err(), "{what}");
        let (plan, after) = with_rpath(&before, GOAL).unwrap_or_else(|e| panic!("{what}: {e}"));
        let changed = self.place.put("bin/after", &after);
        assert_eq!(answer(&changed, "x"), Ok(ANSWER), "{what}");
        // `check` says nothing of what a linker made.
        for file in [&before, &after] {
            assert_eq!(rocwheel_elf::faults(file).unwrap(), [""; 0], "{what}");
        }
        self.assert_stable(what, &after, answer);
        format!("{} +{}", plan.strategy, after.len() - before.len())
    }

    fn assert_stable(&self, what: &str, after: &[u8], answer: &Answer) {
        let (again, same) = with_rpath(after, GOAL).unwrap();
        assert!(again.patch.is_nothing() && same == after, "{what}");
        let mut file = after.to_vec();
        for count in 1..=5 {
            let goal = format!("/{}:{GOAL}", "x".repeat(count * 9));
            let changed = with_rpath(&file, &goal);
            file = changed.unwrap_or_else(|e| panic!("{what}, {count}: {e}")).1;
            let path = self.place.put("bin/again", &file);
            assert_eq!(answer(&path, "x"), Ok(ANSWER), "{what}, {count}");
        }
    }

    /// What strips the file leaves it loadable.
    fn assert_tools_still_work(&self, what: &str, changed: &Path, answer: &Answer) {
        let stripped = self.place.path().join("bin/stripped");
        let rust = sysroot();
        let llvm = rust.join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-objcopy");
        let tools: [(&Path, &[&str]); 4] = [
            (Path::new("objcopy"), &[]),
            (Path::new("objcopy"), &["--strip-debug"]),
            (Path::new("objcopy"), &["--strip-all"]),
            (&llvm, &["--strip-all"]),
        ];
        for (tool, flags) in tools {
            let mut command = Command::new(tool);
            command.args(flags).arg(changed).arg(&stripped);
            command.env("LD_LIBRARY_PATH", rust.join("lib"));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{what}: {command:?}: {output:?}");
            assert_eq!(answer(&stripped, "x"), Ok(ANSWER), "{what}: {command:?}");
        }
    }

    /// patchelf reads our result as it is meant, and makes the same of the file.
    fn assert_as_patchelf(&self, what: &str, unchanged: &Path, changed: &Path, answer: &Answer) {
        let patchelf = |flags: &[&str], file: &Path| {
            let mut patchelf = Command::new(tool("patchelf"));
            patchelf.args(flags).arg(file).output().unwrap()
        };
        let output = patchelf(&["--print-rpath"], changed);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.trim(), GOAL, "{what}");
        let theirs = fs_err::read(unchanged).unwrap();
        let theirs = self.place.put("bin/theirs", &theirs);
        let output = patchelf(&["--force-rpath", "--set-rpath", GOAL], &theirs);
        if !output.status.success() {
            // 0.19.3 says "data offset extends past file end" of some of these.
            assert!(what.starts_with("mold, fixed"), "{what}: {output:?}");
            return;
        }
        assert_eq!(answer(&theirs, "x"), Ok(ANSWER), "{what}");
        let facts = |path: &Path| rocwheel_elf::read(&fs_err::read(path).unwrap()).unwrap();
        assert_eq!(facts(changed), facts(&theirs), "{what}");
    }
}

/// The plan for a run path, and the file after it.
fn with_rpath(file: &[u8], goal: &str) -> Result<(EditPlan, Vec<u8>), ElfError> {
    let plan = plan_rpath(&file, &goal.parse().unwrap())?;
    let mut changed = Vec::new();
    let mut reader = PatchedReader::new(file.to_vec(), plan.clone());
    reader.read_to_end(&mut changed).unwrap();
    Ok((plan, changed))
}
