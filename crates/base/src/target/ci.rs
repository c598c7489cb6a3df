//! Where TheRock's CI tests which targets: the rows of a matrix of jobs.

use itertools::Itertools as _;
use serde::Serialize;

use crate::target::{
    Target, TargetTable,
    table::{CiFamily, RunnerPool},
};

/// A row of the matrix: the targets of one family on one platform, and a runner that has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TestJob {
    /// Comma-separated, if the runners have several targets of the family.
    pub target: String,
    /// The name of the family in TheRock's CI.
    pub family: String,
    /// `linux` or `windows`.
    pub platform: &'static str,
    /// The label.
    pub runner: String,
    /// The extras of `rocm` to install, comma-separated.
    pub extras: String,
}

impl TargetTable {
    /// The jobs that test these targets. `draw` returns a number for a text, the same each time: it
    /// spreads jobs over labels as far as there are runners of each, and all jobs of one run agree.
    /// A target that no runner has is in no job.
    pub fn jobs(&self, targets: &[Target], draw: &dyn Fn(&str) -> u64) -> Vec<TestJob> {
        let job = |ci: &CiFamily, platform: &'static str, pools: &[RunnerPool]| {
            let built = self.targets_named(&ci.family);
            let tested = |it: &Target| ci.tested.is_empty() || ci.tested.contains(it);
            let wanted: Vec<&Target> = targets
                .iter()
                .filter(|it| built.contains(&it.packaged()) && tested(&it.packaged()))
                .collect();
            let number = draw(&format!("{} {platform}", ci.family));
            let has_job = !wanted.is_empty() && !pools.is_empty();
            has_job.then(|| TestJob {
                target: wanted.iter().join(","),
                family: ci.family.clone(),
                platform,
                runner: label(pools, number).to_owned(),
                extras: wanted.iter().map(|it| it.extra()).unique().join(","),
            })
        };
        let mut jobs = Vec::new();
        for ci in &self.ci {
            for (platform, pools) in [("linux", &ci.linux), ("windows", &ci.windows)] {
                jobs.extend(pools.iter().filter_map(|pools| job(ci, platform, pools)));
            }
        }
        jobs
    }
}

/// One of the labels: the more runners have it, the more numbers choose it.
fn label(pools: &[RunnerPool], number: u64) -> &str {
    let total: u64 = pools.iter().map(|it| it.count).sum();
    let mut left = number.checked_rem(total).unwrap_or(0);
    let chosen = pools.iter().find(|pool| {
        let is_it = left < pool.count;
        left = left.saturating_sub(pool.count);
        is_it
    });
    chosen.map_or("", |pool| &pool.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(name: &str) -> String {
        let table = TargetTable::builtin();
        let jobs = table.jobs(&table.targets_named(name), &|_| 5);
        let jobs = jobs.iter().map(|it| {
            let (target, runner) = (&it.target, &it.runner);
            format!("{} {} {target} {runner} {}", it.family, it.platform, it.extras)
        });
        jobs.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn each_target_is_built_in_one_family() {
        let table = TargetTable::builtin();
        let built = table.ci.iter().flat_map(|it| table.targets_named(&it.family));
        let built: Vec<Target> = built.collect();
        assert!(built.iter().all_unique());
        let mut others = table.known().filter(|it| !built.contains(it));
        assert_eq!(others.join(" "), "gfx1170");
    }

    #[test]
    fn a_job_has_the_targets_that_its_runner_has() {
        insta::assert_snapshot!(jobs("all"));
        assert_eq!(jobs("gfx1032"), "");
        assert_eq!(jobs("gfx908"), "");
    }

    #[test]
    fn labels_are_drawn_by_the_number_of_their_runners() {
        let table = TargetTable::builtin();
        let target = "gfx942".parse::<Target>().unwrap();
        let labels = (0..33).map(|number| {
            let [job] = &table.jobs(std::slice::from_ref(&target), &|_| number)[..] else {
                panic!("not one job");
            };
            job.runner.clone()
        });
        let counts: Vec<(String, usize)> = labels.counts().into_iter().sorted().collect();
        insta::assert_snapshot!(format!("{counts:?}"), @r#"[("linux-gfx942-1gpu-ccs-csp-ossci-rocm", 28), ("linux-gfx942-1gpu-ccs-ossci-rocm", 5)]"#);
    }
}
