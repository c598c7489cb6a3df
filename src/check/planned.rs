//! The files of artifacts that a plan names, to compare a set with its plan.

use std::collections::BTreeMap;

use crate::{
    digest::Sha256,
    package::document::{PlanDocument, PlannedMember, PlannedSource},
};

/// A file of an artifact (artifact and path), and its planned run path.
pub type Original = (String, String, Option<String>);

/// The digests of these files after the planned edit, as far as they were computed.
pub type Digests = BTreeMap<Original, Sha256>;

/// Every file of an artifact that a plan names.
pub fn originals(plan: &PlanDocument) -> Vec<Original> {
    let mut found = Vec::new();
    for package in &plan.packages {
        collect(&package.members, &mut found);
    }
    found.sort();
    found.dedup();
    found
}

pub(super) fn original(source: &PlannedSource) -> Option<Original> {
    match source {
        PlannedSource::Copy { artifact, file, .. } => Some((artifact.clone(), file.clone(), None)),
        PlannedSource::Relink {
            artifact,
            file,
            rpath,
            ..
        } => Some((artifact.clone(), file.clone(), Some(rpath.clone()))),
        _ => None,
    }
}

fn collect(members: &[PlannedMember], found: &mut Vec<Original>) {
    for member in members {
        found.extend(original(&member.source));
        if let PlannedSource::Tree { members, .. } = &member.source {
            collect(members, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_a_plan_names_are_found_once_each() {
        let text = r#"{"schema":"rocwheel-plan-v1","version":"1","mode":"split","platform":"linux",
            "targets":[],"notes":[],"packages":[{"path":"a.whl","package":"a","name":"a","members":[
            {"path":"a","executable":true,"source":"copy","artifact":"x","file":"/x/a","size":3},
            {"path":"d","source":"tree","top":"t","members":[
                {"path":"b","source":"relink","artifact":"x","file":"/x/b","size":3,"rpath":"$ORIGIN"},
                {"path":"c","source":"copy","artifact":"x","file":"/x/a","size":3}]}]}]}"#;
        let x = |file: &str, rpath: Option<&str>| {
            ("x".to_owned(), file.to_owned(), rpath.map(str::to_owned))
        };
        assert_eq!(
            originals(&PlanDocument::parse(text).unwrap()),
            [x("/x/a", None), x("/x/b", Some("$ORIGIN"))]
        );
    }
}
