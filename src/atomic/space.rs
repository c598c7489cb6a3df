//! Free disk space.

use std::path::Path;

/// The free space at a directory, which need not exist yet. `None` if the system does not tell.
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
