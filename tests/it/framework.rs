//! `framework`: wheels of frameworks are shown and tied, and what cannot be tied is refused.

mod accepted;
mod bundled;
mod bundled_places;
mod bundled_refusals;
pub(crate) mod guide;
mod installed;
mod products;
mod real;
mod refused;
mod selected;
mod shown;
pub(crate) mod split;
mod tied;
mod tied_and_split;
mod windows;

use crate::support::prelude::*;

/// A directory with the wheel, and one for the tied wheel.
struct Place(Sandbox);

impl Place {
    fn new() -> Self {
        Self(Sandbox::new())
    }

    fn write(&self, wheel: &DemoWheel) -> PathBuf {
        wheel.write(&self.0.path(""))
    }

    fn tied(&self) -> PathBuf {
        self.0.path("tied")
    }

    /// Ties wheels to a set.
    fn tie(&self, wheels: &[PathBuf], set: &Path, flags: &[&str]) -> Outcome {
        let mut tie = self.0.command("framework tie --output-dir tied --set");
        Outcome::of(tie.arg(set).args(wheels).args(flags).output().unwrap())
    }

    /// Ties a wheel to the sample, and returns its path.
    fn tie_to_sample(&self, wheel: &DemoWheel, flags: &[&str]) -> PathBuf {
        let wheel = self.write(wheel);
        self.tie(&[wheel], &set(), flags).ok();
        self.only()
    }

    /// The only tied wheel.
    fn only(&self) -> PathBuf {
        let entries = fs_err::read_dir(self.tied()).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|it| it.unwrap().path()).collect();
        assert_eq!(paths.len(), 1, "{paths:?}");
        paths.remove(0)
    }
}

/// The packages that frameworks are tied to.
fn set() -> PathBuf {
    published::sample().dist()
}

fn members(wheel: &Path) -> Members {
    unzip(&fs_err::read(wheel).unwrap())
}

/// The bytes of a member by the end of its path.
fn member(members: &Members, end: &str) -> Vec<u8> {
    let found = members.iter().find(|it| it.0.ends_with(end));
    found.unwrap_or_else(|| panic!("no {end}")).2.clone()
}

fn text(members: &Members, end: &str) -> String {
    String::from_utf8(member(members, end)).unwrap()
}

/// A wheel that something has happened to: on the way here, or when it was packed.
fn damaged(whole: &[u8], round: usize) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let at = round * 104_729 % bytes.len();
    let end = bytes.len().min(at + 16);
    match round % 8 {
        0 | 1 => bytes[at] ^= 1 << (round % 7),
        2 => bytes[at..end].fill(0),
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(at..end)),
        5 => bytes.extend_from_within(at..),
        _ => return packed_wrongly(whole, round),
    }
    bytes
}

/// A wheel with a member that is not what RECORD says: none at all, or another one's bytes.
fn packed_wrongly(whole: &[u8], round: usize) -> Vec<u8> {
    let mut members = unzip(whole);
    let (one, other) = (round % members.len(), round / 8 % members.len());
    if round.is_multiple_of(2) {
        members.remove(one);
    } else {
        let bytes = members[other].2.clone();
        members[one].2 = bytes;
    }
    zipped(&members)
}

/// Unpacks the members of wheels below a directory, as an installer does.
fn unpack(wheels: impl IntoIterator<Item = PathBuf>, site: &Path) {
    for (name, _, bytes) in wheels.into_iter().flat_map(|it| members(&it)) {
        let to = site.join(name);
        fs_err::create_dir_all(to.parent().unwrap()).unwrap();
        fs_err::write(to, bytes).unwrap();
    }
}

/// What the loader of this host finds for a file.
fn listed_by_loader(file: &Path) -> String {
    let mut loader = Command::new("/lib64/ld-linux-x86-64.so.2");
    let output = loader.env_clear().arg("--list").arg(file).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

/// Fails unless the loader of this host finds all that a file needs, and some of it in ROCm.
fn assert_loads(file: &Path) {
    let list = listed_by_loader(file);
    assert_has!(list, "_rocm_sdk_");
    assert_lacks!(list, "not found");
}

/// The wheels of a set that frameworks are loaded with.
fn runtime(set: &Path) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(set).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|it| it.unwrap().path()).collect();
    paths.retain(|it| {
        let name = it.file_name().unwrap().to_str().unwrap();
        let packages = ["rocm_sdk_core-", "rocm_sdk_libraries-"];
        name.ends_with(".whl") && packages.iter().any(|it| name.starts_with(it))
    });
    paths
}
