//! `summary`: what was published and how to install it, for people and for later steps.

pub mod install;
pub mod markdown;
pub mod outputs;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use fs_err as fs;

use super::{World, index::LocalSet};
use crate::{
    error::{Hint as _, Result, ensure},
    index::{SetJson, Urls},
};

/// Say what was built and how to install it
///
/// Without `--output` and outside of GitHub Actions, the summary is printed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that `build` wrote: packages are in it, or in its `dist`
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_PACKAGES_DIR")]
    packages_dir: PathBuf,
    /// Where the set is published, as `upload` says it; by default where it lies
    #[arg(long, value_name = "URL", env = "ROCWHEEL_INDEX_URL")]
    index_url: Option<String>,
    /// Write the summary to this file
    #[arg(long, value_name = "FILE", env = "ROCWHEEL_SUMMARY")]
    output: Option<PathBuf>,
    #[command(flatten)]
    steps: Steps,
}

/// Where a step of a workflow says what it did.
#[derive(Debug, clap::Args)]
pub struct Steps {
    /// Append the summary to this file
    #[arg(long, value_name = "FILE", env = "GITHUB_STEP_SUMMARY")]
    pub step_summary: Option<PathBuf>,
    /// Append step outputs to this file
    #[arg(long, value_name = "FILE", env = "GITHUB_OUTPUT")]
    pub github_output: Option<PathBuf>,
    /// Where runs and commits have their pages
    #[arg(
        long,
        value_name = "URL",
        env = "GITHUB_SERVER_URL",
        default_value = "https://github.com"
    )]
    pub server: String,
}

pub fn run(args: &Args, world: &World) -> Result<()> {
    let local = LocalSet::read_aloud(&args.packages_dir, world)?;
    let urls = match &args.index_url {
        Some(url) => Urls::of_index(url)?,
        None => urls_of_indexed(&local)?,
    };
    let set = SetJson::new(local.document.identity.clone(), &local.set, local.layout);
    args.steps.tell(&set, &urls, world)?;
    let text = markdown::render(&set, &urls, &args.steps.server, markdown::LIMIT);
    match &args.output {
        Some(file) => Ok(fs::write(file, text)?),
        None if args.steps.step_summary.is_none() => world.console.data(text),
        None => Ok(()),
    }
}

impl Steps {
    /// Appends the summary and the outputs of a set to the files that there are.
    pub fn tell(&self, set: &SetJson, urls: &Urls, world: &World) -> Result<()> {
        if let Some(file) = &self.github_output {
            append(file, &outputs::render(&outputs::of(set, urls))?)?;
        }
        if let Some(file) = &self.step_summary {
            let text = markdown::render(set, urls, &self.server, room(file));
            if text.is_empty() {
                let problem = "the job summary is full, and has none of the packages";
                world.console.warn(problem);
            }
            append(file, &text)?;
        }
        Ok(())
    }
}

/// How much of a step's summary is left: GitHub drops one that is too long, with all that others
/// wrote to it.
pub fn room(file: &Path) -> usize {
    let there = fs::metadata(file).map_or(0, |found| found.len());
    markdown::LIMIT.saturating_sub(usize::try_from(there).unwrap_or(usize::MAX))
}

/// The addresses of a set that has its index where it lies.
fn urls_of_indexed(local: &LocalSet) -> Result<Urls> {
    let check = || -> Result<()> {
        let root = local.root.display();
        ensure!(local.root.join("simple").is_dir(), "no index in `{root}`");
        Ok(())
    };
    check().hint("run `rocwheel index` on it, or pass `--index-url`")?;
    local.urls()
}

/// Appends to a file that other steps may write to as well.
pub fn append(file: &Path, text: &str) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.append(true).create(true).open(file)?;
    Ok(file.write_all(text.as_bytes())?)
}

#[cfg(test)]
mod samples {
    use crate::digest::Sha256;
    use crate::index::{Identity, Layout, PackageSet, SetFile, SetJson, Urls};
    use crate::run::Platform;

    pub(super) fn urls() -> Urls {
        "https://bucket.s3.amazonaws.com/1-linux/python"
            .parse()
            .unwrap()
    }

    fn file(project: &str) -> SetFile {
        let name = format!("{}-7.13.0.dev0+ab.tar.gz", project.replace('-', "_"));
        SetFile {
            family: None,
            sha256: Sha256::of(name.as_bytes()),
            name: name.parse().unwrap(),
            project: project.parse().unwrap(),
            version: "7.13.0.dev0+ab".parse().unwrap(),
            size: 1_234_567,
            upload_time: None,
            metadata: None,
            requires_python: None,
            yanked: None,
        }
    }

    pub(super) fn set_of(projects: &[&str]) -> SetJson {
        let files = projects.iter().map(|project| file(project)).collect();
        let set = PackageSet::new(files).unwrap();
        SetJson::new(Identity::default(), &set, Layout::Dist)
    }

    pub(super) fn set() -> SetJson {
        let mut set = set_of(&[
            "rocm",
            "rocm-sdk-core",
            "rocm-sdk-devel",
            "rocm-sdk-libraries",
            "rocm-sdk-device-gfx1100",
            "rocm-sdk-device-gfx942",
        ]);
        set.identity.repository = "ROCm/TheRock".parse().ok();
        set.identity.run_id = "21440027240".parse().ok();
        set.identity.platform = Some(Platform::Linux);
        set.identity.commit = Some("89553ce3746eda74ade42557470d25e37c91b6f0".parse().unwrap());
        set
    }
}
