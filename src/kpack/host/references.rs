//! Reads the wrappers of a split binary as the runtime does: each leads to a marker and has the
//! number of a bundle.

use crate::{
    elf::{ReadAt, tables::number},
    error::{Context as _, Result, bail, ensure},
    kpack::{
        host::{
            fat::{pointers, wrappers},
            image::{HostFile, HostImage},
            wrapper::{KnownMarkers, SPLIT, WrapperReference},
        },
        marker::MAX_LEN,
    },
};

/// The marker and the bundle number of each wrapper, once the loader has relocated the binary.
pub fn references(source: &(impl ReadAt + ?Sized)) -> Result<Vec<WrapperReference>> {
    let HostFile::Host(image) = HostImage::see(source)? else {
        bail!("not a binary for x86-64");
    };
    let wrappers = wrappers(&image)?;
    let pointers = pointers(&image, &wrappers, |_| Ok(()))?;
    let mut references = Vec::new();
    let mut markers = KnownMarkers::default();
    for (address, bytes) in wrappers {
        ensure!(
            number(&bytes, 0, 4) == SPLIT && number(&bytes, 4, 4) == 1,
            "a wrapper that leads to no marker: at {address:#x}"
        );
        let target = pointers.get(&address).and_then(|pointer| pointer.target);
        let target = target.context("a wrapper that leads into another file")?;
        references.push(WrapperReference {
            marker: markers.at(target, || marker(&image, target))?,
            // The runtime uses only the lower 32 bits.
            index: number(&bytes, 16, 4),
        });
    }
    Ok(references)
}

/// The bytes from the start of a marker: a marker has no length field, so the parser finds its end.
fn marker<R: ReadAt + ?Sized>(image: &HostImage<'_, R>, address: u64) -> Result<Vec<u8>> {
    let load = image.loads().find(|load| {
        let inside = address.checked_sub(load.address);
        inside.is_some_and(|inside| inside < load.file_size)
    });
    let Some(load) = load else {
        bail!("a wrapper that leads to no bytes: to {address:#x}");
    };
    let end = load.address.saturating_add(load.file_size);
    let rest = end.saturating_sub(address).min(MAX_LEN as u64);
    image.at("marker", address, rest)
}
