//! [`Installer`]: uv or pip, the exact arguments that they get, and how they are run.

use std::{
    env, io,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{console::World, place::PackageSource};
use rocwheel_base::{
    error::{Context as _, Error, Hint as _, No, Result, anyhow, ensure},
    quantity::shell_word,
};

/// The shortest and the longest pause until a running program is asked once more whether it has ended.
const PAUSES: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(5)];
/// A pause is this part of the time that the program has run: uv with a warm cache ends after milliseconds.
const PART_OF_TIME: u32 = 8;

/// The variables that uv, pip and the build code of an sdist get; `*` stands for any end. They get no other
/// variable: the secrets of a job are in variables, and most of `PIP_*`, `UV_*` and `PYTHON*` would choose other
/// packages than the plan. docs/install.md has the same list.
const KEPT: [&str; 6] = [
    // Programs and directories.
    "PATH HOME USER LOGNAME TMPDIR TMP TEMP XDG_* LD_LIBRARY_PATH DYLD_* UV_CACHE_DIR UV_NO_CACHE UV_LINK_MODE \
     UV_PYTHON UV_PYTHON_* UV_MANAGED_PYTHON UV_NO_MANAGED_PYTHON PIP_CACHE_DIR PIP_NO_CACHE_DIR",
    // What Windows and its programs need to start.
    "SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT OS USERNAME USERPROFILE HOMEDRIVE HOMEPATH APPDATA LOCALAPPDATA \
     PROGRAMDATA PROGRAMFILES* COMMONPROGRAMFILES* PROCESSOR_ARCHITE* NUMBER_OF_PROCESSORS",
    // The network. A private index takes its login from `~/.netrc` or from a keyring.
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE SSL_CERT_DIR SSL_CLIENT_CERT REQUESTS_CA_BUNDLE \
     CURL_CA_BUNDLE UV_NATIVE_TLS UV_SYSTEM_CERTS UV_INSECURE_HOST UV_HTTP_* UV_REQUEST_TIMEOUT UV_CONCURRENT_* \
     PIP_PROXY PIP_CERT PIP_CLIENT_CERT PIP_TRUSTED_HOST PIP_TIMEOUT PIP_DEFAULT_TIMEOUT PIP_RETRIES",
    "NETRC UV_KEYRING_PROVIDER PIP_KEYRING_PROVIDER PYTHON_KEYRING_BACKEND DBUS_SESSION_BUS_ADDRESS",
    // How messages look.
    "LANG LANGUAGE LC_* TZ TERM COLORTERM COLUMNS NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE",
    // The `rocm` sdist chooses packages for the GPU when it is built.
    "ROCM_SDK_* ROCM_BOOTSTRAP_*",
];

/// What pip takes for no file of settings at all.
const NO_SETTINGS: &str = if cfg!(windows) { "nul" } else { "/dev/null" };

/// A program that installs packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Installer {
    Uv,
    /// The pip of the environment itself.
    Pip,
}

/// The arguments of one program, the program first.
pub(super) type CommandLine = Vec<String>;

/// The words of a text without quotes.
pub(super) fn words(text: &str) -> CommandLine {
    text.split_whitespace().map(str::to_owned).collect()
}

impl Installer {
    /// Begins to look for the installer.
    pub fn search(wanted: Option<Self>) -> InstallerSearch {
        let start = || {
            let mut version = command("uv".as_ref());
            version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        };
        InstallerSearch { wanted, uv: (wanted != Some(Self::Pip)).then(start) }
    }

    /// What helps if this installer cannot create an environment although it runs.
    pub(super) fn hint_for_create(self) -> &'static str {
        match self {
            Self::Uv => "install Python 3.10 or newer, or name one with `--python`",
            // Debian has the module in a package of its own.
            Self::Pip => {
                "install uv, or the module `venv` of this Python (`python3-venv` of Debian)"
            }
        }
    }

    /// Creates an environment. Without a Python, uv looks for one, and may download it.
    pub(super) fn create(self, environment: &Path, python: Option<&str>) -> CommandLine {
        let mut line = match self {
            Self::Uv => {
                let mut line = words("uv venv --no-config --no-project --allow-existing");
                line.extend(python_flag(python));
                line
            }
            Self::Pip => vec![program(python), "-m".to_owned(), "venv".to_owned()],
        };
        line.push(environment.to_string_lossy().into_owned());
        line
    }

    /// The beginning of each command that resolves, installs or checks.
    pub(super) fn verb(self, verb: &str, python: Option<&str>) -> CommandLine {
        match self {
            Self::Uv => {
                let mut line = words(&format!("uv pip {verb} --no-config"));
                line.extend(python_flag(python));
                line
            }
            Self::Pip => {
                let mut line = vec![program(python)];
                line.extend(words(&format!("-m pip {verb} --no-input")));
                line
            }
        }
    }
}

