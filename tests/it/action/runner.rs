//! Runs workflows as GitHub would: `act`, on this machine, with the actions that stand here.

use std::ffi::OsString;

use crate::support::prelude::*;

/// What jobs run on; all of them run here. `act` mixes up what the rows of a matrix run on: with a
/// label missing here, any of the rows may ask for Docker.
const LABELS: &str = "ubuntu-latest ubuntu-24.04 ubuntu-22.04 macos-15 windows-2025 gpu";

/// What the workflows that others call name this action: a release, or what stands for one until then.
pub(super) fn ours() -> &'static str {
    static OURS: LazyLock<String> = LazyLock::new(|| {
        let text = read(".github/workflows/packages.yml");
        let first = text.lines().find_map(|line| line.trim().strip_prefix("uses: "));
        first.unwrap().split(' ').next().unwrap().to_owned()
    });
    &OURS
}

/// Where the workflows are that others call, beside those of this repository.
pub(super) const CALLED: &str = ".github/workflows/";

/// The workflows that others call: they start in no other way. `long.yml` is called in this repository only.
pub(super) fn called() -> Vec<String> {
    let entries = fs_err::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(CALLED)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_called =
        |name: &String| read(&format!("{CALLED}{name}")).contains("\non:\n  workflow_call:\n");
    let mut names: Vec<String> = names.filter(is_called).collect();
    names.sort();
    names
}

/// What a job of another repository uses to call a workflow.
pub(super) fn address(name: &str) -> String {
    ours().replacen('@', &format!("/{CALLED}{name}@"), 1)
}

/// A repository with workflows, and the actions that they may use.
pub(super) struct Repository {
    place: TempDir,
    actions: Vec<(String, PathBuf)>,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
    /// Found before all others.
    tools: Option<PathBuf>,
}

/// What a run came to.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) succeeded: bool,
    entries: Vec<Value>,
}

impl Repository {
    /// With our action, which finds the binary of this build, with the workflows beside it, and nothing else.
    pub(super) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let mut repository = Self {
            place,
            actions: Vec::new(),
            environment: Vec::new(),
            arguments: Vec::new(),
            tools: None,
        };
        let binary = format!("  binary:\n    default: {ROCWHEEL}\n");
        let action = read("action.yml").replacen("  binary:\n", &binary, 1);
        let obtain = ".github/binary/obtain.sh";
        let tree = repository.action(ours(), &action);
        fs_err::create_dir_all(tree.join(".github/binary")).unwrap();
        fs_err::write(tree.join(obtain), read(obtain)).unwrap();
        fs_err::create_dir(tree.join(CALLED)).unwrap();
        // `act` does not know the form of GitHub for a workflow of the same repository and commit.
        let uses = Regex::new(r"uses: \$/\.github/workflows/(\S+)").unwrap();
        for name in called() {
            let path = format!("{CALLED}{name}");
            let text = read(&path);
            let text =
                uses.replace_all(&text, |it: &Captures| format!("uses: {}", address(&it[1])));
            fs_err::write(tree.join(path), &*text).unwrap();
        }
        repository
    }

    /// Another action, by the name that workflows use.
    pub(super) fn action(&mut self, name: &str, text: &str) -> PathBuf {
        let directory = format!("action-{}", self.actions.len());
        let directory = self.path().join(directory);
        fs_err::create_dir_all(&directory).unwrap();
        fs_err::write(directory.join("action.yml"), text).unwrap();
        self.actions.push((name.to_owned(), directory.clone()));
        directory
    }

    pub(super) fn variable(&mut self, name: &str, value: &str) -> &mut Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts one of our workflows by hand, from a workflow of another repository that calls it.
    pub(super) fn call(&self, name: &str, inputs: &Value) -> Run {
        let address = address(name);
        let caller = format!(
            "on: workflow_dispatch\njobs:\n  call:\n    uses: {address}\n    with: {inputs}\n"
        );
        self.run("workflow_dispatch", &caller)
    }

    /// A workflow that the one under test may call.
    pub(super) fn workflow(&mut self, name: &str, text: &str) -> &mut Self {
        let directory = self.path().join("tree/.github/workflows");
        fs_err::create_dir_all(&directory).unwrap();
        fs_err::write(directory.join(name), text).unwrap();
        self
    }

    /// A file of the repository.
    pub(super) fn file(&mut self, path: &str, text: &str) -> &mut Self {
        let tree = self.path().join("tree");
        fs_err::create_dir_all(&tree).unwrap();
        fs_err::write(tree.join(path), text).unwrap();
        self
    }

    /// Has the steps find the programs of a directory before all others.
    pub(super) fn tools(&mut self, directory: &Path) -> &mut Self {
        self.tools = Some(directory.to_owned());
        self
    }

    /// Has our action take a release instead of the binary of this build.
    pub(super) fn take_release(&self, release: &str) {
        let (_, tree) = &self.actions[0];
        fs_err::write(tree.join("action.yml"), read("action.yml")).unwrap();
        fs_err::write(tree.join(".github/binary/release.txt"), release).unwrap();
    }

    /// For `act` itself, such as `--input name=value`.
    pub(super) fn argument(&mut self, argument: &str, value: &str) -> &mut Self {
        self.arguments.extend([argument.to_owned(), value.to_owned()]);
        self
    }

    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Runs a workflow for an event.
    pub(super) fn run(&self, event: &str, workflow: &str) -> Run {
        let tree = self.path().join("tree");
        fs_err::create_dir_all(tree.join(".github/workflows")).unwrap();
        fs_err::write(tree.join(".github/workflows/under-test.yml"), workflow).unwrap();
        for line in ["init --quiet", "add .", "commit --quiet --allow-empty --message x"] {
            git(&tree, &line.split(' ').collect::<Vec<_>>());
        }
        let mut command = Command::new(tool("act"));
        command.arg(event).args(["--json", "--pull=false", "--no-cache-server"]);
        command.args(["--env", "AWS_EC2_METADATA_DISABLED=true"]);
        command.arg("--action-cache-path").arg(self.path().join("cache"));
        command.args(&self.arguments).current_dir(&tree).env_clear();
        command.env("HOME", self.path()).env("PATH", self.search_path());
        for label in LABELS.split(' ') {
            command.args(["--platform", &format!("{label}=-self-hosted")]);
        }
        for (name, value) in &self.environment {
            command.args(["--env", &format!("{name}={value}")]);
        }
        for (name, directory) in &self.actions {
            let replaced = format!("{name}={}", directory.display());
            command.args(["--local-repository", &replaced]);
        }
        Run::of(&mut command)
    }

    fn search_path(&self) -> OsString {
        let all = std::env::var_os("PATH").unwrap();
        let own = self.tools.iter().cloned();
        std::env::join_paths(own.chain(std::env::split_paths(&all))).unwrap()
    }
}

