//! `Planned`: what a build was to make, as `build --plan --format json` wrote it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    digest::Sha256,
    error::{Context as _, Hint as _, Result, ensure},
};

const SCHEMA: &str = "rocwheel-plan-v1";

/// The packages of a plan. What later versions add to it is passed over.
#[derive(Clone, Debug, Deserialize)]
pub struct Planned {
    pub packages: Vec<Package>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    /// Below `dist/`.
    pub path: String,
    pub members: Vec<Member>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Member {
    pub path: String,
    #[serde(default)]
    pub executable: bool,
    #[serde(flatten)]
    pub source: Source,
}

/// Where bytes were to come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "source", rename_all = "kebab-case")]
pub enum Source {
    Copy {
        artifact: String,
        file: String,
        size: u64,
    },
    Relink {
        artifact: String,
        file: String,
        rpath: String,
    },
    Launcher {
        target: String,
    },
    Link {
        target: String,
    },
    Directory,
    Text {
        size: u64,
        #[serde(default)]
        sha256: Option<Sha256>,
    },
    Tree {
        top: String,
        members: Vec<Member>,
    },
    #[serde(other)]
    Other,
}

/// A file of an artifact, and the run path that it was to get.
pub type Original = (String, String, Option<String>);

/// The bytes that files of artifacts become, as far as somebody looked.
pub type Digests = BTreeMap<Original, Sha256>;

impl Planned {
    pub fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Schema {
            schema: String,
        }
        let read = || -> Result<Self> {
            let form: Schema = serde_json::from_str(text)?;
            ensure!(form.schema == SCHEMA, "its schema is {:?}", form.schema);
            Ok(serde_json::from_str(text)?)
        };
        read()
            .context("read a plan")
            .hint("write it with `rocwheel build --plan --format json`")
    }

    /// Every file of an artifact that the plan names.
    pub fn originals(&self) -> Vec<Original> {
        let mut found = Vec::new();
        for package in &self.packages {
            collect(&package.members, &mut found);
        }
        found.sort();
        found.dedup();
        found
    }
}

impl Source {
    pub fn original(&self) -> Option<Original> {
        match self {
            Self::Copy { artifact, file, .. } => Some((artifact.clone(), file.clone(), None)),
            Self::Relink {
                artifact,
                file,
                rpath,
                ..
            } => Some((artifact.clone(), file.clone(), Some(rpath.clone()))),
            _ => None,
        }
    }
}

fn collect(members: &[Member], found: &mut Vec<Original>) {
    for member in members {
        found.extend(member.source.original());
        if let Source::Tree { members, .. } = &member.source {
            collect(members, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::render;

    #[test]
    fn a_plan_is_read_with_the_files_that_it_names() {
        let text = r#"{"schema":"rocwheel-plan-v1","new":1,"packages":[{"path":"a.whl","members":[
            {"path":"a","executable":true,"source":"copy","artifact":"x","file":"/x/a","size":3},
            {"path":"d","source":"tree","top":"t","members":[
                {"path":"b","source":"relink","artifact":"x","file":"/x/b","size":3,"rpath":"$ORIGIN"},
                {"path":"c","source":"copy","artifact":"x","file":"/x/a","size":3}]},
            {"path":"e","source":"later"}]}]}"#;
        let plan = Planned::parse(text).unwrap();
        let x = |file: &str, rpath: Option<&str>| {
            ("x".to_owned(), file.to_owned(), rpath.map(str::to_owned))
        };
        assert_eq!(
            plan.originals(),
            [x("/x/a", None), x("/x/b", Some("$ORIGIN"))]
        );
    }

    #[test]
    fn anything_else_is_refused_in_words() {
        let refused = ["{", r#"{"schema":"rocwheel-check-v1"}"#]
            .map(|text| render(&Planned::parse(text).unwrap_err()));
        insta::assert_snapshot!(refused.concat(), @r#"
        error: read a plan
          caused by: EOF while parsing an object at line 1 column 1

        hint: write it with `rocwheel build --plan --format json`
        error: read a plan
          caused by: its schema is "rocwheel-check-v1"

        hint: write it with `rocwheel build --plan --format json`
        "#);
    }
}