/// A search for the installer: uv is asked whether it runs, and answers while the packages are chosen.
#[derive(Debug)]
pub struct InstallerSearch {
    wanted: Option<Installer>,
    /// `None` if the user wants pip.
    uv: Option<io::Result<Child>>,
}

impl InstallerSearch {
    /// The installer that the user wants, or else uv if this machine has it, or else pip.
    pub fn finish(self) -> Result<Installer> {
        let Some(started) = self.uv else {
            return Ok(Installer::Pip);
        };
        let answer = started.and_then(|mut uv| uv.wait()).map_err(Error::from);
        let runs = answer.and_then(|status| {
            ensure!(status.success(), "it ended with {status}");
            Ok(Installer::Uv)
        });
        match runs.context("failed to run `uv`") {
            Err(_) if self.wanted.is_none() => Ok(Installer::Pip),
            answer => answer.hint("install uv, or pass `--installer pip`"),
        }
    }
}

/// The arguments that tell uv which Python to use.
fn python_flag(python: Option<&str>) -> impl Iterator<Item = String> {
    python.into_iter().flat_map(|python| ["--python", python]).map(str::to_owned)
}

/// The program of a Python that is named by its version or its path, or the usual program.
fn program(python: Option<&str>) -> String {
    match python {
        Some(version) if is_version(version) => format!("python{version}"),
        Some(path) => path.to_owned(),
        None if cfg!(windows) => "python".to_owned(),
        None => "python3".to_owned(),
    }
}

fn is_version(python: &str) -> bool {
    python.starts_with(|c: char| c.is_ascii_digit())
}

/// Fails if an environment has another Python than the user asks for.
pub fn ensure_python(environment: &Path, wanted: &str) -> Result<()> {
    let ask_version = |program: &Path| {
        // `-I`: no file in the directory of the user or in the current directory may change the answer.
        // `-S`: the answer needs no packages.
        let code = "print('%d.%d.%d' % __import__('sys').version_info[:3])";
        ask(command(program).args(["-I", "-S", "-c", code]))
    };
    let answer = ask_version(environment)?;
    let version = answer.trim_end();
    // The user may name a version for which this machine has no other Python than the environment.
    let is_same = if is_version(wanted) {
        version == wanted || version.starts_with(&format!("{wanted}."))
    } else {
        let minor = |version: &str| version.rsplit_once('.').map(|(minor, _)| minor.to_owned());
        minor(&ask_version(wanted.as_ref())?) == minor(version)
    };
    if is_same {
        return Ok(());
    }
    Err(anyhow!("the environment has Python {version}, and not `{wanted}`"))
        .hint("name another directory, or remove this one first")
}

/// Fails if the Python of a new environment cannot run, before anything is made: pyenv has a `python3` that only says
/// that no Python is chosen.
pub(super) fn ensure_python_runs(python: Option<&str>) -> Result<()> {
    let program = program(python);
    let hint = match python {
        Some(_) => "install uv, or name a Python 3.10 or newer with `--python`",
        None => "install uv, or Python 3.10 or newer",
    };
    ask(command(program.as_ref()).args(["-I", "-S", "-c", ""])).map(drop).hint(hint)
}

/// Fails if an environment has no pip: uv makes environments without one.
pub fn ensure_pip(environment: &Path) -> Result<()> {
    let shown = shell_word(&environment.to_string_lossy());
    ask(command(environment).args(["-m", "pip", "--version"]))
        .map(drop)
        .with_context(|| format!("the environment of {shown} has no pip that runs"))
        .hint(format!("pass `--installer uv`, or add pip with `{shown} -m ensurepip`"))
}

