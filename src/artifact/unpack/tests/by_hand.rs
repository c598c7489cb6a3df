//! Archives as people make them, with `tar -C DIR .`.

use super::*;

#[test]
fn an_archive_of_a_directory_as_a_whole_is_the_same_artifact() {
    let plain = archive()
        .directory("a/")
        .directory("a/stage/")
        .file("a/stage/x", b"1")
        .hardlink("a/stage/y", "a/stage/x")
        .symlink("a/stage/z", "./x");
    let by_hand = Craft::default()
        .directory("./")
        .directory("./a/")
        .directory("./a/stage/")
        .symlink("./a/stage/z", "./x")
        .file("./a/stage/x", b"1")
        .file("./artifact_manifest.txt", b"a/stage\nb\n")
        .hardlink("./a/stage/y", "./a/stage/x");
    let listings = [plain, by_hand].map(|tar| {
        let destination = TempDir::new().unwrap();
        unpack_tar(&tar.end(), &destination).unwrap();
        listing(destination.path())
    });
    assert_eq!(listings[0], listings[1]);
    assert!(listings[0].contains("x_lib_generic/a/stage/z -> ./x"));
}

#[test]
fn a_dot_before_a_name_hides_no_second_member() {
    let tar = || archive().file("b/x", b"1");
    insta::assert_snapshot!(refused(tar().file("./b/x", b"2")), @"two members are called `b/x`");
    insta::assert_snapshot!(refused(tar().file("./artifact_manifest.txt", b"b")), @"two members are called `artifact_manifest.txt`");
    insta::assert_snapshot!(refused(tar().file("././c", b"2")), @"`c` lies in none of the directories that `artifact_manifest.txt` lists");
}
