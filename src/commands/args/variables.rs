//! Environment variables that stand for flags. They are read once, after clap has validated the command line and
//! before the command begins: a flag replaces its variable.
//!
//! clap could read them, but it takes an empty variable for a value, which the parser of the value then rejects; and it
//! takes `ROCWHEEL_OFFLINE=false` for a flag that was given, which then conflicts with other flags. Workflows set empty
//! variables and `false`. And a command such as `pipeline` reads variables of flags that it does not have.
//!
//! The help of a flag names its variable, ``[env: `ROCWHEEL_JOBS`]``, in a second paragraph, which `-h` leaves out. A
//! test compares the variables that each command reads with those that its help names.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::{Arg, ValueEnum};
use http::Uri;
use itertools::Itertools as _;

use crate::{console::Options, install::RuntimeVariables};
use rocwheel_base::error::{Context as _, Error, Hint as _, Invalid, Result, ensure};

/// The variables of this process or of a test. A variable that is set but empty counts as not set: workflows
/// pass an empty one for a value that is not given.
pub struct Variables<'a>(pub(crate) &'a dyn Fn(&str) -> Option<OsString>);

impl Variables<'_> {
    pub fn of_this_process() -> Self {
        Self(&|name| env::var_os(name))
    }

    /// The variables that decide which files of ROCm a program uses.
    pub fn runtime(&self) -> RuntimeVariables {
        let directories = |name| {
            let value = self.get(name).unwrap_or_default();
            env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect()
        };
        let value = |name| Some(self.get(name)?.to_string_lossy().into_owned());
        let rocm = ["ROCM_PATH", "ROCM_HOME", "HIP_PATH"];
        let visible = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"];
        RuntimeVariables {
            library_path: directories("LD_LIBRARY_PATH"),
            python_path: directories("PYTHONPATH"),
            rocm: rocm
                .into_iter()
                .filter_map(|name| Some((name, self.get(name)?.into())))
                .collect(),
            home: self.get("HOME").map(PathBuf::from),
            gfx_override: value("HSA_OVERRIDE_GFX_VERSION"),
            visible: visible.into_iter().filter_map(|name| Some((name, value(name)?))).collect(),
        }
    }

    /// A file in the directory for what programs may find out again. `None` if no variable names the directory.
    pub fn cache_file(&self, name: &str) -> Option<PathBuf> {
        let variable = if cfg!(windows) { "LOCALAPPDATA" } else { "XDG_CACHE_HOME" };
        let of_user = || Some(PathBuf::from(self.get("HOME")?).join(".cache"));
        let directory = self.get(variable).map(PathBuf::from).or_else(of_user)?;
        Some(directory.join("rocwheel").join(name))
    }

    /// The active environment of conda. `None` if it is `base`, into which nothing is installed unasked: uv decides
    /// the same.
    pub fn conda_environment(&self) -> Option<PathBuf> {
        let path = |name| self.get(name).map(PathBuf::from);
        let [root, name] = ["_CONDA_ROOT", "CONDA_DEFAULT_ENV"].map(path);
        let is_base = |prefix: &PathBuf| is_conda_base(prefix, root.as_deref(), name.as_deref());
        path("CONDA_PREFIX").filter(|prefix| !is_base(prefix))
    }

    /// Refuses what is no address of a proxy. The HTTP client ignores it without a word, and would connect directly.
    pub fn check_proxies(&self) -> Result<()> {
        for name in PROXIES {
            self.read(name, check_proxy)?;
        }
        Ok(())
    }

    fn get(&self, name: &str) -> Option<OsString> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    /// The value that a variable has.
    fn read<T, E: Into<Error>>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        parse(&value.to_string_lossy())
            .map(Some)
            .map_err(Into::into)
            .with_context(|| format!("failed to read the environment variable `{name}`"))
            .hint("correct the variable, or unset it")
    }

    /// Takes a value from its variable, if no flag gave one.
    pub fn fill<T: FromStr<Err: Into<Error>>>(
        &self,
        value: &mut Option<T>,
        name: &str,
    ) -> Result<()> {
        self.fill_with(value, name, T::from_str)
    }

    /// The same for a value with a parser of its own.
    pub fn fill_with<T, E: Into<Error>>(
        &self,
        value: &mut Option<T>,
        name: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<()> {
        if value.is_none() {
            *value = self.read(name, parse)?;
        }
        Ok(())
    }

    /// The same for a path, which need not be UTF-8.
    pub fn fill_path(&self, path: &mut Option<PathBuf>, name: &str) {
        if path.is_none() {
            *path = self.get(name).map(PathBuf::from);
        }
    }

    /// The same for a flag without a value.
    pub fn fill_switch(&self, is_on: &mut bool, name: &str) -> Result<()> {
        if !*is_on {
            *is_on = self.read(name, switch)?.unwrap_or(false);
        }
        Ok(())
    }
}

