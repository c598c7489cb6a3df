//! Copying an object inside its bucket, without moving its bytes through this machine.

use aws_sdk_s3::types::CompletedPart;

use super::{
    Inner, SHA256,
    connection::patient,
    multipart::{Labels, Upload, is_there, part_size},
    put::{unless_there, while_there},
};
use crate::{
    location::{Key, percent_encode},
    store::{Condition, Kind, StoreError},
};

/// Larger than when bytes are sent: nothing is held in memory here.
const PART_FACTOR: u64 = 32;

pub(super) fn copy(
    store: &Inner,
    from: &Key,
    to: &Key,
    condition: &Condition,
) -> Result<(), StoreError> {
    let there = store.head(from)?;
    let size = super::size(there.content_length());
    // Not every server keeps to the condition of a copy.
    if *condition == Condition::IfAbsent && is_there(store, to)? {
        return Err(StoreError::new(Kind::Exists, store.place(to)));
    }
    let source = Source {
        address: address(store, from),
        etag: there.e_tag().map(str::to_owned),
    };
    if size <= store.limits.copy {
        return whole(store, &source, to, condition);
    }
    let metadata = there.metadata();
    let labels = Labels {
        content_type: there.content_type().unwrap_or_default().to_owned(),
        cache_control: there.cache_control().map(str::to_owned),
        sha256: metadata.and_then(|metadata| metadata.get(SHA256)).cloned(),
    };
    let upload = Upload::begin(store, to, size, labels)?;
    upload.end(condition, || parts(store, &source, &upload, size))
}

/// What is copied, and only as long as it is that.
struct Source {
    address: String,
    etag: Option<String>,
}

fn whole(store: &Inner, from: &Source, to: &Key, condition: &Condition) -> Result<(), StoreError> {
    store.connection.write(&store.place(to), async |client| {
        let request = client
            .copy_object()
            .bucket(store.bucket.as_str())
            .key(to.as_str())
            .copy_source(&from.address)
            .set_copy_source_if_match(from.etag.clone())
            .set_if_none_match(unless_there(condition))
            .set_if_match(while_there(condition));
        request.customize().config_override(patient()).send().await
    })?;
    Ok(())
}

fn parts(
    store: &Inner,
    from: &Source,
    upload: &Upload,
    size: u64,
) -> Result<Vec<CompletedPart>, StoreError> {
    let part = part_size(
        size,
        store
            .limits
            .part
            .saturating_mul(PART_FACTOR)
            .min(store.limits.copy),
    );
    let mut done = Vec::new();
    let mut start = 0;
    for number in 1.. {
        let end = size.min(start + part);
        let range = format!("bytes={start}-{}", end - 1);
        done.push(upload.copied(number, &from.address, from.etag.as_deref(), &range)?);
        if end == size {
            break;
        }
        start = end;
    }
    Ok(done)
}

fn address(store: &Inner, key: &Key) -> String {
    let segments: Vec<String> = key.as_str().split('/').map(percent_encode).collect();
    format!("{}/{}", store.bucket, segments.join("/"))
}
