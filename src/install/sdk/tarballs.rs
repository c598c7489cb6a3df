//! Release tarballs: the page that lists them, and which one is taken.
//!
//! The page has one line of JavaScript, `const files = [{"name": "…", "mtime": 1755912345.0}, …];`. It
//! is the only list that servers without a listing have.

use itertools::Itertools as _;
use serde::Deserialize;

use crate::{
    error::{Context as _, Error, No, Result, hinted},
    run::{Platform, TarballName},
    target::{Family, Target, TargetTable},
    version::{ReleaseStream, Version},
};

const LIST: &str = "const files = ";
/// The group of a tarball for every target.
const ALL: &str = "multiarch";
/// The end of the group of a tarball with tests.
const TESTS: &str = "-tests";
const MOST_LISTED: usize = 8;

/// A tarball of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct Tarball {
    /// As it is listed.
    pub name: String,
    pub group: String,
    pub version: Version,
    platform: Platform,
    mtime: f64,
}

#[derive(Deserialize)]
struct ListedFile {
    name: String,
    #[serde(default)]
    mtime: f64,
}

/// Which tarball is wanted.
#[derive(Clone, Debug)]
pub struct TarballWish<'a> {
    pub stream: ReleaseStream,
    /// `None` for the newest.
    pub version: Option<&'a Version>,
    pub platform: Platform,
    /// It must be for all of them.
    pub targets: &'a [Target],
    pub with_tests: bool,
}

impl Tarball {
    fn of(file: ListedFile) -> Option<Self> {
        let TarballName {
            platform,
            group,
            version,
        } = file.name.parse().ok()?;
        Some(Self {
            group,
            version,
            platform,
            mtime: file.mtime,
            name: file.name,
        })
    }

    /// How many targets it is for, if it is for all of these.
    fn breadth(&self, targets: &[Target]) -> Option<usize> {
        let group = self.group.strip_suffix(TESTS).unwrap_or(&self.group);
        if group == ALL {
            return Some(usize::MAX);
        }
        let table = TargetTable::builtin();
        let own = group.parse::<Family>().ok()?;
        let own: Vec<&Target> = table.targets(&own).collect();
        targets
            .iter()
            .all(|it| own.contains(&it))
            .then_some(own.len())
    }
}

/// The tarballs that a page lists. Other files are ignored.
pub(super) fn listed(page: &str) -> Result<Vec<Tarball>> {
    let (_, list) = page
        .split_once(LIST)
        .context("a page without a list of files")?;
    let mut documents = serde_json::Deserializer::from_str(list).into_iter::<Vec<ListedFile>>();
    let files = documents
        .next()
        .context("a list of files that ends early")?;
    let files = files.context("failed to read the list of files")?;
    Ok(files.into_iter().filter_map(Tarball::of).collect())
}

