//! Arguments that several commands have. What a user asked for is a flag; what only the environment says
//! about this job is read where it is needed, and a flag replaces it.

mod empty;
mod guesses;
pub(super) mod inputs;
mod line;
mod machine;
pub(super) mod seams;
mod selection;
#[cfg(test)]
mod tests;
mod variables;

use std::{
    env, fmt,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

#[cfg(test)]
pub(crate) use self::empty::without_empty;
pub(crate) use self::guesses::advise;
pub(crate) use self::line::{line, options_of_rejected, parse, unusual};
#[cfg(test)]
pub(super) use self::variables::PROXIES;
pub(super) use self::variables::variable_of;
pub use self::{machine::MachineArgs, selection::SelectionArgs, variables::Variables};
use crate::{
    commands::{World, summary},
    github::{ApiSettings, GitHub, WaitPolicy},
    place::{PlaceArg, SetPlace},
    report::outputs,
    run::{
        ApiUrl, ArtifactGroup, Buckets, Environment, Event, Platform, Repository, Run, RunContext,
        RunReference,
    },
};
use rocwheel_base::{
    error::{Context as _, Error, Hint as _, Result, Secret, Stop, anyhow, ensure},
    io::read_text,
    version::{GitSha, ReleaseType},
};
use rocwheel_store::{
    Endpoint,
    location::{Bucket, Location},
    s3::{Access, Profile, S3Region, Signing},
};

/// How many things are done at once.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Jobs {
    /// Number of threads [default: one per processor]
    ///
    /// [env: `ROCWHEEL_JOBS`]
    #[arg(long, short, value_name = "N", value_parser = at_least_one)]
    pub jobs: Option<NonZeroUsize>,
}

impl Jobs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill_with(&mut self.jobs, "ROCWHEEL_JOBS", |text| {
            at_least_one(text).map_err(Error::msg)
        })
    }

    pub fn count(&self) -> NonZeroUsize {
        self.jobs.unwrap_or_else(World::jobs)
    }
}

/// Parses a number that is not zero.
pub(super) fn at_least_one(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "expected a number from 1 on")
}

/// The set that a command works on: an argument, or the flag that TheRock's script has for it.
#[derive(Clone, Debug, clap::Args)]
pub struct SetArg {
    /// Directory with packages in it or in its `dist`, or `s3://bucket/directory`
    #[arg(value_name = "SET", required_unless_present = "packages_dir")]
    set: Option<PlaceArg>,
    #[arg(long, alias = "input-packages-dir", hide = true, conflicts_with = "set")]
    packages_dir: Option<PlaceArg>,
}

impl SetArg {
    /// `None` if the command has another argument in place of a set.
    pub fn named(&self) -> Option<&PlaceArg> {
        self.set.as_ref().or(self.packages_dir.as_ref())
    }

    /// The set of a command that works on nothing else.
    pub fn required(&self) -> Result<&PlaceArg> {
        self.named().context("no package set was named")
    }
}

/// How pages are written to a place.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PageArgs {
    /// Write no pages under keys that end in `/`, for servers that reject such keys; installers
    /// then need `--find-links`
    ///
    /// [env: `ROCWHEEL_NO_DIRECTORY_PAGES`]
    #[arg(long)]
    pub no_directory_pages: bool,
}

impl PageArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill_switch(&mut self.no_directory_pages, "ROCWHEEL_NO_DIRECTORY_PAGES")
    }
}

/// The file of the outputs of a step, which the runner of GitHub Actions names.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct StepOutputs {
    #[arg(long, hide = true)]
    github_output: Option<PathBuf>,
}

impl StepOutputs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) {
        variables.fill_path(&mut self.github_output, "GITHUB_OUTPUT");
    }

    pub fn are_wanted(&self) -> bool {
        self.github_output.is_some()
    }

    /// Appends outputs, if there is a file for them.
    pub fn append<N: AsRef<str>>(&self, outputs: &[(N, String)]) -> Result<()> {
        let Some(file) = &self.github_output else {
            return Ok(());
        };
        let outputs = outputs::render(outputs);
        summary::append(file, &outputs?).context("failed to write step outputs")
    }
}

/// The file of the variables for later steps of a job, which the runner of GitHub Actions names.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct JobEnvironment {
    #[arg(long, hide = true)]
    github_env: Option<PathBuf>,
}

impl JobEnvironment {
    pub fn read_variables(&mut self, variables: &Variables<'_>) {
        variables.fill_path(&mut self.github_env, "GITHUB_ENV");
    }