/// The arguments that say where an installer looks for packages. It looks nowhere else.
///
/// uv takes a package from the first index that has it, and asks `--extra-index-url` before `--index-url`.
/// pip takes the highest version of all indexes, so only the pins keep it from a package of the base index.
pub(super) fn source_arguments(sources: &[PackageSource], base: Option<&str>) -> CommandLine {
    let index = sources.iter().find_map(PackageSource::index);
    let mut line = match (base, index) {
        (Some(base), Some(index)) => vec!["--index-url", base, "--extra-index-url", index],
        (None, None) => vec!["--no-index"],
        (Some(only), None) | (None, Some(only)) => vec!["--index-url", only],
    };
    for page in sources.iter().filter_map(PackageSource::links) {
        line.extend(["--find-links", page]);
    }
    line.into_iter().map(str::to_owned).collect()
}

/// A program that sees no variables but [`KEPT`], and no settings of pip.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    let variables = env::vars_os();
    command.env_clear();
    command.envs(variables.filter(|(name, _)| name.to_str().is_some_and(is_kept)));
    command.env("PIP_CONFIG_FILE", NO_SETTINGS);
    command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    command.stdin(Stdio::null());
    command
}

/// Whether an installer gets a variable. `http_proxy` is as usual as `HTTP_PROXY`, and Windows has `Path`.
fn is_kept(variable: &str) -> bool {
    let name = variable.to_uppercase();
    KEPT.iter().flat_map(|names| names.split_whitespace()).any(|kept| {
        match kept.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == kept,
        }
    })
}

/// Runs a program and returns what it prints. Fails if the program fails.
fn ask(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let failed = || format!("failed to run `{name}`");
    let output = command.stderr(Stdio::null()).output().with_context(failed)?;
    if !output.status.success() {
        return Err(anyhow!("it ended with {}", output.status)).with_context(failed);
    }
    String::from_utf8(output.stdout).with_context(failed)
}

/// Runs a program to its end. The user sees what the program says while it works, bars included. If the user
/// interrupts, the program ends first: it must not write into an environment that is being removed. If the
/// program fails, the answer is no, and `failure` says what that means.
pub fn run(command: &mut Command, failure: &str, world: &World) -> Result<()> {
    let name = command.get_program().display().to_string();
    let mut program = world
        .console
        .start(command)
        .with_context(|| format!("failed to run `{name}`"))
        .hint("`--installer` and `--python` name another program")?;
    let started = Instant::now();
    let [shortest, longest] = PAUSES;
    loop {
        // This is asked first, because Ctrl-C in a terminal ends the program too. Its exit code would then be
        // reported as a failure.
        if let Err(stopped) = world.stop.check() {
            program.kill()?;
            return Err(stopped.into());
        }
        match program.try_wait()? {
            None => sleep((started.elapsed() / PART_OF_TIME).clamp(shortest, longest)),
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                return Err(anyhow!(No(format!("{failure}: `{name}` ended with {status}"))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installer_gets_what_it_needs_and_no_secret() {
        for variable in [
            "PATH",
            "Path",
            "HOME",
            "http_proxy",
            "NO_PROXY",
            "SSL_CERT_FILE",
            "LC_ALL",
            "XDG_CACHE_HOME",
            "SystemRoot",
            "ProgramFiles(x86)",
            "UV_CACHE_DIR",
            "UV_PYTHON_INSTALL_DIR",
            "PIP_CERT",
            "NETRC",
            "ROCM_SDK_TARGET_FAMILY",
        ] {
            assert!(is_kept(variable), "{variable}");
        }
        for variable in [
            "GITHUB_TOKEN",
            "GH_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "ACTIONS_RUNTIME_TOKEN",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
            "ROCWHEEL_INPUTS",
            "PIP_DRY_RUN",
            "PIP_INDEX_URL",
            "PIP_CONFIG_FILE",
            "PIP_PLATFORM",
            "UV_NO_BUILD",
            "UV_TORCH_BACKEND",
            "UV_RESOLUTION",
            "UV_INDEX_MINE_PASSWORD",
            "UV_PUBLISH_TOKEN",
            "PYTHONPATH",
            "PYTHONHOME",
            "VIRTUAL_ENV",
            "MY_PATH",
            "PATH_TO_KEY",
            "",
        ] {
            assert!(!is_kept(variable), "{variable}");
        }
    }

    #[test]
    fn every_variable_of_an_installer_is_in_the_documentation() {
        let page = include_str!("../../docs/install.md");
        for variable in KEPT.iter().flat_map(|it| it.split_whitespace()) {
            assert!(page.contains(&format!("`{variable}`")), "{variable}");
        }
    }
}