impl TarballWish<'_> {
    /// The newest tarball, by the day of a nightly and then by its version, and of several for the
    /// targets the one for the fewest. `None` if there is none.
    pub fn choose<'t>(&self, tarballs: &'t [Tarball]) -> Option<&'t Tarball> {
        let fitting = tarballs.iter().filter(|it| self.is_possible(it));
        let fitting = fitting.filter_map(|it| Some((it.breadth(self.targets)?, it)));
        let newest = fitting.max_by(|(one, a), (other, b)| {
            let age = |it: &Tarball| (it.version.nightly_date(), it.version.clone());
            let by_age = age(a).cmp(&age(b));
            let by_time = a.mtime.total_cmp(&b.mtime);
            by_age.then(other.cmp(one)).then(by_time)
        });
        newest.map(|it| it.1)
    }

    fn is_possible(&self, tarball: &Tarball) -> bool {
        tarball.platform == self.platform
            && tarball.version.stream() == self.stream
            && tarball.group.ends_with(TESTS) == self.with_tests
            && self.version.is_none_or(|it| *it == tarball.version)
    }

    /// The refusal if there is none.
    pub fn lacking(&self, place: &str, tarballs: &[Tarball]) -> Error {
        let wanted = self
            .version
            .map_or_else(|| self.stream.to_string(), Version::to_string);
        let targets = self.targets.iter().join(", ");
        let tests = if self.with_tests { " with tests" } else { "" };
        let text = format!("no tarball of {wanted} for {targets}{tests} at {place}");
        let possible = tarballs.iter().filter(|it| self.is_possible(it));
        let groups = possible
            .map(|it| it.group.as_str())
            .sorted()
            .dedup()
            .join(", ");
        let of_stream = tarballs
            .iter()
            .filter(|it| it.version.stream() == self.stream);
        let newest = of_stream
            .map(|it| it.version.clone())
            .sorted()
            .rev()
            .dedup();
        let newest = newest.take(MOST_LISTED).join(", ");
        let hint = match (groups.is_empty(), newest.is_empty()) {
            (false, _) => format!("there are tarballs for {groups}"),
            (true, false) => format!("the newest versions there are: {newest}"),
            (true, true) => "name another `--stream`".to_owned(),
        };
        hinted(No(text), hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::render;

    const PAGE: &str = r#"<script>
        const files = [{"name": "therock-dist-linux-gfx94X-dcgpu-7.15.0a20260728.tar.gz", "mtime": 3.5},
        {"name": "therock-dist-linux-gfx94X-dcgpu-10.1.0a20260720.tar.gz", "mtime": 4},
        {"name": "therock-dist-linux-multiarch-7.15.0a20260728.tar.gz", "mtime": 1.0},
        {"name": "therock-dist-linux-gfx94X-dcgpu-tests-7.15.0a20260729.tar.gz"},
        {"name": "therock-dist-windows-gfx110X-all-7.15.0a20260801.tar.gz", "mtime": 9e9},
        {"name": "therock-dist-linux-gfx110X-all-7.14.0.dev0+ab.tar.gz", "mtime": 2},
        {"name": "therock-dist-linux-gfx94X-dcgpu-7.14.0.tar.gz", "mtime": 2},
        {"name": "notes.txt", "mtime": 1}];
        </script>"#;

    #[test]
    fn the_newest_tarball_for_the_targets_is_taken() {
        let tarballs = listed(PAGE).unwrap();
        let chosen = |stream: &str, version: &str, targets: &[&str], with_tests: bool| {
            let version = version.parse::<Version>().ok();
            let targets: Vec<Target> = targets.iter().map(|it| it.parse().unwrap()).collect();
            let wish = TarballWish {
                stream: <ReleaseStream as clap::ValueEnum>::from_str(stream, false).unwrap(),
                version: version.as_ref(),
                platform: Platform::Linux,
                targets: &targets,
                with_tests,
            };
            match wish.choose(&tarballs) {
                Some(found) => format!("{}\n", found.name),
                None => render(&wish.lacking("https://x/", &tarballs)),
            }
        };
        let lines = [
            chosen("nightly", "", &["gfx942"], false),
            chosen("nightly", "", &["gfx942", "gfx1100"], false),
            chosen("nightly", "10.1.0a20260720", &["gfx942"], false),
            chosen("nightly", "10.1.0a20260720", &["gfx1100"], false),
            chosen("nightly", "10.1.0a20260721", &["gfx1100"], false),
            chosen("nightly", "", &["gfx942"], true),
            chosen("dev", "", &["gfx1100"], false),
            chosen("stable", "", &["gfx942"], false),
            chosen("rc", "", &["gfx942"], false),
        ];
        insta::assert_snapshot!(lines.concat(), @"
        therock-dist-linux-gfx94X-dcgpu-7.15.0a20260728.tar.gz
        therock-dist-linux-multiarch-7.15.0a20260728.tar.gz
        therock-dist-linux-gfx94X-dcgpu-10.1.0a20260720.tar.gz
        error: no tarball of 10.1.0a20260720 for gfx1100 at https://x/

        hint: there are tarballs for gfx94X-dcgpu
        error: no tarball of 10.1.0a20260721 for gfx1100 at https://x/

        hint: the newest versions there are: 10.1.0a20260720, 7.15.0a20260801, 7.15.0a20260729, 7.15.0a20260728
        therock-dist-linux-gfx94X-dcgpu-tests-7.15.0a20260729.tar.gz
        therock-dist-linux-gfx110X-all-7.14.0.dev0+ab.tar.gz
        therock-dist-linux-gfx94X-dcgpu-7.14.0.tar.gz
        error: no tarball of rc for gfx942 at https://x/

        hint: name another `--stream`
        ");
    }

    #[test]
    fn a_page_that_is_no_list_is_refused() {
        let said = [
            "<html>",
            "const files = [{",
            "const files = {}",
            "const files =",
        ];
        let said = said.map(|page| render(&listed(page).unwrap_err()));
        insta::assert_snapshot!(said.concat(), @"
        error: a page without a list of files
        error: failed to read the list of files
          caused by: EOF while parsing an object at line 1 column 2
        error: failed to read the list of files
          caused by: invalid type: map, expected a sequence at line 1 column 0
        error: a page without a list of files
        ");
        assert_eq!(listed("const files = [];").unwrap(), []);
    }
}
