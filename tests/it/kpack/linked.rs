//! Fat binaries as the linkers of this machine make them: split, loaded by the machine's loader, and
//! registered with a runtime that looks at what it gets.

use super::{
    binaries::{code_object, concatenated},
    linter::complaints,
    runtime::compare,
    splitting::{flattened, put, split},
};
use crate::support::prelude::*;
use rocwheel_test_files::compiled::{Linker, linkers};

/// Counts wrappers that lead to a marker by hundreds, and adds up their numbers.
const RUNTIME: &str = r"
struct wrapper { unsigned magic, version; const unsigned char *data; unsigned long number; };
static int seen;
void __hipRegisterFatBinary(const struct wrapper *wrapper) {
    if (wrapper->magic != 0x4b504948 || wrapper->version != 1) return;
    if (wrapper->data[0] != 0x82 || wrapper->data[1] != 0xb2 || wrapper->data[2] != 'k') return;
    seen += 100 + (int)wrapper->number;
}
int hip_seen(void) { return seen; }
";

/// Three wrappers: two bundles, the second one twice.
const BINARY: &str = r#"
__asm__(".pushsection .hip_fatbin,\"a\",@progbits\n.p2align 12\n.globl one\none:\n"
        ".incbin \"CODE\",0,SECOND\n.globl two\ntwo:\n.incbin \"CODE\",SECOND\n.popsection\n"
        HIDE);
extern const char one[], two[];
struct wrapper { unsigned magic, version; const void *data; unsigned long number; };
#define WRAPPER(name, code) struct wrapper name \
    __attribute__((section(".hipFatBinSegment"), visibility("hidden"), aligned(8))) = \
    { 0x48495046, 1, code, 0 };
WRAPPER(first, one)
WRAPPER(second, two)
WRAPPER(third, two)
extern void __hipRegisterFatBinary(const struct wrapper *);
extern int hip_seen(void);
#ifndef ZEROS
#define ZEROS 300000
#endif
static char zeros[ZEROS];
static const char *volatile pointer = "text";
static __thread int local = 7;
__attribute__((constructor)) static void start(void) {
    __hipRegisterFatBinary(&first);
    __hipRegisterFatBinary(&second);
    __hipRegisterFatBinary(&third);
}
int answer(void) {
    zeros[ZEROS - 1] = 1;
    return pointer[0] == 't' && local == 7 && zeros[0] == 0 ? hip_seen() : -1;
}
#ifdef PROGRAM
int main(void) { return answer() - 200; }
#endif
"#;

/// What three wrappers come to: the numbers are 0, 1 and 1.
const ANSWER: i32 = 302;

const HIDDEN: &str = "-DHIDE=\".hidden one\\n.hidden two\\n\"";

/// Puts the code behind `.bss`, whose segment then seems to reach over it by its offset.
const BEHIND: &str = "-Wl,--section-start=.hip_fatbin=0x8000000";

const SHARED: [(&str, &[&str]); 12] = [
    ("plain", &[HIDDEN]),
    ("symbolic", &["-DHIDE="]),
    ("packed", &[HIDDEN, "-Wl,-z,pack-relative-relocs"]),
    ("large-pages", &[HIDDEN, "-Wl,-z,max-page-size=0x8000"]),
    ("larger-pages", &[HIDDEN, "-Wl,-z,max-page-size=0x10000"]),
    ("huge-pages", &[HIDDEN, "-Wl,-z,max-page-size=0x200000"]),
    ("together", &[HIDDEN, "-Wl,-z,noseparate-code"]),
    ("now", &[HIDDEN, "-Wl,-z,now,-z,relro,--build-id=sha1"]),
    ("stripped", &[HIDDEN, "-s"]),
    // As much `.bss` as a part of the code, as all of it, and as many times that.
    ("behind-some", &[HIDDEN, BEHIND, "-DZEROS=100000"]),
    ("behind-bss", &[HIDDEN, BEHIND]),
    ("behind-much", &[HIDDEN, BEHIND, "-DZEROS=5000000"]),
];

const PROGRAMS: [(&str, &[&str]); 3] = [
    ("pie", &[HIDDEN, "-fPIE", "-pie"]),
    ("fixed", &[HIDDEN, "-fno-pie", "-no-pie"]),
    ("together", &[HIDDEN, "-fno-pie", "-no-pie", "-Wl,-z,noseparate-code"]),
];

