//! Reads the set that `summary` describes, from a directory or from the bucket it was published to.

use std::path::Path;

use fs_err as fs;

use crate::{
    commands::{World, args::AccessArgs},
    error::{Context as _, Hint as _, Result, bail, ensure},
    index::{SetJson, Urls},
    set::{LocalSet, NamedPlace},
};

/// Reads a published set and its addresses.
pub(super) fn read(
    place: &NamedPlace,
    index_url: Option<&str>,
    access: &AccessArgs,
    world: &World,
) -> Result<(SetJson, Urls)> {
    let given = index_url.map(Urls::of_index).transpose()?;
    match place {
        NamedPlace::Bucket(location) => {
            let place = access.bucket(location, &world.stop)?;
            let urls = given.map_or_else(|| place.urls(), Ok)?;
            Ok((place.set_json()?, urls))
        }
        NamedPlace::Directory(directory) => {
            let local = LocalSet::read(directory, world)?;
            let urls = match given {
                Some(urls) => urls,
                None => urls_of_indexed(&local)?,
            };
            Ok((described(&local), urls))
        }
    }
}

/// Reads a set from a directory, which need not have an index.
pub(super) fn unpublished(place: &NamedPlace, world: &World) -> Result<SetJson> {
    match place {
        NamedPlace::Directory(directory) => Ok(described(&LocalSet::read(directory, world)?)),
        NamedPlace::Bucket(location) => {
            let published = || -> Result<_> { bail!("the set is published: `{location}`") };
            published().hint("`--workflow-artifact` is for packages in a directory")
        }
    }
}

fn described(local: &LocalSet) -> SetJson {
    SetJson::new(local.document.identity.clone(), &local.set, local.layout)
}

/// Reads the `set.json` of a set. Its packages need not be there.
pub(super) fn document(place: &NamedPlace, access: &AccessArgs, world: &World) -> Result<SetJson> {
    match place {
        NamedPlace::Bucket(location) => access.bucket(location, &world.stop)?.set_json(),
        NamedPlace::Directory(path) => local_document(path, world),
    }
}

/// Reads a `set.json`, or a directory. If the directory has no `set.json`, reads its packages.
pub(super) fn local_document(path: &Path, world: &World) -> Result<SetJson> {
    let file = if path.is_dir() {
        path.join("set.json")
    } else {
        path.to_owned()
    };
    if path.is_dir() && !file.exists() {
        return Ok(LocalSet::read(path, world)?.document);
    }
    let reading = || format!("failed to read `{}`", file.display());
    SetJson::parse(&fs::read_to_string(&file)?).with_context(reading)
}

/// The addresses of a set whose directory has its index.
fn urls_of_indexed(local: &LocalSet) -> Result<Urls> {
    let check = || -> Result<()> {
        let root = local.root.display();
        ensure!(local.root.join("simple").is_dir(), "no index in `{root}`");
        Ok(())
    };
    check().hint("run `rocwheel index` on it, or pass `--index-url`")?;
    local.urls()
}
