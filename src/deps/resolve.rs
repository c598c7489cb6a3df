//! Picks the newest version of each project that fulfils `deps.toml`, the sets, and what the picked
//! wheels need from each other, for each environment. Pure: it says what it has to know first.
//!
//! This is no search. A version that another project refuses is replaced by an older one, and never
//! the other way round; what stays open is reported.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    mem,
};

use itertools::Itertools as _;
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    closure::{SetPackage, platforms},
    environment::PythonPlatform,
    lock::{DepsLock, LockedFile},
    page::{ProjectPage, RegistryFile},
    publisher::Publisher,
    wishes::{Wishes, is_of_runs, is_pin},
};
use crate::{
    error::{Result, one_line},
    wheel::{DistName, RequirementLine},
};

/// The most rounds in which the picks of an environment may change.
const ROUNDS: usize = 50;
/// The name of a wish among those who ask.
const WISH: &str = "deps.toml";

/// What is known of a registry and of sets.
#[derive(Debug, Default)]
pub(super) struct KnownProjects {
    /// `None` for a project that the registry does not have.
    pub(super) pages: BTreeMap<DistName, Option<ProjectPage>>,
    /// What wheels need, by file name.
    pub(super) requires: BTreeMap<String, Vec<String>>,
    pub(super) sets: Vec<SetPackage>,
}

/// Which files are too young to be picked.
#[derive(Clone, Copy, Debug)]
pub(super) struct AgeLimit {
    pub(super) now: OffsetDateTime,
    pub(super) youngest: Duration,
}

impl AgeLimit {
    fn is_too_young(self, file: &RegistryFile) -> bool {
        let uploaded = file.upload_time.as_deref();
        let uploaded = uploaded.and_then(|it| OffsetDateTime::parse(it, &Rfc3339).ok());
        uploaded.is_some_and(|it| self.now - it < self.youngest)
    }
}

/// The picks, as far as everything is known.
#[derive(Debug, Default)]
pub(super) struct Resolution {
    /// The picked files by name.
    picks: BTreeMap<String, PickedFile>,
    /// Projects whose pages have to be read before the picks are right.
    pub(super) unknown_projects: BTreeSet<DistName>,
    /// Wheels whose metadata has to be read, by name.
    pub(super) unknown_files: BTreeMap<String, RegistryFile>,
    /// What is open, each with its environments.
    problems: BTreeMap<String, BTreeSet<PythonPlatform>>,
    /// Versions that are too young.
    pub(super) held_back: BTreeSet<String>,
}

#[derive(Debug)]
struct PickedFile {
    file: RegistryFile,
    environments: BTreeSet<PythonPlatform>,
    why: BTreeSet<String>,
    extras: BTreeSet<DistName>,
}

impl Resolution {
    pub(super) fn of(wishes: &Wishes, known: &KnownProjects, age: AgeLimit) -> Self {
        let mut resolution = Self::default();
        for environment in wishes.environments() {
            let mut one = EnvironmentPicks {
                environment,
                known,
                age,
                asked: BTreeMap::new(),
                open: BTreeSet::new(),
                unpicked: BTreeMap::new(),
                result: &mut resolution,
            };
            one.run(wishes);
        }
        resolution
    }

    pub(super) fn is_complete(&self) -> bool {
        self.unknown_projects.is_empty() && self.unknown_files.is_empty()
    }

    /// What is open, with its environments.
    pub(super) fn problems(&self) -> Vec<String> {
        let line = |(text, environments): (&String, &BTreeSet<PythonPlatform>)| {
            format!("{text} ({})", environments.iter().join(", "))
        };
        self.problems.iter().map(line).collect()
    }

    /// The picked projects, and one who asks for each.
    pub(super) fn projects(&self) -> BTreeMap<&DistName, &str> {
        let named = self.picks.values().map(|it| {
            let by = it.why.iter().next().map_or(WISH, String::as_str);
            (&it.file.name.name, by)
        });
        named.collect()
    }

