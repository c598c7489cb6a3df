//! pip and uv agree with `deps check`: with two indexes and no registry, they install what it accepts,
//! and fail where it finds something.

use super::{LINUX, Workplace, for_python};
use crate::{
    publish::{judge, packages::wheel},
    support::{
        prelude::*,
        published::{TestSet, VERSION},
    },
};

/// What both installers say to a requirement, for one Python on Linux, with two indexes.
fn installers(python: &str, requirement: &str, base: &str, set: &str) -> [Outcome; 2] {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("wanted.in");
    fs_err::write(&file, requirement).unwrap();
    let (target, file) = (text(place.path()), text(&file));
    let pip = format!(
        "install --dry-run --quiet --no-cache-dir --disable-pip-version-check --isolated --only-binary :all: \
         --platform manylinux_2_28_x86_64 --platform linux_x86_64 --target {target} --index-url {base} \
         --extra-index-url {set} --python-version {python} {requirement}"
    );
    let uv = format!(
        "pip compile {file} --no-cache --only-binary :all: --python-platform x86_64-manylinux_2_28 \
         --default-index {base} --index {set} --python-version {python}"
    );
    [("pip", pip), ("uv", uv)]
        .map(|(program, line)| judge(program, &line.split(' ').collect::<Vec<_>>()))
}

/// A copy of a set with a framework that needs something of others.
fn with_torch(set: &TestSet, workplace: &Workplace) -> String {
    let root = workplace.path("set");
    fs_err::create_dir_all(root.join("dist")).unwrap();
    copy_files(&set.dist(), &root.join("dist"));
    let needs = format!(
        "Requires-Dist: rocm-sdk-core=={VERSION}\nRequires-Dist: setuptools<82; python_version >= \"3.12\"\n\
         Requires-Dist: numbers>=1\n"
    );
    wheel(&root.join("dist"), "torch", "2.12.0", &needs);
    rocwheel(&["index", "--no-check", text(&root)]).ok();
    text(&root).to_owned()
}

#[test]
#[ignore = "slow"]
fn every_set_installs_from_the_base_index_and_its_own() {
    for set in sets().into_iter().take(long::rounds(1, 2)) {
        let workplace = Workplace::new("['3.10', '3.12']", "['linux']", &["setuptools"]);
        let it = &workplace.registry;
        it.plain("setuptools", "82.0.1");
        it.plain("setuptools", "81.0.0");
        let tag = format!("cp312-cp312-{LINUX}");
        it.wheel("numbers", "2.0", &tag, "", for_python(">=3.12"));
        let needs = "Requires-Python: >=3.9\n";
        it.wheel("numbers", "1.0", "py3-none-any", needs, for_python(">=3.9"));
        let root = with_torch(set, &workplace);
        let serve = |root: &str| Server::start(Site::Directory(root.into())).url + "simple/";
        let (set, base) = (serve(&root), serve(text(&workplace.path("base"))));

        // Without the set, its requirements are not known.
        workplace.deps(&["update"]).ok();
        workplace.mirror().ok();
        let found = workplace.deps(&["check", &root]).refused(1);
        assert_has!(
            found,
            "torch 2.12.0 needs `setuptools<82`, and the lock has 82.0.1 (3.12-linux)",
            "torch 2.12.0 needs `numbers>=1`, and the lock does not have it (3.10-linux, 3.12-linux)",
        );
        for outcome in installers("3.12", "torch", &base, &set) {
            assert_ne!(outcome.code, 0, "{}", outcome.all());
        }

        workplace.deps(&["update", &root]).ok();
        workplace.mirror().ok();
        workplace.deps(&["check", &root]).ok();
        for python in ["3.12", "3.10"].into_iter().take(long::rounds(1, 2)) {
            for outcome in installers(python, "torch", &base, &set) {
                outcome.ok();
            }
        }
    }
}