    /// Appends variables, if there is a file for them. It has the format of step outputs.
    pub fn append(&self, variables: &[(&str, String)]) -> Result<()> {
        let Some(file) = &self.github_env else {
            return Ok(());
        };
        let variables = outputs::render(variables);
        summary::append(file, &variables?).context("failed to write variables of the job")
    }
}

/// Parses a duration, a number with a unit: `90s`, `30m`, `2h`, `3d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let unit = |number: &str, seconds: u64| {
        let number: u32 = number.parse().ok()?;
        Some(Duration::from_secs(u64::from(number) * seconds))
    };
    [("s", 1), ("m", 60), ("h", 3600), ("d", 86400)]
        .into_iter()
        .find_map(|(name, seconds)| unit(text.strip_suffix(name)?, seconds))
        .ok_or_else(|| format!("not a duration such as `90s`, `30m`, `2h` or `3d`: {text:?}"))
}

/// The run, its repository, and the place of its outputs.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Run options")]
pub struct RunArgs {
    /// Workflow run: its id, or the URL of its page [default: `GITHUB_RUN_ID`]
    #[arg(long, value_name = "RUN")]
    run_id: Option<RunReference>,
    // The run of GitHub Actions that this process is part of.
    #[arg(skip)]
    own_run: Option<RunReference>,
    /// Repository of the run [default: `GITHUB_REPOSITORY`, else ROCm/TheRock]
    #[arg(
        long,
        aliases = ["run-github-repo", "repo"],
        value_name = "OWNER/NAME"
    )]
    repository: Option<Repository>,
    /// Platform that the run built for [default: the platform of this machine]
    #[arg(long)]
    platform: Option<Platform>,
    /// Release type of the run [default: `RELEASE_TYPE`, else ci]
    #[arg(long, value_name = "TYPE")]
    release_type: Option<ReleaseType>,
    // The release type of the run of GitHub Actions that this process is part of.
    #[arg(skip)]
    own_release_type: Option<ReleaseType>,
    /// Bucket of the run [default: decided by repository and release type]
    ///
    /// [env: `ROCWHEEL_BUCKET`]
    #[arg(long)]
    bucket: Option<Bucket>,
    /// Use no network: `place` and dry runs say where a run is read and written, and what they
    /// assume; with local directories, all other work is done too
    ///
    /// [env: `ROCWHEEL_OFFLINE`]
    #[arg(long)]
    offline: bool,
}

impl RunArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill(&mut self.own_run, "GITHUB_RUN_ID")?;
        variables.fill(&mut self.own_release_type, "RELEASE_TYPE")?;
        variables.fill(&mut self.bucket, "ROCWHEEL_BUCKET")?;
        variables.fill_switch(&mut self.offline, "ROCWHEEL_OFFLINE")
    }

    /// The run that the user named, or the run of GitHub Actions that this process is part of.
    pub fn run(&self) -> Result<&RunReference> {
        let run = self.run_id.as_ref().or(self.own_run.as_ref());
        run.context("no run was named").hint("pass `--run-id` with an id or the address of a run")
    }

    /// Whether the user named a run. If not, [`run`](Self::run) is the one that this process is
    /// part of.
    pub fn names_a_run(&self) -> bool {
        self.run_id.is_some()
    }

    /// The platform that the packages are for.
    pub fn platform(&self) -> Platform {
        self.platform.unwrap_or(if cfg!(windows) { Platform::Windows } else { Platform::Linux })
    }

    /// The release type of the run, if a flag or the environment says it.
    pub fn release_type(&self) -> Option<ReleaseType> {
        self.release_type.or(self.own_release_type)
    }

    /// The same arguments for outputs in a local directory. GitHub is not asked about the run: what is
    /// not known is assumed, in the same way by all commands, so that they find the same key.
    #[must_use]
    pub fn of_directory(mut self) -> Self {
        self.offline = true;
        self
    }

    /// Resolves a run and the place of its outputs. Asks GitHub whose code the run built, if the
    /// place depends on it.
    pub fn resolve(&self, run: &RunReference, github: &GitHubArgs, world: &World) -> Result<Run> {
        self.resolve_in(&self.context()?, run, github, world)
    }

    /// Like [`resolve`](Self::resolve), for a caller that wants the role: asks GitHub whose code the run built even if
    /// the place does not depend on it. If GitHub does not answer then, the run counts as a run for a fork, which has no
    /// role. With `--offline`, it counts as a run of own code.
    pub fn resolve_for_role(
        &self,
        run: &RunReference,
        github: &GitHubArgs,
        world: &World,
    ) -> Result<Run> {
        let context = RunContext { wants_role: true, ..self.context()? };
        self.resolve_in(&context, run, github, world)
    }

    fn resolve_in(
        &self,
        context: &RunContext,
        run: &RunReference,
        github: &GitHubArgs,
        world: &World,
    ) -> Result<Run> {
        let resolved = context.resolve(run, self.platform(), |repository| {
            let settings = github.settings(run.server.as_deref())?;
            let announce = world.console.notes();
            let github = GitHub::connect(settings, world.stop.clone(), announce)?;
            Ok(github.run(repository, &run.id)?.facts(repository))
        })?;
        for assumption in &resolved.assumed {
            world.console.note(format!("assumed that {assumption}"));
        }
        Ok(resolved)
    }

    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// Fails with `--offline`. Call it before work that needs the network.
    pub fn ensure_online(&self, what: impl fmt::Display) -> Result<()> {
        ensure!(!self.offline, "{what} is not possible with `--offline`");
        Ok(())
    }

    /// The context that decides where runs keep their outputs.
    pub fn context(&self) -> Result<RunContext> {
        self.context_in(|name| env::var(name).ok())
    }

    /// The same arguments, but with this bucket.
    #[must_use]
    pub fn in_bucket(mut self, bucket: &Bucket) -> Self {
        self.bucket = Some(bucket.clone());
        self
    }

    fn context_in(&self, variable: impl Fn(&str) -> Option<String>) -> Result<RunContext> {
        let payload = payload(&variable)?;
        Ok(RunContext {
            // A bucket counts as chosen even if it comes from its environment variable, because
            // only users set that variable.
            bucket: self.bucket.clone(),
            is_offline: self.offline,
            wants_role: false,
            repository: self.repository.clone(),
            release_type: self.release_type,
            environment: Environment::parse(variable, payload.as_deref())?,
        })
    }
}

