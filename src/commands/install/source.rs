//! Where `install` takes packages from: the set of a run, one at a place, an index or a stream.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use super::InstallArgs;
use crate::{
    commands::{World, args::SelectionArgs},
    index::Urls,
    install::{self, InstallOrigin},
    place::{self, OfferedSet, PlaceDepth, SetPlace},
    policy::DistNames,
    run::Run,
};
use rocwheel_base::{
    error::{Context as _, Hint as _, No, Result, anyhow, ensure, one_line},
    parallel,
    quantity::took,
    version::{ReleaseStream, Version},
};
use rocwheel_wheel::{DistName, Metadata};

/// The shortest and the longest pause between two looks at a set that is not whole yet.
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(30);
/// How many versions of an index are tried before one is taken to be incomplete.
const MOST_TRIED: usize = 5;

impl InstallArgs {
    /// Opens the source, and reads what it offers.
    pub(super) fn open_source(
        &self,
        earlier: Option<&InstallOrigin>,
        world: &World,
    ) -> Result<(SetPlace, OfferedSet)> {
        if let Some(stream) = self.stream {
            return self.published(stream, world);
        }
        let place = match earlier {
            Some(earlier) => self.settings.access.place(&earlier.source.parse()?, &world.stop)?,
            None => self.place(world)?,
        };
        let offered = self.offered(&place, world)?;
        Ok((place, offered))
    }

    /// The addresses of a stream that may have the version.
    fn addresses(&self, stream: ReleaseStream) -> Result<Vec<String>> {
        ensure!(!self.run.names_a_run(), "`--stream` and a run: name one of them");
        if let Some(version) = &self.version
            && version.stream() != stream
        {
            let right = version.stream();
            return Err(anyhow!("{version} is a version of the stream `{right}`"))
                .hint(format!("pass `--stream {right}`"));
        }
        self.run.args.ensure_online("reading a stream")?;
        let mirror = self.mirror.as_ref().map(Urls::to_string);
        Ok(stream.addresses(self.version.as_ref(), mirror.as_deref()))
    }

    /// The index of a stream that has the version, or any of the stream.
    fn published(&self, stream: ReleaseStream, world: &World) -> Result<(SetPlace, OfferedSet)> {
        let addresses = self.addresses(stream)?;
        let mut seen = Vec::new();
        for address in &addresses {
            let index = self.settings.access.place(&address.parse()?, &world.stop)?;
            let Some(offered) = index.offered_as_index(Some(self.run.args.platform()))? else {
                continue;
            };
            let versions = install::versions_of(&offered, Some(stream));
            let wanted = self.version.as_ref();
            if wanted.map_or(!versions.is_empty(), |it| versions.contains(it)) {
                return Ok((index, offered));
            }
            seen.extend(versions);
        }
        match &self.version {
            Some(version) if !seen.is_empty() => {
                let stream = format!("the stream `{stream}`");
                Err(install::lacks(&stream, version, &seen))
            }
            _ => Err(anyhow!(No(format!("the stream `{stream}` has no packages"))))
                .hint(format!("its indexes are {}", addresses.join(" and "))),
        }
    }

    /// The place of the packages: the set that was named, or the place of the run.
    fn place(&self, world: &World) -> Result<SetPlace> {
        if let Some(named) = &self.set {
            ensure!(!self.run.names_a_run(), "`{named}` and a run: name one of them");
            let name = named.to_string();
            // A number that is no directory is an id that a user copied from the address of a run.
            if name.bytes().all(|it| it.is_ascii_digit()) && !Path::new(&name).exists() {
                return Err(anyhow!("no such directory: `{name}`"))
                    .hint(format!("if `{name}` is a run, pass `--run-id {name}`"));
            }
            return self.settings.access.place(named, &world.stop);
        }
        let has_packages = |run: &Run| self.has_packages(run, world);
        let mut run = self.run.find_run(&self.settings, world, &has_packages);
        if !self.run.knows_a_run() {
            run = run.hint("name a set, an index, or a stream with `--stream`");
        }
        self.place_of(&run?, world)
    }

    /// Where a run keeps its packages.
    fn place_of(&self, run: &Run, world: &World) -> Result<SetPlace> {
        let group = match &self.artifact_group {
            Some(group) => group.clone(),
            None => SelectionArgs::default().directory()?,
        };
        let place = run.python(&group);
        if let Some(directory) = self.run.input_dir() {
            return Ok(SetPlace::below(directory, &place.key, &world.stop));
        }
        let online = self.run.args.ensure_online("reading the packages of a run");
        online.hint("name a directory, or one like the bucket with `--input-dir`")?;
        self.settings.access.bucket(&place, &world.stop)
    }