    pub(super) fn files(&self) -> Vec<&RegistryFile> {
        self.picks.values().map(|it| &it.file).collect()
    }

    /// `facts` are those of the files of [`Self::files`], in their order.
    pub(super) fn lock(
        self,
        known: &KnownProjects,
        facts: Vec<(u64, Option<Publisher>)>,
    ) -> DepsLock {
        let picks = self.picks.into_iter().zip(facts);
        let files = picks.map(|((name, pick), (size, publisher))| {
            let PickedFile {
                file,
                environments,
                why,
                extras,
            } = pick;
            let requires = known.requires.get(&name).cloned().unwrap_or_default();
            let is_asked = |line: &String| {
                let line = RequirementLine::parse(line);
                let mut all = environments.iter();
                line.is_none_or(|line| all.any(|it| line.applies(it, &extras).unwrap_or(true)))
            };
            LockedFile {
                project: file.name.name.clone(),
                version: file.name.version.clone(),
                size,
                sha256: file.sha256,
                requires_python: file.requires_python,
                upload_time: file.upload_time,
                publisher,
                requires: requires.into_iter().filter(is_asked).collect(),
                environments,
                why,
                name,
            }
        });
        DepsLock::new(files.collect())
    }
}

/// What is asked of one project.
#[derive(Clone, Debug, Default, PartialEq)]
struct AskedProject {
    /// Specifiers, each with who has it.
    specifiers: BTreeMap<String, String>,
    extras: BTreeSet<DistName>,
    by: BTreeSet<String>,
}

impl AskedProject {
    fn add(&mut self, specifier: &str, by: &str) {
        let by = || by.to_owned();
        self.specifiers
            .entry(specifier.to_owned())
            .or_insert_with(by);
        self.by.insert(by());
    }

    /// Whether the wish names one version, so that its age does not matter.
    fn is_pinned(&self) -> bool {
        let mut all = self.specifiers.iter();
        all.any(|(specifier, by)| by == WISH && is_pin(specifier))
    }
}

struct EnvironmentPicks<'a> {
    environment: PythonPlatform,
    known: &'a KnownProjects,
    age: AgeLimit,
    /// Grows only, so that the rounds end.
    asked: BTreeMap<DistName, AskedProject>,
    open: BTreeSet<String>,
    /// Projects of which no version fits, and why.
    unpicked: BTreeMap<DistName, String>,
    result: &'a mut Resolution,
}

type Picks<'a> = BTreeMap<DistName, &'a RegistryFile>;

impl<'a> EnvironmentPicks<'a> {
    fn run(&mut self, wishes: &Wishes) {
        for wish in wishes.of(self.environment) {
            let asked = self.asked.entry(wish.name.clone()).or_default();
            asked.add(&wish.version, WISH);
        }
        self.add_sets();
        let (seeds, of_sets) = (self.asked.clone(), self.open.clone());
        let mut picks = Picks::new();
        let mut is_settled = false;
        for _ in 0..ROUNDS {
            picks = self.pick();
            let before = self.asked.clone();
            for file in picks.values() {
                self.follow(file);
            }
            is_settled = before == self.asked;
            if is_settled {
                break;
            }
        }
        // A version that was replaced may have needed what no other does.
        self.open = of_sets;
        if !is_settled {
            let text = format!("the picks still change after {ROUNDS} rounds");
            self.open.insert(text);
        }
        self.keep(&seeds, &picks);
    }

    /// Adds what the packages of the sets need from others.
    fn add_sets(&mut self) {
        let (sets, environment) = (&self.known.sets, self.environment);
        if !platforms(sets).contains(&environment.platform) {
            return;
        }
        let of_sets: BTreeSet<&DistName> = sets.iter().map(|it| &it.name.name).collect();
        for package in sets.iter().filter(|it| it.fits(environment)) {
            let by = package.shown();
            for line in self.lines(&package.requires, &BTreeSet::new(), &by) {
                if !of_sets.contains(&line.name) && !is_of_runs(&line.name) {
                    self.ask(&line, &by);
                }
            }
        }
    }

