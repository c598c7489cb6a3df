//! `TargetList`: families and targets as one text.

use std::str::FromStr;

use super::{Target, TargetTable, split_list};
use crate::error::{Error, anyhow};

/// Families and targets in one text, expanded to targets: `gfx94X-dcgpu,gfx1100`.
///
/// As the type of a flag, it refuses an unknown name before any work, with the name of the flag or of
/// its environment variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetList(Vec<Target>);

impl TargetList {
    pub fn targets(&self) -> &[Target] {
        &self.0
    }

    /// The targets without their features.
    pub fn bases(&self) -> impl Iterator<Item = Target> {
        self.0.iter().map(Target::base)
    }
}

impl FromStr for TargetList {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let names: Vec<&str> = split_list(text).collect();
        let targets = TargetTable::builtin().expand(&names);
        // The error of a flag has no place for a hint.
        let targets = targets.map_err(|unknown| anyhow!("{unknown}; {}", unknown.hint))?;
        Ok(Self(targets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_expanded_or_refused_with_the_nearest_names() {
        let list: TargetList = "gfx110X-dgpu; gfx942:xnack+,".parse().unwrap();
        let shown: Vec<String> = list.targets().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["gfx1100", "gfx1101", "gfx1102", "gfx942:xnack+"]);
        assert_eq!(list.bases().last(), Some("gfx942".parse().unwrap()));
        assert_eq!(" ,".parse::<TargetList>().unwrap(), TargetList::default());
        let refused = "gfx942,gfx94x-dcgpu,gfx9999".parse::<TargetList>();
        insta::assert_snapshot!(refused.unwrap_err(), @"unknown GPU targets or families: `gfx94x-dcgpu`, `gfx9999`; did you mean `gfx94X-dcgpu`? `rocwheel targets all --emit table` lists targets and families");
    }
}
