//! Where a set is read from: a directory, or a bucket that it was published to.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    str::FromStr,
};

use fs_err as fs;

use crate::{
    commands::{World, args::AccessArgs, destination::Destination},
    error::{Context as _, Hint as _, Result, bail, ensure},
    index::{SetJson, Urls},
    location::Location,
    set::LocalSet,
    store::Span,
};

/// A document of more bytes is none of ours: 100,000 files take 30 MiB.
const LONGEST_DOCUMENT: u64 = 256 << 20;

/// Where the packages of a set, or at least its `set.json`, are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SetPlace {
    Directory(PathBuf),
    /// With the region of the bucket, where that is known.
    Bucket(Location, Option<String>),
}

impl FromStr for SetPlace {
    type Err = crate::location::InvalidLocation;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("s3://") {
            return Ok(Self::Bucket(text.parse()?, None));
        }
        Ok(Self::Directory(text.into()))
    }
}

/// The set, and the addresses that it is published at.
pub(super) fn read(
    place: &SetPlace,
    index_url: Option<&str>,
    access: &AccessArgs,
    world: &World,
) -> Result<(SetJson, Urls)> {
    let given = index_url.map(Urls::of_index).transpose()?;
    match place {
        SetPlace::Bucket(location, region) => {
            let destination = reach(location, region.as_deref(), access, world)?;
            let urls = given.unwrap_or_else(|| destination.urls.clone());
            Ok((fetch(&destination)?, urls))
        }
        SetPlace::Directory(directory) => {
            let local = LocalSet::read(directory, world)?;
            let urls = match given {
                Some(urls) => urls,
                None => urls_of_indexed(&local)?,
            };
            Ok((described(&local), urls))
        }
    }
}

/// The set of a directory, which needs no index.
pub(super) fn unpublished(place: &SetPlace, world: &World) -> Result<SetJson> {
    match place {
        SetPlace::Directory(directory) => Ok(described(&LocalSet::read(directory, world)?)),
        SetPlace::Bucket(location, _) => {
            let published = || -> Result<_> { bail!("the set is published: `{location}`") };
            published().hint("`--workflow-artifact` is for packages in a directory")
        }
    }
}

fn described(local: &LocalSet) -> SetJson {
    SetJson::new(local.document.identity.clone(), &local.set, local.layout)
}

/// What a set says about itself, whether its packages are there or not.
pub(super) fn document(place: &SetPlace, access: &AccessArgs, world: &World) -> Result<SetJson> {
    match place {
        SetPlace::Bucket(location, region) => {
            fetch(&reach(location, region.as_deref(), access, world)?)
        }
        SetPlace::Directory(path) => local_document(path, world),
    }
}

/// Of a directory that has no such file, what its packages say.
pub(super) fn local_document(path: &Path, world: &World) -> Result<SetJson> {
    let file = if path.is_dir() {
        path.join("set.json")
    } else {
        path.to_owned()
    };
    if path.is_dir() && !file.exists() {
        return Ok(LocalSet::read(path, world)?.document);
    }
    let reading = || format!("read `{}`", file.display());
    SetJson::parse(&fs::read_to_string(&file)?).with_context(reading)
}

fn reach(
    location: &Location,
    region: Option<&str>,
    access: &AccessArgs,
    world: &World,
) -> Result<Destination> {
    Destination::bucket(location, &access.access(region)?, &world.stop)
}

fn fetch(destination: &Destination) -> Result<SetJson> {
    let read = || -> Result<SetJson> {
        let key = destination.key("set.json")?;
        let mut text = String::new();
        let reader = destination.store.get(&key, Span::Whole)?;
        let count = reader.take(LONGEST_DOCUMENT).read_to_string(&mut text)?;
        ensure!(
            (count as u64) < LONGEST_DOCUMENT,
            "more than {LONGEST_DOCUMENT} bytes"
        );
        SetJson::parse(&text)
    };
    let shown = destination.shown();
    read()
        .with_context(|| format!("read `{shown}/set.json`"))
        .hint("`rocwheel upload` writes it when a set is whole")
}

/// The addresses of a set that has its index where it lies.
fn urls_of_indexed(local: &LocalSet) -> Result<Urls> {
    let check = || -> Result<()> {
        let root = local.root.display();
        ensure!(local.root.join("simple").is_dir(), "no index in `{root}`");
        Ok(())
    };
    check().hint("run `rocwheel index` on it, or pass `--index-url`")?;
    local.urls()
}