/// The description of the event that started this run. The file has to be readable if the event may be
/// of a fork. For other events a runner need not have the file.
fn payload(variable: impl Fn(&str) -> Option<String>) -> Result<Option<String>> {
    let path = variable("GITHUB_EVENT_PATH").filter(|path| !path.is_empty());
    let Some(path) = path else {
        return Ok(None);
    };
    let payload = read_text(Path::new(&path));
    let name = variable("GITHUB_EVENT_NAME").unwrap_or_default();
    if Event::subject(&name).is_some() {
        return payload.map(Some).hint("`GITHUB_EVENT_PATH` names a file of JSON");
    }
    let is_event = |payload: &String| Event::parse(payload).is_ok();
    Ok(payload.ok().filter(is_event))
}

/// The text "the run builds the code of a fork", if this process is part of such a run. `None` for every other run.
pub(super) fn fork_of_event() -> Result<Option<&'static str>> {
    let variable = |name: &str| env::var(name).ok();
    let name = variable("GITHUB_EVENT_NAME").unwrap_or_default();
    let event = Event::of(&name, payload(variable)?.as_deref())?;
    let fork = event.filter(|event| !event.is_trusted());
    Ok(fork.map(|_| "the run builds the code of a fork"))
}

/// Fails if this process is part of a run that builds the code of a fork, and the bucket takes none.
pub(super) fn ensure_may_write(bucket: &Bucket) -> Result<()> {
    let buckets = Buckets::builtin();
    // Forks may write to this bucket. So the event is not read: a runner without the file of the event can still
    // upload.
    if buckets.takes_forks(bucket) {
        return Ok(());
    }
    fork_of_event()?.map_or(Ok(()), |whose| buckets.ensure_takes_forks(bucket, whose))
}

/// Where a run has published its packages, for a command that reads them there.
#[derive(Clone, Debug, clap::Args)]
pub struct PublishedArgs {
    /// Family of the set among the sets of a run
    ///
    /// [env: `ARTIFACT_GROUP`]
    #[arg(long, value_name = "GROUP")]
    artifact_group: Option<ArtifactGroup>,
    /// Read the published set of a run from this directory, laid out like the bucket
    #[arg(long, alias = "output-dir", value_name = "DIR")]
    input_dir: Option<PathBuf>,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    github: GitHubArgs,
}

