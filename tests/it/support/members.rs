//! The members of wheels, to change and to pack again.

use rocwheel_base::digest::Sha256;
pub(crate) use rocwheel_test_files::wheels::{Members, unzip, zipped};
use rocwheel_wheel::Record;

/// RECORD as it has to be.
pub(crate) fn record(members: &mut Members) {
    let mut record = Record::default();
    let own = members.iter().position(|it| it.0.ends_with("/RECORD")).unwrap();
    for (at, (name, _, bytes)) in members.iter().enumerate() {
        let content = (Sha256::of(bytes), bytes.len() as u64);
        record.push(name.parse().unwrap(), (at != own).then_some(content));
    }
    members[own].2 = record.to_string().into_bytes();
}
