//! `pipeline`: everything from artifacts to published packages, in order.

mod forecast;
mod origin;

use std::{fmt, path::PathBuf};

use serde::Serialize;

use self::{
    forecast::Forecast,
    origin::{Origin, OriginArgs},
};
use super::{
    World,
    args::AccessArgs,
    build::What,
    check,
    destination::Destination,
    summary,
    upload::{Others, Published, Upload},
};
use crate::{
    artifact::ArtifactTree,
    atomic::lock::{Lock, Work},
    check::Report,
    console::{many, size},
    error::{Hint as _, Result, anyhow, hinted},
    fetch::Purpose,
    index::{Addresses, Places, SetJson, Urls, Way, install},
    package::{
        assemble::Existing,
        build::{Build, Selection},
    },
    report::{LIMIT, Page, Whereabouts},
    set::LocalSet,
};

/// Run every step from artifacts to packages that pip and uv can install
///
/// Fetches or unpacks the artifacts, builds, checks, indexes, and publishes to a directory laid out
/// like the run's bucket. Ends with the commands that install the packages. Uploads nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel pipeline --sample --output-dir out
  rocwheel pipeline --artifact-dir artifacts --output-dir out --dry-run
  rocwheel pipeline --run-id 21440027240 --output-dir out")]
pub struct Args {
    #[command(flatten)]
    origin: OriginArgs,
    /// Directory for the artifacts, the packages and the published set
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_OUTPUT_DIR")]
    output_dir: PathBuf,
    /// Check and publish the packages that an earlier call built, without building them again
    #[arg(long, env = "ROCWHEEL_RESUME")]
    resume: bool,
    /// Print what would be read and written, and write nothing
    #[arg(long, env = "ROCWHEEL_DRY_RUN")]
    dry_run: bool,
    /// Index for third-party dependencies; adds a second index to the install lines
    #[arg(long, value_name = "URL", env = "ROCWHEEL_BASE_INDEX")]
    base_index: Option<Urls>,
    /// Compare package sizes with this set: a directory or a `set.json`
    #[arg(long, value_name = "SET", env = "ROCWHEEL_BASELINE")]
    baseline: Option<PathBuf>,
    /// Write the summary to this file
    #[arg(long, value_name = "FILE", env = "ROCWHEEL_SUMMARY")]
    summary: Option<PathBuf>,
    #[command(flatten)]
    steps: summary::Steps,
    #[command(flatten, next_help_heading = "Build options")]
    what: What,
    #[command(flatten, next_help_heading = "Check options")]
    policy: check::Policy,
}

pub fn run(args: &Args, world: &World) -> Result<()> {
    let unpacked = args.output_dir.join("artifacts");
    let purpose = Purpose::of_dry_run(args.dry_run || args.resume);
    let origin = args.origin.settle(&unpacked, purpose, world)?;
    if args.dry_run {
        return world.console.answer(&Forecast::new(
            &origin,
            &args.output_dir,
            &args.what,
            world,
        )?);
    }
    let _lock = Lock::to_write(&args.output_dir, Work::Pipeline)?;
    let set = if args.resume {
        args.resumed(world)?
    } else {
        args.build(&origin.read(&unpacked, &args.what, world)?, world)?
    };
    let report = args.check(&set, world).hint(args.how_to_go_on())?;
    let published = args.publish(&set, &origin, world)?;
    args.summarise(&published, &report, world)?;
    world
        .console
        .answer(&Answer::new(&published, args.base_index.as_ref()))
}

impl Args {
    /// After a refused check the packages stay, and need not be built again.
    fn how_to_go_on(&self) -> String {
        let packages = self.output_dir.join("packages");
        format!(
            "the packages are in `{}`: the same command with `--resume` goes on with them, and takes \
             `--accept` or `--ignore` for findings that may stay",
            packages.display()
        )
    }

    fn build(&self, tree: &ArtifactTree, world: &World) -> Result<LocalSet> {
        let _group = world.console.group("Packages");
        let packages = self.output_dir.join("packages");
        let options = self.what.options()?;
        let build = Build::plan(tree, &options, &Selection::All, &packages, world)?;
        build.ensure_complete()?;
        let _lock = Lock::to_write(&packages, Work::BuildBelow)?;
        let made = build.make(&packages, Existing::Replace, world)?;
        LocalSet::built(&packages, &build.plan, &build.manifest()?, &made, world)
    }

