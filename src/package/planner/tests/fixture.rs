//! A builder for artifact trees and their plans, for tests.

use std::{num::NonZeroUsize, sync::Arc};

use crate::{
    artifact::{Artifact, ArtifactTree, FileFacts, FileKind, LinkEnd, TreeContent, TreeFile},
    package::{
        plan::BuildPlan,
        planner::plan,
        request::{BuildOptions, OnCollision, Request},
    },
    policy::{DistributionMode, Subset},
    run::Platform,
};
use rocwheel_base::{
    error::{Result, render},
    target::Target,
};
use rocwheel_elf::{ElfFacts, Machine};
use rocwheel_test_files::linker::{Executable, SharedObject};

/// An artifact tree that is described file by file, and the request for its plan.
pub(super) struct Fixture {
    tree: ArtifactTree,
    pub(super) options: BuildOptions,
    mode: DistributionMode,
    pub(super) subset: Option<Subset>,
}

/// The facts of a plain file. See also [`library`] and [`program`].
pub(super) fn file() -> FileFacts {
    FileFacts::new(1, false)
}

/// A library with this SONAME, which finds its dependencies in its own directory.
pub(super) fn library(soname: &str) -> FileFacts {
    let bytes = SharedObject::new(soname).needs("libc.so.6").runpath("$ORIGIN").build();
    loaded(FileKind::SharedObject, rocwheel_elf::read(&bytes).unwrap().unwrap())
}

/// An executable that needs the C library.
pub(super) fn program() -> FileFacts {
    let bytes = Executable::new().needs("libc.so.6").build();
    runs(loaded(FileKind::Executable, rocwheel_elf::read(&bytes).unwrap().unwrap()))
}

pub(super) fn script() -> FileFacts {
    runs(FileFacts { kind: FileKind::Script, ..file() })
}

/// The same file, executable.
pub(super) fn runs(mut facts: FileFacts) -> FileFacts {
    facts.executable = true;
    facts
}

/// The same file with other ELF facts.
pub(super) fn with(facts: FileFacts, change: impl FnOnce(&mut ElfFacts)) -> FileFacts {
    let mut elf = facts.elf.as_deref().unwrap().clone();
    change(&mut elf);
    FileFacts { elf: Some(Arc::new(elf)), ..facts }
}

pub(super) fn of_machine(facts: FileFacts, machine: Machine) -> FileFacts {
    with(facts, |elf| elf.machine = machine)
}

fn loaded(kind: FileKind, elf: ElfFacts) -> FileFacts {
    FileFacts { kind, elf: Some(Arc::new(elf)), ..file() }
}

impl Fixture {
    /// A split build for Linux, with the only file that every set needs.
    pub(super) fn new() -> Self {
        Self::bare().artifact("base_lib_generic").file(".info/version", file())
    }

    /// A split build for Linux without artifacts.
    pub(super) fn bare() -> Self {
        Self {
            tree: ArtifactTree {
                directory: "/artifacts".into(),
                artifacts: Vec::new(),
                skipped: Vec::new(),
            },
            options: BuildOptions::new(Platform::Linux, NonZeroUsize::MIN).unwrap(),
            mode: DistributionMode::Split,
            subset: None,
        }
    }

    pub(super) fn legacy(mut self) -> Self {
        self.mode = DistributionMode::Legacy;
        self
    }

    pub(super) fn windows(mut self) -> Self {
        self.options.platform = Platform::Windows;
        self.options.tag = "py3-none-win_amd64".parse().unwrap();
        self
    }

    pub(super) fn last_counts(mut self) -> Self {
        self.options.on_collision = OnCollision::Last;
        self
    }

    /// The targets whose extras `rocm` offers on Linux.
    pub(super) fn promised(mut self, targets: &str) -> Self {
        let targets = targets.split(' ').map(|target| target.parse().unwrap());
        self.options.linux = Some(targets.collect::<Vec<Target>>());
        self
    }

    /// Begins an artifact. The following files and links belong to it.
    pub(super) fn artifact(mut self, name: &str) -> Self {
        self.tree.artifacts.push(Artifact {
            name: name.parse().unwrap(),
            basedirs: vec![Arc::new("stage".parse().unwrap())],
            files: Vec::new(),
        });
        self
    }

    pub(super) fn file(self, path: &str, facts: FileFacts) -> Self {
        self.with(path, TreeContent::File(facts))
    }

    pub(super) fn directory(self, path: &str) -> Self {
        self.with(path, TreeContent::Directory)
    }

    /// Adds a symlink. It is dangling unless the file that it leads to was added before.
    pub(super) fn link(self, path: &str, text: &str) -> Self {
        let end = self.end(path, text);
        let text = text.to_owned();
        self.with(path, TreeContent::Link { text, end })
    }

    fn end(&self, path: &str, text: &str) -> LinkEnd {
        let path: rocwheel_base::relpath::RelPath = path.parse().unwrap();
        let Some(place) = path.resolve_link(text) else {
            return LinkEnd::Escapes;
        };
        let files = &self.tree.artifacts.last().unwrap().files;
        let found = files.iter().find(|file| file.path == place);
        match found.map(|file| (&file.content, file)) {
            None => LinkEnd::Dangling,
            Some((TreeContent::Directory, _)) => LinkEnd::Directory,
            Some((TreeContent::Link { end, .. }, _)) => end.clone(),
            Some((TreeContent::File(facts), file)) => {
                LinkEnd::File { path: place, source: file.source.clone(), facts: facts.clone() }
            }
        }
    }

    fn with(mut self, path: &str, content: TreeContent) -> Self {
        let artifact = self.tree.artifacts.last_mut().unwrap();
        artifact.files.push(TreeFile {
            path: path.parse().unwrap(),
            basedir: Arc::clone(&artifact.basedirs[0]),
            source: format!("/artifacts/{}/stage/{path}", artifact.name).into(),
            content,
        });
        self
    }

    /// Plans the set. Files with the same path and length count as equal.
    pub(super) fn try_plan(&self) -> Result<BuildPlan> {
        let request = Request {
            notes: Vec::new(),
            options: &self.options,
            version: "1.0".parse().unwrap(),
            mode: self.mode,
            subset: self.subset.clone(),
        };
        plan(&self.tree, &request, &|_, _| Ok(true))
    }

    pub(super) fn plan(&self) -> BuildPlan {
        self.try_plan().map_err(|error| render(&error)).unwrap()
    }

    /// The members of a distribution's wheel without its Python files, then the notes of the plan.
    pub(super) fn shows(&self, dist: &str) -> String {
        let plan = self.plan();
        let mut packages = plan.packages.iter();
        let at = packages.position(|package| package.label.dist == dist);
        let text = at.map(|at| plan.packages[at].to_string()).unwrap_or_default();
        let shown = text.lines().skip(1).filter(|line| !line.contains(" text "));
        let of_others = |note: &&String| !note.ends_with(": it is left out");
        let notes = plan.notes.iter().filter(of_others);
        let notes = notes.map(|note| format!("note: {note}"));
        shown.map(str::to_owned).chain(notes).collect::<Vec<_>>().join("\n")
    }

    /// The error of a plan that fails.
    pub(super) fn refusal(&self) -> String {
        match self.try_plan() {
            Ok(plan) => format!("a plan:\n{plan}"),
            Err(error) => render(&error),
        }
    }
}
