//! Which targets' artifacts are fetched. Jobs of TheRock set variables of the same names for other
//! things, so a note says what a variable decides, and any flag replaces all of them.

use std::{convert::Infallible, env, ffi::OsStr};

use clap::{
    Arg, Command,
    builder::TypedValueParser,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::run::ArtifactGroup;
use rocwheel_base::{
    error::{Context as _, Result},
    quantity::shell_word,
    target::{Target, TargetPattern, split_list},
};

/// The groups, families and targets to fetch artifacts for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SelectionArgs {
    /// Family that the run was built for: fetch its artifacts and the generic ones; several are
    /// comma-separated, and `multi-arch-release` is the whole run [default: `ARTIFACT_GROUP`]
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    artifact_group: Vec<ArtifactGroup>,
    /// Fetch only these families, plus generic artifacts: `gfx94X-dcgpu,gfx110X-all` [default:
    /// `AMDGPU_FAMILIES`]
    #[arg(long, value_name = "FAMILIES")]
    amdgpu_families: Vec<TargetPattern>,
    /// Fetch only these targets and their variants, plus generic artifacts: `gfx942,gfx1100` [default:
    /// `AMDGPU_TARGETS`]
    #[arg(long, alias = "amdgpu-target", value_name = "TARGETS")]
    amdgpu_targets: Vec<TargetPattern>,
    // `--target` means GPUs in all commands, and here two flags choose what is fetched for them.
    #[arg(long = "target", alias = "targets", hide = true, value_parser = RefusedTarget)]
    _target: Option<Infallible>,
    /// Fetch all artifacts of the run, or of the families and targets that flags select, even
    /// if environment variables name others
    #[arg(long)]
    all_artifacts: bool,
}

/// The groups, families and targets that decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    pub groups: Vec<ArtifactGroup>,
    pub families: TargetPattern,
    pub targets: TargetPattern,
}

impl SelectionArgs {
    /// What the flags select, or else the variables; and the notes about the variables.
    pub fn decide(&self) -> Result<(Selection, Vec<String>)> {
        self.decide_in(|name| env::var(name).ok())
    }

    fn decide_in(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(Selection, Vec<String>)> {
        let groups = self.artifact_group.iter();
        let flags = Selection {
            groups: groups.filter(|it| !it.as_str().is_empty()).cloned().collect(),
            families: self.amdgpu_families.iter().cloned().collect(),
            targets: self.amdgpu_targets.iter().cloned().collect(),
        };
        if self.all_artifacts || flags != Selection::default() {
            return Ok((flags, Vec::new()));
        }
        let pattern = |name: &str| {
            let pattern = variable(name).unwrap_or_default().parse::<TargetPattern>();
            pattern.with_context(|| format!("failed to read the environment variable `{name}`"))
        };
        let named_groups = pattern("ARTIFACT_GROUP")?;
        let selection = Selection {
            groups: named_groups
                .names()
                .map(str::parse)
                .collect::<Result<_>>()
                .context("failed to read the environment variable `ARTIFACT_GROUP`")?,
            families: pattern("AMDGPU_FAMILIES")?,
            targets: pattern("AMDGPU_TARGETS")?,
        };
        let narrow: Vec<String> = selection
            .groups
            .iter()
            .filter(|group| !group.is_for_all())
            .map(ToString::to_string)
            .collect();
        let limits = [
            ("ARTIFACT_GROUP", narrow),
            ("AMDGPU_FAMILIES", selection.families.names().map(str::to_owned).collect()),
            ("AMDGPU_TARGETS", selection.targets.names().map(str::to_owned).collect()),
        ];
        let note = |(name, names): &(&str, Vec<String>)| {
            format!(
                "only artifacts for {}, because of the environment variable `{name}`; \
                 `--all-artifacts` fetches all of the run",
                names.join(", ")
            )
        };
        let narrowing = limits.iter().filter(|(_, names)| !names.is_empty());
        Ok((selection, narrowing.map(note).collect()))
    }

    /// The group that names the directory of the packages. If there are several groups, it is the group for
    /// all families.
    pub fn directory(&self) -> Result<ArtifactGroup> {
        Ok(match self.decide()?.0.groups.as_slice() {
            [only] => only.clone(),
            _ => ArtifactGroup::default(),
        })
    }

    /// The flag that asks for some families or targets only, beside the group.
    pub fn flag(&self) -> Option<&'static str> {
        let flags = [
            ("--amdgpu-families", &self.amdgpu_families),
            ("--amdgpu-targets", &self.amdgpu_targets),
        ];
        let given =
            flags.into_iter().find(|(_, patterns)| !patterns.iter().all(TargetPattern::is_empty));
        given.map(|(flag, _)| flag)
    }
}

/// Refuses `--target` with the flag that is meant: `--amdgpu-targets` for targets, `--artifact-group` for what
/// names a run, which `--target` was an alias of.
#[derive(Clone, Debug)]
struct RefusedTarget;