impl Run {
    fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        let entries: Result<_, _> = stdout.lines().map(serde_json::from_str).collect();
        Self {
            succeeded: output.status.success(),
            entries: entries.unwrap_or_else(|error| panic!("{error}: {stdout}\n{stderr}")),
        }
    }

    fn entries<'a>(&'a self, key: &'a str, value: &'a str) -> impl Iterator<Item = &'a Value> {
        let is_it = move |entry: &&Value| entry[key] == value;
        self.entries.iter().filter(is_it)
    }

    /// What the steps printed, and what the runner said about them.
    pub(super) fn log(&self) -> String {
        let lines = self.entries.iter().filter_map(|it| it["msg"].as_str());
        let lines: Vec<&str> = lines.map(str::trim_end).collect();
        lines.join("\n") + "\n"
    }

    /// What the steps of a job printed.
    pub(super) fn printed(&self, job: &str) -> String {
        let printed = self.entries("jobID", job).filter(|it| it["raw_output"] == true);
        printed.filter_map(|it| it["msg"].as_str()).collect()
    }

    /// The last thing said for each output, of steps and of the actions they use.
    pub(super) fn outputs(&self) -> BTreeMap<String, String> {
        let pair = |entry: &Value| {
            let text = |key: &str| entry[key].as_str().map(str::to_owned);
            Some((text("name")?, text("arg")?))
        };
        self.entries("command", "set-output").filter_map(pair).collect()
    }

    /// The summaries of all steps, each once.
    pub(super) fn summaries(&self) -> Vec<String> {
        let said = self.entries("command", "summary");
        let texts = said.filter_map(|it| it["content"].as_str().map(str::to_owned));
        let mut texts: Vec<String> = texts.collect();
        texts.dedup();
        texts
    }

    /// How each job ended, by its name.
    pub(super) fn jobs(&self) -> BTreeMap<String, String> {
        let ended = self.entries.iter().filter_map(|entry| {
            let result = entry["jobResult"].as_str()?;
            Some((entry["job"].as_str()?.to_owned(), result.to_owned()))
        });
        ended.collect()
    }

    #[track_caller]
    pub(super) fn expect_success(self) -> Self {
        assert!(self.succeeded, "{}", self.log());
        self
    }
}

/// A file of this repository.
pub(super) fn read(file: &str) -> String {
    fs_err::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

pub(super) fn git(directory: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=x", "-c", "user.email=x@example.org"]);
    succeed(git.args(arguments).current_dir(directory));
}
