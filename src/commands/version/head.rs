//! The commit that is checked out, from the files of git ([`gitrepository-layout`]).
//!
//! `git` itself refuses repositories of another user, and in a container every checkout is one.
//!
//! [`gitrepository-layout`]: https://git-scm.com/docs/gitrepository-layout

use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::{
    error::{Context as _, Hint as _, Result, anyhow},
    version::GitSha,
};

/// Symbolic references that lead to others: git follows five.
const STEPS: usize = 5;

/// The commit of the repository that has this directory, and the directory of its files.
/// `None` if there is no repository.
pub(super) fn commit(directory: &Path) -> Result<Option<(GitSha, PathBuf)>> {
    let mut above = directory.ancestors().map(|above| above.join(".git"));
    let Some(git) = above.find(|git| git.exists()) else {
        return Ok(None);
    };
    let commit = GitDirectory::open(&git)
        .and_then(|it| it.head())
        .with_context(|| format!("failed to read the commit from `{}`", git.display()))
        .hint("pass `--git-sha`")?;
    Ok(Some((commit, git)))
}

/// A worktree has a directory of its own with its `HEAD`, and shares the branches.
struct GitDirectory {
    own: PathBuf,
    shared: PathBuf,
}

impl GitDirectory {
    /// Opens `.git`. In worktrees and submodules it is a file that names the directory.
    fn open(git: &Path) -> Result<Self> {
        let own = if git.is_dir() {
            git.to_owned()
        } else {
            let text = fs::read_to_string(git)?;
            let path = text.trim().strip_prefix("gitdir: ");
            let path = path.context("it does not name a directory: no `gitdir: `")?;
            git.with_file_name(path)
        };
        let shared = match fs::read_to_string(own.join("commondir")) {
            Ok(path) => own.join(path.trim()),
            Err(_) => own.clone(),
        };
        Ok(Self { own, shared })
    }

    fn head(&self) -> Result<GitSha> {
        let mut text = fs::read_to_string(self.own.join("HEAD"))?;
        for _ in 0..STEPS {
            match text.trim().strip_prefix("ref: ") {
                None => break,
                Some(name) => text = self.reference(name)?,
            }
        }
        Ok(text.trim().parse()?)
    }

    /// The contents of a reference: from a file of its own, or from the file that has those which
    /// `git pack-refs` packed.
    fn reference(&self, name: &str) -> Result<String> {
        let files = [&self.own, &self.shared].map(|directory| directory.join(name));
        if let Some(text) = files.iter().find_map(|file| fs::read_to_string(file).ok()) {
            return Ok(text);
        }
        let packed = fs::read_to_string(self.shared.join("packed-refs")).unwrap_or_default();
        let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(_, other)| *other == name);
        let (commit, _) = found.ok_or_else(|| anyhow!("`{name}` has no commit"))?;
        Ok(commit.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::render;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    fn read(at: &Path) -> String {
        commit(at).unwrap().unwrap().0.to_string()
    }

    #[test]
    fn every_form_of_repository_has_a_commit() {
        let branch = ("r/.git/HEAD", "ref: refs/heads/a/b\n");
        let loose = written(&[
            branch,
            ("r/.git/refs/heads/a/b", &format!("{A}\n")),
            ("r/x/y", ""),
        ]);
        assert_eq!(read(&loose.path().join("r/x")), A);

        let packed =
            format!("# pack-refs with: peeled \n{B} refs/heads/a\n{A} refs/heads/a/b\n^{B}\n");
        let packed = written(&[branch, ("r/.git/packed-refs", &packed)]);
        assert_eq!(read(&packed.path().join("r")), A);

        let detached = written(&[("r/.git/HEAD", &format!("{}\n", A.to_uppercase()))]);
        assert_eq!(read(&detached.path().join("r")), A);

        let worktree = written(&[
            ("r/.git/HEAD", "ref: refs/heads/main\n"),
            ("r/.git/refs/heads/main", B),
            ("r/.git/refs/heads/w", A),
            ("r/.git/worktrees/w/HEAD", "ref: refs/heads/w\n"),
            ("r/.git/worktrees/w/commondir", "../..\n"),
            ("w/.git", "gitdir: ../r/.git/worktrees/w\n"),
        ]);
        assert_eq!(read(&worktree.path().join("w")), A);
        assert_eq!(read(&worktree.path().join("r")), B);
    }

    #[test]
    fn git_itself_says_the_same() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let git = std::process::Command::new("git")
            .args(["rev-parse", "HEAD"])
            .current_dir(root)
            .output();
        // A release is also built from a tarball, and on machines without git.
        let Ok(git) = git.map(|it| String::from_utf8(it.stdout).unwrap()) else {
            return;
        };
        if !git.is_empty() {
            assert_eq!(read(root), git.trim());
        }
    }

    #[test]
    fn a_repository_without_a_commit_is_refused_in_words() {
        let refusal = |files: &[(&str, &str)]| {
            let directory = written(files);
            let text = render(&commit(directory.path()).unwrap_err());
            text.replace(&directory.path().display().to_string(), "DIR")
        };
        let texts = [
            refusal(&[(".git/HEAD", "ref: refs/heads/.invalid\n")]),
            refusal(&[(".git/HEAD", "ref: HEAD\n")]),
            refusal(&[(".git/config", "")]),
            refusal(&[(".git", "elsewhere")]),
        ];
        insta::assert_snapshot!(texts.join("\n"), @r#"
        error: failed to read the commit from `DIR/.git`
          caused by: `refs/heads/.invalid` has no commit

        hint: pass `--git-sha`

        error: failed to read the commit from `DIR/.git`
          caused by: not a commit of 8 to 64 hexadecimal digits: "ref: HEAD"

        hint: pass `--git-sha`

        error: failed to read the commit from `DIR/.git`
          caused by: failed to open file `DIR/.git/HEAD`: No such file or directory (os error 2)

        hint: pass `--git-sha`

        error: failed to read the commit from `DIR/.git`
          caused by: it does not name a directory: no `gitdir: `

        hint: pass `--git-sha`
        "#);
    }
}
