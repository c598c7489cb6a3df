//! Runs other programs: Python, pip and uv.

use std::{
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use fs_err::File;
use tempfile::{NamedTempFile, tempfile};

use crate::{
    console::World,
    error::{Context as _, Error, Hint as _, No, Result, anyhow},
    parallel,
    retry::{Backoff, Failures},
};

/// How long to wait before a running program is asked again whether it has ended: a small part of the
/// time that it has run, because some end at once.
const SHORTEST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// How often an installer is started while it loses connections. It has tried each request several
/// times itself by then.
const PATIENCE: Backoff = Backoff {
    attempts: 3,
    pause: Duration::from_millis(500),
};
/// How many lines of its output an error shows.
const LAST_LINES: usize = 30;

/// What pip and uv say when a connection fails, or a server is busy.
const LOST: [&str; 6] = [
    "after connection broken by",
    "Max retries exceeded with url",
    "This is an issue with network connectivity",
    "('Connection aborted.'",
    "error sending request for url",
    "HTTP status server error (5",
];
/// What they say when the name of a host does not resolve. It is wrong, or there is no network: both
/// stay so.
const UNRESOLVED: [&str; 3] = ["dns error", "NameResolutionError", "Failed to resolve"];

/// The variables that would let pip or uv choose other packages than those that were decided.
/// Those about the network, such as proxies and certificates, stay.
const CHOICES: [&str; 30] = [
    "PIP_CONSTRAINT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_NO_BINARY",
    "PIP_NO_DEPS",
    "PIP_NO_INDEX",
    "PIP_ONLY_BINARY",
    "PIP_PRE",
    "PIP_PREFIX",
    "PIP_REQUIRE_HASHES",
    "PIP_REQUIREMENT",
    "PIP_ROOT",
    "PIP_TARGET",
    "PIP_USER",
    "PYTHONHOME",
    "PYTHONPATH",
    "UV_CONSTRAINT",
    "UV_DEFAULT_INDEX",
    "UV_EXCLUDE_NEWER",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_INDEX",
    "UV_INDEX_STRATEGY",
    "UV_INDEX_URL",
    "UV_NO_INDEX",
    "UV_OVERRIDE",
    "UV_PRERELEASE",
    "UV_REQUIRE_HASHES",
    "VIRTUAL_ENV",
];

/// A program that sees none of the variables that would change what is installed.
pub(super) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for name in CHOICES {
        command.env_remove(name);
    }
    command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    command.stdin(Stdio::null());
    command
}

/// A program that answers a question, while other work goes on.
pub(super) struct Question {
    name: String,
    child: Child,
    output: File,
}

impl Question {
    pub(super) fn ask(command: &mut Command) -> Result<Self> {
        let name = name(command);
        let output = File::from_parts(tempfile()?, &name);
        let answer = output.file().try_clone()?;
        let command = command.stdout(answer).stderr(Stdio::null());
        let child = command.spawn();
        let child = child.with_context(|| format!("failed to run `{name}`"))?;
        Ok(Self {
            name,
            child,
            output,
        })
    }

    /// What the program prints. Fails if it fails.
    pub(super) fn answer(mut self, world: &World) -> Result<String> {
        let running = || format!("failed to run `{}`", self.name);
        let status = wait(&mut self.child, world, &mut || Ok(()))?;
        if !status.success() {
            return Err(anyhow!("it ended with {status}")).with_context(running);
        }
        let mut text = String::new();
        self.output.seek(SeekFrom::Start(0))?;
        self.output
            .read_to_string(&mut text)
            .with_context(running)?;
        Ok(text)
    }
}

/// How a program has ended.
struct Ended {
    status: ExitStatus,
    /// Its output, without empty lines.
    lines: Vec<String>,
}

/// Runs a program to its end. With `-v`, prints what it says; an error shows the end of that.
pub(super) fn run(command: &mut Command, what: &str, world: &World) -> Result<()> {
    watch(command, world)?.judge(&name(command), what)
}

/// Runs an installer, again if it has lost a connection. Anything else that it fails for stays so.
pub(super) fn run_installer(command: &mut Command, what: &str, world: &World) -> Result<()> {
    let (name, mut failures) = (name(command), Failures::default());
    loop {
        let ended = watch(command, world);
        let ended = match world.stop.check() {
            Ok(()) => ended.hint("`--installer` and `--python` name another program")?,
            Err(_) => ended?,
        };
        if ended.status.success() || !lost_connection(&ended.lines) {
            return ended.judge(&name, what);
        }
        let Some(pause) = failures.pause(&PATIENCE) else {
            return ended.judge(&name, what);
        };
        let text = format!("`{name}` has lost a connection, and is started again");
        world.console.note(text);
        parallel::sleep(&world.stop, pause)?;
    }
}

/// Whether an installer that failed has said that it lost a connection, so that it may succeed later.
fn lost_connection(said: &[String]) -> bool {
    let has = |texts: &[&str]| {
        said.iter()
            .any(|line| texts.iter().any(|it| line.contains(it)))
    };
    has(&LOST) && !has(&UNRESOLVED)
}

fn watch(command: &mut Command, world: &World) -> Result<Ended> {
    let output = NamedTempFile::new()?;
    // A handle of its own, because a shared one would share its position with the program.
    let mut reader = output.reopen()?;
    let mut child = command
        .stdout(output.as_file().try_clone()?)
        .stderr(output.as_file().try_clone()?)
        .spawn()
        .with_context(|| format!("failed to run `{}`", name(command)))?;
    let (mut lines, mut rest) = (Vec::new(), Vec::new());
    let mut listen = || -> Result<()> {
        reader.read_to_end(&mut rest)?;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            world.console.debug(&line);
            lines.push(line);
        }
        Ok(())
    };
    let status = wait(&mut child, world, &mut listen)?;
    listen()?;
    lines.retain(|line| !line.is_empty());
    Ok(Ended { status, lines })
}

impl Ended {
    fn judge(self, name: &str, what: &str) -> Result<()> {
        if self.status.success() {
            return Ok(());
        }
        let shown = self
            .lines
            .get(self.lines.len().saturating_sub(LAST_LINES)..);
        let (shown, status) = (shown.unwrap_or_default().join("\n  "), self.status);
        Err(Error::new(No(format!(
            "{what}: `{name}` ended with {status}\n  {shown}"
        ))))
    }
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// Waits for a program. If the user interrupts, ends the program first: it must not write into an
/// environment that is being put back.
fn wait(
    child: &mut Child,
    world: &World,
    listen: &mut dyn FnMut() -> Result<()>,
) -> Result<ExitStatus> {
    let start = Instant::now();
    loop {
        // First, because Ctrl-C in a terminal ends the program too.
        if let Err(stopped) = world.stop.check() {
            let _ = child.kill();
            child.wait()?;
            return Err(stopped.into());
        }
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        listen()?;
        sleep((start.elapsed() / 32).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
    }
}