impl PublishedArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill(&mut self.artifact_group, "ARTIFACT_GROUP")?;
        self.run.read_variables(variables)?;
        self.github.read_variables(variables)
    }

    /// The place where the run keeps its packages.
    pub fn place(&self, world: &World) -> Result<PlaceArg> {
        let run = self.run.run()?;
        let args = match &self.input_dir {
            Some(_) => self.run.clone().of_directory(),
            None => self.run.clone(),
        };
        let run = args.resolve(run, &self.github, world)?;
        let root = run.python(&self.artifact_group.clone().unwrap_or_default());
        Ok(match &self.input_dir {
            Some(directory) => PlaceArg::Directory(directory.join(root.key.to_path().as_str())),
            None => PlaceArg::Bucket(root),
        })
    }

    /// Fails with `--offline` if a place is not in a directory.
    pub fn ensure_readable(&self, place: &PlaceArg) -> Result<()> {
        match place {
            PlaceArg::Directory(_) => Ok(()),
            PlaceArg::Bucket(_) | PlaceArg::Web(_) => {
                self.run.ensure_online(format!("reading `{place}`"))
            }
        }
    }
}

/// How to reach the bucket. Credentials come from where AWS tools look for them.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "S3 options")]
pub struct AccessArgs {
    /// URL of the S3 server, if it is not Amazon's [default: `AWS_ENDPOINT_URL_S3`, else `AWS_ENDPOINT_URL`]
    #[arg(long, hide_short_help = true, value_name = "URL")]
    endpoint_url: Option<Endpoint>,
    /// Bucket region [default: `AWS_REGION`, else known for TheRock's buckets, detected for other Amazon
    /// buckets]
    #[arg(long, hide_short_help = true, value_name = "NAME")]
    region: Option<S3Region>,
    /// The section of the AWS configuration files to use; the flag beats keys in variables [default:
    /// `AWS_PROFILE`]
    #[arg(long, hide_short_help = true, value_name = "NAME")]
    profile: Option<String>,
    /// Send unsigned requests (the default if no credentials are found)
    ///
    /// [env: `ROCWHEEL_NO_SIGN_REQUEST`]
    #[arg(long, hide_short_help = true)]
    no_sign_request: bool,
    /// Where this machine keeps what it knows of places in buckets.
    #[arg(skip)]
    places: Option<PathBuf>,
}

impl AccessArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.places = variables.cache_file("places");
        variables.check_proxies()?;
        variables.fill_switch(&mut self.no_sign_request, "ROCWHEEL_NO_SIGN_REQUEST")
    }

    /// The access settings. Without a region in the arguments, uses `known`, the region of the
    /// bucket if that is known.
    pub fn access(&self, known: Option<&str>) -> Result<Access> {
        self.access_in(known, |name| env::var(name).ok())
    }

    /// Opens a set in a directory, in a bucket or on a web server.
    pub fn place(&self, place: &PlaceArg, stop: &Stop) -> Result<SetPlace> {
        let place = SetPlace::open(place, |known| self.access(known), stop)?;
        Ok(place.remembered_in(self.places.as_deref()))
    }

    /// Opens a set in a directory of a bucket, for reading.
    pub fn bucket(&self, place: &Location, stop: &Stop) -> Result<SetPlace> {
        let place = SetPlace::bucket(place, |known| self.access(known), stop)?;
        Ok(place.remembered_in(self.places.as_deref()))
    }

    /// Opens a place to write to. Every command that publishes opens its place here: the code of a fork never
    /// goes to a bucket of TheRock that forks do not share, even if the runner has credentials for it.
    pub fn destination(&self, place: &PlaceArg, stop: &Stop) -> Result<SetPlace> {
        match place {
            PlaceArg::Directory(path) => Ok(SetPlace::directory(path, stop)),
            PlaceArg::Bucket(location) => {
                ensure_may_write(&location.bucket)?;
                self.bucket(location, stop)
            }
            PlaceArg::Web(_) => Err(anyhow!("a web server cannot be written to: `{place}`"))
                .hint("pass a directory, or `s3://bucket/directory`"),
        }
    }

    fn access_in(
        &self,
        known: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Access> {
        let set = |name: &'static str| variable(name).filter(|text| !text.is_empty());
        let general = || set("AWS_ENDPOINT_URL_S3").or_else(|| set("AWS_ENDPOINT_URL"));
        let endpoint = match &self.endpoint_url {
            Some(endpoint) => Some(endpoint.clone()),
            None => general()
                .map(|text| text.parse())
                .transpose()
                .hint("`AWS_ENDPOINT_URL` is the address of an S3 server, or unset")?,
        };
        let region = match &self.region {
            Some(region) => Some(region.clone()),
            None => set("AWS_REGION")
                .map(|text| text.parse())
                .transpose()
                .hint("`AWS_REGION` is a region such as `us-east-2`, or unset")?,
        };
        let beats_keys = self.profile.is_some();
        let profile = self.profile.clone().or_else(|| set("AWS_PROFILE"));
        let access = Access {
            endpoint,
            region,
            profile: profile.map(|name| Profile { name, beats_keys }),
            signing: if self.no_sign_request { Signing::Never } else { Signing::Auto },
        };
        Ok(access.in_known_region(known)?)
    }
}

