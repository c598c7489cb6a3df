//! Which targets' artifacts are fetched. Jobs of TheRock set variables of the same names for other
//! things, so a note says what a variable decides, and a flag replaces all of them.

use super::Sourced;
use crate::{run::ArtifactGroup, target::split_list};

/// The ids of the arguments, which are the names of their variables in lower case.
const GROUP: &str = "artifact_group";
const FAMILIES: &str = "amdgpu_families";
const TARGETS: &str = "amdgpu_targets";

/// The groups, families and targets to fetch artifacts for.
pub type SelectionArgs = Sourced<SelectionFlags>;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct SelectionFlags {
    /// Family that the run was built for: fetch its artifacts and the generic ones; several are
    /// comma-separated, and `multi-arch-release` is the whole run
    #[arg(
        long,
        alias = "target",
        value_name = "GROUP",
        value_delimiter = ',',
        env = "ARTIFACT_GROUP"
    )]
    artifact_group: Vec<ArtifactGroup>,
    /// Fetch only these families, plus generic artifacts: `gfx94X-dcgpu,gfx110X-all`
    #[arg(long, value_name = "FAMILIES", env = "AMDGPU_FAMILIES")]
    amdgpu_families: Vec<String>,
    /// Fetch only these targets and their variants, plus generic artifacts: `gfx942,gfx1100`
    #[arg(
        long,
        alias = "amdgpu-target",
        value_name = "TARGETS",
        env = "AMDGPU_TARGETS"
    )]
    amdgpu_targets: Vec<String>,
    /// Fetch all artifacts of the run, or of the families and targets that flags select, even
    /// if environment variables name others
    #[arg(long)]
    all_artifacts: bool,
}

/// The groups, families and targets that decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    pub groups: Vec<ArtifactGroup>,
    pub families: Vec<String>,
    pub targets: Vec<String>,
}

impl SelectionArgs {
    /// What the flags select, or else the variables; and the notes about the
    /// variables.
    pub fn decide(&self) -> (Selection, Vec<String>) {
        let groups = self.args.artifact_group.iter();
        let groups: Vec<_> = groups.filter(|it| !it.as_str().is_empty()).collect();
        let families = list(&self.args.amdgpu_families);
        let targets = list(&self.args.amdgpu_targets);
        let given = [
            (GROUP, groups.is_empty()),
            (FAMILIES, families.is_empty()),
            (TARGETS, targets.is_empty()),
        ];
        let mut flags = given
            .iter()
            .filter(|(id, is_empty)| !is_empty && self.is_flag(id));
        let flag = flags.next().map(|(id, _)| *id);
        let flag = flag.or(self.args.all_artifacts.then_some("all_artifacts"));
        let mut notes = Vec::new();
        // Whether an argument counts. `names` is what it limits the selection to.
        let mut counts = |id: &str, names: &[String]| {
            let (variable, names) = (id.to_uppercase(), names.join(", "));
            let is_silent = self.is_flag(id) || names.is_empty();
            let note = match flag {
                None => format!(
                    "only artifacts for {names}, because of the environment variable `{variable}`; \
                     `--all-artifacts` fetches all of the run"
                ),
                Some(flag) => format!(
                    "the environment variable `{variable}` ({names}) is ignored, because of `--{}`",
                    flag.replace('_', "-")
                ),
            };
            notes.extend((!is_silent).then_some(note));
            self.is_flag(id) || flag.is_none()
        };
        let narrow = groups.iter().filter(|it| !it.is_for_all());
        let narrow: Vec<String> = narrow.map(ToString::to_string).collect();
        let selection = Selection {
            groups: Some(groups)
                .filter(|_| counts(GROUP, &narrow))
                .map_or_else(Vec::new, |it| it.into_iter().cloned().collect()),
            families: Some(families)
                .filter(|it| counts(FAMILIES, it))
                .unwrap_or_default(),
            targets: Some(targets)
                .filter(|it| counts(TARGETS, it))
                .unwrap_or_default(),
        };
        (selection, notes)
    }

    /// The group that names the directory of the packages: of several, that for all families. A
    /// variable that is ignored for the selection does not name it either.
    pub fn directory(&self) -> ArtifactGroup {
        match self.decide().0.groups.as_slice() {
            [only] => only.clone(),
            _ => ArtifactGroup::default(),
        }
    }