impl TypedValueParser for RefusedTarget {
    type Value = Infallible;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Infallible, clap::Error> {
        let list = value.to_string_lossy();
        let mut names = split_list(&list);
        let flag = if names.all(|name| name.parse::<Target>().is_ok()) {
            "--amdgpu-targets"
        } else {
            "--artifact-group"
        };
        let tip = format!("pass `{flag} {}`", shell_word(&list));
        let mut error = clap::Error::new(ErrorKind::UnknownArgument).with_cmd(command);
        error.insert(ContextKind::InvalidArg, ContextValue::String("--target".to_owned()));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Probe {
        #[command(flatten)]
        selection: SelectionArgs,
    }

    /// What is decided by a command line in an environment: `NAME=value`s, then flags.
    fn decided(line: &str) -> String {
        let (variables, flags): (Vec<&str>, Vec<&str>) =
            line.split_whitespace().partition(|it| !it.starts_with('-'));
        let pairs = variables.iter().map(|it| it.split_once('=').unwrap());
        let pairs: BTreeMap<&str, &str> = pairs.collect();
        let probe = Probe::try_parse_from(["probe"].into_iter().chain(flags)).unwrap();
        let variable = |name: &str| pairs.get(name).map(|it| (*it).to_owned());
        let (selection, notes) = probe.selection.decide_in(variable).unwrap();
        let groups = selection.groups.iter().map(ToString::to_string);
        let patterns = [&selection.families, &selection.targets];
        let names = patterns.into_iter().flat_map(TargetPattern::names).map(str::to_owned);
        let all: Vec<String> = groups.chain(names).collect();
        let decided = format!("{line} => [{}]", all.join(" "));
        [vec![decided], notes].concat().join("\n  ")
    }

    #[test]
    fn a_flag_replaces_variables_and_a_variable_that_decides_is_named() {
        let lines = [
            "--artifact-group=gfx94X-dcgpu,gfx110X-all --artifact-group=gfx942",
            "AMDGPU_FAMILIES=gfx94X-dcgpu",
            "AMDGPU_FAMILIES=gfx94X-dcgpu AMDGPU_TARGETS=gfx1100",
            "AMDGPU_FAMILIES=gfx94X-dcgpu --amdgpu-targets=gfx1100",
            "AMDGPU_FAMILIES=gfx94X-dcgpu --amdgpu-families=gfx110X-all",
            "AMDGPU_FAMILIES=gfx94X-dcgpu --amdgpu-targets=",
            "--amdgpu-target=gfx942 --amdgpu-targets=gfx1100,gfx1101 --amdgpu-target=",
            "--amdgpu-families=gfx94X-dcgpu --amdgpu-families=gfx110X-all",
            "AMDGPU_FAMILIES=gfx94X-dcgpu ARTIFACT_GROUP=gfx942 --all-artifacts",
            "ARTIFACT_GROUP=multi-arch-release",
            "ARTIFACT_GROUP=multi-arch-release AMDGPU_FAMILIES=gfx94X-dcgpu",
            "AMDGPU_FAMILIES=gfx94X-dcgpu --artifact-group=multi-arch-release",
        ];
        insta::assert_snapshot!(lines.map(decided).join("\n"), @"
        --artifact-group=gfx94X-dcgpu,gfx110X-all --artifact-group=gfx942 => [gfx94X-dcgpu gfx110X-all gfx942]
        AMDGPU_FAMILIES=gfx94X-dcgpu => [gfx94X-dcgpu]
          only artifacts for gfx94X-dcgpu, because of the environment variable `AMDGPU_FAMILIES`; `--all-artifacts` fetches all of the run
        AMDGPU_FAMILIES=gfx94X-dcgpu AMDGPU_TARGETS=gfx1100 => [gfx94X-dcgpu gfx1100]
          only artifacts for gfx94X-dcgpu, because of the environment variable `AMDGPU_FAMILIES`; `--all-artifacts` fetches all of the run
          only artifacts for gfx1100, because of the environment variable `AMDGPU_TARGETS`; `--all-artifacts` fetches all of the run
        AMDGPU_FAMILIES=gfx94X-dcgpu --amdgpu-targets=gfx1100 => [gfx1100]
        AMDGPU_FAMILIES=gfx94X-dcgpu --amdgpu-families=gfx110X-all => [gfx110X-all]
        AMDGPU_FAMILIES=gfx94X-dcgpu --amdgpu-targets= => [gfx94X-dcgpu]
          only artifacts for gfx94X-dcgpu, because of the environment variable `AMDGPU_FAMILIES`; `--all-artifacts` fetches all of the run
        --amdgpu-target=gfx942 --amdgpu-targets=gfx1100,gfx1101 --amdgpu-target= => [gfx942 gfx1100 gfx1101]
        --amdgpu-families=gfx94X-dcgpu --amdgpu-families=gfx110X-all => [gfx94X-dcgpu gfx110X-all]
        AMDGPU_FAMILIES=gfx94X-dcgpu ARTIFACT_GROUP=gfx942 --all-artifacts => []
        ARTIFACT_GROUP=multi-arch-release => [multi-arch-release]
        ARTIFACT_GROUP=multi-arch-release AMDGPU_FAMILIES=gfx94X-dcgpu => [multi-arch-release gfx94X-dcgpu]
          only artifacts for gfx94X-dcgpu, because of the environment variable `AMDGPU_FAMILIES`; `--all-artifacts` fetches all of the run
        AMDGPU_FAMILIES=gfx94X-dcgpu --artifact-group=multi-arch-release => [multi-arch-release]
        ");
    }
}