    /// The packages that an earlier run built, once it is certain that they are still the same.
    fn resumed(&self, world: &World) -> Result<LocalSet> {
        let _group = world.console.group("Packages");
        let packages = self.output_dir.join("packages");
        if !packages.join("set.json").is_file() {
            return Err(hinted(
                anyhow!("no finished packages in `{}`", packages.display()),
                "run the same command without `--resume`",
            ));
        }
        let set = LocalSet::read(&packages, world)?;
        set.ensure_as_described()?;
        set.ensure_nothing_added()?;
        let count = many(set.set.files().len(), "package");
        world.console.status(
            "Resumed",
            format!("with {count} in `{}`", packages.display()),
        );
        Ok(set)
    }

    /// Where `place` says that the run keeps its packages, below the output directory.
    fn publish(&self, set: &LocalSet, origin: &Origin<'_>, world: &World) -> Result<Published> {
        let _group = world.console.group("Index");
        let identity = set.document.identity.clone().or_of(origin.run());
        let destination = Destination::local(&self.output_dir, origin.place().key())?;
        // What an earlier run left here is this user's own, and is replaced.
        Upload::plan(set, identity, destination, Others::Replace, &world.stop)?.carry_out(world)
    }

    /// A set with errors gets a summary that says so, and goes no further.
    fn check(&self, set: &LocalSet, world: &World) -> Result<Report> {
        let packages = self.output_dir.join("packages");
        let policy = self.policy.on(&self.what.jobs);
        let report = check::look(&packages, &AccessArgs::default(), &policy, world)?;
        let verdict = policy.verdict(&report);
        if verdict.is_err() {
            self.tell(&set.document, None, &report, world)?;
        }
        verdict.map(|()| report)
    }

    fn summarise(&self, published: &Published, report: &Report, world: &World) -> Result<()> {
        let (set, urls) = (&published.set, &published.urls);
        self.tell(set, Some(urls), report, world)?;
        self.steps.outputs(set, Some(urls), world)
    }

    fn tell(
        &self,
        set: &SetJson,
        urls: Option<&Urls>,
        report: &Report,
        world: &World,
    ) -> Result<()> {
        let base = self.base_index.as_ref();
        let earlier = self.baseline.as_deref();
        let earlier = earlier.map(|place| summary::local_document(place, world));
        let earlier = earlier.transpose()?;
        let page = Page {
            set,
            whereabouts: urls.map_or(Whereabouts::Nowhere, |set| {
                Whereabouts::Published(Places { set, base })
            }),
            server: &self.steps.server,
            report: Some(report),
            earlier: earlier.as_ref(),
        };
        if let Some(file) = &self.summary {
            fs_err::write(file, page.render(LIMIT))?;
        }
        self.steps.page(&page, world)
    }
}

/// What was made, and how to install it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Answer<'a> {
    schema: &'static str,
    #[serde(flatten)]
    addresses: Addresses,
    set: &'a SetJson,
    install: Vec<Install>,
}

#[derive(Debug, Serialize)]
struct Install {
    with: &'static str,
    command: String,
}

impl<'a> Answer<'a> {
    fn new(published: &'a Published, base: Option<&Urls>) -> Self {
        let (set, urls) = (&published.set, &published.urls);
        let places = Places { set: urls, base };
        let choices = install::choices(set);
        let install = Way::ALL.into_iter().filter_map(|way| {
            Some(Install {
                with: way.title(),
                command: install::line(set, places, way, choices.first()?),
            })
        });
        Self {
            schema: "rocwheel-pipeline-v1",
            addresses: Addresses::new(urls, &set.families()),
            set,
            install: install.collect(),
        }
    }
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.set.files().iter().map(|file| file.size).sum();
        for file in self.set.files() {
            writeln!(f, "{:>10}  {}", size(file.size).to_string(), file.name())?;
        }
        writeln!(
            f,
            "{:>10}  in {}",
            size(total).to_string(),
            many(self.set.files().len(), "package")
        )?;
        if let [shown, others @ ..] = install::choices(self.set).as_slice()
            && !others.is_empty()
        {
            let others: Vec<String> = others.iter().map(ToString::to_string).collect();
            let others = others.join(", ");
            writeln!(f, "\nThese lines are for {shown}. Also built: {others}.")?;
        }
        for install in &self.install {
            write!(f, "\n{}:\n\n    {}\n", install.with, install.command)?;
        }
        Ok(())
    }
}
