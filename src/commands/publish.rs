//! What the commands that publish share: a set that was checked goes to its place, and they say where it is
//! on the terminal, in the job summary and in step outputs.

use std::path::PathBuf;

use fs_err as fs;
use itertools::Itertools as _;
use serde_json::{Value, json};

use super::{World, args::Variables, summary::SummaryInputs};
use crate::{
    check::Report,
    diff::Difference,
    index::{Identity, Places, SetJson, Urls, install::ProductIndex},
    place::{ProductUpload, PublishedUpload, SetPlace, Upload},
    report::{LIMIT, SummaryPage, Whereabouts},
    run::{Run, RunId},
};
use rocwheel_base::error::Result;

/// What a command that publishes says about the set: the same as `summary` says about it later.
#[derive(Debug, clap::Args)]
pub struct PublisherSummary {
    #[command(flatten)]
    pub inputs: SummaryInputs,
    /// Write the summary to this file
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    // For a job in which a later step runs `summary`.
    #[arg(long, hide = true)]
    no_summary: bool,
}

impl PublisherSummary {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.inputs.read_variables(variables)
    }

    /// The page about a set at these addresses. `None` if it was not published.
    fn page<'a>(
        &'a self,
        set: &'a SetJson,
        urls: Option<&'a Urls>,
        report: Option<&'a Report>,
        changes: Option<&'a Difference>,
    ) -> SummaryPage<'a> {
        let base = self.inputs.base_index.as_ref();
        let published = urls.map(|set| Whereabouts::Published(Places { set, base }));
        SummaryPage {
            set,
            whereabouts: published.unwrap_or(Whereabouts::Refused),
            server: self.inputs.server(),
            report,
            changes,
        }
    }

    /// Writes the summary of a set that was not published.
    pub fn refuse(
        &self,
        set: &SetJson,
        report: &Report,
        changes: Option<&Difference>,
        world: &World,
    ) -> Result<()> {
        self.write(&self.page(set, None, Some(report), changes), world)
    }

    /// Writes the summary and the outputs of packages that were published in the directories of a product.
    pub fn product(
        &self,
        set: &SetJson,
        index: ProductIndex<'_>,
        report: Option<&Report>,
        world: &World,
    ) -> Result<()> {
        let base = self.inputs.base_index.as_ref();
        let page = SummaryPage {
            whereabouts: Whereabouts::Product(ProductIndex { base, ..index }),
            ..self.page(set, None, report, None)
        };
        self.write(&page, world)?;
        self.inputs.append_product_outputs(set, index.address)
    }

    fn write(&self, page: &SummaryPage<'_>, world: &World) -> Result<()> {
        if let Some(file) = &self.summary {
            fs::write(file, page.render(LIMIT))?;
        }
        if self.no_summary {
            return Ok(());
        }
        self.inputs.append_page(page, world)
    }
}

/// The identity of a set that this run publishes. Says so if the set is from a build outside of CI.
pub fn relabelled(known: &Identity, run: &Run, world: &World) -> Identity {
    let is_local = known.run_id.as_ref().is_some_and(RunId::is_local);
    if is_local && !run.id.is_local() {
        let note =
            format!("the set was built outside of CI: it is published as one of run {}", run.id);
        world.console.note(note);
    }
    known.clone().or_of(run)
}

/// A set that was checked, the place that it goes to, and what is said about it.
pub struct Publication<'a> {
    pub upload: Upload<'a>,
    /// The title of this step in the log of a command that has several.
    pub group: Option<&'static str>,
    pub report: Option<&'a Report>,
    pub changes: Option<&'a Difference>,
}

impl Publication<'_> {
    /// Publishes the set, writes its summary and outputs, and answers.
    pub fn run(
        &self,
        summary: &PublisherSummary,
        answer: impl FnOnce(&PublishedUpload, SummaryPage<'_>) -> Result<()>,
    ) -> Result<()> {
        let Upload { options, world, .. } = self.upload;
        let published = {
            let _group = self.group.map(|it| world.console.group(it));
            self.upload.publish()?
        };
        let set = &published.set;
        let urls = Some(&published.urls);
        let page = summary.page(set, urls, self.report, self.changes);
        if !options.is_part {
            summary.write(&page, world)?;
            summary.inputs.append_outputs(set, urls)?;
        }
        answer(&published, page)
    }
}

/// Publishes packages to the directories of their products, beside the packages of other versions, and says
/// where their pages are.
pub fn products(command: &str, upload: &ProductUpload<'_>) -> Result<()> {
    let published = upload.publish()?;
    let facts = json!({ "uploaded": published.written, "unchanged": published.unchanged });
    let products = upload.directories.values();
    product_pages(command, products, upload.place, facts, upload.world)
}

/// Answers with the pages of products.
pub fn product_pages<'a>(
    command: &str,
    products: impl Iterator<Item = &'a String>,
    place: &SetPlace,
    mut facts: Value,
    world: &World,
) -> Result<()> {
    let urls = place.urls()?;
    let pages: Vec<String> =
        products.unique().map(|product| urls.path(&format!("{product}/"))).collect();
    facts["pages"] = json!(pages);
    world.console.report(command, &facts, pages.join("\n"))
}
