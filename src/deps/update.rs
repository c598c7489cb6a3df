//! Proposes a lock: `uv pip compile` picks the newest files that fulfil `deps.toml`, what sets need, and
//! each other, once for all Pythons and platforms.

use std::{collections::BTreeSet, path::Path, time::Duration};

use fs_err as fs;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    check::SetPackage,
    lock::Lock,
    wishes::{Wishes, is_of_runs},
};
use crate::{console::World, install};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result},
    io::read_text,
};

/// Writes the lock, and returns it. Files that are younger than `min_age` are not picked.
pub fn update(
    wishes: &Wishes,
    sets: &[SetPackage],
    registry: &str,
    min_age: Duration,
    to: &Path,
    world: &World,
) -> Result<Lock> {
    let work = tempfile::tempdir()?;
    let requirements_file = work.path().join("deps.in");
    fs::write(&requirements_file, requirements(wishes, sets))?;
    // uv demands a name that begins and ends like this.
    let lock_file = work.path().join("pylock.toml");
    let mut uv = install::command("uv".as_ref());
    uv.args("pip compile --no-config --quiet --universal --no-header".split(' '))
        .args("--only-binary :all: --format pylock.toml".split(' '))
        .args(["--python-version", &wishes.oldest_python()?.to_string()])
        .args(["--default-index", registry]);
    if !min_age.is_zero() {
        let youngest = OffsetDateTime::now_utc() - min_age;
        uv.args(["--exclude-newer", &youngest.format(&Rfc3339)?]);
    }
    uv.arg("--output-file").arg(&lock_file).arg(&requirements_file);
    install::run(&mut uv, "no lock was written", world)
        .hint("change `deps.toml`; for a registry that does not say how old its files are, pass `--min-age 0s`")?;
    let text = read_text(&lock_file)?;
    let lock = Lock::parse(&text).context("failed to read what uv has written")?;
    rocwheel_base::atomic::write(to, text)?;
    Ok(lock)
}

/// The requirements that uv resolves: the wishes, and what sets require of other projects.
fn requirements(wishes: &Wishes, sets: &[SetPackage]) -> String {
    let of_sets = sets
        .iter()
        .flat_map(|package| &package.requires)
        .filter(|it| !it.marker.needs_extra() && !is_of_runs(&it.name))
        .map(ToString::to_string);
    let lines: BTreeSet<String> = wishes.lines().chain(of_sets).collect();
    lines.into_iter().map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uv_is_asked_for_what_others_have() {
        let wishes = "pythons = ['3.10', '3.12']\nplatforms = ['linux', 'windows']\n\
            [[dependency]]\nname = 'setuptools'\nversion = '<82'\nreason = 'x'\n\
            [[dependency]]\nname = 'tomli'\npythons = ['3.10']\nreason = 'x'\n";
        let torch = SetPackage {
            name: "torch-2.12-cp312-cp312-linux_x86_64.whl".parse().unwrap(),
            requires: [
                "sympy>=1.13.3",
                "rocm[libraries]==7.13",
                "triton==3",
                "optree; extra == 'optree'",
            ]
            .map(|it| it.parse().unwrap())
            .to_vec(),
        };
        let asked = requirements(&Wishes::parse(wishes).unwrap(), &[torch]);
        insta::assert_snapshot!(asked, @r"
        setuptools<82 ; sys_platform == 'linux' or sys_platform == 'win32'
        sympy>=1.13.3
        tomli ; (python_version == '3.10') and (sys_platform == 'linux' or sys_platform == 'win32')
        ");
    }
}
