//! `build` as a process: the same bytes everywhere, the whole set or nothing.

use crate::support::place;
use crate::support::prelude::*;

mod archives;
mod complete;
mod many;
mod memory;
mod parts;
mod plan;
pub(crate) mod reuse;
mod trouble;
mod windows;

pub(crate) use crate::support::place::contents as files;
pub(crate) use windows::artifacts_and_flags as windows_artifacts;

/// The sample as archives, below a directory of this test's own.
fn place(name: &str) -> PathBuf {
    place_of(published::sample(), name)
}

fn place_of(set: &TestSet, name: &str) -> PathBuf {
    let place = place::empty(&format!("build/{name}"));
    set.write_archives(&place.join("in"));
    place
}

fn build(place: &Path, dest: &str) -> Command {
    let mut command = Command::new(ROCWHEEL);
    command.args(["--quiet", "build", "--artifact-dir"]).arg(place.join("in"));
    command.arg("--dest-dir").arg(place.join(dest));
    command
}

fn refusal(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    stderr
}

#[test]
fn the_bytes_are_the_same_for_any_machine() {
    sets().into_iter().for_each(are_the_same_for_any_machine);
}

fn are_the_same_for_any_machine(set: &TestSet) {
    let place = place_of(set, "same");
    succeed(build(&place, "a").args(["--jobs", "1"]));
    // Directories, made in another order, where the first build had archives.
    let artifacts = place.join("a/artifacts");
    let names = fs_err::read_dir(&artifacts).unwrap();
    let names: BTreeSet<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    let again = place.join("again");
    fs_err::create_dir(&again).unwrap();
    for name in names.iter().rev() {
        fs_err::rename(artifacts.join(name), again.join(name)).unwrap();
    }
    fs_err::rename(place.join("in"), place.join("archives")).unwrap();
    fs_err::rename(&again, place.join("in")).unwrap();
    for (dest, umask) in [("b", "000"), ("c", "077")] {
        let inner = build(&place, dest);
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask $0; exec \"$@\"", umask]);
        shell.arg(inner.get_program()).args(inner.get_args());
        shell.args(["--jobs", "4"]).current_dir("/");
        shell.env("TZ", "Asia/Kathmandu").env("LANG", "C");
        succeed(&mut shell);
        let [one, other] = ["a", dest].map(|it| files(&place.join(it).join("dist")));
        assert!(one == other, "{umask}");
    }
}

#[test]
#[ignore = "slow"]
fn a_part_is_byte_for_byte_that_part_of_the_whole() {
    for set in sets() {
        let place = place_of(set, "part");
        succeed(build(&place, "part").args(["--only", "device,rocm-sdk-devel"]));
        let whole = files(&set.dist());
        let part = files(&place.join("part/dist"));
        assert_eq!(part.len(), 1 + set.targets.len());
        assert!(part.iter().all(|(name, bytes)| whole[name] == *bytes));
    }
}

#[test]
fn the_answer_is_names_or_one_document() {
    let place = place("answer");
    // Its result is files, so `-q` leaves the names out.
    let quiet = succeed(build(&place, "quiet").args(["--only", "meta"])).stdout;
    assert_eq!(quiet, b"");
    let names = succeed(build(&place, "out").args(["--only", "meta", "-v"])).stdout;
    assert_eq!(names, b"rocm-0.99.1.dev0.tar.gz\n");
    let json = succeed(build(&place, "out").args(["--only", "meta", "--format", "json"])).stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["command"], "build");
    let package = &json["packages"][0];
    assert_eq!(package["path"], "rocm-0.99.1.dev0.tar.gz");
    let bytes = fs_err::read(place.join("out/dist/rocm-0.99.1.dev0.tar.gz")).unwrap();
    assert_eq!(package["size"], bytes.len());
    assert_eq!(package["sha256"], Sha256::of(&bytes).to_string());
}

#[test]
#[ignore = "slow"]
fn another_set_is_replaced_only_when_asked() {
    let place = place("stale");
    succeed(&mut build(&place, "out"));
    let before = files(&place.join("out/dist"));
    let said = refusal(build(&place, "out").args(["--version", "2.0"]), 2);
    assert_has!(said, "that this set does not have", "--clean");
    assert!(before == files(&place.join("out/dist")));
    succeed(build(&place, "out").args(["--version", "2.0", "--clean"]));
    let after = files(&place.join("out/dist"));
    assert!(after.keys().all(|name| name.contains("2.0")));
}

#[test]
fn input_that_cannot_become_a_set_is_refused_before_anything_is_made() {
    let place = place("wrong");
    let list = |flag, value| refusal(build(&place, "out").args([flag, value]), 2);
    let said = list("--linux-amdgpu-families", "gfx942,gfx950");
    assert_has!(said, "no device code for `gfx950`");
    let said = list("--only", "gpu");
    assert_has!(said, "no package `gpu`");
    fs_err::remove_file(place.join("in/base_lib_generic.tar.zst")).unwrap();
    fs_err::remove_dir_all(place.join("out")).unwrap();
    let said = refusal(&mut build(&place, "out"), 2);
    assert_has!(said, "therock_manifest.json");
    assert!(!place.join("out/dist").exists());
}

#[test]
fn judges_agree_with_every_wheel() {
    let script = "
import base64, csv, email, hashlib, io, sys, zipfile
from packaging.metadata import Metadata
from packaging.utils import parse_wheel_filename
for path in sys.argv[1:]:
    name, version, _, _ = parse_wheel_filename(path.rsplit('/', 1)[1])
    wheel = zipfile.ZipFile(path)
    assert wheel.testzip() is None, path
    [record] = [n for n in wheel.namelist() if n.endswith('.dist-info/RECORD')]
    rows = list(csv.reader(io.StringIO(wheel.read(record).decode())))
    assert [row[0] for row in rows] == wheel.namelist(), path
    for member, digest, size in rows[:-1]:
        data = wheel.read(member)
        sha = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        assert (digest, size) == ('sha256=' + sha, str(len(data))), member
    said = Metadata.from_email(wheel.read(record.replace('RECORD', 'METADATA')))
    assert said.version == version and said.requires_python and said.summary, path
";
    for dist in sets().map(TestSet::dist) {
        let wheels = files(&dist).into_keys().filter(|name| name.contains("py3"));
        let wheels = wheels.map(|name| dist.join(name));
        let mut python = Command::new(tool("python"));
        succeed(python.args(["-c", script]).args(wheels));
    }
}