/// The variables from which the HTTP client takes proxies.
pub(in crate::commands) const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// Accepts what the HTTP client accepts. The error does not repeat the text, which may hold a password.
fn check_proxy(text: &str) -> Result<()> {
    let uri = text.parse::<Uri>().ok().filter(|uri| {
        let scheme = uri.scheme_str().unwrap_or("http");
        let is_known = matches!(scheme, "http" | "https") || scheme.starts_with("socks");
        // What follows the host is a port, or nothing.
        is_known
            && uri.authority().is_some_and(|authority| {
                authority.as_str().ends_with(authority.host()) || authority.port_u16().is_some()
            })
    });
    ensure!(uri.is_some(), "not the address of a proxy such as `http://proxy.example.org:3128`");
    Ok(())
}

/// Parses yes or no.
fn switch(text: &str) -> Result<bool, Invalid> {
    match text.to_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" | "on" => Ok(true),
        "0" | "false" | "f" | "no" | "n" | "off" => Ok(false),
        _ => Err(Invalid::new("neither `true` nor `false`", text)),
    }
}

/// Parses one of several words.
fn word<T: ValueEnum>(text: &str) -> Result<T, Invalid> {
    T::from_str(text, false).map_err(|_| {
        let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let words = values.map(|value| value.get_name().to_owned()).join(", ");
        Invalid::new(format!("not one of {words}"), text)
    })
}

impl Options {
    pub(crate) fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill_with(&mut self.color, "ROCWHEEL_COLOR", word)?;
        variables.fill_with(&mut self.format, "ROCWHEEL_FORMAT", word)?;
        variables.fill_switch(&mut self.no_progress, "ROCWHEEL_NO_PROGRESS")
    }
}

/// The variable that stands for a flag, as its help says.
pub(crate) fn variable_of(flag: &Arg) -> Option<String> {
    let help = flag.get_long_help()?.to_string();
    let (_, variable) = help.split_once("\n\n[env: `")?;
    Some(variable.split_once('`')?.0.to_owned())
}

/// Whether the environment of conda in a prefix is `base`.
///
/// The name of the active environment is the last part of its prefix, or the whole prefix, and only the prefix of
/// `base` is called otherwise: `/opt/miniconda3`.
fn is_conda_base(prefix: &Path, root: Option<&Path>, name: Option<&Path>) -> bool {
    // pixi calls each environment by the name of its project.
    if prefix.join("conda-meta/pixi").is_file() {
        return false;
    }
    root == Some(prefix) || name.is_some_and(|name| !prefix.ends_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_base::error::render;

    #[test]
    fn a_proxy_that_is_none_is_refused_and_its_password_is_not_shown() {
        let check = |name: &str, text: &str| {
            Variables(&|asked| (asked == name).then(|| text.into())).check_proxies()
        };
        for text in [
            "",
            "proxy",
            "proxy:3128",
            "http://u:p@proxy:3128",
            "https://proxy/",
            "socks5h://[::1]:1",
        ] {
            check("https_proxy", text).unwrap();
        }
        for text in ["not a url::", "http://", "ftp://u:hush@proxy", "::::", "/proxy", "http:proxy"]
        {
            let refused = render(&check("http_proxy", text).expect_err(text));
            assert_eq!(
                refused,
                "\
                error: failed to read the environment variable `http_proxy`\n  \
                caused by: not the address of a proxy such as `http://proxy.example.org:3128`\n\n\
                hint: correct the variable, or unset it\n"
            );
        }
    }
}