/// How to reach GitHub. Public repositories need no token.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "GitHub options")]
pub struct GitHubArgs {
    /// Token with read access to Actions [default: `GH_TOKEN`, else the login of gh]
    ///
    /// [env: `GITHUB_TOKEN`]
    #[arg(long, hide_short_help = true, value_name = "TOKEN", value_parser = secret)]
    github_token: Option<Secret>,
    /// API URL of a GitHub Enterprise server
    ///
    /// [env: `GITHUB_API_URL`]
    #[arg(long, hide_short_help = true, value_name = "URL")]
    github_api_url: Option<ApiUrl>,
}

#[expect(clippy::unnecessary_wraps, reason = "clap asks for a result")]
fn secret(text: &str) -> Result<Secret> {
    Ok(Secret::new(text.trim()))
}

impl GitHubArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.check_proxies()?;
        variables.fill_with(&mut self.github_token, "GITHUB_TOKEN", secret)?;
        variables.fill(&mut self.github_api_url, "GITHUB_API_URL")
    }

    /// The API settings for a run whose page is on `server`, if that is known.
    pub fn settings(&self, server: Option<&str>) -> Result<ApiSettings> {
        let mut settings = self.settings_in(server, |name| env::var(name).ok())?;
        settings.token = settings.token.or_else(|| login(&settings.api));
        if let Some(token) = &settings.token {
            let can_be_sent = |c: char| c == ' ' || c.is_ascii_graphic();
            if !token.reveal().chars().all(can_be_sent) {
                let origin = self.origin(token);
                return Err(anyhow!("the token of `{origin}` has a line break, or another character that no token has"))
                    .hint("copy the token again");
            }
        }
        Ok(settings)
    }

    /// Where a token of [`Self::settings`] comes from.
    pub fn origin(&self, token: &Secret) -> &'static str {
        let is_in = |name: &&str| env::var(name).is_ok_and(|text| text.trim() == token.reveal());
        let variables = ["GITHUB_TOKEN", "GH_TOKEN"];
        match variables.into_iter().find(is_in) {
            Some(name) => name,
            None if self.github_token.as_ref() == Some(token) => "--github-token",
            None => "gh auth login",
        }
    }

    /// The token is only for the API that the user has chosen. If the URL of the run leads to
    /// another server, the token is not sent there.
    fn settings_in(
        &self,
        server: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<ApiSettings> {
        let own = match &self.github_api_url {
            Some(api) => api.clone(),
            None => ApiUrl::GITHUB.parse()?,
        };
        let own_server = own.server().unwrap_or_else(|| ApiUrl::PAGES.to_owned());
        let api = match server {
            Some(server) if server != own_server => ApiUrl::of_server(server)?,
            _ => own.clone(),
        };
        let other = || variable("GH_TOKEN").map(|text| Secret::new(text.trim()));
        let is_set = |token: &Secret| !token.reveal().is_empty();
        let token = self.github_token.clone().filter(is_set).or_else(other);
        Ok(ApiSettings {
            token: token.filter(|token| is_set(token) && api == own),
            api,
            waits: WaitPolicy::default(),
        })
    }
}

/// The file of this program, if the system tells.
pub(super) fn program() -> Option<PathBuf> {
    env::current_exe().ok()
}

/// The commit that is checked out in a directory. `None` if it is in no repository, or without git.
pub(super) fn checked_out_commit(directory: &Path) -> Option<GitSha> {
    let mut git = Command::new("git");
    // git refuses repositories of another user, and in a container every checkout is one.
    git.args(["-c", "safe.directory=*", "rev-parse", "HEAD"]);
    git.current_dir(directory);
    said(&mut git)?.parse().ok()
}

/// The token that `gh auth login` has stored for this server, if `gh` is installed.
fn login(api: &ApiUrl) -> Option<Secret> {
    let mut gh = Command::new("gh");
    gh.args(["auth", "token", "--hostname", &api.host()]);
    let token = said(&mut gh)?;
    (!token.is_empty()).then(|| Secret::new(token))
}

/// What a program prints, if it is installed and succeeds.
fn said(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
