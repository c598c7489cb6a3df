//! How much room there is where something is to be written.

use std::path::Path;

/// What is free where a directory is or will be; `None` where the system does not say.
pub fn free(directory: &Path) -> Option<u64> {
    let mut there = directory.ancestors();
    let there = there.find(|path| fs_err::metadata(path).is_ok());
    let there = there.unwrap_or(Path::new("."));
    fs4::available_space(there).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_to_come_has_the_room_of_what_it_will_be_in() {
        let place = tempfile::tempdir().unwrap();
        assert!(free(&place.path().join("a/b")).is_some());
        assert!(free(Path::new("not/here/yet")).is_some());
    }
}
