//! The files of `/sys` of machines, as `machines/*.txt` have them: a line for each file, with `; ` for the end of
//! a line in it.

use std::path::{Path, PathBuf};

pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) about: String,
    /// What its GPUs are, in order, each target once.
    pub(crate) targets: String,
    files: Vec<(String, String)>,
}

impl Machine {
    pub(crate) fn all() -> Vec<Self> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/targets/machines");
        let entries = fs_err::read_dir(directory).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Self {
        let text = fs_err::read_to_string(path).unwrap();
        let mut machine = Self {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            about: String::new(),
            targets: String::new(),
            files: Vec::new(),
        };
        for line in text.lines() {
            if let Some(targets) = line.strip_prefix("# targets:") {
                targets.trim().clone_into(&mut machine.targets);
            } else if let Some(about) = line.strip_prefix("# ") {
                about.clone_into(&mut machine.about);
            } else {
                let (path, text) = line.split_once(": ").unwrap();
                machine.files.push((path.into(), text.replace("; ", "\n")));
            }
        }
        machine
    }

    /// Writes the files below a directory.
    pub(crate) fn write(&self, directory: &Path) {
        fs_err::create_dir_all(directory).unwrap();
        for (path, text) in &self.files {
            let path = directory.join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
    }
}
