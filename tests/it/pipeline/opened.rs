//! How often each command opens a wheel after `build` has written it, and how many bytes it reads,
//! seen by `strace`.

use std::{collections::HashMap, os::unix::fs::MetadataExt as _, time::UNIX_EPOCH};

use crate::support::prelude::*;
use crate::{
    judges::needs,
    publish::{Bench, tree},
    s3::{
        inprocess::InProcess,
        server::{ID, SECRET},
    },
};

/// What was done to one wheel.
#[derive(Clone, Copy, Debug, Default)]
struct Accesses {
    opens: u64,
    bytes: u64,
}

/// The wheels that a command opened, by name.
type Trace = BTreeMap<String, Accesses>;

/// The system calls that open a file or read from one.
const CALLS: &str = "trace=open,openat,openat2,read,readv,pread64,preadv,preadv2,mmap,sendfile,\
                     copy_file_range,splice";

/// Runs a command under `strace`.
fn traced(arguments: &[&str], variables: &[(&str, String)]) -> Trace {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-s", "0", "-e", CALLS, "-o", text(&log)]);
    strace.arg(ROCWHEEL).args(arguments).env_clear();
    strace.env("PATH", std::env::var_os("PATH").unwrap());
    strace.envs(variables.iter().map(|(name, value)| (name, value)));
    let output = strace.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    parsed(&fs_err::read_to_string(log).unwrap())
}

/// Reads a log. A call that another thread interrupts is in two lines.
fn parsed(log: &str) -> Trace {
    let (mut trace, mut unfinished) = (Trace::new(), HashMap::new());
    for line in log.lines() {
        let (thread, call) = line.split_once(' ').unwrap();
        let call = call.trim_start();
        if let Some(begin) = call.strip_suffix(" <unfinished ...>") {
            unfinished.insert(thread.to_owned(), begin.to_owned());
        } else if call.starts_with("<... ") {
            let begin = unfinished.remove(thread).unwrap_or_default();
            let end = call.split_once(" resumed>").map_or("", |(_, end)| end);
            note(&mut trace, &format!("{begin}{end}"));
        } else {
            note(&mut trace, call);
        }
    }
    trace
}

fn note(trace: &mut Trace, call: &str) {
    // `openat(AT_FDCWD</here>, "/a/b.whl", O_RDONLY) = 3</a/b.whl>`, `read(3</a/b.whl>, ""..., 9) = 9`
    let Some((what, result)) = call.rsplit_once(" = ") else {
        return;
    };
    let (name, rest) = what.split_once('(').unwrap();
    let is_open = name.starts_with("open");
    let place = if is_open { result } else { rest };
    let Some(end) = place.find(".whl>") else {
        return;
    };
    let is_made = is_open && what.contains("O_CREAT");
    let wheel = &place[..end];
    let wheel = &wheel[wheel.rfind('/').unwrap() + 1..];
    let count = result.split(['<', ' ']).next().unwrap();
    let found = trace.entry(wheel.to_owned()).or_default();
    match name {
        _ if is_open => found.opens += u64::from(!is_made),
        // All that is mapped may be read.
        "mmap" => {
            let len = rest.split(", ").nth(1).unwrap();
            found.bytes += len.parse::<u64>().unwrap();
        }
        _ => found.bytes += count.parse::<u64>().unwrap_or_default(),
    }
}

/// One line for each command: how many wheels it opened, how often, and how much it read of them.
fn table(rows: &[(&str, Trace)]) -> String {
    let lines = rows.iter().map(|(command, trace)| {
        let opened = trace.values().filter(|it| it.opens > 0).count();
        let opens: u64 = trace.values().map(|it| it.opens).sum();
        let bytes: u64 = trace.values().map(|it| it.bytes).sum();
        format!("{command:<10} {opened} wheels, {opens} times, {bytes} bytes\n")
    });
    lines.collect()
}

#[test]
fn a_log_is_read_however_the_threads_are_scheduled() {
    let log = "\
        7 openat(AT_FDCWD</r>, \"out/a.whl\", O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0666) = 3</r/out/a.whl>\n\
        7 read(3</r/out/a.whl>, \"\"..., 8192 <unfinished ...>\n\
        8 openat(AT_FDCWD</r>, \"b.whl\", O_RDONLY|O_CLOEXEC <unfinished ...>\n\
        7 <... read resumed>) = 100\n\
        8 <... openat resumed>) = 4</r/b.whl>\n\
        8 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 4</r/b.whl>, 0) = 0x7f0000000000\n\
        8 openat(AT_FDCWD</r>, \"c.whl\", O_RDONLY) = -1 ENOENT (No such file or directory)\n\
        8 openat(AT_FDCWD</r>, \"b.whl.metadata\", O_RDONLY) = 4</r/b.whl.metadata>\n\
        8 +++ exited with 0 +++\n";
    let trace = parsed(log);
    let [a, b] = ["a", "b"].map(|name| (trace[name].opens, trace[name].bytes));
    assert_eq!((trace.len(), a, b), (2, (0, 100), (1, 4096)));
}

/// For its digest a wheel is read once, through the handle that wrote it.
#[test]
#[ignore = "slow"]
fn a_pipeline_opens_no_wheel_that_it_has_written() {
    needs!("strace");
    let bench = Bench::new();
    let out = bench.path("out");
    // Once more, into the same directory.
    for _ in 0..2 {
        let trace = traced(&["pipeline", "--sample", "--output-dir", &out], &[]);
        assert_eq!(trace.values().map(|it| it.opens).sum::<u64>(), 0);
        for (wheel, read) in &trace {
            let packages = bench.path("out/packages/dist");
            let file = Path::new(&packages).join(format!("{wheel}.whl"));
            let len = fs_err::metadata(file).unwrap().len();
            assert_eq!(read.bytes, len, "{wheel}");
        }
    }
}

