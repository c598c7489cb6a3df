//! Every command of `docs/kpack.md` runs.

use super::{
    splitting::put,
    wheels::{copy, place, rocblas},
};
use crate::support::prelude::*;
use crate::support::program;

#[test]
fn every_command_of_the_page_runs() {
    let place = place("page");
    copy(&place.join("in"), &place.join("artifacts"));
    for artifact in fs_err::read_dir(place.join("fat")).unwrap() {
        copy(&artifact.unwrap().path(), &place.join("artifacts"));
    }
    put(&place, "librocblas.so.5", &rocblas());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/kpack.md");
    let page = fs_err::read_to_string(page).unwrap();
    let examples = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = examples.flat_map(str::lines);
    let commands: Vec<&str> = lines.filter(|line| line.starts_with("rocwheel ")).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        let ["rocwheel", arguments @ ..] = words.as_slice() else {
            panic!("an example that no test knows how to run: {command}");
        };
        let builds = ["build", "pipeline"].contains(&arguments[0]);
        // The names of archives depend on the code that the library here has.
        let arguments = arguments.iter().map(|word| match word.rsplit_once('/') {
            Some((directory, _)) if directory.ends_with("/.kpack") => {
                let mut archives = fs_err::read_dir(place.join(directory)).unwrap();
                archives.next().unwrap().unwrap().path()
            }
            // The version is another one.
            Some(("packages/dist", wheel)) => {
                let project = wheel.split_once('-').unwrap().0;
                let wheels = fs_err::read_dir(place.join("packages/dist")).unwrap();
                let mut wheels = wheels.map(|entry| entry.unwrap().path());
                let is_of_project = |path: &PathBuf| {
                    path.file_name().unwrap().to_str().unwrap().starts_with(project)
                };
                wheels.find(is_of_project).unwrap()
            }
            _ => word.into(),
        });
        let mut run = program::command();
        // `rocblas` takes the place of all of the sample's BLAS libraries.
        run.args(arguments).args(builds.then_some("--without=hipblas,hipblaslt,origami"));
        let output = succeed(run.current_dir(&place));
        assert!(!output.stdout.is_empty(), "{command}: says nothing");
    }
}