/// The code of two translation units, and where the second begins.
fn code() -> (Vec<u8>, u64) {
    let one = bundles::raw(&[
        ("gfx1100", code_object(&["add"], 90_000)),
        ("gfx90a:xnack-", code_object(&["add"], 50_000)),
    ]);
    let two = bundles::raw(&[("gfx90a", code_object(&["other"], 40_000))]);
    let (bytes, starts) = concatenated(&[one, two]);
    (bytes, starts[1])
}

fn build(linker: Linker, place: &Path, source: &str, flags: &[&str]) -> Vec<u8> {
    let runtime = place.join("libruntime.so");
    if !runtime.exists() {
        let built = linker.build(place, RUNTIME, &["-shared", "-fPIC"], Path::new("-lc"));
        fs_err::rename(built, &runtime).unwrap();
    }
    let built = linker.build(place, source, flags, &runtime);
    fs_err::read(built).unwrap()
}

/// What a library says once it is loaded.
fn loaded(library: &Path) -> Result<i32, String> {
    const SCRIPT: &str = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).answer())";
    let mut python = Command::new("python3");
    let output = python.args(["-c", SCRIPT]).arg(library).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    text.parse().map_err(|_| format!("{output:?}"))
}

#[test]
#[ignore = "slow"]
fn what_linkers_make_loads_and_registers_without_its_code() {
    let place = tempfile::tempdir().unwrap();
    let (bytes, second) = code();
    fs_err::write(place.path().join("code"), &bytes).unwrap();
    let source = BINARY
        .replace("CODE", place.path().join("code").to_str().unwrap())
        .replace("SECOND", &second.to_string());
    let fat = place.path().join("fat");
    let artifact = fat.join("all_lib_gfx9-all");
    put(&artifact, "artifact_manifest.txt", b"math-libs/stage\n");
    let mut built = Vec::new();
    for (number, linker) in linkers().iter().enumerate() {
        let libraries = SHARED.iter().map(|(name, flags)| {
            let flags = [&["-shared", "-fPIC"], *flags].concat();
            (format!("lib/{}-{name}.so", linker.name()), flags)
        });
        let programs = PROGRAMS.iter().map(|(name, flags)| {
            let flags = [&["-DPROGRAM"], *flags].concat();
            (format!("bin/{}-{name}", linker.name()), flags)
        });
        for (at, (name, flags)) in libraries.chain(programs).enumerate() {
            // At a desk the linkers take turns.
            let is_due = long::is_on() || (at + number).is_multiple_of(2);
            if linker.lacks(&flags) || !is_due {
                continue;
            }
            let binary = build(*linker, place.path(), &source, &flags);
            put(&artifact, &format!("math-libs/stage/{name}"), &binary);
            built.push((name, binary));
        }
    }
    for (name, _) in &built {
        executable(&artifact.join("math-libs/stage").join(name));
    }
    let out = place.path().join("split");
    let said = split(&fat, &out, "2");
    assert!(said.starts_with("exit 0"), "{said}");
    let root = place.path().join("root");
    flattened(&out, &root);
    let mut failures = Vec::new();
    for (name, binary) in &built {
        let path = root.join(name);
        executable(&path);
        let said = if name.starts_with("bin/") {
            let status = Command::new(&path).status().unwrap();
            let code = status.code().ok_or(status.to_string());
            code.map(|code| code + 200)
        } else {
            loaded(&path)
        };
        let split = fs_err::read(&path).unwrap();
        let lost = binary.len().saturating_sub(split.len());
        let is_huge = name.ends_with("huge-pages.so");
        let least = if is_huge { 0 } else { 120_000 };
        if said != Ok(ANSWER) || lost < least {
            failures.push(format!("{name}: {said:?}, {lost} bytes less"));
        }
        assert!(compare(binary, &root, name) > 20, "{name}");
        let known = complaints(binary);
        let mut found = complaints(&split);
        found.retain(|what, _| !known.contains_key(what));
        let found = found.iter();
        failures.extend(found.map(|(what, why)| format!("{name}: {what} {why}")));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
