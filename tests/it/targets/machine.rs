//! The files of `/sys` of machines, as `machines/*.txt` have them: a line for each file, with `; `
//! for the end of a line in it, and `EPERM` for a file that a container may not read.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use rocwheel::gpu::SysFiles;

pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) about: String,
    /// What its GPUs are, in order, each target once.
    pub(crate) targets: String,
    files: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
}

impl Machine {
    pub(crate) fn all() -> Vec<Self> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/targets/machines");
        let entries = fs_err::read_dir(directory).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut all = Self::all().into_iter();
        all.find(|it| it.name == name).unwrap()
    }

    fn read(path: &Path) -> Self {
        let text = fs_err::read_to_string(path).unwrap();
        let mut machine = Self {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            about: String::new(),
            targets: String::new(),
            files: BTreeMap::new(),
            links: BTreeMap::new(),
        };
        for line in text.lines() {
            if let Some(targets) = line.strip_prefix("# targets:") {
                targets.trim().clone_into(&mut machine.targets);
            } else if let Some(about) = line.strip_prefix("# ") {
                about.clone_into(&mut machine.about);
            } else if let Some((path, target)) = line.split_once(" -> ") {
                machine.links.insert(path.into(), target.into());
            } else {
                let (path, text) = line.split_once(": ").unwrap();
                let text = text.replace("; ", "\n") + "\n";
                machine.files.insert(path.into(), text);
            }
        }
        machine
    }

    /// Writes the files below a directory. Those that may not be read are empty.
    pub(crate) fn write(&self, directory: &Path) {
        let place = |path: &str| {
            let path = directory.join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        for (path, text) in &self.files {
            let text = if text == "EPERM\n" { "" } else { text };
            fs_err::write(place(path), text).unwrap();
        }
        for (path, target) in &self.links {
            std::os::unix::fs::symlink(target, place(path)).unwrap();
        }
    }
}

impl SysFiles for Machine {
    fn read(&self, path: &str) -> io::Result<String> {
        match self.files.get(path).map(String::as_str) {
            Some("EPERM\n") => Err(io::ErrorKind::PermissionDenied.into()),
            Some(text) => Ok(text.to_owned()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let begin = format!("{directory}/");
        let paths = self.files.keys().chain(self.links.keys());
        let inside = paths.filter_map(|path| path.strip_prefix(&begin));
        let names = inside.filter_map(|path| path.split('/').next());
        // A file system lists names in no order.
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names.dedup();
        names
    }

    fn link(&self, path: &str) -> Option<String> {
        let target = self.links.get(path)?;
        target.rsplit('/').next().map(str::to_owned)
    }
}
