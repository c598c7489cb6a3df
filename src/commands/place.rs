//! `place`: prints where a run keeps its packages, and which AWS role may write there.

use std::fmt;

use serde::Serialize;
use serde_json::json;

use super::{
    World,
    args::{AccessArgs, GitHubArgs, RunArgs, StepOutputs, Variables, fork_of_event},
};
use crate::{
    index::{Layout, Urls},
    promote::{ProductName, ReleasePlaces},
    run::{ArtifactGroup, Buckets, Run},
};
use rocwheel_base::error::{Context as _, Hint as _, Result, one_line};
use rocwheel_store::{Origin, s3::Access};

/// Print where a run keeps its packages, and which role may write there
///
/// A workflow calls it before it uploads: `credentials` says whether to assume the role, to use the
/// credentials that the runner has, or to keep the packages with the run. A run for a fork has no
/// role.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel place --run-id 21440027240
  rocwheel place --run-id 21440027240 --release-type nightly --artifact-group gfx94X-dcgpu
  rocwheel place --run-id 21440027240 --offline
  rocwheel place --product pytorch --release-type nightly
  rocwheel place --run-id 21440027240 --format json")]
pub struct PlaceCommandArgs {
    /// Family of the set [default: all targets]
    ///
    /// [env: `ARTIFACT_GROUP`]
    #[arg(long, value_name = "GROUP")]
    artifact_group: Option<ArtifactGroup>,
    /// Print where `--release-type` publishes this product: `core`, `pytorch`, `jax`
    #[arg(long, value_name = "NAME", conflicts_with = "layout")]
    product: Option<ProductName>,
    /// Where the packages are: in `dist` beside `simple`, or beside it as TheRock's uploader puts them
    #[arg(long, value_enum, value_name = "LAYOUT", default_value_t)]
    layout: Layout,
    #[command(flatten)]
    outputs: StepOutputs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    github: GitHubArgs,
}

pub fn run(args: &PlaceCommandArgs, world: &World) -> Result<()> {
    if let Some(product) = &args.product {
        return args.product(product, world);
    }
    let answer = args.answer(world)?;
    args.outputs.append(&answer.outputs().lines())?;
    world.console.answer(&answer)
}

/// The answer of `place`: an address, and what a workflow needs to write there.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct PlaceReport {
    schema: &'static str,
    bucket: String,
    set_url: String,
    index_url: String,
    find_links_url: String,
    region: Option<String>,
    role: Option<String>,
    /// Why there is no role.
    no_role: Option<String>,
    credentials: UploadCredentials,
    assumed: Vec<String>,
}

/// Whose credentials write the packages of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
enum UploadCredentials {
    /// Those of the role.
    Role,
    /// No role may write there for this run, but this machine has credentials of its own.
    Runner,
    /// The packages stay with the run.
    None,
}

impl UploadCredentials {
    fn of(run: &Run, access: &Access, world: &World) -> Self {
        let has_some = || {
            let origin = Origin::Bucket(run.bucket.clone());
            let store = rocwheel_store::open(&origin, access, &world.stop);
            store.map_or_else(
                |error| {
                    // The packages then stay with the run, and this line says why.
                    let why = one_line(&error.into());
                    let problem = "the credentials of this machine cannot be used";
                    world.console.warn(format!("{problem}: {why}"));
                    false
                },
                |store| store.has_credentials(),
            )
        };
        if run.role.is_some() {
            Self::Role
        } else if run.takes_runner_credentials && has_some() {
            Self::Runner
        } else {
            Self::None
        }
    }
}

