//! How the facts about device code are stored, for `#[serde(with = …)]`.

/// An archive of device code is stored as the parts of it that are kept, and opened again.
pub(super) mod archive {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    use crate::{check::sparse::SparseFile, kpack::archive::KpackArchive};

    pub(in crate::check) fn serialize<S: Serializer>(
        archive: &KpackArchive<SparseFile>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        archive.source().serialize(to)
    }

    pub(in crate::check) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Box<KpackArchive<SparseFile>>, D::Error> {
        let opened = KpackArchive::open(SparseFile::deserialize(from)?);
        opened.map(Box::new).map_err(D::Error::custom)
    }
}

/// Wrappers share their marker: a library may have thousands of them.
pub(super) mod references {
    use std::sync::Arc;

    use itertools::Itertools as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::kpack::{Marker, host::WrapperReference};

    pub(in crate::check) fn serialize<S: Serializer>(
        references: &[WrapperReference],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let runs = references.iter().chunk_by(|it| &*it.marker);
        let runs = runs.into_iter().map(|(marker, run)| {
            let run: Vec<usize> = run.map(|it| it.index).collect();
            (marker, run)
        });
        runs.collect::<Vec<_>>().serialize(to)
    }

    pub(in crate::check) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<WrapperReference>, D::Error> {
        let runs = Vec::<(Marker, Vec<usize>)>::deserialize(from)?;
        let references = runs.into_iter().flat_map(|(marker, run)| {
            let marker = Arc::new(marker);
            let reference = move |index| WrapperReference {
                marker: Arc::clone(&marker),
                index,
            };
            run.into_iter().map(reference)
        });
        Ok(references.collect())
    }
}