    /// The requirements that apply here.
    fn lines<'b>(
        &mut self,
        requires: &'b [String],
        extras: &BTreeSet<DistName>,
        by: &str,
    ) -> Vec<RequirementLine<'b>> {
        let mut found = Vec::new();
        for text in requires {
            let Some(line) = RequirementLine::parse(text) else {
                self.open.insert(format!(
                    "{by} has a requirement that cannot be read: {text:?}"
                ));
                continue;
            };
            match line.applies(&self.environment, extras) {
                Ok(true) => found.push(line),
                Ok(false) => {}
                Err(error) => {
                    self.open.insert(format!("{by}: {}", one_line(&error)));
                }
            }
        }
        found
    }

    fn ask(&mut self, line: &RequirementLine<'_>, by: &str) {
        let asked = self.asked.entry(line.name.clone()).or_default();
        asked.add(line.specifier, by);
        asked.extras.extend(line.extras());
    }

    fn pick(&mut self) -> Picks<'a> {
        let asked: Vec<_> = self
            .asked
            .iter()
            .map(|(name, it)| (name.clone(), it.clone()))
            .collect();
        let mut picks = Picks::new();
        self.unpicked.clear();
        for (name, asked) in asked {
            match self.known.pages.get(&name) {
                None => {
                    self.result.unknown_projects.insert(name);
                }
                Some(Some(page)) => match self.best(&name, page, &asked) {
                    Ok(file) => {
                        picks.insert(name, file);
                    }
                    Err(why) => {
                        self.unpicked.insert(name, why);
                    }
                },
                Some(None) => {
                    let by = asked.by.iter().join(", ");
                    let text =
                        format!("no version of `{name}` for {by}: the registry does not have it");
                    self.unpicked.insert(name, text);
                }
            }
        }
        picks
    }

    /// The newest file that may be taken, or why there is none.
    fn best(
        &mut self,
        name: &DistName,
        page: &'a ProjectPage,
        asked: &AskedProject,
    ) -> Result<&'a RegistryFile, String> {
        let judge = |file| (file, self.judge(file, asked));
        let judged: Vec<_> = page.files.iter().map(judge).collect();
        let version = |file: &RegistryFile| file.name.version.clone();
        let fitting = judged
            .iter()
            .filter_map(|(file, fit)| Some((*file, *fit.as_ref().ok()?)));
        let best =
            fitting.max_by_key(|(file, fit)| (version(file), *fit, Reverse(file.name.to_string())));
        let best = best.map(|(file, _)| file);
        let refused = judged
            .iter()
            .filter_map(|(file, fit)| Some((*file, fit.as_ref().err()?)));
        let is_newer =
            |file: &RegistryFile| best.is_none_or(|it| it.name.version < file.name.version);
        let young = refused
            .clone()
            .filter(|(file, why)| why.is_too_young && is_newer(file));
        let young = young.map(|(file, _)| format!("{name} {}", file.name.version));
        self.result.held_back.extend(young);
        best.ok_or_else(|| {
            let by = asked.by.iter().join(", ");
            // The release that nearly fits says the most.
            let nearest = refused
                .max_by_key(|(file, why)| (file.name.version.is_final(), why.step, version(file)));
            let why = nearest.map_or("it has no files".to_owned(), |(_, why)| why.text.clone());
            format!("no version of `{name}` for {by}: {why}")
        })
    }

    /// How well a file fits, or why it may not be taken.
    fn judge(&self, file: &RegistryFile, asked: &AskedProject) -> Result<(u32, u32), RefusedFile> {
        let version = &file.name.version;
        let refused = |step, text: String| RefusedFile {
            step,
            text: format!("{version} {text}"),
            is_too_young: false,
        };
        let exact = format!("=={version}");
        if !version.is_final() && !asked.specifiers.contains_key(&exact) {
            return Err(refused(0, "is a pre-release".to_owned()));
        }
        if file.name.tag.is_none() {
            return Err(refused(1, "has only an sdist".to_owned()));
        }
        let Some(fit) = self.environment.fit(&file.name) else {
            return Err(refused(2, "has no wheel for it".to_owned()));
        };
        let mut specifiers = asked.specifiers.iter();
        if let Some((specifier, by)) = specifiers.find(|(it, _)| version.fulfils(it) != Some(true))
        {
            return Err(refused(
                3,
                format!("is not `{specifier}`, which {by} needs"),
            ));
        }
        if let Some(python) = &file.requires_python
            && !self.environment.is_supported(Some(python))
        {
            return Err(refused(4, format!("needs Python {python}")));
        }
        if let Some(why) = &file.yanked {
            return Err(refused(5, format!("is yanked: {why:?}")));
        }
        if !asked.is_pinned() && self.age.is_too_young(file) {
            return Err(RefusedFile {
                is_too_young: true,
                ..refused(6, "is too young".to_owned())
            });
        }
        Ok(fit)
    }

    /// Asks for what a picked file needs.
    fn follow(&mut self, file: &RegistryFile) {
        let name = file.name.to_string();
        if !self.known.requires.contains_key(&name) {
            self.result.unknown_files.insert(name, file.clone());
            return;
        }
        let (by, lines) = self.needs(file);
        for line in lines {
            self.ask(&line, &by);
        }
    }

    /// What a picked file needs from an index of others, and how it is called.
    fn needs(&mut self, file: &RegistryFile) -> (String, Vec<RequirementLine<'a>>) {
        let known = self.known;
        let project = &file.name.name;
        let by = format!("{project} {}", file.name.version);
        let requires = known.requires.get(&file.name.to_string());
        let extras = self.asked.get(project).map(|it| it.extras.clone());
        let requires = requires.map_or(&[][..], Vec::as_slice);
        let mut lines = self.lines(requires, &extras.unwrap_or_default(), &by);
        lines.retain(|line| {
            let name = &line.name;
            let problem = if is_of_runs(name) {
                format!("{by} needs `{name}`, which only runs build")
            } else if line.is_direct() {
                format!("{by} needs `{name}` from an address, and not from an index")
            } else {
                return true;
            };
            self.open.insert(problem);
            false
        });
        (by, lines)
    }

    /// Adds the picks that are still asked for to the result.
    fn keep(&mut self, seeds: &BTreeMap<DistName, AskedProject>, picks: &Picks<'a>) {
        let seeded = seeds
            .iter()
            .map(|(name, asked)| (name.clone(), asked.by.clone()));
        let mut reached: BTreeMap<DistName, BTreeSet<String>> = seeded.collect();
        let mut open: Vec<DistName> = reached.keys().cloned().collect();
        while let Some(name) = open.pop() {
            let Some(file) = picks.get(&name) else {
                let why = self.unpicked.get(&name).cloned();
                self.open.extend(why);
                continue;
            };
            let (by, lines) = self.needs(file);
            for line in lines {
                if !reached.contains_key(&line.name) {
                    open.push(line.name.clone());
                }
                reached.entry(line.name).or_default().insert(by.clone());
            }
        }
        for (name, by) in reached {
            let Some(file) = picks.get(&name) else {
                continue;
            };
            let key = file.name.to_string();
            let pick = self.result.picks.entry(key).or_insert_with(|| PickedFile {
                file: (*file).clone(),
                environments: BTreeSet::new(),
                why: BTreeSet::new(),
                extras: BTreeSet::new(),
            });
            pick.environments.insert(self.environment);
            pick.why.extend(by);
            pick.extras.extend(
                self.asked
                    .get(&name)
                    .into_iter()
                    .flat_map(|it| it.extras.clone()),
            );
        }
        for text in mem::take(&mut self.open) {
            let environments = self.result.problems.entry(text).or_default();
            environments.insert(self.environment);
        }
    }
}

/// Why a file may not be taken.
#[derive(Debug)]
struct RefusedFile {
    /// How many conditions it fulfils.
    step: u8,
    text: String,
    is_too_young: bool,
}
