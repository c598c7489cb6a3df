//! The SDK tarballs that are promoted with a set.

use super::{PromoteArgs, PromotionLayout};
use crate::{
    console::World,
    error::{Result, ensure},
    promote::{CandidateSet, CandidateTarballs, PromotionPlan, PromotionRecord, TarballMeans},
    set::{AttachedFile, NamedPlace},
};

#[derive(Debug, clap::Args)]
pub(super) struct TarballArgs {
    /// With `--layout product`, also publish the SDK tarballs of the version: the directory or
    /// `s3://bucket/directory` that has them
    #[arg(long, value_name = "PLACE")]
    tarball_dir: Option<NamedPlace>,
    /// What becomes of these tarballs
    #[arg(long, value_enum, value_name = "MEANS", default_value_t)]
    tarballs: TarballMeans,
}

impl PromoteArgs {
    /// Reads the tarballs, and adds what happens to them to the plan.
    pub(super) fn plan_tarballs(
        &self,
        set: &CandidateSet,
        plan: &mut PromotionPlan,
        world: &World,
    ) -> Result<Option<CandidateTarballs>> {
        let means = self.tarballs.tarballs;
        let place = self.tarballs.tarball_dir.as_ref();
        let Some(place) = place.filter(|_| means != TarballMeans::Skip) else {
            return Ok(None);
        };
        ensure!(
            self.layout == PromotionLayout::Product,
            "`--tarball-dir` without `--layout product`: only release places have tarballs"
        );
        let is_core = self.product.is_empty() || self.product.iter().any(|it| it == "core");
        ensure!(
            is_core,
            "`--tarball-dir` with `--product {}`: tarballs are of the product `core`",
            self.product.join(",")
        );
        ensure!(
            self.targets.is_none(),
            "`--tarball-dir` and `--targets`: a tarball has the files of all its targets"
        );
        let place = self.access.named(place, &world.stop)?;
        let wanted = (&set.version, set.identity.platform);
        let tarballs = CandidateTarballs::read(&place, wanted, self.what.jobs.count(), world)?;
        tarballs.decide(plan, means)?;
        Ok(Some(tarballs))
    }

    /// The tarballs to publish. Adds them to the record.
    pub(super) fn write_tarballs(
        &self,
        tarballs: Option<&CandidateTarballs>,
        plan: &PromotionPlan,
        record: &mut PromotionRecord,
        world: &World,
    ) -> Result<Vec<AttachedFile>> {
        let Some(tarballs) = tarballs else {
            return Ok(Vec::new());
        };
        let written = tarballs.write(plan, self.what.jobs.count(), world)?;
        let (files, records): (Vec<_>, Vec<_>) = written.into_iter().unzip();
        record.tarballs = records;
        Ok(files)
    }
}
