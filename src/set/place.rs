//! Where an index is: a directory on this machine, or a prefix in a bucket.

use std::{
    fmt, iter,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use fs_err as fs;

use super::{
    address::local_urls,
    shelf::{Directory, Prefix, Shelf},
    write::Serving,
};
use crate::{
    error::{Context as _, Hint as _, Result, Stop, ensure},
    index::Urls,
    location::{InvalidLocation, Location},
    run::ArtifactGroup,
    store::{
        local::LocalStore,
        s3::{Access, S3Store},
    },
};

/// What a user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexPlace {
    Directory(PathBuf),
    Bucket(Location),
}

impl IndexPlace {
    /// As `check` takes it.
    pub fn to_path(&self) -> PathBuf {
        match self {
            Self::Directory(path) => path.clone(),
            Self::Bucket(location) => location.to_string().into(),
        }
    }
}

impl FromStr for IndexPlace {
    type Err = InvalidLocation;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("s3://") {
            text.parse().map(Self::Bucket)
        } else {
            Ok(Self::Directory(text.into()))
        }
    }
}

/// A place that can be read and written.
#[derive(Debug)]
pub enum Site {
    Directory(Directory, Urls),
    Bucket(Prefix, Urls),
}

impl Site {
    pub fn directory(path: &Path) -> Result<Self> {
        let check = || -> Result<()> {
            ensure!(
                !path.is_file(),
                "a file, not a directory: `{}`",
                path.display()
            );
            Ok(())
        };
        check().hint("pass the directory that `rocwheel build` wrote to")?;
        let urls = local_urls(path)?;
        Ok(Self::Directory(Directory(path.to_owned()), urls))
    }

    pub fn bucket(location: &Location, access: &Access, stop: &Stop) -> Result<Self> {
        let bucket = location.bucket().clone();
        let store = S3Store::connect(bucket, access, stop.clone())
            .with_context(|| format!("reach `{location}`"))?;
        let prefix = Prefix {
            store: Arc::new(store),
            directory: Some(location.key().directory()),
        };
        let urls = access.url(&location.directory()).parse()?;
        Ok(Self::Bucket(prefix, urls))
    }

    pub(super) fn shelf(&self) -> &dyn Shelf {
        match self {
            Self::Directory(directory, _) => directory,
            Self::Bucket(prefix, _) => prefix,
        }
    }

    pub(super) fn prefix(&self) -> Prefix {
        match self {
            Self::Directory(directory, _) => Prefix {
                store: Arc::new(LocalStore::new(&directory.0)),
                directory: None,
            },
            Self::Bucket(prefix, _) => prefix.clone(),
        }
    }

    pub(super) fn serving(&self) -> Serving {
        match self {
            Self::Directory(..) => Serving::Files,
            Self::Bucket(..) => Serving::Keys,
        }
    }

    pub fn urls(&self) -> &Urls {
        match self {
            Self::Directory(_, urls) | Self::Bucket(_, urls) => urls,
        }
    }

    /// Removes the directories of projects that are gone, where nothing else is in them.
    pub(super) fn tidy(&self, families: &[ArtifactGroup]) {
        let Self::Directory(Directory(root), _) = self else {
            return;
        };
        // None is removed that has something in it.
        let remove_below = |directory: PathBuf| {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let _ = fs::remove_dir(entry.path());
            }
        };
        let families = families.iter().map(|family| root.join(family.as_str()));
        for top in iter::once(root.clone()).chain(families) {
            remove_below(top.join("simple/_json"));
            remove_below(top.join("simple"));
            if top != *root {
                remove_below(top.clone());
                let _ = fs::remove_dir(top);
            }
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shelf().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_path_unless_it_says_otherwise() {
        let place = |text: &str| text.parse::<IndexPlace>();
        assert_eq!(place("a/b"), Ok(IndexPlace::Directory("a/b".into())));
        let bucket: Location = "s3://bucket/a/b/".parse().unwrap();
        assert_eq!(place("s3://bucket/a/b/"), Ok(IndexPlace::Bucket(bucket)));
        let refused = ["s3://bucket", "s3://B/a", "s3://bucket//a"];
        let said = refused.map(|text| place(text).unwrap_err().to_string());
        insta::assert_snapshot!(said.join("\n"), @r#"
        not a location such as `s3://bucket/key`: "s3://bucket"
        a bucket's name has 3 to 63 characters: "B"
        a key that begins with `/`: "/a"
        "#);
    }
}
