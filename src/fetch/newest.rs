//! The newest run of a search that has something else than artifacts, such as packages.

use super::{
    query::FetchRequest,
    search::{announce, none_of},
};
use crate::{
    console::World,
    error::{Context as _, Exit, Result},
    run::Run,
};

impl<'a> FetchRequest<'a> {
    /// The newest run of a search for which `has` succeeds; its artifacts do not matter. With `--wait`,
    /// the newest of all if that may still get what none has.
    pub fn search_run(&self, world: &'a World, has: &dyn Fn(&Run) -> Result<()>) -> Result<Run> {
        let (mut newest, mut skipped) = (None, Vec::new());
        let (candidates, what) = self.candidates(world)?;
        for mut candidate in candidates {
            let (run, ..) = self.open(&mut candidate, world)?;
            let from_github = candidate.from_github.as_ref();
            match self.filter.check(from_github).and_then(|()| has(&run)) {
                Err(error) if Exit::of(&error) == Exit::No => {
                    skipped.push(candidate.skip_reason(&error));
                    newest = newest.or(Some((run, candidate, error)));
                }
                answer => {
                    announce(&skipped, world);
                    return answer.map(|()| run);
                }
            }
        }
        let (run, candidate, error) = newest.context("no run may be meant")?;
        if self.wait.is_some() && candidate.is_running() {
            announce(&skipped, world);
            return Ok(run);
        }
        Err(match skipped.as_slice() {
            [_] => candidate.advise(error),
            _ => none_of(self.search.as_ref(), &skipped, &what, &candidate),
        })
    }
}
