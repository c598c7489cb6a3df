//! Runs other programs: Python, pip and uv.

use std::{
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::Duration,
};

use tempfile::{NamedTempFile, tempfile};

use crate::{
    console::World,
    error::{Context as _, Error, No, Result, anyhow},
};

/// How long to wait before a running program is asked again whether it has ended: at first, because
/// some end at once, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);
/// How many lines of its output an error shows.
const LAST_LINES: usize = 30;

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

/// What a program prints. Fails if it fails.
pub(super) fn answer(command: &mut Command, world: &World) -> Result<String> {
    let name = name(command);
    let running = || format!("failed to run `{name}`");
    let mut output = tempfile()?;
    let mut child = command
        .stdout(output.try_clone()?)
        .stderr(Stdio::null())
        .spawn()
        .with_context(running)?;
    let status = wait(&mut child, world, &mut || Ok(()))?;
    if !status.success() {
        return Err(anyhow!("it ended with {status}")).with_context(running);
    }
    let mut text = String::new();
    output.seek(SeekFrom::Start(0))?;
    output.read_to_string(&mut text).with_context(running)?;
    Ok(text)
}

/// Runs a program to its end. With `-v`, prints what it says; an error shows the end of that.
pub(super) fn run(command: &mut Command, what: &str, world: &World) -> Result<()> {
    let name = name(command);
    let output = NamedTempFile::new()?;
    // A handle of its own, because a shared one would share its position with the program.
    let mut reader = output.reopen()?;
    let mut child = command
        .stdout(output.as_file().try_clone()?)
        .stderr(output.as_file().try_clone()?)
        .spawn()
        .with_context(|| format!("failed to run `{name}`"))?;
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
    if status.success() {
        return Ok(());
    }
    lines.retain(|line| !line.is_empty());
    let shown = lines.get(lines.len().saturating_sub(LAST_LINES)..);
    let shown = shown.unwrap_or_default().join("\n  ");
    Err(Error::new(No(format!(
        "{what}: `{name}` ended with {status}\n  {shown}"
    ))))
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
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Err(stopped) = world.stop.check() {
            let _ = child.kill();
            child.wait()?;
            return Err(stopped.into());
        }
        listen()?;
        sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