    /// Whether only some families or targets are asked for, beside the group.
    pub fn names_targets(&self) -> bool {
        let lists = [&self.args.amdgpu_families, &self.args.amdgpu_targets];
        lists.iter().any(|names| !list(names).is_empty())
    }
}

/// The names in all lists, because a flag may be given several times.
fn list(lists: &[String]) -> Vec<String> {
    let names = lists.iter().flat_map(|names| split_list(names));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};

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
        // Values of the environment are defaults here: no test may change that of the process.
        let command = Probe::command().mut_args(|argument| {
            let id = argument.get_id().as_str().to_uppercase();
            let set = |it: &&str| it.strip_prefix(&*id)?.strip_prefix('=').map(str::to_owned);
            let value = variables.iter().find_map(set);
            let argument = argument.env(None);
            match value {
                Some(value) => argument.default_value(clap::builder::OsStr::from(value)),
                None => argument,
            }
        });
        let matches = command.try_get_matches_from(["probe"].into_iter().chain(flags));
        let probe = Probe::from_arg_matches(&matches.unwrap()).unwrap();
        let (selection, notes) = probe.selection.decide();
        let groups = selection.groups.iter().map(ToString::to_string);
        let all: Vec<String> = groups
            .chain(selection.families)
            .chain(selection.targets)
            .collect();
        let decided = format!("{line} => [{}]", all.join(" "));
        [vec![decided], notes].concat().join("\n  ")
    }

    #[test]
    fn a_flag_replaces_variables_and_a_variable_that_decides_is_named() {
        let lines = [
            "--artifact-group=gfx94X-dcgpu,gfx110X-all --target=gfx942",
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
        --artifact-group=gfx94X-dcgpu,gfx110X-all --target=gfx942 => [gfx94X-dcgpu gfx110X-all gfx942]
        AMDGPU_FAMILIES=gfx94X-dcgpu => [gfx94X-dcgpu]
          only artifacts for gfx94X-dcgpu, because of the environment variable `AMDGPU_FAMILIES`; `--all-artifacts` fetches all of the run
        AMDGPU_FAMILIES=gfx94X-dcgpu AMDGPU_TARGETS=gfx1100 => [gfx94X-dcgpu gfx1100]
          only artifacts for gfx94X-dcgpu, because of the environment variable `AMDGPU_FAMILIES`; `--all-artifacts` fetches all of the run
          only artifacts for gfx1100, because of the environment variable `AMDGPU_TARGETS`; `--all-artifacts` fetches all of the run
        AMDGPU_FAMILIES=gfx94X-dcgpu --amdgpu-targets=gfx1100 => [gfx1100]
          the environment variable `AMDGPU_FAMILIES` (gfx94X-dcgpu) is ignored, because of `--amdgpu-targets`
        AMDGPU_FAMILIES=gfx94X-dcgpu --amdgpu-families=gfx110X-all => [gfx110X-all]
        AMDGPU_FAMILIES=gfx94X-dcgpu --amdgpu-targets= => [gfx94X-dcgpu]
          only artifacts for gfx94X-dcgpu, because of the environment variable `AMDGPU_FAMILIES`; `--all-artifacts` fetches all of the run
        --amdgpu-target=gfx942 --amdgpu-targets=gfx1100,gfx1101 --amdgpu-target= => [gfx942 gfx1100 gfx1101]
        --amdgpu-families=gfx94X-dcgpu --amdgpu-families=gfx110X-all => [gfx94X-dcgpu gfx110X-all]
        AMDGPU_FAMILIES=gfx94X-dcgpu ARTIFACT_GROUP=gfx942 --all-artifacts => []
          the environment variable `ARTIFACT_GROUP` (gfx942) is ignored, because of `--all-artifacts`
          the environment variable `AMDGPU_FAMILIES` (gfx94X-dcgpu) is ignored, because of `--all-artifacts`
        ARTIFACT_GROUP=multi-arch-release => [multi-arch-release]
        ARTIFACT_GROUP=multi-arch-release AMDGPU_FAMILIES=gfx94X-dcgpu => [multi-arch-release gfx94X-dcgpu]
          only artifacts for gfx94X-dcgpu, because of the environment variable `AMDGPU_FAMILIES`; `--all-artifacts` fetches all of the run
        AMDGPU_FAMILIES=gfx94X-dcgpu --artifact-group=multi-arch-release => [multi-arch-release]
          the environment variable `AMDGPU_FAMILIES` (gfx94X-dcgpu) is ignored, because of `--artifact-group`
        ");
    }
}