impl PlaceCommandArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill(&mut self.artifact_group, "ARTIFACT_GROUP")?;
        self.outputs.read_variables(variables);
        self.run.read_variables(variables)?;
        self.access.read_variables(variables)?;
        self.github.read_variables(variables)
    }

    /// Where a product is published, with what `upload --to` and `promote --into` take.
    fn product(&self, product: &ProductName, world: &World) -> Result<()> {
        let release = self
            .run
            .release_type()
            .context("no release type, which decides the bucket")
            .hint("pass `--release-type nightly`, `prerelease`, `dev` or `dev-bkc`")?;
        let place = ReleasePlaces::builtin().place(product, release)?;
        let no_role = fork_of_event()?;
        let credentials =
            if no_role.is_some() { UploadCredentials::None } else { UploadCredentials::Role };
        let outputs = PlaceOutputs {
            bucket: place.address.bucket.to_string(),
            set_url: place.address.to_string(),
            index_url: place.index,
            // A release place has a page for each project, and none with every package.
            find_links_url: String::new(),
            region: Buckets::builtin().region().to_owned(),
            role: no_role.map_or(place.role, |_| String::new()),
            credentials,
        };
        self.outputs.append(&outputs.lines())?;
        let below = &outputs.set_url;
        let index = &outputs.index_url;
        let role = no_role.is_none().then_some(&outputs.role);
        let projects_url = format!("{below}/{}/", place.directory);
        let facts = json!({
            "product": product.to_string(),
            "bucket": outputs.bucket,
            "set-url": below,
            "projects-url": projects_url,
            "index-url": index,
            "role": role,
            "no-role": no_role,
            "credentials": credentials,
        });
        let role = match (role, no_role) {
            (Some(role), _) => role.clone(),
            (None, why) => format!("none, because {}", why.unwrap_or_default()),
        };
        let answer =
            format!("{projects_url}{{project}}/\nbelow:  {below}\nindex:  {index}\nrole:   {role}");
        world.console.report("place", &facts, answer)
    }

    fn resolve(&self, world: &World) -> Result<Run> {
        let run = self.run.resolve_for_role(self.run.run()?, &self.github, world)?;
        run.ensure_bucket()?;
        Ok(run)
    }

    fn answer(&self, world: &World) -> Result<PlaceReport> {
        let run = self.resolve(world)?;
        let root = run.python(&self.artifact_group.clone().unwrap_or_default());
        let access = self.access.access(run.region.as_deref())?;
        let urls = access.url(&root.directory()).parse::<Urls>()?.in_layout(self.layout);
        Ok(PlaceReport {
            schema: "rocwheel-place-v1",
            bucket: run.bucket.to_string(),
            set_url: root.to_string(),
            index_url: urls.index(),
            find_links_url: urls.find_links(),
            credentials: if run.role.is_none() && self.run.is_offline() {
                world.console.note("assumed that this machine has no credentials of its own");
                UploadCredentials::None
            } else {
                UploadCredentials::of(&run, &access, world)
            },
            assumed: run.assumed.iter().map(ToString::to_string).collect(),
            no_role: run.no_role(),
            region: run.region,
            role: run.role,
        })
    }
}

/// The step outputs of `place`, the same for a run and for a product. What is not known is empty.
struct PlaceOutputs {
    bucket: String,
    set_url: String,
    index_url: String,
    find_links_url: String,
    region: String,
    role: String,
    credentials: UploadCredentials,
}

impl PlaceOutputs {
    fn lines(&self) -> [(&'static str, String); 10] {
        [
            ("bucket", self.bucket.clone()),
            ("set-url", self.set_url.clone()),
            ("package-index-url", self.index_url.clone()),
            ("package-find-links-url", self.find_links_url.clone()),
            ("aws-region", self.region.clone()),
            ("iam-role", self.role.clone()),
            ("credentials", self.credentials.to_string()),
            // TheRock's names.
            ("package_index_url", self.index_url.clone()),
            ("aws_region", self.region.clone()),
            ("iam_role", self.role.clone()),
        ]
    }
}

impl PlaceReport {
    fn outputs(&self) -> PlaceOutputs {
        PlaceOutputs {
            bucket: self.bucket.clone(),
            set_url: self.set_url.clone(),
            index_url: self.index_url.clone(),
            find_links_url: self.find_links_url.clone(),
            region: self.region.clone().unwrap_or_default(),
            role: self.role.clone().unwrap_or_default(),
            credentials: self.credentials,
        }
    }
}

impl fmt::Display for PlaceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.set_url)?;
        writeln!(f, "index:  {}", self.index_url)?;
        let region = self.region.as_deref().unwrap_or("not known, as this is no bucket of TheRock");
        writeln!(f, "region: {region}")?;
        if let Some(role) = &self.role {
            return write!(f, "role:   {role}");
        }
        let why = self.no_role.as_deref().unwrap_or_default();
        let then = match self.credentials {
            UploadCredentials::Runner => ": upload with the credentials of this machine",
            _ => ", and there are no other credentials: the packages stay with the run",
        };
        write!(f, "role:   none, because {why}{then}")
    }
}
