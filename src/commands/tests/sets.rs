//! Two sets of artifacts, and what a build makes of them in this process.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use clap::Parser;

use crate::{
    artifact::{ArtifactTree, input},
    commands::split::{self, SplitArgs},
    console::{Console, Options, World},
    package::{
        BuildOptions,
        assemble::{MadeSet, Reuse},
        build::{Build, BuildSelection},
    },
    run::Platform,
};
use rocwheel_base::error::Stop;

pub(super) fn world() -> World {
    let options = Options { quiet: 2, ..Options::default() };
    World { console: Console::of_this_process(options), stop: Stop::default() }
}

pub(super) fn options() -> BuildOptions {
    BuildOptions::new(Platform::Linux, NonZeroUsize::new(2).unwrap()).unwrap()
}

pub(super) fn make(
    artifacts: &Path,
    dest: &Path,
    reuse: &Reuse,
    options: &BuildOptions,
) -> MadeSet {
    let world = world();
    let jobs = options.settings.jobs;
    let tree = ArtifactTree::scan(artifacts, jobs, &world.stop).unwrap();
    let build = Build::plan(&tree, options, &BuildSelection::All, dest, &world).unwrap();
    build.make(dest, reuse, &world).unwrap()
}

/// Unpacks the artifacts of the sample into a directory.
pub(super) fn sample(artifacts: &Path) {
    unpack(rocwheel_test_sets::sample::archives(), artifacts);
}

/// Unpacks the artifacts of the sample and of the odd set, each into a directory of its own.
pub(super) fn sets(place: &Path) -> [PathBuf; 2] {
    let [of_sample, of_odd, odd] = ["sample", "odd", "odd-archives"].map(|it| place.join(it));
    sample(&of_sample);
    rocwheel_test_sets::odd::write_archives(&odd, &split_artifacts);
    let archives = fs_err::read_dir(odd).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs_err::read(path).unwrap())
    });
    unpack(archives.collect(), &of_odd);
    [of_sample, of_odd]
}

fn unpack(archives: Vec<(String, Vec<u8>)>, to: &Path) {
    for (name, bytes) in archives {
        input::unpack_one(bytes.as_slice(), &name.parse().unwrap(), to, &world()).unwrap();
    }
}

fn split_artifacts(fat: &Path, split: &Path) {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        split: SplitArgs,
    }
    let flags = [Path::new("split"), Path::new("--artifact-dir"), fat, Path::new("-o"), split];
    split::run(&Line::parse_from(flags).split, &world()).unwrap();
}