/// Builds the sample, and lets time pass until its files are remembered.
fn build(packages: &str) {
    let artifacts = published::sample().artifacts();
    let mut build = command();
    build.args(["build", "--artifact-dir", text(&artifacts)]);
    succeed(build.args(["--dest-dir", packages]));
    settle();
}

/// Lets time pass until a file that was just written is remembered.
fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(100));
}

#[test]
#[ignore = "slow"]
fn index_and_upload_read_a_wheel_once_until_it_changes() {
    needs!("strace");
    let bench = Bench::new();
    let (packages, published) = (bench.path("packages"), bench.path("published"));
    build(&packages);
    let index = ["index", "--no-check", &packages];
    let mut upload = vec!["upload", "--no-check", "--multi-target", "--packages-dir"];
    upload.extend([&*packages, "--output-dir", &published]);
    let opened = |line: &[&str]| -> Vec<String> {
        let trace = traced(line, &[]).into_iter();
        trace.filter(|it| it.1.opens > 0).map(|it| it.0).collect()
    };
    // The build remembers the wheels that it did not write within the last 20 ms. With another time, none of
    // them is the file that it wrote.
    let dist = bench.root.join("packages/dist");
    for name in tree(&dist) {
        let file = fs_err::OpenOptions::new().write(true).open(dist.join(name));
        file.unwrap().file().set_modified(UNIX_EPOCH).unwrap();
    }
    assert_eq!(opened(&index).len(), 6);
    assert_eq!(opened(&index), [""; 0]);
    assert_eq!(opened(&upload), [""; 0]);
    // The hard links that the upload made are a change of the files.
    settle();
    assert_eq!(opened(&index).len(), 6);
    assert_eq!(opened(&index), [""; 0]);
    // Other bytes of the same length, with the old time.
    let names = tree(&dist).into_iter();
    let mut wheels = names.filter(|it| it.starts_with("rocm_sdk_core-") && it.ends_with(".whl"));
    let path = dist.join(wheels.next().unwrap());
    let mut bytes = fs_err::read(&path).unwrap();
    let time = fs_err::metadata(&path).unwrap().modified().unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs_err::write(&path, &bytes).unwrap();
    let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
    file.file().set_modified(time).unwrap();
    assert_eq!(opened(&index).len(), 1);
    let set = fs_err::read_to_string(bench.path("packages/set.json")).unwrap();
    assert_has!(set, &Sha256::of(&bytes).to_string());
}

#[test]
#[ignore = "slow"]
fn over_a_network_each_wheel_is_read_once() {
    needs!("strace");
    let bench = Bench::new();
    let server = InProcess::start();
    let packages = bench.path("packages");
    build(&packages);
    traced(&["index", "--no-check", &packages], &[]);
    let variables = [
        ("HOME", bench.path("")),
        ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", server.port)),
        ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ("AWS_ACCESS_KEY_ID", ID.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
    ];
    let line = "upload --platform=linux --no-check --no-directory-pages --to s3://bucket/1/python";
    let line: Vec<&str> = line.split(' ').chain([&*packages]).collect();
    let rows = [("upload", traced(&line, &variables))];
    let dist = bench.root.join("packages/dist");
    let table = table(&rows);
    assert_eq!(rows[0].1.len(), 6, "{table}");
    for (wheel, found) in &rows[0].1 {
        let size = fs_err::metadata(dist.join(format!("{wheel}.whl"))).unwrap();
        let once = (1, size.len());
        assert_eq!((found.opens, found.bytes), once, "{wheel}\n{table}");
    }
}

/// The inodes below a directory, with the bytes that each has.
fn inodes(directory: &Path) -> BTreeMap<u64, u64> {
    let paths = tree(directory).into_iter();
    let inodes = paths.map(|path| {
        let found = fs_err::symlink_metadata(directory.join(path)).unwrap();
        (found.ino(), found.len())
    });
    inodes.collect()
}

#[test]
#[ignore = "slow"]
fn what_is_published_takes_no_space_beside_what_was_built() {
    let bench = Bench::new();
    for set in published::sets() {
        let (out, alone) = (bench.root.join(set.name), bench.root.join("alone"));
        let source = set.artifacts();
        let mut pipeline = command();
        pipeline.args(["pipeline", "--artifact-dir", text(&source)]);
        succeed(pipeline.args(["--output-dir", text(&out)]));
        let mut only_build = command();
        only_build.args(["build", "--artifact-dir", text(&source)]);
        succeed(only_build.args(["--clean", "--dest-dir", text(&alone)]));
        let (whole, built) = (inodes(&out), inodes(&alone));
        let packages = inodes(&out.join("packages/dist"));
        let place = out.join("local-linux/python/dist");
        for path in tree(&place) {
            let is_package = path.ends_with(".whl") || path.ends_with(".tar.gz");
            let inode = fs_err::metadata(place.join(&path)).unwrap().ino();
            assert_eq!(packages.contains_key(&inode), is_package, "{path}");
        }
        // The pages of these sets are half as large as their packages; those of a real one are not.
        let pages = inodes(&out.join("local-linux")).into_iter();
        let pages = pages.filter(|(inode, _)| !packages.contains_key(inode));
        let pages: u64 = pages.map(|(_, len)| len).sum();
        let [whole, built] = [whole, built].map(|it| it.into_values().sum::<u64>());
        let most = built * 105 / 100;
        assert!(whole - pages <= most, "{whole} {pages} {built}");
    }
}