    /// Fails if a run has no packages.
    fn has_packages(&self, run: &Run, world: &World) -> Result<()> {
        let place = self.place_of(run, world)?;
        let is_there =
            place.is_whole()? || place.offered(Some(self.run.args.platform()))?.is_some();
        ensure!(is_there, No(format!("no packages at `{place}`")));
        Ok(())
    }

    /// What the place offers; with `--wait`, once it is whole.
    fn offered(&self, place: &SetPlace, world: &World) -> Result<OfferedSet> {
        let platform = self.run.args.platform();
        if let Some(wait) = self.run.wait() {
            wait_until_whole(place, wait, world)?;
        }
        let offered = match self.into {
            Some(_) => place.offered_to_us(Some(platform))?,
            None => place.offered(Some(platform))?,
        };
        // A directory without packages is no answer, but a wrong argument: `check` says the same of it.
        if offered.is_none() && self.set.is_some() && place.local().is_some() {
            place::find(place, PlaceDepth::default())?;
        }
        let otherwise =
            "pass the address of an index, or of a set; `--wait 3m` waits until a set is whole";
        offered
            .ok_or_else(|| anyhow!(No(format!("no packages at `{place}`"))))
            .hint(place.hint_below().unwrap_or_else(|| otherwise.to_owned()))
    }
}

/// Waits for `set.json`, which is written last. A wait of 0 waits for nothing.
fn wait_until_whole(place: &SetPlace, wait: Duration, world: &World) -> Result<()> {
    let start = Instant::now();
    let mut pause = OFTEN;
    while !wait.is_zero() && !place.is_whole()? {
        let left = wait.saturating_sub(start.elapsed());
        if left.is_zero() {
            let problem = format!("`{place}` has no `set.json` after {}", took(wait));
            return Err(anyhow!(No(problem)))
                .hint("wait longer with `--wait`, or look whether the upload of the set failed");
        }
        world.console.debug(format!("`{place}` has no `set.json` yet"));
        parallel::sleep(&world.stop, pause.min(left))?;
        pause = (pause * 2).min(SELDOM);
    }
    Ok(())
}

/// Chooses the version of `rocm`, and what to ask for of it. An index is filled while it is read, so
/// that the newest version there may not be complete: then the one before is taken.
pub(super) fn choose(
    request: &install::Request,
    place: &SetPlace,
    offered: &mut OfferedSet,
    world: &World,
) -> Result<Option<(Metadata, install::RocmSelection)>> {
    let versions = install::versions(request, offered)?;
    let is_choice = request.version.is_none() && !offered.is_described && versions.len() > 1;
    // The user most likely wants the newest version, so its error is the answer.
    let mut error_of_newest = None;
    for version in versions.iter().take(if is_choice { MOST_TRIED } else { 1 }) {
        match consider(request, place, offered, version) {
            Ok(chosen) => return Ok(Some(chosen)),
            Err(error) => {
                if is_choice {
                    world.console.note(format!("not {version}: {}", one_line(&error)));
                }
                error_of_newest.get_or_insert(error);
            }
        }
    }
    match error_of_newest {
        Some(error) => Err(error),
        None => Ok(None),
    }
}

fn consider(
    request: &install::Request,
    place: &SetPlace,
    offered: &mut OfferedSet,
    version: &Version,
) -> Result<(Metadata, install::RocmSelection)> {
    let names = DistNames::built_in();
    // `devel` is among the usual extras if the place has that package.
    place.offer_project(offered, &names.devel)?;
    // Asked before a GPU is looked for, which the other platform may have.
    offered.ensure_for_platform()?;
    let selector = &names.selector;
    let family = install::chosen_family(request, offered)?;
    let mut files = offered.files.iter().filter(|it| it.family.is_none() || it.family == family);
    let file = files
        .find(|it| it.project.normalized() == selector && it.version == *version)
        .with_context(|| format!("no file of `{selector}` {version}"))?;
    let metadata = place.metadata_of(file)?;
    let mut selection = install::select(request, offered, &metadata)?;
    let mut unread: Vec<DistName> = selection.projects.iter().cloned().collect();
    while let Some(project) = unread.pop() {
        place.offer_project(offered, project.normalized())?;
        let Some(file) = install::file_of(offered, &selection, &project, version) else {
            continue;
        };
        let needed = install::needed_by(&place.metadata_of(file)?, request.platform);
        unread.extend(selection.add(needed));
    }
    install::ensure_has_all(offered, version, &selection)?;
    Ok((metadata, selection))
}
